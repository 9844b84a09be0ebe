"""Max pooling with indices, and unpooling."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Array, Index, Real, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import (
    add,
    floor_divide,
    multiply,
    remainder,
    where,
)
from amanda_std.ops.math.comparison import isnan
from amanda_std.ops.math.reduction import argmax, extreme_identity, max_
from amanda_std.ops.nn.convolution import Pairs
from amanda_std.ops.nn.sliding_windows import (
    SlidingWindows,
    extract_windows,
    window_samples,
)
from amanda_std.ops.tensor.creation import arange, full, scalar_like
from amanda_std.ops.tensor.index_arithmetic import (
    as_int64,
    dtype_of,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.scatter import scatter_nd
from amanda_std.ops.tensor.shape import expand_dims, reshape


def _flatten_window(x: Any, windows: SlidingWindows) -> Any:
    """Flatten the window axes to one."""
    batch, channels = x.shape[:2]
    return reshape(x, [batch, channels, *windows.size, math.prod(windows.window)])


@composite
def max_pool_with_indices(
    x: Real, *, window: tuple[int, ...], strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
    ceil: bool = False, whole_tensor: bool = False, column_major: bool = False,
) -> tuple[Real, Index]:  # fmt: skip
    """Max pooling of NC* data, with the index of each maximum, which NaN never is

    Indices are flat over the spatial axes, or over the whole tensor if `whole_tensor`;
    `column_major`: the first of these axes varies fastest."""
    cut = SlidingWindows(x.shape[2:], window, strides, padding, dilations, ceil)
    cut = cut.clip_to_data()
    fill = scalar_like(extreme_identity(dtype_of(x).numpy, True), x)
    if dtype_of(x).kind == "float":
        x = where(isnan(x), fill, x)
    seen = _flatten_window(extract_windows(x, cut, fill, ceil), cut)
    best = argmax(seen, -1)
    n = len(cut.window)
    order = range(n) if column_major else reversed(range(n))
    position: Any = None
    step: Any = np.asarray(1)
    tap = dict(zip(range(n), _unravel(best, cut.window), strict=True))
    for i in order:
        begin = multiply(arange(0, cut.size[i]), cut.strides[i])
        begin = reshape(begin, [cut.size[i], *[1] * (n - 1 - i)])
        one = add(tap[i] * cut.dilations[i] - cut.pads[i][0], begin)
        one = multiply(one, step)
        position = one if position is None else add(position, one)
        step = multiply(step, as_int64(cut.spatial[i]))
    if whole_tensor:
        planes = arange(0, multiply(as_int64(x.shape[0]), as_int64(x.shape[1])))
        first = reshape(multiply(planes, step), [*x.shape[:2], *[1] * n])
        position = add(position, first)
    return max_(seen, (-1,)), position


def _unravel(flat: Any, sizes: Any) -> list[Any]:
    """Unravel a flat index into one index per axis."""
    result: list[Any] = []
    for n in reversed(sizes):
        result.insert(0, remainder(flat, n))
        flat = floor_divide(flat, n)
    return result


@composite
def max_unpool(
    x: Array, indices: Index, size: ShapeArg, *, whole_tensor: bool = False
) -> Array:
    """Scatter NC* elements to their indices in data of a size (of NC*), 0 elsewhere

    Indices are those of max_pool_with_indices."""
    rank = x.ndim
    dims = unpack_shape_argument(size, rank)
    area: Any = np.asarray(1)
    for d in dims[2:]:
        area = multiply(area, as_int64(d))
    planes = multiply(as_int64(dims[0]), as_int64(dims[1]))
    at = indices
    if not whole_tensor:
        first = multiply(arange(0, planes), area)
        first = reshape(first, [*x.shape[:2], *[1] * (rank - 2)])
        at = add(at, first)
    empty = full(reshape(multiply(planes, area), [1]), scalar_like(0, x))
    rows = expand_dims(reshape(at, [-1]), (1,))
    return reshape(scatter_nd(empty, rows, reshape(x, [-1])), dims)


def _max_of_window(all_: bool, column: bool) -> Any:
    def of(x: Any, plane: Any, seen: Any) -> Any:
        value = max(float(x[plane + w]) for w in seen)
        where = next(w for w in seen if float(x[plane + w]) == value)
        sizes = x.shape[2:]
        if column:
            where, sizes = where[::-1], sizes[::-1]
        position = 0
        for p, n in zip(where, sizes, strict=True):
            position = position * n + p
        if all_:
            position += (plane[0] * x.shape[1] + plane[1]) * math.prod(sizes)
        return value, position

    return of


@max_pool_with_indices.samples
def _() -> Samples:
    def make(x: Any) -> Any:
        for all_, column in itertools.product((False, True), repeat=2):
            attrs = {"of": _max_of_window(all_, column), "whole_tensor": all_,
                     "column_major": column}  # fmt: skip
            yield attrs, (x.dtype, "int64")

    yield from window_samples(make, ("float64", "float32", "int32"))
    empty = np.zeros((0, 1, 3)), {"window": (2,)}
    y = np.zeros((0, 1, 2))
    yield Sample((empty[0],), [y, y.astype("int64")], empty[1], smooth=False)


@max_unpool.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = array([[[5, 7]], [[6, 8]]], dtype)
        at = array([[[1, 3]], [[0, 2]]], "int64")
        y = array([[[0, 5, 0, 7]], [[6, 0, 8, 0]]], dtype)
        yield Sample((x, at, (2, 1, 4)), y)
        wide = at + array([[[0]], [[4]]], "int64")
        yield Sample((x, wide, (2, 1, 4)), y, {"whole_tensor": True})
    empty = np.zeros((0, 1, 2)), np.zeros((0, 1, 2), "int64")
    yield Sample((*empty, (0, 1, 4)), np.zeros((0, 1, 4)), smooth=False)
