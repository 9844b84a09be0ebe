"""Samples of data between its elements: on grids, in regions, under moving kernels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import (
    Floating,
    Host,
    Index,
    Other,
    Real,
    RealFloating,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import dims as dims_of
from amanda_std.ops._late import late
from amanda_std.ops.math.reduction import bound
from amanda_std.ops.nn.convolution import Pairs, explicit, steps
from amanda_std.ops.tensor.interpolation import (
    cubic_shares,
    is_between,
    own_dtype,
    parts_of,
    real,
    steps_to,
    whole,
)

# -- the common part -------------------------------------------------------------


def to_rows(x: Any) -> tuple[Any, list[Any]]:
    """NC* data as one row of channels for each place, and the spatial dims."""
    rank = x.ndim
    spatial = list(x.shape[2:])
    turned = late.transpose(x, perm=(0, *range(2, rank), 1))
    return late.reshape(turned, [-1, x.shape[1]]), spatial


def _reflected(p: Any, low: float, high: Any) -> Any:
    """Places beyond the ends, mirrored as often as it takes to be inside."""
    span = high - low
    safe = late.maximum(span, span * 0.0 + 1e-9)
    away = late.abs(p - low)
    rest = late.remainder(away, safe)
    odd = late.remainder(late.floor(away / safe), 2.0)
    inside = late.where(late.equal(odd, odd * 0.0), rest, span - rest) + low
    return late.where(late.greater(span, span * 0.0), inside, p * 0.0)


def _axis_taps(p: Any, mode: str, cubic: float) -> list[Any]:
    """The places around p along one axis, and their shares."""
    if mode == "nearest":
        return [(late.round(p), None)]
    low = late.floor(p)
    part = p - low
    if mode == "linear":
        return [(low, 1.0 - part), (low + 1.0, part)]
    if mode != "cubic":
        raise InvalidTypeError(
            "no such mode", expected="nearest, linear, cubic", got=mode
        )
    shares = cubic_shares(part, cubic)
    return [(low + float(i - 1), share) for i, share in enumerate(shares)]


def between(
    rows: Any, first: Any, spatial: list[Any], places: list[Any], *,
    mode: str = "linear", padding: str = "zeros", cubic: float = -0.75,
    corners: bool = True, join: Any = None,
) -> Any:  # fmt: skip
    """Rows blended from those around fractional places, one tensor for each axis.

    `first` is the row where the data of each place begins. What lies outside is zero,
    or read where `padding` says."""
    sizes = [_like(real(n), places[0]) for n in spatial]
    columns = []
    for p, n in zip(places, sizes, strict=True):
        taps = []
        inside = _brought_in(p, n, mode, padding, corners)
        for at, share in _axis_taps(inside, mode, cubic):
            if mode == "cubic":
                at = _brought_in(at, n, "tap", padding, corners)
            if padding == "zeros":
                seen = late.astype(is_between(at, at * 0.0, n - 1.0), dtype=_dtype(p))
                share = seen if share is None else late.multiply(share, seen)
            at = late.minimum(late.maximum(at, at * 0.0), n - 1.0)
            taps.append((whole(at), share))
        columns.append(taps)
    total = None
    for corner in itertools.product(*columns):
        row, share = first, None
        step: Any = None
        for (at, own), n in zip(corner, spatial, strict=True):
            step = at if step is None else late.add(late.multiply(step, n), at)
            if own is not None:
                share = own if share is None else late.multiply(share, own)
        seen = late.gather(rows, late.add(row, step), 0)
        if share is not None:
            seen = late.multiply(seen, late.expand_dims(share, (-1,)))
        total = seen if total is None else (join or late.add)(total, seen)
    return total


def _brought_in(p: Any, n: Any, mode: str, padding: str, corners: bool) -> Any:
    """A place outside, where the padding says to look; taps of cubes one by one."""
    if padding == "zeros" or (mode == "cubic" and padding in ("border", "reflection")):
        return p
    if padding == "border":
        return late.minimum(late.maximum(p, p * 0.0), n - 1.0)
    if padding != "reflection":
        raise InvalidTypeError(
            "no such padding", expected="zeros, border, reflection", got=padding
        )
    if corners:
        return _reflected(p, 0.0, n - 1.0)
    return _reflected(p, -0.5, n - 0.5)


def _dtype(x: Any) -> Any:
    return own_dtype(x)


def _like(number: Any, x: Any) -> Any:
    return late.astype(number, dtype=own_dtype(x))


# -- grids -------------------------------------------------------------------------


@composite
def grid_sample(
    x: RealFloating, grid: RealFloating, *, mode: str = "linear",
    padding: str = "zeros", align_corners: bool = False, cubic: float = -0.75,
) -> RealFloating:  # fmt: skip
    """NC* data at the places of a grid, from -1 to 1, the last axis first

    `align_corners`: whether -1 and 1 are the middles of the outer elements, and not
    their edges. Modes: nearest, linear, cubic; padding: zeros, border, reflection."""
    rows, spatial = to_rows(x)
    n = len(spatial)
    places = []
    for axis, size in enumerate(spatial):
        p = late.gather(grid, np.asarray(n - 1 - axis), -1)
        d = _like(real(size), x)
        if align_corners:
            places.append((p + 1.0) / 2.0 * (d - 1.0))
        else:
            places.append(((p + 1.0) * d - 1.0) / 2.0)
    y = between(rows, _starts(x, spatial, n + 1), spatial, places, mode=mode,
                padding=padding, cubic=cubic, corners=align_corners)  # fmt: skip
    return late.transpose(y, perm=(0, n + 1, *range(1, n + 1)))


def _starts(x: Any, spatial: list[Any], rank: int) -> Any:
    """The row where each element of the batch begins, along the first axis."""
    each: Any = 1
    for d in spatial:
        each = late.multiply(whole(each), whole(d))
    begin = late.multiply(late.arange(0, x.shape[0]), each)
    return late.expand_dims(begin, tuple(range(1, rank)))


@composite
def affine_grid(
    theta: RealFloating, size: Host, *, align_corners: bool = False
) -> RealFloating:
    """The places that affine maps [N, d, d + 1] send those of a grid of NC* size to"""
    told = isinstance(size, tuple | list)
    rank = len(size) - 2 if told else dims_of(theta)[1].__index__()
    spatial = parts_of(size, rank + 2)[2:]
    lines = []
    for axis, d in enumerate(spatial):
        length = real(d)
        i = steps_to(d)
        if align_corners:
            gaps = late.maximum(length - 1.0, 1.0)
            one = late.where(late.greater(length, 1.0), i * 2.0 / gaps - 1.0, i * 0.0)
        else:
            one = (i * 2.0 + 1.0) / length - 1.0
        rest = tuple(a for a in range(rank) if a != axis)
        lines.append(late.expand_dims(_like(one, theta), rest))
    found = []
    for row in range(rank):
        factors = late.gather(theta, np.asarray(row), 1)
        total = None
        for column in range(rank + 1):
            factor = late.gather(factors, np.asarray(column), 1)
            part = late.expand_dims(factor, tuple(range(1, rank + 1)))
            if column < rank:
                line = late.expand_dims(lines[rank - 1 - column], (0,))
                part = late.multiply(part, line)
            total = part if total is None else late.add(total, part)
        found.append(total)
    return late.stack(*found, axis=-1)


# -- regions -----------------------------------------------------------------------


@composite
def roi_align(
    x: RealFloating, rois: RealFloating, batch: Index, *, size: tuple[int, int],
    scale: float = 1.0, ratio: int = 0, mode: str = "avg", half_pixel: bool = True,
) -> RealFloating:  # fmt: skip
    """Regions (x1, y1, x2, y2) of NCHW data at one size, sampled inside each bin

    `ratio` samples along each axis of a bin; one for each element of a bin, where it
    is 0. Mode "max" takes the largest share that an element has in a sample, as ONNX
    has it."""
    if mode not in ("avg", "max"):
        raise InvalidTypeError("no such mode", expected="avg, max", got=mode)
    rows, spatial = to_rows(x)
    offset = 0.5 if half_pixel else 0.0
    ends = [late.gather(rois, np.asarray(i), 1) * scale - offset for i in range(4)]
    each = late.multiply(whole(spatial[0]), whole(spatial[1]))
    first = late.expand_dims(late.multiply(whole(batch), each), (1, 2, 3, 4))
    places: list[Any] = []
    near: Any = None
    there: Any = None
    count: Any = None
    for i, wide in ((0, (2, 4)), (1, (1, 3))):
        at, own, number = _bins(ends[1 - i], ends[3 - i], size[i], ratio, half_pixel)
        p, n = late.expand_dims(at, wide), _like(real(spatial[i]), x)
        near = _both(near, is_between(p, p * 0.0 - 1.0, n))
        there = _both(there, late.expand_dims(own, wide))
        places.append(late.minimum(late.maximum(p, p * 0.0), n - 1.0))
        count = number if count is None else late.multiply(count, number)
    join = late.add if mode == "avg" else late.maximum
    seen = between(rows, first, spatial, places, join=join)
    seen = late.where(late.expand_dims(near, (-1,)), seen, seen * 0.0)
    exists = late.expand_dims(there, (-1,))
    if mode == "avg":
        total = late.sum(late.where(exists, seen, seen * 0.0), (3, 4))
        y = late.divide(total, late.maximum(count, count * 0.0 + 1.0))
    else:
        found = late.max(late.where(exists, seen, seen * 0.0 - math.inf), (3, 4))
        none = late.equal(count, count * 0.0)
        y = late.where(none, found * 0.0, found)
    return late.transpose(y, perm=(0, 3, 1, 2))


def _both(a: Any, b: Any) -> Any:
    return b if a is None else late.logical_and(a, b)


def _bins(low: Any, high: Any, bins: int, ratio: int, exact: bool) -> tuple[Any, ...]:
    """Along an axis: [regions, bins, samples] places, which samples there are, and

    their number, [regions, 1, 1, 1]."""
    length = high - low
    if not exact:
        length = late.maximum(length, length * 0.0 + 1.0)
    step = late.expand_dims(length / float(bins), (1, 2))
    most: Any = ratio
    number = step * 0.0 + float(ratio)
    if ratio <= 0:
        number = late.maximum(late.ceil(step), step * 0.0)
        one = np.ones(1, own_dtype(low).numpy)
        most = whole(late.max(late.concat(late.reshape(number, [-1]), one)))
    i, k = (_like(steps_to(n), low) for n in (bins, most))
    start = late.add(
        late.expand_dims(low, (1, 2)),
        late.multiply(step, late.expand_dims(i, (0, 2))),
    )
    k = late.expand_dims(k, (0, 1))
    share = late.divide(k + 0.5, late.maximum(number, number * 0.0 + 1.0))
    places = late.add(start, late.multiply(step, share))
    return places, late.less(k, number), late.expand_dims(number, (3,))


@composite
def roi_pool(
    x: Real, rois: Other, batch: Index, *, size: tuple[int, int], scale: float = 1.0
) -> Real:
    """The largest of each bin of regions (x1, y1, x2, y2) of NCHW data"""
    y = late.gather(x, batch, 0)
    for i in (0, 1):
        low, high = (
            late.floor(late.gather(rois, np.asarray(j), 1) * scale + 0.5)
            for j in (1 - i, 3 - i)
        )
        y = _largest_of_bins(y, low, high, size[i], 2 + i)
    return y


def _largest_of_bins(y: Any, low: Any, high: Any, bins: int, axis: int) -> Any:
    """The largest along an axis between the ends of each bin; 0 where it is empty."""
    n = _like(real(y.shape[axis]), low)
    at = _like(steps_to(y.shape[axis]), low)
    one = low * 0.0 + 1.0
    step = late.maximum(high - low + 1.0, one) / float(bins)
    least = np.asarray(bound(own_dtype(y).numpy, True), own_dtype(y).numpy)
    found = []
    for i in range(bins):
        start = late.maximum(late.floor(step * float(i)) + low, low * 0.0)
        end = late.minimum(late.ceil(step * float(i + 1)) + low, n)
        inside = late.logical_and(
            late.greater_equal(at, late.expand_dims(start, (1,))),
            late.less(at, late.expand_dims(end, (1,))),
        )
        seen = late.max(late.where(_lying(inside, axis, y.ndim), y, least), (axis,))
        some = late.any(inside, (1,))
        rest = late.expand_dims(some, tuple(range(1, y.ndim - 1)))
        found.append(late.where(rest, seen, late.zeros_like(seen)))
    return late.stack(*found, axis=axis)


def _lying(mask: Any, axis: int, rank: int) -> Any:
    """[regions, places] as a tensor along the first axis and one other."""
    return late.expand_dims(mask, tuple(a for a in range(rank) if a not in (0, axis)))


# -- kernels that move ---------------------------------------------------------------


@composite
def deform_conv(
    x: Floating, w: Floating, offset: Floating, b: Floating | None = None,
    mask: Floating | None = None, *, strides: tuple[int, ...] | None = None,
    padding: Pairs | None = None, dilations: tuple[int, ...] | None = None,
    groups: int = 1, offset_groups: int = 1, window: tuple[int, ...] | None = None,
) -> Floating:  # fmt: skip
    """A convolution of NC* data whose kernel reads at places moved by offsets

    `offset` is [batch, offset groups * kernel * axes, *places]; `mask` weighs what is
    read, [batch, offset groups * kernel, *places]. `window`: the kernel's dims, where
    its type does not tell them."""
    n = x.ndim - 2
    kernel = [k.__index__() for k in window or dims_of(w)[2:]]
    many = math.prod(kernel)
    s, d = steps(strides, n), steps(dilations, n)
    pads = explicit(padding, x.shape[2:], kernel, s, d)
    batch, channels, *_ = x.shape
    places = offset.shape[2:]
    share = channels // offset_groups
    parted = late.reshape(x, [-1, share, *x.shape[2:]])  # offset groups to the batch
    rows, spatial = to_rows(parted)
    moved = late.reshape(offset, [-1, many, n, *places])
    found = []
    for axis in range(n):
        start = _like(steps_to(places[axis]) * float(s[axis]) - pads[axis][0], x)
        inner = np.arange(kernel[axis]) * d[axis]
        wide = inner.reshape([-1 if a == axis else 1 for a in range(n)])
        inner = np.broadcast_to(wide, kernel).reshape([many, *[1] * n])
        rest = tuple(a for a in range(n + 1) if a != axis + 1)
        at = late.add(late.expand_dims(start, rest),
                      inner.astype(own_dtype(x).numpy))  # fmt: skip
        found.append(late.add(late.gather(moved, np.asarray(axis), 2), at))
    seen = between(rows, _starts(parted, spatial, n + 2), spatial, found)
    if mask is not None:
        weight = late.reshape(mask, [-1, many, *places])
        seen = late.multiply(seen, late.expand_dims(weight, (-1,)))
    # [batch * offset groups, kernel, *places, channels] -> columns of a product
    turned = late.transpose(seen, perm=(0, n + 2, 1, *range(2, n + 2)))
    out = w.shape[0]
    inside = w.shape[1] * many
    columns = late.reshape(turned, [batch, groups, inside, math.prod(places)])
    y = late.matmul(late.reshape(w, [groups, out // groups, inside]), columns)
    y = late.reshape(y, [batch, out, *places])
    return y if b is None else late.add(y, late.reshape(b, [-1, *[1] * n]))


# -- samples: loops over numbers -----------------------------------------------------


def _slow_inside(p: float, low: float, high: float) -> float:
    if high <= low:
        return 0.0
    while not low <= p <= high:
        p = 2 * low - p if p < low else 2 * high - p
    return p


def _slow_place(p: float, n: int, padding: str, corners: bool) -> float:
    if padding == "border":
        return min(max(p, 0.0), n - 1.0)
    if padding == "reflection":
        low = 0.0 if corners else -0.5
        return min(max(_slow_inside(p, low, n - 1 - low), 0.0), n - 1.0)
    return p


def _slow_weights(p: float, mode: str) -> dict[int, float]:
    if mode == "nearest":
        return {round(p): 1.0}
    low = math.floor(p)
    t = p - low
    if mode == "linear":
        return {low: 1 - t, low + 1: t}
    a, near, far = -0.75, [t, 1 - t], [1 + t, 2 - t]
    inner = [(a + 2) * d**3 - (a + 3) * d**2 + 1 for d in near]
    outer = [a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a for d in far]
    return {low - 1: outer[0], low: inner[0], low + 1: inner[1], low + 2: outer[1]}


def _slow_read(plane: Any, at: list[float], mode: str = "linear",
               padding: str = "zeros", corners: bool = True) -> float:  # fmt: skip
    """A plane of numbers at a fractional place."""
    if mode != "cubic":
        at = [
            _slow_place(p, n, padding, corners)
            for p, n in zip(at, plane.shape, strict=True)
        ]
    total = 0.0
    for taps in itertools.product(*(_slow_weights(p, mode).items() for p in at)):
        weight = math.prod(w for _, w in taps)
        where = [float(i) for i, _ in taps]
        if padding != "zeros":
            where = [
                _slow_place(p, n, padding, corners)
                for p, n in zip(where, plane.shape, strict=True)
            ]
        if all(0 <= p < n for p, n in zip(where, plane.shape, strict=True)):
            total += weight * float(plane[tuple(int(p) for p in where)])
    return total


def _slow_grid(x: Any, grid: Any, mode: str, padding: str, corners: bool) -> Any:
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for i, c, *at in np.ndindex(y.shape):
        unit = [float(v) for v in grid[(i, *at)]][::-1]
        sizes = x.shape[2:]
        places = [
            (u + 1) / 2 * (n - 1) if corners else ((u + 1) * n - 1) / 2
            for u, n in zip(unit, sizes, strict=True)
        ]
        y[(i, c, *at)] = _slow_read(x[i, c], places, mode, padding, corners)
    return y.astype(x.dtype)


_PLACES = [[-1.3, -0.77], [-0.41, 0.13], [0.52, 0.94], [1.21, -1.9], [0.05, 2.6],
           [0.33, -0.21]]  # fmt: skip


@grid_sample.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 2, 3, 4, dtype=dtype)
        grid = array([_PLACES[:3], _PLACES[3:]], dtype).reshape(2, 3, 1, 2)
        for mode in ("nearest", "linear", "cubic"):
            for padding in ("zeros", "border", "reflection"):
                for corners in (False, True):
                    attrs = {"mode": mode, "padding": padding, "align_corners": corners}
                    y = _slow_grid(x, grid, mode, padding, corners)
                    yield Sample((x, grid), y, attrs)
    x = ramp(1, 1, 2, 3, 2)
    deep = array([[-0.9, 0.2, 0.4], [0.3, 1.4, -0.6]]).reshape(1, 1, 2, 1, 3)
    for mode in ("nearest", "linear"):
        y = _slow_grid(x, deep, mode, "border", False)
        yield Sample((x, deep), y, {"mode": mode, "padding": "border"})
    y = _slow_grid(x, deep, "linear", "zeros", False)
    yield Sample((x, deep), y)
    none = np.zeros((0, 1, 2, 2))
    yield Sample((ramp(0, 1, 2, 2), none), np.zeros((0, 1, 1, 2)), smooth=False)


@affine_grid.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for rank, size in ((2, (2, 1, 2, 3)), (3, (1, 2, 3, 1, 2))):
            for corners in (False, True):
                theta = ramp(size[0], rank, rank + 1, dtype=dtype)
                y = np.zeros((size[0], *size[2:], rank))
                for i, *at, row in np.ndindex(y.shape):
                    unit = [
                        (2 * p / (n - 1) - 1 if n > 1 else 0.0)
                        if corners
                        else (2 * p + 1) / n - 1
                        for p, n in zip(at, size[2:], strict=True)
                    ]
                    line = [float(v) for v in theta[i, row]]
                    terms = zip(line, [*unit[::-1], 1.0], strict=True)
                    y[(i, *at, row)] = math.fsum(a * b for a, b in terms)
                attrs = {"align_corners": corners}
                yield Sample((theta, size), y.astype(dtype), attrs)
    yield Sample((ramp(0, 2, 3), (0, 1, 2, 2)), np.zeros((0, 2, 2, 2)), smooth=False)


def _slow_align(x: Any, rois: Any, batch: Any, size: Any, scale: float, ratio: int,
                mode: str, half: bool) -> Any:  # fmt: skip
    y = np.zeros((len(rois), x.shape[1], *size))
    for r, c, i, j in np.ndindex(y.shape):
        ends = [float(v) * scale - (0.5 if half else 0.0) for v in rois[r]]
        numbers, spans = [], []
        for axis, at in ((0, i), (1, j)):
            length = ends[3 - axis] - ends[1 - axis]
            length = length if half else max(length, 1.0)
            step = length / size[axis]
            count = ratio if ratio > 0 else math.ceil(step)
            start = ends[1 - axis] + at * step
            spans.append([start + (k + 0.5) * step / count for k in range(count)])
        for p in itertools.product(*spans):
            sizes = x.shape[2:]
            if not all(-1 <= v <= n for v, n in zip(p, sizes, strict=True)):
                numbers.append(0.0)
                continue
            at_ = [min(max(v, 0), n - 1) for v, n in zip(p, sizes, strict=True)]
            taps = itertools.product(*(_slow_weights(v, "linear").items() for v in at_))
            parts = [
                math.prod(w for _, w in tap)
                * float(x[(batch[r], c, *(min(k, n - 1) for (k, _), n in
                                          zip(tap, sizes, strict=True)))])
                for tap in taps
            ]  # fmt: skip
            numbers.append(max(parts) if mode == "max" else sum(parts))
        fold = max(numbers) if mode == "max" else sum(numbers) / len(numbers)
        y[r, c, i, j] = fold
    return y.astype(x.dtype)


@roi_align.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 2, 5, 6, dtype=dtype, start=0.2)
        rois = array([[0.3, 0.4, 5.1, 4.2], [-2.2, 1.1, 2.6, 8.3], [1, 1, 1.4, 1.3]],
                     dtype)  # fmt: skip
        batch = array([1, 0, 1], "int64")
        for mode in ("avg", "max"):
            for half in (True, False):
                for ratio in (2, 0):
                    y = _slow_align(x, rois, batch, (2, 3), 0.9, ratio, mode, half)
                    attrs = {"size": (2, 3), "scale": 0.9, "ratio": ratio,
                             "mode": mode, "half_pixel": half}  # fmt: skip
                    yield Sample((x, rois, batch), y, attrs, smooth=ratio > 0)
    none = np.zeros((0, 4)), np.zeros(0, "int64")
    x = ramp(1, 2, 3, 3)
    yield Sample((x, *none), np.zeros((0, 2, 1, 2)), {"size": (1, 2)}, smooth=False)


@roi_pool.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 2, 5, 6, dtype=dtype)
        rois = array([[0, 1, 4, 3], [1, 0, 9, 5], [7, 1, 9, 4]], "float32")
        batch = array([1, 0, 1], "int64")
        y = np.zeros((3, 2, 2, 3))
        for r, c, i, j in np.ndindex(y.shape):
            x1, y1, x2, y2 = (math.floor(float(v) * 0.8 + 0.5) for v in rois[r])
            spans = []
            for low, high, at, bins, n in ((y1, y2, i, 2, 5), (x1, x2, j, 3, 6)):
                step = max(high - low + 1, 1) / bins
                start = max(low + math.floor(at * step), 0)
                spans.append(range(start, min(low + math.ceil((at + 1) * step), n)))
            seen = [float(x[batch[r], c, a, b]) for a in spans[0] for b in spans[1]]
            y[r, c, i, j] = max(seen, default=0.0)
        attrs = {"size": (2, 3), "scale": 0.8}
        yield Sample((x, rois, batch), y.astype(dtype), attrs)
    none = np.zeros((0, 4), "float32"), np.zeros(0, "int64")
    yield Sample((x, *none), np.zeros((0, 2, 1, 1), "float32"), {"size": (1, 1)})


def _slow_deformed(x: Any, w: Any, offset: Any, b: Any, mask: Any, s: Any, pads: Any,
                   d: Any, groups: int, parts: int) -> Any:  # fmt: skip
    batch, channels = x.shape[:2]
    out, inner, *kernel = w.shape
    places = offset.shape[2:]
    moved = offset.reshape(batch, parts, *kernel, len(kernel), *places)
    weights = np.ones((batch, parts, *kernel, *places)) if mask is None else (
        mask.reshape(batch, parts, *kernel, *places))  # fmt: skip
    y = np.zeros((batch, out, *places))
    for i, o, *at in np.ndindex(y.shape):
        total = 0.0 if b is None else float(b[o])
        for k, *tap in np.ndindex(inner, *kernel):
            c = o // (out // groups) * inner + k
            part = c // (channels // parts)
            where = [
                at[a] * s[a] - pads[a][0] + tap[a] * d[a]
                + float(moved[(i, part, *tap, a, *at)])
                for a in range(len(kernel))
            ]  # fmt: skip
            seen = _slow_read(x[i, c], where)
            total += seen * float(w[(o, k, *tap)]) * float(
                weights[(i, part, *tap, *at)])  # fmt: skip
        y[(i, o, *at)] = total
    return y.astype(x.dtype)


@deform_conv.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, w = ramp(2, 2, 4, 3, dtype=dtype), ramp(2, 2, 2, 2, dtype=dtype)
        offset = ramp(2, 8, 3, 2, dtype=dtype) % 1.7 - 0.6
        offset = offset.astype(dtype)
        y = _slow_deformed(
            x, w, offset, None, None, (1, 1), ((0, 0),) * 2, (1, 1), 1, 1
        )
        yield Sample((x, w, offset), y, {"window": (2, 2)})
    w, b = ramp(4, 1, 2, 2), ramp(4)
    s, pads, d = (2, 1), ((1, 0), (1, 1)), (1, 2)
    offset, mask = ramp(2, 16, 2, 3) % 1.31 - 0.4137, ramp(2, 8, 2, 3)
    y = _slow_deformed(x.astype("float64"), w, offset, b, mask, s, pads, d, 2, 2)
    attrs = {"strides": s, "padding": pads, "dilations": d, "groups": 2,
             "offset_groups": 2, "window": (2, 2)}  # fmt: skip
    yield Sample((x.astype("float64"), w, offset, b, mask), y, attrs)
    x, w, offset = ramp(0, 2, 4, 3), ramp(2, 2, 2, 2), ramp(0, 8, 3, 2)
    yield Sample((x, w, offset), np.zeros((0, 2, 3, 2)), smooth=False)
