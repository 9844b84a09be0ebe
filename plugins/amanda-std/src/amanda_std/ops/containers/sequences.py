"""Sequences: any number of tensors of one element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import SequenceType, Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Anything,
    Array,
    Body,
    Index,
    Sequence,
    ShapeArg,
)
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Operators, dims_of
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.control.bodies import as_results, result_types
from amanda_std.ops.tensor.manipulation import concat, split
from amanda_std.ops.tensor.shape import expand_dims, squeeze
from amanda_std.runtime.containers import expect_kind, join_types

_NO_GRADIENT = "gradients flow only through elements known before the run"
_SCALAR = TensorType("int64", [])


def _normalize_index(xs: list[Any], at: Any, end: int = 0) -> int:
    """Normalize an index into a sequence; with `end=1`, the end is a valid index."""
    known = at if isinstance(at, Operators) else np.asarray(at).reshape(())
    number = int(known)
    size = len(xs)
    if not -size <= number < size + end:
        raise UsageError(
            "sequence index out of range",
            expected=f"{-size} to {size + end - 1}" if size + end else "an empty range",
            got=number,
        )
    return number + size if number < 0 else number


@primitive(numpy_only=True)
def sequence_construct(*xs: Anything) -> Sequence:
    """Sequence of the given values"""
    return list(xs)


sequence_construct.trait(Trait.CONTAINER)


@sequence_construct.infer
def _(*xs: Any) -> Any:
    return [SequenceType(join_types(xs))]


@primitive(numpy_only=True)
def sequence_empty(*, dtype: Any = None) -> Sequence:
    """Empty sequence of tensors of an element type (default: float32)"""
    del dtype
    return []


sequence_empty.trait(Trait.CONTAINER)


@sequence_empty.infer
def _(dtype: Any) -> Any:
    return [SequenceType(TensorType(dtype or "float32"))]


@primitive(numpy_only=True)
def sequence_at(xs: Sequence, at: Index) -> Anything:
    """Element at an index"""
    return xs[_normalize_index(xs, at)]


sequence_at.trait(Trait.CONTAINER)
sequence_at.compile_time(lambda _: ("at",))


@sequence_at.infer
def _(xs: Any) -> Any:
    return [expect_kind(SequenceType, xs).element]


@primitive(numpy_only=True)
def sequence_insert(xs: Sequence, x: Anything, at: Index | None = None) -> Sequence:
    """Insert an element before an index, or at the end"""
    position = len(xs) if at is None else _normalize_index(xs, at, 1)
    return [*xs[:position], x, *xs[position:]]


sequence_insert.trait(Trait.CONTAINER)
sequence_insert.compile_time(lambda _: ("at",))


@sequence_insert.infer
def _(xs: Any, x: Any) -> Any:
    return [SequenceType(join_types([expect_kind(SequenceType, xs).element, x]))]


@primitive(numpy_only=True)
def sequence_erase(xs: Sequence, at: Index | None = None) -> Sequence:
    """Remove the element at an index (default: the last)"""
    position = _normalize_index(xs, -1 if at is None else at)
    return [*xs[:position], *xs[position + 1 :]]


sequence_erase.trait(Trait.CONTAINER)
sequence_erase.compile_time(lambda _: ("at",))


@sequence_erase.infer
def _(xs: Any) -> Any:
    return [expect_kind(SequenceType, xs)]


@primitive(numpy_only=True)
def sequence_length(xs: Sequence) -> Index:
    """Number of elements"""
    return np.asarray(len(xs), "int64")


sequence_length.trait(Trait.CONTAINER)


@sequence_length.infer
def _(xs: Any) -> Any:
    expect_kind(SequenceType, xs)
    return [_SCALAR]


@primitive(numpy_only=True)
def split_to_sequence(
    x: Array, sizes: ShapeArg = None, *, axis: int = 0, keepdims: bool = True
) -> Sequence:
    """Split along an axis into a sequence of parts

    By sizes; by one size, the last part may be smaller; by default into single slices,
    whose axis is removed unless `keepdims`."""
    axis = normalize_axis(axis, x.ndim)
    total = x.shape[axis]
    if sizes is None:
        parts = np.split(x, total, axis) if total else []
        return parts if keepdims else [np.squeeze(p, axis) for p in parts]
    if isinstance(sizes, int):
        if sizes <= 0:
            raise UsageError("a part of a split has no size", got=sizes)
        return np.split(x, range(sizes, total, sizes), axis) if total else []
    if sum(sizes) != total or min(sizes, default=0) < 0:
        raise UsageError(
            "the sizes of the parts do not add up to the dim", expected=total, got=sizes
        )
    return np.split(x, np.cumsum(sizes[:-1]), axis) if sizes else []


@split_to_sequence.infer
def _(x: Any, sizes: Any, axis: Any, keepdims: Any) -> Any:
    if not x.shape.has_rank:
        return [SequenceType(TensorType(x.dtype))]
    dims = list(x.shape.dims)
    position = normalize_axis(axis, len(dims))
    if sizes is None and not keepdims:
        return [
            SequenceType(TensorType(x.dtype, [*dims[:position], *dims[position + 1 :]]))
        ]
    dims[position] = 1 if sizes is None else _common_size(sizes, dims[position])
    return [SequenceType(TensorType(x.dtype, dims))]


@split_to_sequence.unroll
def _(x: Any, sizes: Any = None, *, axis: int, keepdims: bool) -> list[Any]:
    total = dims_of(x)[normalize_axis(axis, x.ndim)]
    if sizes is None or isinstance(sizes, int):
        count, size = int(total), sizes or 1
        sizes = [min(size, count - i) for i in range(0, count, size)]
    parts = split(x, [int(size) for size in sizes], axis=axis) if len(sizes) else ()
    if keepdims:
        return list(parts)
    return [squeeze(part, (axis,)) for part in parts]


def _common_size(sizes: Any, dim: Any) -> Any:
    """The common size of all parts, if they have one."""
    if isinstance(sizes, int) and isinstance(dim, int) and sizes > 0:
        return sizes if dim % sizes == 0 else Sym.unknown()
    given = sizes if isinstance(sizes, tuple) else ()
    all_equal = given and all(isinstance(s, int) and s == given[0] for s in given)
    return given[0] if all_equal else Sym.unknown()


@primitive(numpy_only=True)
def concat_from_sequence(
    xs: Sequence, *, axis: int = 0, new_axis: bool = False
) -> Array:
    """Concatenate the elements along an axis, or stack them along a new one"""
    if not xs:
        raise UsageError("cannot concatenate an empty sequence")
    return np.stack(xs, axis) if new_axis else np.concatenate(xs, axis)


@concat_from_sequence.unroll
def _(xs: list[Any], *, axis: int, new_axis: bool) -> Any:
    if new_axis:
        xs = [expand_dims(x, (axis,)) for x in xs]
    return concat(*xs, axis=axis)


@concat_from_sequence.infer
def _(xs: Any, axis: Any, new_axis: Any) -> Any:
    element = expect_kind(SequenceType, xs).element
    if not isinstance(element, TensorType):
        raise InvalidTypeError(
            "only sequences of tensors can be concatenated", got=element
        )
    if not element.shape.has_rank:
        return [TensorType(element.dtype)]
    dims = list(element.shape.dims)
    position = normalize_axis(axis, len(dims) + new_axis)
    dims[position : position + (not new_axis)] = [Sym.unknown()]
    return [TensorType(element.dtype, Shape(dims))]


@primitive(numpy_only=True)
def sequence_map(body: Body, xs: Sequence, *others: Anything) -> tuple[Sequence, ...]:
    """Sequence of each result of body(x, *others) for every x of a sequence

    Others that are sequences are iterated along with it."""
    for other in others:
        if isinstance(other, list) and len(other) != len(xs):
            raise UsageError(
                "sequences that are iterated together have different lengths",
                expected=len(xs),
                got=len(other),
            )
    rows = [
        as_results(body(x, *(o[i] if isinstance(o, list) else o for o in others)))
        for i, x in enumerate(xs)
    ]
    if rows:
        return tuple(map(list, zip(*rows, strict=True)))
    return tuple([] for _ in getattr(body, "result_types", (None,)))


sequence_map.trait(Trait.CONTAINER)


def _elements(xs: Any, others: Any) -> list[Any]:
    return [
        expect_kind(SequenceType, xs).element,
        *(o.element if isinstance(o, SequenceType) else o for o in others),
    ]


@sequence_map.bodies
def _(xs: Any, *others: Any) -> Any:
    return {"body": _elements(xs, others)}


@sequence_map.infer
def _(body: Any, xs: Any, *others: Any) -> Any:
    result = result_types(body, _elements(xs, others))
    return [SequenceType(join_types([t])) for t in result]


for _op in (
    sequence_construct, sequence_at, sequence_insert, sequence_erase,
    split_to_sequence, concat_from_sequence, sequence_map,
):  # fmt: skip
    _op.not_differentiable(_NO_GRADIENT)
sequence_empty.not_differentiable("it has no elements")
sequence_length.not_differentiable("its result is an integer")


# -- samples -----------------------------------------------------------------------


def _sample_parts(dtype: str = "float32") -> list[Any]:
    return [array([1, 2, 3], dtype), array([4], dtype), array([], dtype)]


@sequence_construct.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample(tuple(_sample_parts(dtype)), [_sample_parts(dtype)])
    yield Sample((array(1.0),), [[array(1.0)]])


@sequence_empty.samples
def _() -> Samples:
    yield Sample((), [[]])
    yield Sample((), [[]], {"dtype": "int64"})


@sequence_at.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        for at, expected in ((0, [1, 2, 3]), (-2, [4]), (2, [])):
            args = (_sample_parts(dtype), array(at, "int64"))
            yield Sample(args, array(expected, dtype))


@sequence_insert.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        a, b, c = _sample_parts(dtype)
        new = array([9, 9], dtype)
        yield Sample(([a, b, c], new), [[a, b, c, new]])
        yield Sample(([a, b, c], new, array(0, "int64")), [[new, a, b, c]])
        yield Sample(([a, b, c], new, array(-1, "int32")), [[a, b, new, c]])
        yield Sample(([a], new, array(1, "int64")), [[a, new]])


@sequence_erase.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        a, b, c = _sample_parts(dtype)
        yield Sample(([a, b, c],), [[a, b]])
        yield Sample(([a, b, c], array(0, "int64")), [[b, c]])
        yield Sample(([a, b, c], array(-2, "int64")), [[a, c]])


@sequence_length.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((_sample_parts(dtype),), array(3, "int64"))


@split_to_sequence.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        x = arange_of_shape(3, 2, dtype=dtype)
        yield Sample((x,), [[x[:1], x[1:2], x[2:]]])
        rows = [array([0, 1], dtype), array([2, 3], dtype), array([4, 5], dtype)]
        yield Sample((x,), [rows], {"keepdims": False})
        columns = [array([[0], [2], [4]], dtype), array([[1], [3], [5]], dtype)]
        yield Sample((x, 1), [columns], {"axis": -1})
        yield Sample((x, 2), [[x[:2], x[2:]]])
        yield Sample((x, (1, 0, 2)), [[x[:1], x[1:1], x[1:]]])
        for sizes in (None, 2, ()):
            yield Sample((x[:0], sizes), [[]])


@concat_from_sequence.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((_sample_parts(dtype),), array([1, 2, 3, 4], dtype))
        a, b = array([1, 2], dtype), array([3, 4], dtype)
        stacked = array([[1, 3], [2, 4]], dtype)
        yield Sample(([a, b],), stacked, {"axis": -1, "new_axis": True})


@sequence_map.samples
def _() -> Samples:
    def grow(x: Any, by: Any) -> Any:
        return x + by, x

    for dtype in ("float32", "int64"):
        a, b, c = _sample_parts(dtype)
        more = [array([2, 3, 4], dtype), array([5], dtype), array([], dtype)]
        one = array(1, dtype)
        yield Sample((grow, [a, b, c], one), [more, [a, b, c]])
        yield Sample((grow, [a, b], [one, one]), [more[:2], [a, b]])
