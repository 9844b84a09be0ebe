"""Graphs of `torch.fx` as the JSON that archives have of them.

PyTorch's serializer has the same result. It also prints every graph, imports the
compiler of PyTorch, and makes an object for every size of every tensor, which takes
longer than a conversion. Only what is rare is left to it.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, Final

import torch
from torch._export.serde import serialize
from torch._export.serde.union import _Union
from torch._ops import HigherOrderOperator, OpOverload
from torch.export.graph_signature import CustomObjArgument
from torch.fx import GraphModule, Node
from torch.utils._pytree import TreeSpec, is_structseq_class

from amanda_torch.codes import json_number

__all__ = ["json_fields", "serialize_module", "tensor_fields"]

_POSITIONAL: Final = 1
_KEYWORD: Final = 2
_SCALARS: Final = {bool: "as_bool", int: "as_int", float: "as_float", str: "as_string"}
_EMPTY_LISTS: Final = {
    "BoolType": "as_bools", "IntType": "as_ints", "FloatType": "as_floats",
    "StringType": "as_strings", "TensorType": "as_tensors",
}  # fmt: skip
"""Empty lists by the type of their elements in the schema of an op."""
_CODES: Final = {
    torch.dtype: ("as_scalar_type", serialize._TORCH_TO_SERIALIZE_DTYPE),
    torch.layout: ("as_layout", serialize._TORCH_TO_SERIALIZE_LAYOUT),
    torch.memory_format: (
        "as_memory_format", serialize._TORCH_TO_SERIALIZE_MEMORY_FORMAT,
    ),
}  # fmt: skip
_RARE: Final = ("aoti_call_delegate", "triton_kernel_wrapper_functional")
"""Ops whose arguments are files and kernels."""
_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


def serialize_module(
    module: GraphModule, signature: Any, calls: Sequence[Any]
) -> dict[str, Any]:
    """The JSON of a graph module of PyTorch, as archives have it."""
    calls = [_with_plain_results(entry) for entry in calls]
    rest = serialize.GraphModuleSerializer(signature, calls)
    graph = _GraphSerializer(rest).graph(module)
    return {
        "graph": graph,
        "signature": json_fields(rest.serialize_signature(signature)),
        "module_call_graph": json_fields(rest.serialize_module_call_graph(calls)),
        "metadata": rest.serialize_graph_module_metadata(module.meta),
        "treespec_namedtuple_fields": json_fields(rest.treespec_namedtuple_fields),
    }


def _with_plain_results(entry: Any) -> Any:
    """The call of a module, with tuples for results that are named ones of PyTorch."""
    if entry.signature is None:
        return entry
    spec = _without_named_tuples(entry.signature.out_spec)
    return replace(entry, signature=replace(entry.signature, out_spec=spec))


def _without_named_tuples(spec: Any) -> Any:
    """The structure of values with tuples for types of `torch.return_types`, which
    have no names in files."""
    if spec.is_leaf():
        return spec
    children = [_without_named_tuples(each) for each in spec.children()]
    if is_structseq_class(spec.type):
        return TreeSpec(tuple, None, children)
    return TreeSpec(spec.type, spec.context, children)


def json_fields(record: Any) -> Any:
    """The JSON of a record of PyTorch's serializer."""
    if isinstance(record, _Union):
        return {str(record.type): json_fields(record.value)}
    if is_dataclass(record):
        names = [field.name for field in fields(record)]
        return {name: json_fields(getattr(record, name)) for name in names}
    if isinstance(record, dict):
        return {key: json_fields(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [json_fields(item) for item in record]
    return record.value if isinstance(record, Enum) else json_number(record)


def tensor_fields(tensor: torch.Tensor) -> dict[str, Any]:
    """The element type, sizes and strides of a tensor, and where it is."""
    device = tensor.device
    return {
        "dtype": serialize._TORCH_TO_SERIALIZE_DTYPE[tensor.dtype].value,
        "sizes": [_size(each) for each in tensor.shape],
        "requires_grad": tensor.requires_grad,
        "device": {"type": device.type, "index": device.index},
        "strides": [_size(each) for each in tensor.stride()],
        "storage_offset": _size(tensor.storage_offset()),
        "layout": serialize._TORCH_TO_SERIALIZE_LAYOUT[tensor.layout].value,
    }


def _size(size: Any) -> dict[str, Any]:
    if size.__class__ is int:
        return {"as_int": size}
    found: dict[str, Any] = json_fields(serialize.serialize_sym_int(size))
    return found


class _GraphSerializer:
    """Serializes a graph and those inside; `rest` is PyTorch's, for what is rare."""

    def __init__(self, rest: Any) -> None:
        self.rest = rest
        self.tensors: dict[str, Any] = {}

    def graph(self, module: GraphModule) -> dict[str, Any]:
        """The JSON of a graph."""
        outer, self.tensors = self.tensors, {}
        state, nodes, inputs = self.rest.graph_state, [], []
        outputs: Any = None
        for node in module.graph.nodes:
            if node.op == "call_function":
                if node.target is not operator.getitem:
                    nodes.append(self._node(node))
            elif node.op == "placeholder":
                inputs.append(self._input(node))
            elif node.op == "output":
                outputs = node.args[0]
            else:
                getattr(self.rest, f"handle_{node.op}")(node)
        is_single = isinstance(outputs, Node)
        results = [outputs] if is_single else outputs
        found = {
            "inputs": inputs,
            "outputs": [self._argument(each) for each in results],
            "nodes": nodes,
            "tensor_values": {**json_fields(state.tensor_values), **self.tensors},
            "sym_int_values": json_fields(state.sym_int_values),
            "sym_bool_values": json_fields(state.sym_bool_values),
            "is_single_tensor_return": is_single,
            "custom_obj_values": json_fields(state.custom_obj_values),
            "sym_float_values": json_fields(state.sym_float_values),
        }
        self.tensors = outer
        return found

    def _body(self, name: str, module: GraphModule) -> dict[str, Any]:
        with self.rest.save_graph_state():
            return {"as_graph": {"name": name, "graph": self.graph(module)}}

    def _input(self, node: Node) -> dict[str, Any]:
        """A parameter of a graph."""
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return self._output(node.name, value)
        if value is None or value.__class__ in _SCALARS:
            return self._argument(value)
        self.rest.handle_placeholder(node)
        found: dict[str, Any] = json_fields(self.rest.graph_state.inputs.pop())
        return found

    # -- nodes ----------------------------------------------------------------------

    def _node(self, node: Node) -> dict[str, Any]:
        """A call of an op."""
        target, value = node.target, node.meta.get("val")
        single = None
        if target in serialize._SYM_OPS or isinstance(value, _SYMBOLIC):
            inputs = self._arguments(_parameter_names(target), node.args)
            outputs = [self._output(node.name, value)]
        elif isinstance(target, OpOverload):
            inputs, outputs = self._schema_arguments(node), self._outputs(node)
        elif _is_plain_higher_order(target):
            inputs = self._arguments([""] * len(node.args), node.args)
            inputs += self._arguments(node.kwargs, node.kwargs.values(), _KEYWORD)
            outputs = json_fields(self.rest.serialize_hoo_outputs(node))
            single = isinstance(value, torch.Tensor)
        else:
            self.rest.handle_call_function(node)
            found: dict[str, Any] = json_fields(self.rest.graph_state.nodes.pop())
            return found
        return {
            "target": self.rest.serialize_operator(target), "inputs": inputs,
            "outputs": outputs, "metadata": self.rest.serialize_metadata(node),
            "is_hop_single_tensor_return": single, "name": node.name,
        }  # fmt: skip

    def _schema_arguments(self, node: Node) -> list[dict[str, Any]]:
        """The arguments of a call by the schema of its op, without those omitted."""
        found = []
        args, kwargs = node.args, node.kwargs
        for i, (name, by_name, type) in enumerate(_parameters(node.target)):
            if name in kwargs:
                arg, kind = self._argument(kwargs[name], type), _KEYWORD
            elif i < len(args) and not by_name:
                arg, kind = self._argument(args[i], type), _POSITIONAL
            else:
                continue
            found.append({"name": name, "arg": arg, "kind": kind})
        return found

    def _arguments(
        self, names: Any, values: Any, kind: int = _POSITIONAL
    ) -> list[dict[str, Any]]:
        return [
            {"name": name, "arg": self._argument(value), "kind": kind}
            for name, value in zip(names, values, strict=False)
        ]

    # -- values ---------------------------------------------------------------------

    def _outputs(self, node: Node) -> list[dict[str, Any]]:
        """The results of a call, named as the nodes that take them from a tuple."""
        value = node.meta.get("val")
        returns = node.target._schema.returns
        if len(returns) == 1 and isinstance(value, torch.Tensor):
            return [self._output(node.name, value)]
        if len(returns) > 1 and all(isinstance(v, torch.Tensor) for v in value or [0]):
            name_at = self.rest._output_node_name_at_index
            return [self._output(name_at(node, i), v) for i, v in enumerate(value)]
        found: list[dict[str, Any]] = json_fields(self.rest.serialize_outputs(node))
        return found

    def _output(self, name: str, value: Any) -> dict[str, Any]:
        """A value, which is recorded in a table of the graph."""
        if isinstance(value, torch.Tensor):
            self.tensors[name] = tensor_fields(value)
            return {"as_tensor": {"name": name}}
        found: dict[str, Any] = json_fields(self.rest.serialize_output(name, value))
        return found

    def _argument(self, value: Any, type: Any = None) -> dict[str, Any]:
        """An argument; `type` is that of the schema of its op."""
        kind = value.__class__
        if kind is Node:
            return self._value(value)
        if value is None:
            return {"as_none": True}
        if kind in _SCALARS:
            return {_SCALARS[kind]: json_number(value)}
        if isinstance(value, list | tuple):
            return self._list(value, type)
        if kind in _CODES:
            name, codes = _CODES[kind]
            return {name: codes[value].value}
        if isinstance(value, torch.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        return self._rare(value, type)

    def _rare(self, value: Any, type: Any) -> dict[str, Any]:
        found: dict[str, Any] = json_fields(self.rest.serialize_input(value, type))
        return found

    def _value(self, node: Node) -> dict[str, Any]:
        """An argument that a node computes, or a graph."""
        if node.op == "get_attr":
            module = getattr(node.graph.owning_module, str(node.target))
            if isinstance(module, GraphModule):
                return self._body(str(node.target), module)
            return self._rare(node, None)
        kind = self._symbolic_kind(node)
        if kind is not None:
            return {kind: {"as_name": node.name}}
        if isinstance(node.meta["val"], CustomObjArgument):
            return self._rare(node, None)
        return {"as_tensor": self._tensor(node)}

    def _symbolic_kind(self, node: Node) -> str | None:
        """The kind of argument that a symbolic number is; None for a tensor."""
        state, name = self.rest.graph_state, node.name
        if name in state.sym_int_values:
            return "as_sym_int"
        if name in state.sym_float_values:
            return "as_sym_float"
        return "as_sym_bool" if name in state.sym_bool_values else None

    def _tensor(self, node: Node) -> dict[str, Any]:
        """A tensor by the name of the first node that takes it from a tuple."""
        return {"name": self.rest.duplicate_getitem_nodes.get(node.name, node.name)}

    def _list(self, values: Any, type: Any) -> dict[str, Any]:
        if not values:
            return {_empty_list(type): []}
        kinds = {value.__class__ for value in values}
        if len(kinds) == 1:
            [kind] = kinds
            if kind in _SCALARS:
                return {f"{_SCALARS[kind]}s": [json_number(value) for value in values]}
        if Node not in kinds:
            return self._rare(values, type)
        symbolic = {
            self._symbolic_kind(value) for value in values if value.__class__ is Node
        }
        if symbolic == {"as_sym_int"} and kinds <= {Node, int}:
            return {"as_sym_ints": [
                {"as_int": value} if value.__class__ is int else {"as_name": value.name}
                for value in values
            ]}  # fmt: skip
        if symbolic == {None} and kinds == {Node}:
            return {"as_tensors": [self._tensor(value) for value in values]}
        if symbolic == {None} and kinds <= {Node, None.__class__}:
            return {"as_optional_tensors": [
                {"as_none": True} if value is None
                else {"as_tensor": self._tensor(value)} for value in values
            ]}  # fmt: skip
        return self._rare(values, type)


def _is_plain_higher_order(target: Any) -> bool:
    """Whether arguments of an op on functions are serialized as they are."""
    is_higher_order = isinstance(target, HigherOrderOperator)
    return is_higher_order and target.__name__ not in _RARE


def _empty_list(type: Any) -> str:
    """The kind of an empty list, by the schema of its op."""
    if type is None:
        return "as_tensors"
    if isinstance(type, torch.OptionalType):
        type = type.getElementType()
    element = type.getElementType()
    if isinstance(element, torch.OptionalType):
        element = element.getElementType()
    return _EMPTY_LISTS[element.kind()]


@cache
def _parameters(target: Any) -> list[tuple[str, bool, Any]]:
    """Names of the parameters of an op, whether they are keyword-only, their types."""
    return [(p.name, p.kwarg_only, p.type) for p in target._schema.arguments]


@cache
def _parameter_names(target: Any) -> list[str]:
    """Names of the parameters of an op, or function, on symbolic numbers."""
    if isinstance(target, OpOverload):
        return [name for name, *_ in _parameters(target)]
    return list(inspect.signature(target).parameters)
