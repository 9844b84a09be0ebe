"""Bodies of ops as functions of the library: a GraphDef has no nested graphs.

What a body uses of the graph around it becomes an argument of its function.
"""

from __future__ import annotations

from typing import Any, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import FunctionRef
from amanda.types import TensorType, resource
from amanda_tf.derived_attributes import element_type
from amanda_tf.effects import has_effects

__all__ = ["bodies_to_functions"]

_LOOPS: Final = ("While", "StatelessWhile")
_OUTPUT_SHAPES: Final = ("output_shapes", "_output_shapes")


def bodies_to_functions(graph: Graph) -> None:
    """Move the bodies of all ops to functions of the root graph, inner ones first."""
    holders = [op for part in graph.graphs() for op in part if op.bodies]
    for op in holders:
        _type_parameters(op)
    for op in reversed(holders):
        _move_bodies(graph, op)


def _type_parameters(op: Op) -> None:
    """Give parameters of bodies without a type the element types of their inputs."""
    given = op.inputs if op.type in _LOOPS else op.inputs[1:]
    for body in op.bodies.values():
        if len(body.parameters) != len(given):  # of elements, as in MapDefun
            continue
        for port, value in zip(body.parameters, given, strict=True):
            dtype = None if value is None else element_type(value.type)
            if port.type is None and dtype is not None:
                port.type = TensorType(dtype)


def _move_bodies(root: Graph, op: Op) -> None:
    home = op.graph
    assert home is not None
    captured: dict[OutputPort, None] = {}
    for body in op.bodies.values():
        captured.update(dict.fromkeys(body.captures))
    values = list(captured)
    is_loop = op.type in _LOOPS
    attrs = dict(op.attrs)
    for key in _OUTPUT_SHAPES if is_loop and values else ():
        attrs.pop(key, None)
    for name, body in op.bodies.items():
        free, function = _add_function(
            root, f"{op.name or op.type}_{name}", body, values
        )
        if is_loop and name == "body":
            for port in function.parameters[len(function.parameters) - len(values) :]:
                function.result(port, f"{port.name}_out")
        _name_ports(function)
        attrs[name] = FunctionRef(free)
    inputs = [*op.inputs, *values]
    count = len(op.outputs) + (len(values) if is_loop else 0)
    kind = op.type or ""
    if has_effects(op) or any(_dtype(value) == resource for value in values):
        kind = kind.removeprefix("Stateless")
    with home.before(op):
        made = home.add(kind, inputs, attrs, outputs=count)
    for old, new in zip(op.outputs, made.outputs, strict=False):
        new.type, new.name = old.type, None
    for value, new in zip(values, made.outputs[len(op.outputs) :], strict=False):
        new.type = value.type
    made.attrs["Tin" if not is_loop else "T"] = [
        _dtype(v) for v in inputs[not is_loop :]
    ]
    if not is_loop:
        made.attrs["Tout"] = [_dtype(v) for v in made.outputs]
    label = op.name
    provenance = op.provenance
    for first in op.control_inputs:
        home.control(first, made)
    for then in op.control_outputs:
        home.control(made, then)
    home.replace(op, list(made.outputs[: len(op.outputs)]), "function")
    if label:
        home.rename(made, label)
    made.provenance = provenance


def _dtype(value: OutputPort | None) -> object:
    return None if value is None else element_type(value.type)


def _add_function(
    root: Graph, name: str, body: Graph, captured: list[OutputPort]
) -> tuple[str, Graph]:
    function = Graph(root.namespace)
    memo: dict[Any, Any] = {}
    for i, port in enumerate(body.parameters):
        memo[port] = function.parameter(port.type, f"arg_{i}")
    for i, value in enumerate(captured):
        memo[value] = function.parameter(value.type, f"captured_{i}")
    from amanda.graph import copy_ops

    copy_ops(body, function, list(body), memo)
    for i, result in enumerate(body.results):
        made = None if result is None else memo.get(result, result)
        function.result(made, f"result_{i}")
    free, count = name.replace("/", "_"), 0
    while free in root.functions:
        count += 1
        free = f"{name.replace('/', '_')}_{count}"
    root.add_function(free, function)
    return free, function


def _name_ports(function: Graph) -> None:
    for port, value in zip(function.outputs, function.results, strict=True):
        if port.type is None and value is not None:
            port.type = value.type
