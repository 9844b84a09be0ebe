"""Sliding windows as columns (im2col) and their sums (col2im)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Number, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.nn.convolution import Pairs, strides_or_ones
from amanda_std.ops.nn.sliding_windows import (
    WINDOW_CASES,
    SlidingWindows,
    clamp_index,
    extract_windows,
    taps_of_window,
)
from amanda_std.ops.tensor.creation import full, scalar_like
from amanda_std.ops.tensor.index_arithmetic import as_int64, unpack_shape_argument
from amanda_std.ops.tensor.scatter import scatter_nd
from amanda_std.ops.tensor.shape import expand_dims, reshape, transpose


@composite
def unfold(
    x: Number, *, window: tuple[int, ...], strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
) -> Number:  # fmt: skip
    """Sliding windows of NC* data as columns (im2col): [N, C * window, positions]"""
    cut = SlidingWindows(x.shape[2:], window, strides, padding, dilations)
    n = len(cut.window)
    seen = extract_windows(x, cut, scalar_like(0, x))
    transposed = transpose(
        seen, perm=(0, 1, *range(n + 2, 2 * n + 2), *range(2, n + 2))
    )
    rows = x.shape[1] * math.prod(cut.window)
    return reshape(transposed, [x.shape[0], rows, math.prod(cut.size)])


@composite
def fold(
    x: Number, size: ShapeArg, window: ShapeArg, *,
    strides: tuple[int, ...] | None = None,
    padding: Pairs | None = None, dilations: tuple[int, ...] | None = None,
) -> Number:  # fmt: skip
    """Sum columns [N, C * window, positions] back to their positions (col2im)"""
    given = isinstance(window, tuple | list)
    n = len(window) if given else dims_of(window)[0].__index__()
    dims = unpack_shape_argument(size, n)
    cut = SlidingWindows(
        dims, unpack_shape_argument(window, n), strides, padding, dilations
    )
    batch, columns = x.shape[:2]
    channels = columns // math.prod(cut.window)
    parted = reshape(x, [batch, channels, *cut.window, *cut.size])
    position, there = None, None
    for i in range(n):
        at, inside = (transpose(each, perm=(1, 0)) for each in cut.at(i))
        difference = tuple(a for a in range(2 * n) if a not in (i, n + i))
        at, inside = (expand_dims(each, difference) if difference else each
                      for each in (clamp_index(at, dims[i]), inside))  # fmt: skip
        position = (
            at if position is None else add(multiply(position, as_int64(dims[i])), at)
        )
        there = inside if there is None else logical_and(there, inside)
    kept = where_(there, parted, scalar_like(0, x))
    rows = transpose(kept, perm=(*range(2, 2 * n + 2), 0, 1))
    area: Any = 1
    for d in dims:
        area = area * d
    empty = full([area, batch, channels], scalar_like(0, x))
    total = scatter_nd(empty, expand_dims(position, (2 * n,)), rows, reduction="add")
    transposed = transpose(total, perm=(1, 2, 0))
    return reshape(transposed, [batch, channels, *dims])


def _column_sources(x: Any, window: Any, s: Any, pads: Any, d: Any, size: Any) -> Any:
    """For each element of the columns, its index in the data, if any."""
    for i, c, *at in np.ndindex(*x[:2], *size):
        column = int(np.ravel_multi_index(at, size))
        for tap, where in taps_of_window(at, window, s, pads, d, x[2:]):
            row = c * math.prod(window) + int(np.ravel_multi_index(tap, window))
            yield (i, row, column), (i, c, *where)


def _column_samples(back: bool) -> Any:
    def make() -> Samples:
        for data, window, strides, pads, dilations, ceil, size in WINDOW_CASES:
            if ceil:
                continue
            s, d = (
                strides_or_ones(strides, len(window)),
                strides_or_ones(dilations, len(window)),
            )
            wide = (data[0], data[1] * math.prod(window), math.prod(size))
            attrs = {"window": window, "strides": strides, "padding": pads,
                     "dilations": dilations}  # fmt: skip
            for dtype in ("float64", "float32"):
                x, columns = ramp(*data, dtype=dtype), ramp(*wide, dtype=dtype)
                y, total = np.zeros(wide, dtype), np.zeros(data, dtype)
                for at, where in _column_sources(data, window, s, pads, d, size):
                    y[at] = x[where]
                    total[where] += columns[at]
                if back:
                    attrs.pop("window", None)
                    yield Sample((columns, data[2:], window), total, attrs)
                else:
                    yield Sample((x,), y, attrs)
        flat = {"window": (2,)}
        if back:
            yield Sample((np.zeros((0, 2, 3)), (4,)), np.zeros((0, 1, 4)), flat,
                         smooth=False)  # fmt: skip
        else:
            yield Sample((np.zeros((0, 1, 4)),), np.zeros((0, 2, 3)), flat,
                         smooth=False)  # fmt: skip

    return make


unfold.samples(_column_samples(False))


fold.samples(_column_samples(True))
