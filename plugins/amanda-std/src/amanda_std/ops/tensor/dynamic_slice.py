"""Slices at computed positions: dynamic slice, update and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std.engine.annotations import Array, Index, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.ops.math.arithmetic import (
    add,
    identity,
    maximum,
    minimum,
    multiply,
    remainder,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import less
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.index_arithmetic import (
    align_to_axis,
    as_int64,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import stack
from amanda_std.ops.tensor.scatter import scatter_nd
from amanda_std.ops.tensor.shape import expand_dims, reshape, transpose


def _clamp_start(starts: Any, i: int, size: Any, length: Any) -> Any:
    """Start index as in JAX: negative from the end, clamped so that the slice fits."""
    start, room = as_int64(gather(starts, np.asarray(i))), as_int64(length)
    start = where(less(start, 0), add(start, room), start)
    most = subtract(room, as_int64(size))
    return minimum(maximum(start, np.asarray(0)), most)


def _index_range(start: Any, size: Any) -> Any:
    return add(arange(0, size), start)


@composite
def dynamic_slice(x: Array, starts: Index, sizes: ShapeArg) -> Array:
    """Slice of a fixed size at a computed start, clamped to lie inside x"""
    for i, size in enumerate(unpack_shape_argument(sizes, x.ndim)):
        if isinstance(size, int) and isinstance(x.shape[i], int) and size == x.shape[i]:
            continue
        x = gather(x, _index_range(_clamp_start(starts, i, size, x.shape[i]), size), i)
    return x


@composite
def dynamic_update_slice(x: Array, update: Array, starts: Index) -> Array:
    """x with a slice replaced at a computed start, clamped to lie inside x"""
    rank = x.ndim
    if not rank:
        return identity(update)
    flat: Any = None
    for i in range(rank):
        size, length = update.shape[i], x.shape[i]
        at = _index_range(_clamp_start(starts, i, size, length), size)
        at = align_to_axis(at, i, rank)
        flat = at if flat is None else add(multiply(flat, as_int64(length)), at)
    rows = expand_dims(reshape(flat, [-1]), (1,))
    line = scatter_nd(reshape(x, [-1]), rows, reshape(update, [-1]))
    return reshape(line, list(x.shape))


def _clamp_starts_by_loop(starts: Any, sizes: Any, dims: Any) -> list[int]:
    result = []
    for start, size, n in zip(starts.tolist(), sizes, dims, strict=True):
        start = start + n if start < 0 else start
        result.append(min(max(start, 0), n - size))
    return result


_STARTS = ([1, 2], [-1, 0], [5, 1], [-9, -2])


@dynamic_slice.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = arange_of_shape(3, 5, dtype=dtype)
        for numbers in _STARTS:
            starts = array(numbers, "int64")
            for sizes in ((2, 3), (3, 2)):
                at = _clamp_starts_by_loop(starts, sizes, (3, 5))
                y = np.zeros(sizes, dtype)
                for i, j in np.ndindex(*sizes):
                    y[i, j] = x[at[0] + i, at[1] + j]
                yield Sample((x, starts, sizes), y)
    yield Sample((array(3.0), np.zeros(0, "int32"), ()), array(3.0))
    yield Sample((ramp(2, 3), array([1, 1], "int32"), (0, 2)), np.zeros((0, 2)),
                 smooth=False)  # fmt: skip


@dynamic_update_slice.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x, update = (
            arange_of_shape(3, 5, dtype=dtype),
            arange_of_shape(2, 3, dtype=dtype, start=50),
        )
        for numbers in _STARTS:
            starts = array(numbers, "int64")
            at = _clamp_starts_by_loop(starts, (2, 3), (3, 5))
            y = x.copy()
            for i, j in np.ndindex(2, 3):
                y[at[0] + i, at[1] + j] = update[i, j]
            yield Sample((x, update, starts), y)
    yield Sample((array(3.0), array(4.0), np.zeros(0, "int32")), array(4.0))
    empty = np.zeros((0, 2)), array([1, 1], "int32")
    yield Sample((ramp(2, 3), *empty), ramp(2, 3), smooth=False)


@composite
def tensor_scatter(
    cache: Array, update: Array, at: Index = None, *, axis: int = -2,
    circular: bool = False,
) -> Array:  # fmt: skip
    """Write updates into a cache along an axis, from a computed position for each batch

    `circular`: positions beyond the end wrap around."""
    rank = cache.ndim
    axis = axis % rank
    batch, length = cache.shape[0], cache.shape[axis]
    steps = expand_dims(arange(0, update.shape[axis]), (0,))
    if at is not None:
        steps = add(steps, expand_dims(as_int64(at), (1,)))
    if circular:
        steps = remainder(steps, as_int64(length))
    rows = expand_dims(arange(0, batch), (1,))
    rows = add(rows, multiply(steps, np.asarray(0)))
    steps = add(steps, multiply(rows, np.asarray(0)))
    order = (0, axis, *(i for i in range(1, rank) if i != axis))
    back = tuple(int(i) for i in np.argsort(order))
    transposed = scatter_nd(
        transpose(cache, perm=order),
        stack(rows, steps, axis=-1),
        transpose(update, perm=order),
    )
    return transpose(transposed, perm=back)


@tensor_scatter.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int8"):
        cache = arange_of_shape(2, 2, 4, 1, dtype=dtype)
        update = arange_of_shape(2, 2, 3, 1, dtype=dtype, start=50)
        for circular, numbers in ((False, [1, 0]), (True, [2, 3])):
            at = array(numbers, "int64")
            y = cache.copy()
            for b, h, s in np.ndindex(2, 2, 3):
                y[b, h, (at[b] + s) % 4] = update[b, h, s]
            yield Sample((cache, update, at), y, {"circular": circular})
        y = cache.copy()
        y[:, :, :3] = update
        yield Sample((cache, update), y)
        y = np.moveaxis(y, 2, 1)
        args = np.moveaxis(cache, 2, 1), np.moveaxis(update, 2, 1)
        yield Sample(args, y, {"axis": 1})
    yield Sample((ramp(0, 2, 1), ramp(0, 1, 1)), ramp(0, 2, 1), smooth=False)
