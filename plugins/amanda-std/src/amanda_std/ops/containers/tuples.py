"""Tuples: values of different types together."""

from __future__ import annotations

from typing import Any

from amanda.errors import InvalidTypeError
from amanda.types import TupleType
from amanda_std.engine.annotations import Anything, Tuple
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.runtime.containers import expect_kind, without_content

_NO_GRADIENT = "gradients flow only through elements known before the run"


@primitive(numpy_only=True)
def tuple_make(*xs: Anything) -> Tuple:
    """Tuple of the given values, each with its own type"""
    return tuple(xs)


tuple_make.trait(Trait.CONTAINER)


@tuple_make.infer
def _(*xs: Any) -> Any:
    return [TupleType(map(without_content, xs))]


@primitive(numpy_only=True)
def tuple_push(t: Tuple, x: Anything) -> Tuple:
    """Append a value to a tuple"""
    return (*t, x)


tuple_push.trait(Trait.CONTAINER)


@tuple_push.infer
def _(t: Any, x: Any) -> Any:
    return [TupleType([*expect_kind(TupleType, t).items, without_content(x)])]


@primitive(numpy_only=True)
def tuple_get(t: Tuple, *, index: int) -> Anything:
    """Element of a tuple at an index, which may be negative"""
    return t[_normalize_index(len(t), index)]


tuple_get.trait(Trait.CONTAINER)


@tuple_get.infer
def _(t: Any, index: Any) -> Any:
    items = expect_kind(TupleType, t).items
    return [items[_normalize_index(len(items), index)]]


def _normalize_index(size: int, index: int) -> int:
    if not -size <= index < size:
        raise InvalidTypeError(
            "tuple index out of range",
            expected=f"{-size} to {size - 1}" if size else "an empty range",
            got=index,
        )
    return index % size


for _op in (tuple_make, tuple_push, tuple_get):
    _op.not_differentiable(_NO_GRADIENT)


def _sample_values() -> tuple[Any, Any]:
    return array([1, 2], "int64"), array([], "float32")


@tuple_make.samples
def _() -> Samples:
    yield Sample(_sample_values(), [_sample_values()])
    yield Sample((), [()])


@tuple_push.samples
def _() -> Samples:
    yield Sample((_sample_values(), array(3.0)), [(*_sample_values(), array(3.0))])


@tuple_get.samples
def _() -> Samples:
    a, b = _sample_values()
    yield Sample(((a, b),), a, {"index": 0})
    yield Sample(((a, b),), b, {"index": -1})
