"""Types of all values, from those of the parameters."""

from __future__ import annotations

from collections.abc import Iterable

from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import Type
from amanda_std.operation import Operation
from amanda_std.reading import arguments, is_constant, is_std, operation_of
from amanda_std.values import constant_of, value_type


def infer(graph: Graph, changed: Iterable[OutputPort] | None = None) -> int:
    """Infers types anew; how many changed.

    With `changed`, only what depends on these values is looked at. A body is inferred
    with the op that holds it."""
    dirty = None if changed is None else set(changed)
    count = 0
    for op in graph:
        if dirty is not None and not _reads_one(op, dirty):
            continue
        types = types_of(op)
        if types is None:
            continue
        for port, found in zip(op.outputs, types, strict=True):
            if port.type != found:
                port.type = found
                count += 1
                if dirty is not None:
                    dirty.add(port)
    return count


def retype(ops: Iterable[Op]) -> None:
    """Infers the types of these ops alone, in the order in which they come."""
    for op in ops:
        for port, found in zip(op.outputs, types_of(op) or (), strict=False):
            port.type = found


def _reads_one(op: Op, values: set[OutputPort]) -> bool:
    if any(v in values for v in op.inputs):
        return True
    return any(v in values for body in op.bodies.values() for v in body.captures)


def types_of(op: Op) -> tuple[Type, ...] | None:
    """The types of the results of an op; None where it is none of ours."""
    if isinstance(op, Graph):
        return _of_graph(op)
    if is_constant(op):
        tensor = constant_of(op.output)
        assert tensor is not None
        return (tensor.type_with_content(),)
    if not is_std(op):
        return None
    operation = operation_of(op)
    for body in op.bodies.values():
        infer(body)
    try:
        return inferred(operation, op)
    except AmandaError as error:
        error.where = error.where or op.label
        raise


def inferred(operation: Operation, op: Op) -> tuple[Type, ...]:
    """The types that the definition of an op gives its results."""
    args, attrs = arguments(op, lambda port: port)
    if operation.form.varies and not attrs.get("outputs", True):
        attrs["outputs"] = len(op.outputs)
    types = operation.types(operation.normal(args), attrs)
    if len(types) != len(op.outputs):
        from amanda.errors import InvalidTypeError

        raise InvalidTypeError(
            "the op has another number of results than it says",
            expected=len(types),
            got=len(op.outputs),
        )
    return types


def _of_graph(graph: Graph) -> tuple[Type, ...]:
    for parameter, value in zip(graph.parameters, graph.inputs, strict=False):
        if value is not None:
            parameter.type = value_type(value)
    infer(graph)
    return tuple(value_type(v) for v in graph.results if v is not None)
