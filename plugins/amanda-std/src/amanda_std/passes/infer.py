"""Types of all values, from those of the parameters.

The result types of an op depend on its type, attributes and operand types: ops that
agree in these, as in repeated layers, are inferred once per run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amanda.errors import AmandaError, InvalidTypeError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType, Type
from amanda_std.engine.operation import Operation
from amanda_std.engine.values import constant_of, value_type
from amanda_std.hub.op_access import is_std, op_arguments, operation_of
from amanda_std.inference.type_inference import introduces_symbols


def infer(graph: Graph, changed: Iterable[OutputPort] | None = None) -> int:
    """Infer the types of all values again; returns how many changed.

    With `changed`, only what depends on these values is inferred. A body is inferred
    together with the op that holds it."""
    dirty = None if changed is None else set(changed)
    known: _Known | None = {} if dirty is None and _has_typed_captures(graph) else None
    count = 0
    for op in graph:
        if dirty is not None and not _depends_on(op, dirty):
            continue
        types = result_types_of(op, known)
        if types is None:
            continue
        for port, each in zip(op.outputs, types, strict=True):
            own = port.type
            found = with_axes(each, own)
            if own is not found and own != found:
                port.type = found
                count += 1
                if dirty is not None:
                    dirty.add(port)
    return count


_Known = dict[Any, tuple[Type, ...]]
"""Result types, by all that they depend on."""


def _has_typed_captures(graph: Graph) -> bool:
    """Whether captured constants have types with content; those inside get theirs on
    the way."""
    held = [v for v in graph.captures if constant_of(v) is not None]
    return all(v.type == value_type(v) for v in held)


def with_axes(found: Type, old: Type | None) -> Type:
    """A type with the axis names of an earlier type: names are declared, not
    inferred."""
    if not isinstance(old, TensorType) or not isinstance(found, TensorType):
        return found
    if old.axes is None or not found.shape.has_rank:
        return found
    if found.axes is not None or found.shape.rank != len(old.axes):
        return found
    return TensorType(found.dtype, found.shape, old.axes, found.value)


def infer_ops(ops: Iterable[Op]) -> None:
    """Infer the types of these ops only, in the given order."""
    for op in ops:
        for port, found in zip(op.outputs, result_types_of(op) or (), strict=False):
            port.type = with_axes(found, port.type)


def _depends_on(op: Op, values: set[OutputPort]) -> bool:
    if any(v in values for v in op.inputs):
        return True
    return any(v in values for body in op.bodies.values() for v in body.captures)


def result_types_of(op: Op, known: _Known | None = None) -> tuple[Type, ...] | None:
    """The result types of an op; None for ops of other namespaces.

    `known` caches result types within a run in which all constants have types."""
    if isinstance(op, Graph):
        return _graph_result_types(op)
    if op.is_constant:
        tensor = constant_of(op.output)
        assert tensor is not None
        return (tensor.type_with_content(),)
    if not is_std(op):
        return None
    operation = operation_of(op)
    key = None if known is None or operation.body_rule else _type_key(op)
    if key is not None and known is not None and key in known:
        return known[key]
    for body in op.bodies.values():
        infer(body)
    try:
        types = infer_by_definition(operation, op)
        if key is not None and known is not None and not _introduces_symbols(op, types):
            known[key] = types
        return types
    except AmandaError as error:
        error.where = error.where or op.label
        raise


def _type_key(op: Op) -> Any:
    """All that the result types depend on; None if it is not hashable."""
    read = tuple([None if v is None else v.type for v in op.inputs])
    if not op.has_attrs:
        return op.type, read, len(op.outputs)
    attrs = tuple([(k, v.__class__, v) for k, v in op.attrs.items()])
    key = (op.type, read, len(op.outputs), attrs)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _introduces_symbols(op: Op, types: tuple[Type, ...]) -> bool:
    """Whether the types hold a new symbol, so that the next such op needs another
    one."""
    return introduces_symbols(
        types, [value_type(v) for v in op.inputs if v is not None]
    )


def infer_by_definition(operation: Operation, op: Op) -> tuple[Type, ...]:
    """The result types by the definition of the op."""
    args, attrs = op_arguments(op, lambda port: port)
    if operation.form.varies and "outputs" in attrs:
        attrs["outputs"] = attrs["outputs"] or len(op.outputs)
        _expect_outputs(attrs["outputs"], op)  # before types of so many are made
    types = operation.types(operation.normal(args), attrs)
    _expect_outputs(len(types), op)
    return types


def _expect_outputs(number: int, op: Op) -> None:
    if number != len(op.outputs):
        raise InvalidTypeError(
            "the op has another number of results than its attributes state",
            expected=number,
            got=len(op.outputs),
        )


def _graph_result_types(graph: Graph) -> tuple[Type, ...]:
    for parameter, value in zip(graph.parameters, graph.inputs, strict=False):
        if value is not None:
            parameter.type = value_type(value)
    infer(graph)
    return tuple(TensorType() if v is None else value_type(v) for v in graph.results)
