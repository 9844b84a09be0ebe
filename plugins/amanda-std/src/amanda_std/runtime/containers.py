"""Containers at run time: their Python form and their types.

| type | Python value |
|---|---|
| sequence | list |
| optional | the value itself, or None |
| tuple | tuple |
| map | dict with Python numbers or strings as keys |
| tensor of strings | object array of `str` |
| reference | a `Cell` of state |"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
    join,
    unknown,
)
from amanda_std.engine.values import UNKNOWN
from amanda_std.runtime.state import Cell

__all__ = [
    "expect_kind",
    "holds_strings",
    "join_types",
    "string_array",
    "without_content",
    "decode_string",
    "type_of",
]


# -- types -------------------------------------------------------------------------


def type_of(value: Any) -> Type:
    """The type of a run-time value, without content.

    >>> type_of([np.zeros(2, "float32"), np.zeros(3, "float32")])
    sequence<float32[?]>
    """
    if isinstance(value, list):
        return SequenceType(join_types(map(type_of, value)))
    if isinstance(value, tuple):
        return TupleType(map(type_of, value))
    if isinstance(value, dict):
        keys = DType.of(np.asarray(list(value))) if value else DType("int64")
        return MapType(keys, join_types(map(type_of, value.values())))
    if value is None:
        return OptionalType(UNKNOWN)
    if isinstance(value, Cell):
        return RefType(type_of(value.read()) if value.has_value else UNKNOWN)
    return TensorType(DType.of(value), np.shape(value))


def join_types(types: Iterable[Type]) -> Type:
    """The common type of values; InvalidTypeError if there is none."""
    found: Type | None = None
    for each in types:
        found = (
            without_content(each)
            if found is None
            else _join(found, without_content(each))
        )
    return UNKNOWN if found is None else found


def _join(a: Type, b: Type) -> Type:
    if a == b or b == UNKNOWN:
        return a if a == b else UNKNOWN
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype != b.dtype and unknown not in (a.dtype, b.dtype):
            raise _misfit(a, b)
        return join(a, b)
    if isinstance(a, SequenceType | OptionalType) and type(a) is type(b):
        return type(a)(_join(a.parts[0], b.parts[0]))
    raise _misfit(a, b)


def _misfit(a: Type, b: Type) -> InvalidTypeError:
    return InvalidTypeError(
        "the elements of a sequence have one element type",
        expected=str(a),
        got=str(b),
        hint="convert them first: ops.astype(x, dtype=...); or make a tuple",
    )


def without_content(type: Type) -> Type:
    """The type without known content."""
    if isinstance(type, TensorType) and type.value is not None:
        return TensorType(type.dtype, type.shape, type.axes)
    return type


def expect_kind(kind: type[Type], type: Type | None) -> Any:
    """The type, if it is of this kind; Undecided if it is unknown."""
    if isinstance(type, kind):
        return type
    if type is None or type == UNKNOWN:
        raise Undecided("what this value holds is not known")
    raise InvalidTypeError(
        f"this is no {_NAMES[kind]}", expected=f"a {_NAMES[kind]}", got=str(type)
    )


_NAMES: dict[type[Type], str] = {
    SequenceType: "sequence",
    OptionalType: "optional",
    TupleType: "tuple",
    MapType: "map",
    RefType: "reference to a variable",
}


# -- texts -------------------------------------------------------------------------


def decode_string(item: Any) -> str:
    """An element of a string tensor; weights and files store UTF-8."""
    return item.decode("utf-8") if isinstance(item, bytes) else str(item)


def string_array(items: Sequence[str], shape: Sequence[int]) -> Any:
    """An object array of strings, in row-major order."""
    flat = np.empty(len(items), object)
    flat[:] = items
    return flat.reshape(tuple(shape))


def holds_strings(array: Any) -> bool:
    """Whether an array holds strings in a form other than `str` objects."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "OSU":
        return False
    if array.dtype.kind != "O":
        return True
    return any(isinstance(item, bytes) for item in array.flat)
