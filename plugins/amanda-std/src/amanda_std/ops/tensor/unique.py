"""Selection by value: unique elements, boolean masks, nonzero."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Array,
    Index,
    Logical,
    Other,
)
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import reshape


def _unique_shapes(x: TensorType, *, axis: int | None = None) -> list[Shape]:
    count = Sym.unknown()
    if axis is None:
        return [Shape([count]), Shape([count]), Shape([x.shape.size]), Shape([count])]
    at = normalize_axis(axis, x.shape.rank)
    whole_: list[Any] = list(x.shape.dims)
    one = x.shape.dims[at]
    whole_[at] = count
    return [Shape(whole_), Shape([count]), Shape([one]), Shape([count])]


@primitive(shape=_unique_shapes, numpy_only=True)
def unique(
    x: Array, *, axis: int | None = None, sorted: bool = True
) -> tuple[Array, Index, Index, Index]:
    """Unique elements (or slices along an axis)

    Also returns the first index of each, the inverse mapping and the counts. Sorted, or
    in order of appearance."""
    result, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        back = np.argsort(order)
        result = np.take(result, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    first, inverse, counts = (p.astype("int64") for p in (first, inverse, counts))
    return result, first, inverse, counts


unique.trait(Trait.DATA_DEPENDENT_SIZE)
unique.not_differentiable("it selects elements by value")


def _unique_by_loop(x: list[Any], in_order: bool) -> list[Any]:
    values = list(dict.fromkeys(x))
    values = sorted_(values) if in_order else values
    return [values, [x.index(v) for v in values], [values.index(v) for v in x],
            [x.count(v) for v in values]]  # fmt: skip


sorted_ = sorted


@unique.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bfloat16"):
        x = array([3, 1, 3, 2, 1, 1], dtype)
        for in_order in (True, False):
            values, *positions = _unique_by_loop(x.tolist(), in_order)
            expected = [array(values, dtype), *(array(p, "int64") for p in positions)]
            yield Sample((x,), expected, {"sorted": in_order}, smooth=False)
            yield Sample(
                (x.reshape(2, 3),), expected, {"sorted": in_order}, smooth=False
            )
    x = array([[2, 0, 2], [1, 1, 1]], "int64")
    for in_order in (True, False):
        columns, *positions = _unique_by_loop(
            [tuple(c) for c in x.T.tolist()], in_order
        )
        expected = [array(columns, "int64").T, *(array(p, "int64") for p in positions)]
        yield Sample((x,), expected, {"axis": 1, "sorted": in_order})
    empty = np.zeros(0, "int64")
    yield Sample((np.zeros(0),), [np.zeros(0), empty, empty, empty], smooth=False)


@composite
def compress(x: Array, condition: Logical, *, axis: int | None = None) -> Array:
    """Slices along an axis (or elements) where a boolean condition is true

    The condition may be shorter than the axis; the rest is dropped."""
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    at = reshape(nonzero(reshape(condition, [-1])), [-1])
    return gather(x, at, axis)


compress.trait(Trait.DATA_DEPENDENT_SIZE)


@compress.samples
def _() -> Samples:
    flags = array([True, False, True], "bool")
    for dtype in ("float64", "int32"):
        x = arange_of_shape(3, 4, dtype=dtype)
        yield Sample((x, flags), x[[0, 2]], {"axis": 0}, smooth=False)
        yield Sample((x, flags), x[:, [0, 2]], {"axis": -1}, smooth=False)
        yield Sample((x, flags), array([0, 2], dtype), smooth=False)
    yield Sample((ramp(4), ~array([True] * 4, "bool")), np.zeros(0), smooth=False)
    yield Sample((ramp(4), flags), ramp(4)[[0, 2]])


@primitive(shape=lambda x: Shape([x.shape.rank, Sym.unknown()]), numpy_only=True)
def nonzero(x: Other) -> Index:
    """Indices of the nonzero elements, one column each, in row-major order"""
    return np.stack(np.nonzero(np.atleast_1d(x)))[: x.ndim].astype("int64")


nonzero.trait(Trait.DATA_DEPENDENT_SIZE)
nonzero.not_differentiable("its results are indices")


@nonzero.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bool"):
        x = array([[0, 1, 0], [1, 0, 1]], dtype)
        yield Sample((x,), array([[0, 1, 1], [1, 0, 2]], "int64"))
    yield Sample((np.zeros((0, 2)),), np.zeros((2, 0), "int64"))
    yield Sample((array(5),), np.zeros((0, 1), "int64"))
