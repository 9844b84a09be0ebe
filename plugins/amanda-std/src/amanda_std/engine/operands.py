"""Operands of a call: arrays, types or graph values, and their conversion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amanda.errors import UsageError
from amanda.graph import Graph, OutputPort, Parameter
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    Sym,
    TensorType,
    TupleType,
    Type,
)
from amanda_std.engine.annotations import TENSOR
from amanda_std.engine.arrays import array_type
from amanda_std.engine.function_lookup import find_function
from amanda_std.engine.links import find_operation
from amanda_std.engine.literals import as_tensor, is_literal, is_number
from amanda_std.engine.values import Tracing, Typed, Value, lift, port_type, value_type
from amanda_std.inference import type_inference

__all__ = [
    "as_port",
    "body_for_inference",
    "named_bodies",
    "dtype_for_numbers",
    "flatten_args",
    "port_of",
    "call_mode",
    "pack_sequence",
    "tensor_type",
    "shares_dtype",
    "defer_numbers",
]

_TYPES = frozenset(
    (Typed, TensorType, SequenceType, OptionalType, TupleType, MapType, RefType)
)
_VALUES = (Value, OutputPort, Parameter)


def pack_sequence(items: list[Any]) -> Any:
    """A list of values as a sequence value."""
    return find_operation("sequence_construct")(*items)


def call_mode(args: Sequence[Any]) -> type | None:
    """`Typed`, `Value`, or None for arrays. Types win, as a body may capture values."""
    has_values = has_dims = False
    for a in args:
        kind = a.__class__
        if kind in _TYPES:
            return Typed
        if kind in _VALUES:
            has_values = True
        elif kind is Sym:
            has_dims = True
        elif kind is list or kind is tuple:
            inner = call_mode(a)
            if inner is Typed and not all(
                i.__class__ in (Sym, int) for i in flatten_args(a)
            ):
                return Typed
            has_values = has_values or inner is Value
            has_dims = has_dims or inner is Typed
    if has_values:
        return Value
    return Typed if has_dims else None


def flatten_args(args: Iterable[Any]) -> Iterable[Any]:
    """The items of nested lists and tuples, in order."""
    for a in args:
        if isinstance(a, list | tuple):
            yield from flatten_args(a)
        else:
            yield a


def port_of(value: Any) -> OutputPort | None:
    """The output port of a value, or None."""
    if isinstance(value, Value):
        return value.port
    return value if isinstance(value, OutputPort) else None


def shares_dtype(param: Any) -> bool:
    """Whether a parameter takes part in the op's common dtype."""
    return bool(param.kind.role == TENSOR and param.kind.shared)


def dtype_for_numbers(params: Sequence[Any], args: Sequence[Any]) -> Any:
    """The dtype of Python numbers in a call: that of its tensors."""
    if all(a is None or a.__class__ in _VALUES for a in args):
        return None  # there are no numbers
    numbers = False
    for p, a in zip(params, args, strict=True):
        if not shares_dtype(p) or a is None:
            continue
        if is_literal(a):
            numbers = numbers or is_number(a)
        else:
            found = _own_dtype(a)
            if found.kind != "unknown":
                return found
    if numbers:
        raise type_inference.unknown_dtype()
    return None


def defer_numbers(params: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Numbers beside tensors of unknown dtype, as `number_like` ops."""
    rows = list(zip(params, args, strict=True))
    beside = next(
        (a for p, a in rows if shares_dtype(p) and port_of(a) is not None), None
    )
    if beside is None:
        raise type_inference.unknown_dtype()
    like = find_operation("number_like")
    return [
        like(beside, value=a) if shares_dtype(p) and is_number(a) else a
        for p, a in rows
    ]


def _own_dtype(a: Any) -> Any:
    port = port_of(a)
    if port is not None:
        return port_type(port).dtype
    if isinstance(a, Typed):
        return a.type.dtype
    return a.dtype if isinstance(a, TensorType) else DType.of(a)


def tensor_type(a: Any, params: Sequence[Any], args: Sequence[Any]) -> Type:
    """The type of an operand."""
    if isinstance(a, Type):
        return a
    if isinstance(a, Typed):
        return a.type
    port = port_of(a)
    if port is not None:
        return value_type(port)
    if isinstance(a, Sym):
        return TensorType("int64", (), value=a)
    if isinstance(a, str | bytes):
        return TensorType("string", ())
    if is_literal(a):
        return array_type(as_tensor(a, dtype_for_numbers(params, args)).numpy())
    return array_type(a)


def as_port(value: Any, into: Tracing) -> Any:
    """A shape argument as one value; lists of values are stacked."""
    if isinstance(value, list | tuple):
        return find_operation("stack")(*[as_port(item, into) for item in value])
    if isinstance(value, int | Sym):
        return lift(value, into, DType("int64"))
    return value


def named_bodies(param: Any, value: Any) -> list[tuple[str, Any]]:
    """Each body with its name in the op."""
    if not param.kind.many:
        return [(param.name, value)]
    if not isinstance(value, list | tuple) or not value:
        raise UsageError(f"{param.name} is a list of functions", got=repr(value))
    return [(f"{param.name}{i}", body) for i, body in enumerate(value)]


def body_for_inference(
    param: Any, bodies: Mapping[str, Graph], named: Mapping[str, Any], into: Tracing
) -> Any:
    """The body of a parameter, for inference."""
    if param.name in named:
        return find_function(into.graph, named[param.name])
    if param.kind.many:
        return tuple(b for key, b in bodies.items() if key.startswith(param.name))
    return bodies[param.name]
