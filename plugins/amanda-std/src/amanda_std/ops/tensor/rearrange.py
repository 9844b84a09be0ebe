"""Rearrangement of elements: roll, repeat, reverse_sequence, meshgrid, take."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import (
    Array,
    Index,
    ShapeArg,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.ops.math.arithmetic import (
    floor_divide,
    maximum,
    minimum,
    multiply,
    remainder,
    subtract,
)
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.math.comparison import less
from amanda_std.ops.math.cumulative import cumulative_sum
from amanda_std.ops.math.histogram import searchsorted
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import arange, scalar_like
from amanda_std.ops.tensor.index_arithmetic import (
    as_int64,
    in_range,
)
from amanda_std.ops.tensor.indexing import gather, gather_elements
from amanda_std.ops.tensor.manipulation import stack
from amanda_std.ops.tensor.shape import (
    broadcast_like,
    broadcast_to,
    dim,
    expand_dims,
    reshape,
)


@composite
def reverse_sequence(
    x: Array, lengths: Index, *, time_axis: int = 0, batch_axis: int = 1
) -> Array:
    """Reverse the first `lengths[i]` elements of the time axis of each batch element"""
    rank = x.ndim
    time, batch = time_axis % rank, batch_axis % rank
    steps = arange(0, x.shape[time])
    t = expand_dims(steps, tuple(a for a in range(rank) if a != time))
    n = expand_dims(as_int64(lengths), tuple(a for a in range(rank) if a != batch))
    transposed = subtract(subtract(n, 1), t)
    at = where_(less(t, n), transposed, t)
    return gather_elements(x, broadcast_like(at, x), axis=time)


@reverse_sequence.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = arange_of_shape(4, 3, 2, dtype=dtype)
        for dims, numbers in (((0, 1), [2, 0, 4]), ((1, 0), [1, 3, 2, 0])):
            n = array(numbers, "int64")
            y = x.copy()
            for at in np.ndindex(x.shape):
                t, b = at[dims[0]], n[at[dims[1]]]
                where = list(at)
                where[dims[0]] = b - 1 - t if t < b else t
                y[at] = x[tuple(where)]
            attrs = {"time_axis": dims[0], "batch_axis": dims[1]}
            yield Sample((x, n), y, attrs)
    yield Sample((ramp(2, 0), np.zeros(0, "int64")), ramp(2, 0), smooth=False)


@composite
def roll(x: Array, shifts: Index, *, axes: tuple[int, ...] | None = None) -> Array:
    """Shift elements along axes, wrapping around; without axes, flattened"""
    if axes is None:
        line = roll(reshape(x, [-1]), reshape(shifts, [1]), axes=(0,))
        return reshape(line, list(x.shape))
    for i, axis in enumerate(axes):
        size = x.shape[axis]
        if isinstance(size, int) and not size:
            continue
        # a quotient of no elements by 0 is an error in some runtimes
        length = as_int64(size)
        length = length if isinstance(size, int) else maximum(length, 1)
        by = as_int64(gather(shifts, np.asarray(i)))
        at = remainder(subtract(arange(0, size), by), length)
        x = gather(x, at, axis)
    return x


@roll.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = arange_of_shape(3, 4, dtype=dtype)
        for axes, shifts in (((0,), [1]), ((-1,), [-3]), ((0, 1), [5, 2]),
                             ((1, 1), [1, 2])):  # fmt: skip
            y = x
            for axis, by in zip(axes, shifts, strict=True):
                n = x.shape[axis]
                positions = [(i - by) % n for i in range(n)]
                y = np.stack([np.moveaxis(y, axis, 0)[p] for p in positions])
                y = np.moveaxis(y, 0, axis)
            yield Sample((x, array(shifts, "int64")), y, {"axes": axes})
        line = x.reshape(-1).tolist()
        y = array(line[-5:] + line[:-5], dtype).reshape(3, 4)
        yield Sample((x, array(5, "int32")), y)
    yield Sample((ramp(0, 2), array([1], "int64")), ramp(0, 2), {"axes": (1,)},
                 smooth=False)  # fmt: skip


@composite
def repeat(x: Array, repeats: ShapeArg, *, axis: int | None = None) -> Array:
    """Repeat each element along an axis: one count for all, or one for each"""
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    if isinstance(repeats, int) or not _is_vector(repeats):
        at = arange(0, multiply(as_int64(x.shape[axis]), as_int64(repeats)))
        return gather(x, floor_divide(at, as_int64(repeats)), axis)
    ends = cumulative_sum(_stack_integers(repeats), 0)
    total = sum_(_stack_integers(repeats))
    at = searchsorted(ends, arange(0, total), right=True)
    return gather(x, at, axis)


def _is_vector(repeats: Any) -> bool:
    return isinstance(repeats, tuple | list) or getattr(repeats, "ndim", 0) > 0


def _stack_integers(numbers: Any) -> Any:
    if not isinstance(numbers, tuple | list):
        return as_int64(numbers)
    if all(isinstance(n, int) for n in numbers):
        return np.asarray(numbers, "int64")
    return stack(*map(as_int64, numbers))


@repeat.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = arange_of_shape(2, 3, dtype=dtype)
        for times in (1, 3):
            y = array([[v for v in row for _ in range(times)] for row in x], dtype)
            yield Sample((x, times), y, {"axis": -1})
        line = [v for v in x.reshape(-1).tolist() for _ in range(2)]
        yield Sample((x, (2,) * 6), array(line, dtype))
        yield Sample((x, (2, 0, 1)), x[:, [0, 0, 2]], {"axis": 1}, smooth=False)
    yield Sample((x, 0), np.zeros((0, 3), "int32"), {"axis": 0})


@composite
def meshgrid(*xs: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate grids: each vector along its own axis, broadcast to the grid

    "xy": the first vector varies along the second axis, the second along the first."""
    if indexing not in ("xy", "ij"):
        raise InvalidTypeError("unknown indexing", expected="xy, ij", got=indexing)
    order = list(range(len(xs)))
    if indexing == "xy":
        order[:2] = reversed(order[:2])
    lines = [
        expand_dims(x, tuple(a for a in range(len(xs)) if a != order[i]))
        if len(xs) > 1
        else x
        for i, x in enumerate(xs)
    ]
    shape = [dim(xs[i], axis=0) for i in order]
    return tuple(broadcast_to(line, shape) for line in lines)


