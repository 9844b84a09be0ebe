"""Parts at computed places: cut out, put back, turned around, repeated."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import Array, Host, Index
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, counting, ramp
from amanda_std.ops._late import late
from amanda_std.ops.tensor.creation import number
from amanda_std.ops.tensor.interpolation import along, is_between, parts_of, whole


def _begin(starts: Any, i: int, size: Any, length: Any) -> Any:
    """A start as JAX has it: from the end where negative, moved to fit."""
    start, room = whole(late.gather(starts, np.asarray(i))), whole(length)
    start = late.where(late.less(start, 0), late.add(start, room), start)
    most = late.subtract(room, whole(size))
    return late.minimum(late.maximum(start, np.asarray(0)), most)


def _steps(start: Any, size: Any) -> Any:
    return late.add(late.arange(0, size), start)


@composite
def dynamic_slice(x: Array, starts: Index, sizes: Host) -> Array:
    """A part of a size at a computed place, which is moved to lie inside x"""
    for i, size in enumerate(parts_of(sizes, x.ndim)):
        if isinstance(size, int) and isinstance(x.shape[i], int) and size == x.shape[i]:
            continue
        x = late.gather(x, _steps(_begin(starts, i, size, x.shape[i]), size), i)
    return x


@composite
def dynamic_update_slice(x: Array, update: Array, starts: Index) -> Array:
    """x with a part replaced at a computed place, which is moved to lie inside x"""
    rank = x.ndim
    if not rank:
        return late.identity(update)
    flat: Any = None
    for i in range(rank):
        size, length = update.shape[i], x.shape[i]
        at = _steps(_begin(starts, i, size, length), size)
        at = along(at, i, rank)
        flat = at if flat is None else late.add(late.multiply(flat, whole(length)), at)
    rows = late.expand_dims(late.reshape(flat, [-1]), (1,))
    line = late.scatter_nd(late.reshape(x, [-1]), rows, late.reshape(update, [-1]))
    return late.reshape(line, list(x.shape))


def _slow_begin(starts: Any, sizes: Any, dims: Any) -> list[int]:
    found = []
    for start, size, n in zip(starts.tolist(), sizes, dims, strict=True):
        start = start + n if start < 0 else start
        found.append(min(max(start, 0), n - size))
    return found


_STARTS = ([1, 2], [-1, 0], [5, 1], [-9, -2])


@dynamic_slice.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = counting(3, 5, dtype=dtype)
        for numbers in _STARTS:
            starts = array(numbers, "int64")
            for sizes in ((2, 3), (3, 2)):
                at = _slow_begin(starts, sizes, (3, 5))
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
        x, update = counting(3, 5, dtype=dtype), counting(2, 3, dtype=dtype, start=50)
        for numbers in _STARTS:
            starts = array(numbers, "int64")
            at = _slow_begin(starts, (2, 3), (3, 5))
            y = x.copy()
            for i, j in np.ndindex(2, 3):
                y[at[0] + i, at[1] + j] = update[i, j]
            yield Sample((x, update, starts), y)
    yield Sample((array(3.0), array(4.0), np.zeros(0, "int32")), array(4.0))
    none = np.zeros((0, 2)), array([1, 1], "int32")
    yield Sample((ramp(2, 3), *none), ramp(2, 3), smooth=False)


# -- caches ------------------------------------------------------------------------


@composite
def tensor_scatter(
    cache: Array, update: Array, at: Index = None, *, axis: int = -2,
    circular: bool = False,
) -> Array:  # fmt: skip
    """A cache with the parts of an axis replaced from a place on, of each batch

    `circular`: what goes beyond the end goes on at the start."""
    rank = cache.ndim
    axis = axis % rank
    batch, length = cache.shape[0], cache.shape[axis]
    steps = late.expand_dims(late.arange(0, update.shape[axis]), (0,))
    if at is not None:
        steps = late.add(steps, late.expand_dims(whole(at), (1,)))
    if circular:
        steps = late.remainder(steps, whole(length))
    rows = late.expand_dims(late.arange(0, batch), (1,))
    rows = late.add(rows, late.multiply(steps, np.asarray(0)))
    steps = late.add(steps, late.multiply(rows, np.asarray(0)))
    order = (0, axis, *(i for i in range(1, rank) if i != axis))
    back = tuple(int(i) for i in np.argsort(order))
    turned = late.scatter_nd(
        late.transpose(cache, perm=order),
        late.stack(rows, steps, axis=-1),
        late.transpose(update, perm=order),
    )
    return late.transpose(turned, perm=back)


@tensor_scatter.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int8"):
        cache = counting(2, 2, 4, 1, dtype=dtype)
        update = counting(2, 2, 3, 1, dtype=dtype, start=50)
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


# -- orders ------------------------------------------------------------------------


@composite
def reverse_sequence(
    x: Array, lengths: Index, *, time_axis: int = 0, batch_axis: int = 1
) -> Array:
    """x with the first places of an axis in reverse order, so many as each batch has"""
    rank = x.ndim
    time, batch = time_axis % rank, batch_axis % rank
    steps = late.arange(0, x.shape[time])
    t = late.expand_dims(steps, tuple(a for a in range(rank) if a != time))
    n = late.expand_dims(whole(lengths), tuple(a for a in range(rank) if a != batch))
    turned = late.subtract(late.subtract(n, 1), t)
    at = late.where(late.less(t, n), turned, t)
    return late.gather_elements(x, late.broadcast_like(at, x), axis=time)


@reverse_sequence.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = counting(4, 3, 2, dtype=dtype)
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
    """The elements moved on along axes, the last ones to the start; of all, if none"""
    if axes is None:
        line = roll(late.reshape(x, [-1]), late.reshape(shifts, [1]), axes=(0,))
        return late.reshape(line, list(x.shape))
    for i, axis in enumerate(axes):
        length = whole(x.shape[axis])
        steps = late.arange(0, x.shape[axis])
        by = whole(late.gather(shifts, np.asarray(i)))
        at = late.remainder(late.subtract(steps, by), length)
        x = late.gather(x, at, axis)
    return x


@roll.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = counting(3, 4, dtype=dtype)
        for axes, shifts in (((0,), [1]), ((-1,), [-3]), ((0, 1), [5, 2]),
                             ((1, 1), [1, 2])):  # fmt: skip
            y = x
            for axis, by in zip(axes, shifts, strict=True):
                n = x.shape[axis]
                places = [(i - by) % n for i in range(n)]
                y = np.stack([np.moveaxis(y, axis, 0)[p] for p in places])
                y = np.moveaxis(y, 0, axis)
            yield Sample((x, array(shifts, "int64")), y, {"axes": axes})
        line = x.reshape(-1).tolist()
        y = array(line[-5:] + line[:-5], dtype).reshape(3, 4)
        yield Sample((x, array(5, "int32")), y)
    yield Sample((ramp(0, 2), array([1], "int64")), ramp(0, 2), {"axes": (1,)},
                 smooth=False)  # fmt: skip


@composite
def repeat(x: Array, repeats: Host, *, axis: int | None = None) -> Array:
    """Each element of an axis several times: one number for all, or one for each"""
    if axis is None:
        x, axis = late.reshape(x, [-1]), 0
    if isinstance(repeats, int) or not _is_list(repeats):
        at = late.arange(0, late.multiply(whole(x.shape[axis]), whole(repeats)))
        return late.gather(x, late.floor_divide(at, whole(repeats)), axis)
    ends = late.cumulative_sum(_stacked(repeats), 0)
    total = late.sum(_stacked(repeats))
    at = late.searchsorted(ends, late.arange(0, total), right=True)
    return late.gather(x, at, axis)


def _is_list(repeats: Any) -> bool:
    return isinstance(repeats, tuple | list) or getattr(repeats, "ndim", 0) > 0


def _stacked(numbers: Any) -> Any:
    if not isinstance(numbers, tuple | list):
        return whole(numbers)
    if all(isinstance(n, int) for n in numbers):
        return np.asarray(numbers, "int64")
    return late.stack(*map(whole, numbers))


@repeat.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = counting(2, 3, dtype=dtype)
        for times in (1, 3):
            y = array([[v for v in row for _ in range(times)] for row in x], dtype)
            yield Sample((x, times), y, {"axis": -1})
        line = [v for v in x.reshape(-1).tolist() for _ in range(2)]
        yield Sample((x, (2,) * 6), array(line, dtype))
        yield Sample((x, (2, 0, 1)), x[:, [0, 0, 2]], {"axis": 1}, smooth=False)
    yield Sample((x, 0), np.zeros((0, 3), "int32"), {"axis": 0})


# -- taken as told -----------------------------------------------------------------


@composite
def take(
    x: Array, indices: Index, *, axis: int | None = None, mode: str = "clip",
    fill: float = 0.0,
) -> Array:  # fmt: skip
    """The parts of x at places; those beyond the ends clipped, wrapped or filled"""
    if axis is None:
        x, axis = late.reshape(x, [-1]), 0
    at, length = whole(indices), whole(x.shape[axis])
    last = late.subtract(length, 1)
    inside = is_between(at, np.asarray(0), last)
    if mode == "wrap":
        at = late.remainder(at, length)
    elif mode in ("clip", "fill"):
        at = late.minimum(late.maximum(at, np.asarray(0)), last)
    else:
        raise InvalidTypeError("no such mode", expected="clip, wrap, fill", got=mode)
    y = late.gather(x, at, axis)
    if mode != "fill":
        return y
    rest = tuple(range(at.ndim, at.ndim + x.ndim - axis % x.ndim - 1))
    seen = late.expand_dims(inside, rest) if rest else inside
    return late.where(seen, y, number(fill, x))


@take.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = counting(3, 4, dtype=dtype)
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


@composite
def meshgrid(*xs: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid: each vector along an axis of its own, and repeated

    "xy": the first vector lies along the second axis, the second along the first."""
    if indexing not in ("xy", "ij"):
        raise InvalidTypeError("no such indexing", expected="xy, ij", got=indexing)
    order = list(range(len(xs)))
    if indexing == "xy":
        order[:2] = reversed(order[:2])
    lines = [
        late.expand_dims(x, tuple(a for a in range(len(xs)) if a != order[i]))
        if len(xs) > 1
        else x
        for i, x in enumerate(xs)
    ]
    shape = [late.dim(xs[i], axis=0) for i in order]
    return tuple(late.broadcast_to(line, shape) for line in lines)


@meshgrid.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        a, b, c = (counting(n, dtype=dtype) for n in (2, 3, 4))
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
    none = np.zeros(0)
    yield Sample((none, none), [np.zeros((0, 0))] * 2, smooth=False)
