"""Counting and binary search: bincount, histogram, searchsorted."""

from __future__ import annotations

import math

import numpy as np

from amanda_std.engine.annotations import (
    Index,
    Other,
    Real,
    ShapeArg,
)
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import (
    divide,
    maximum,
    minimum,
    multiply,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.elementary import floor
from amanda_std.ops.math.segment_reduce import segment_reduce
from amanda_std.ops.tensor.creation import full
from amanda_std.ops.tensor.index_arithmetic import as_int64, unpack_shape_argument
from amanda_std.ops.tensor.shape import astype, reshape, shape_of


@composite
def bincount(x: Index, size: ShapeArg, weights: Real | None = None) -> Other:
    """Number of occurrences of each of 0 ... size - 1, or the sum of their weights"""
    fractions = weights
    if fractions is None:
        fractions = full(shape_of(x), np.asarray(1, "int64"))
    flat = reshape(fractions, [-1])
    return segment_reduce(flat, reshape(x, [-1]), size)


@bincount.samples
def _() -> Samples:
    for dtype in ("int32", "int64"):
        x = array([[1, 4, 1], [0, 9, 1]], dtype)
        yield Sample((x, 5), array([1, 3, 0, 0, 1], "int64"))
        for kind in ("float64", "float32"):
            w = array([[0.5, 1, 2], [4, 8, 16]], kind)
            yield Sample((x, 5, w), array([4, 18.5, 0, 0, 1], kind))
    yield Sample((np.zeros(0, "int64"), 2), array([0, 0], "int64"))


@composite
def histogram(
    x: Real, low: Real, high: Real, bins: ShapeArg, *, clamp: bool = True
) -> Index:
    """Histogram: counts of elements in equal-width bins from low to high

    `clamp`: elements outside are counted in the first and last bin, or else dropped."""
    weights = divide(*(astype(subtract(v, low), dtype="float64") for v in (x, high)))
    count = (
        unpack_shape_argument(bins, 1)[0] if isinstance(bins, tuple | list) else bins
    )
    last = subtract(as_int64(count), 1)
    many = astype(count, dtype="float64")
    at = as_int64(floor(multiply(weights, many)))
    if clamp:
        at = minimum(maximum(at, np.asarray(0)), last)
    else:
        at = where(equal(x, high), last, at)
    return bincount(reshape(at, [-1]), count)


histogram.not_differentiable("its results are counts")


@histogram.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        x = array([-1, 0, 2, 5, 7, 10, 14], dtype)
        ends = array(0, dtype), array(10, dtype)
        yield Sample((x, *ends, 5), array([2, 1, 1, 1, 2], "int64"))
        expected = array([1, 1, 1, 1, 1], "int64")
        yield Sample((x, *ends, 5), expected, {"clamp": False})
    yield Sample((np.zeros(0), array(0.0), array(1.0), 2), array([0, 0], "int64"))


@primitive(shape=lambda values: values.shape)
def searchsorted(x: Real, values: Real, *, right: bool = False) -> Index:
    """Insertion indices that keep rows sorted: before equal elements, or after them

    `x` is one sorted row, or one row for each row of values."""
    side = "right" if right else "left"
    np_ = xp(x, values)
    if x.ndim == 1:
        return np_.searchsorted(x, values, side=side).astype("int64")
    rows = np_.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    requested = np_.reshape(values, (rows.shape[0], values.shape[-1]))
    result = [
        np_.searchsorted(rows[i], requested[i], side=side) for i in range(rows.shape[0])
    ]
    outputs = np_.stack(result) if result else np_.zeros(requested.shape)
    return np_.reshape(outputs, values.shape).astype("int64")


searchsorted.not_differentiable("its results are indices")


@searchsorted.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        row = array([1, 3, 3, 7], dtype)
        requested = array([[0, 3], [4, 9]], dtype)
        for right, expected in ((False, [[0, 1], [3, 4]]), (True, [[0, 3], [3, 4]])):
            yield Sample((row, requested), array(expected, "int64"), {"right": right})
        rows = array([[1, 3, 3, 7], [0, 1, 2, 3]], dtype)
        expected = array([[0, 1], [4, 4]], "int64")
        yield Sample((rows, requested), expected)
    deep = array([[[1, 2, 9], [3, 4, 9]], [[5, 6, 9], [7, 8, 9]]], "int32")
    requested = array([[[2], [5]], [[4], [8]]], "int32")
    yield Sample((deep, requested), array([[[1], [2]], [[0], [1]]], "int64"))
    yield Sample((deep[:0], requested[:0]), np.zeros((0, 2, 1), "int64"))
    yield Sample((row, np.zeros(0, "int32")), np.zeros(0, "int64"))