@meshgrid.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        a, b, c = (arange_of_shape(n, dtype=dtype) for n in (2, 3, 4))
        for indexing in ("xy", "ij"):
            dims = (3, 2, 4) if indexing == "xy" else (2, 3, 4)
            first = 1 if indexing == "xy" else 0
            grids = [np.zeros(dims, dtype) for _ in range(3)]
            for at in np.ndindex(dims):
                for grid, x, axis in zip(grids, (a, b, c), (first, 1 - first, 2),
                                         strict=True):  # fmt: skip
                    grid[at] = x[at[axis]]
            yield Sample((a, b, c), grids, {"indexing": indexing})
        yield Sample((a,), [a])
    empty = np.zeros(0)
    yield Sample((empty, empty), [np.zeros((0, 0))] * 2, smooth=False)


@composite
def take(
    x: Array, indices: Index, *, axis: int | None = None, mode: str = "clip",
    fill: float = 0.0,
) -> Array:  # fmt: skip
    """Slices of x at indices, with out-of-range indices clipped, wrapped or filled"""
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    at, length = as_int64(indices), as_int64(x.shape[axis])
    last = subtract(length, 1)
    inside = in_range(at, np.asarray(0), last)
    if mode == "wrap":
        at = remainder(at, length)
    elif mode in ("clip", "fill"):
        at = minimum(maximum(at, np.asarray(0)), last)
    else:
        raise InvalidTypeError("unknown mode", expected="clip, wrap, fill", got=mode)
    y = gather(x, at, axis)
    if mode != "fill":
        return y
    rest = tuple(range(at.ndim, at.ndim + x.ndim - axis % x.ndim - 1))
    seen = expand_dims(inside, rest) if rest else inside
    return where_(seen, y, scalar_like(fill, x))


@take.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = arange_of_shape(3, 4, dtype=dtype)
        at = array([[1, 7], [-2, 3]], "int64")
        for mode, axis in itertools.product(("clip", "wrap", "fill"), (0, 1, None)):
            parts = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
            n = len(parts)
            rows = []
            for p in at.reshape(-1).tolist():
                where = p % n if mode == "wrap" else min(max(p, 0), n - 1)
                outside = mode == "fill" and not 0 <= p < n
                rows.append(parts[where] * 0 + 9 if outside else parts[where])
            y = np.stack(rows).reshape(2, 2, *parts.shape[1:])
            y = y if axis != 1 else np.moveaxis(y, 2, 0)
            attrs = {"axis": axis, "mode": mode, "fill": 9}
            yield Sample((x, at), y, attrs)
    yield Sample((ramp(2, 3), np.zeros(0, "int32")), np.zeros((0, 3)), {"axis": 0},
                 smooth=False)  # fmt: skip
