"""Graphs of AOTAutograd as graphs of ATen ops.

They are serialized as programs of `torch.export` are, and read by the same reader. A
symbolic size that is an input is read from the tensor that has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

import torch
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

import amanda
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_torch.backend.arrays import to_numpy
from amanda_torch.fx_graphs import serialize_module
from amanda_torch.payloads import Payload
from amanda_torch.reader import read_program

_KEPT: Final = ("val", "stack_trace")
"""The metadata of nodes that programs need."""

_ONE_RESULT: Final = {
    torch.ops.aten.native_layer_norm.default: (torch.ops.aten.layer_norm.default, 5),
    torch.ops.aten.max_pool2d_with_indices.default: (
        torch.ops.aten.max_pool2d.default, 6,
    ),
}  # fmt: skip
"""For ops of several results, the op of the first alone, and how many arguments it has.
AOTAutograd has the former in graphs that need no gradient, too."""

__all__ = ["copy_module", "is_symbolic", "output_node", "read_module"]


def copy_module(module: Any) -> Any:
    """A module with a copy of the graph."""
    return torch.fx.GraphModule(module, deepcopy(module.graph))


def output_node(module: Any) -> Any:
    (node,) = module.graph.find_nodes(op="output")
    return node


def is_symbolic(node: Any) -> bool:
    """Whether a node is a number that is known at run time."""
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat)


def read_module(module: Any, results: Iterable[Any]) -> Graph:
    """The graph that computes some nodes of a module, whose inputs are named as its
    placeholders; unused ones are left out."""
    made = _copy_for_results(module, results)
    read_sizes_from_tensors(made)
    use_ops_with_one_result(made)
    made.graph.eliminate_dead_code()
    constants = _lift_constants(made)
    for node in made.graph.find_nodes(op="placeholder"):
        if not node.users:
            made.graph.erase_node(node)
    program = {
        "graph_module": serialize_module(made, _signature(made, constants), []),
        "range_constraints": _ranges(made),
        "torch_version": str(torch.__version__),
    }
    dictionary: Any = amanda.namespace(f"torch@{torch.__version__}", assume=True)
    payloads = {
        name: Payload(Tensor.of(to_numpy(value)), {}, False)
        for name, value in constants.items()
    }
    return read_program(program, dictionary, constants=payloads)


def _copy_for_results(module: Any, results: Iterable[Any]) -> Any:
    """A module with a copy of the graph that has these results, its inputs first."""
    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    graph.graph_copy(module.graph, copies)
    for node in reversed(graph.find_nodes(op="placeholder")):
        next(iter(graph.nodes)).prepend(node)
    for copy in graph.nodes:
        copy.meta = {key: copy.meta[key] for key in _KEPT if key in copy.meta}
    graph.output(tuple(copies[node] for node in results))
    return torch.fx.GraphModule(module, graph)


def read_sizes_from_tensors(module: Any) -> None:
    """Replace inputs that are sizes of tensors by ops that read them.

    They are then known where shapes are, as on XLA while it compiles."""
    inputs = module.graph.find_nodes(op="placeholder")
    places: dict[Any, Any] = {}
    for node in inputs:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    places.setdefault(size.node.expr, (node, axis))
    for node in inputs:
        if not is_symbolic(node) or node.meta["val"].node.expr not in places:
            continue
        tensor, axis = places[node.meta["val"].node.expr]
        with module.graph.inserting_after(inputs[-1]):
            size = module.graph.call_function(
                torch.ops.aten.sym_size.int, (tensor, axis)
            )
        size.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(size)


def use_ops_with_one_result(module: Any) -> None:
    """Replace ops of which only the first of several results is used."""
    for node in list(module.graph.nodes):
        replacement = _ONE_RESULT.get(node.target) if node.users else None
        users = list(node.users)
        if replacement is None or any(user.args[1] != 0 for user in users):
            continue
        target, count = replacement
        with module.graph.inserting_after(node):
            made = module.graph.call_function(target, node.args[:count], node.kwargs)
        made.meta = {**node.meta, "val": users[0].meta["val"]}
        for user in users:
            user.replace_all_uses_with(made)


def _lift_constants(module: Any) -> dict[str, Any]:
    """Replace tensors of the module by inputs; the tensors by the names of these."""
    found: dict[str, Any] = {}
    first = next(iter(module.graph.nodes))
    for node in module.graph.find_nodes(op="get_attr"):
        value = _attribute(module, node.target)
        if not isinstance(value, torch.Tensor):
            continue
        with module.graph.inserting_before(first):
            lifted = module.graph.placeholder(f"constant_{len(found)}")
        lifted.meta["val"] = node.meta.get("val", value)
        node.replace_all_uses_with(lifted)
        module.graph.erase_node(node)
        found[lifted.name] = value
    return found


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _signature(module: Any, constants: Mapping[str, Any]) -> Any:
    def argument(node: Any) -> Any:
        kind = SymIntArgument if is_symbolic(node) else TensorArgument
        return kind(node.name)

    inputs = [
        InputSpec(InputKind.CONSTANT_TENSOR, argument(node), node.name)
        if node.name in constants
        else InputSpec(InputKind.USER_INPUT, argument(node), None)
        for node in module.graph.find_nodes(op="placeholder")
    ]
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, argument(node), None)
        for node in output_node(module).args[0]
    ]
    return ExportGraphSignature(inputs, outputs)


def _ranges(module: Any) -> dict[str, Any]:
    """The least values of the symbols of a module."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    sizes = [
        size
        for value in values
        for size in (value.shape if isinstance(value, torch.Tensor) else [value])
        if isinstance(size, torch.SymInt)
    ]
    known = sizes[0].node.shape_env.var_to_range if sizes else {}
    return {
        str(symbol): {"min_val": int(range.lower)}
        for symbol, range in known.items()
        if range.lower.is_Integer
    }
