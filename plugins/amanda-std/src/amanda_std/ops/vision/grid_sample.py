"""Grid sampling: of images at computed positions, and affine grids."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import RealFloating, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import add, maximum, minimum, multiply, remainder
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.math.comparison import equal, greater
from amanda_std.ops.math.elementary import floor
from amanda_std.ops.math.elementary import round as round_
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.index_arithmetic import (
    as_float64,
    as_int64,
    cubic_weights,
    dtype_of,
    float_range,
    in_range,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import stack
from amanda_std.ops.tensor.shape import astype, expand_dims, reshape, transpose


def flatten_positions(x: Any) -> tuple[Any, list[Any]]:
    """NC* data as one row of channels per position, and the spatial dims."""
    rank = x.ndim
    spatial = list(x.shape[2:])
    transposed = transpose(x, perm=(0, *range(2, rank), 1))
    return reshape(transposed, [-1, x.shape[1]]), spatial


def _reflect(p: Any, low: float, high: Any) -> Any:
    """Reflect positions beyond the ends until they are inside."""
    span = high - low
    safe = maximum(span, 1e-9)
    away = abs_(p - low)
    rest = remainder(away, safe)
    odd = remainder(floor(away / safe), 2.0)
    inside = where_(equal(odd, 0.0), rest, span - rest) + low
    return where_(greater(span, 0.0), inside, 0.0)


def _axis_taps(p: Any, mode: str, cubic: float) -> list[Any]:
    """Neighbors of p along one axis, and their interpolation weights."""
    if mode == "nearest":
        return [(round_(p), None)]
    low = floor(p)
    part = p - low
    if mode == "linear":
        return [(low, 1.0 - part), (low + 1.0, part)]
    if mode != "cubic":
        raise InvalidTypeError(
            "unknown mode", expected="nearest, linear, cubic", got=mode
        )
    weights = cubic_weights(part, cubic)
    return [(low + float(i - 1), weight) for i, weight in enumerate(weights)]


def interpolate_rows(
    rows: Any, first: Any, spatial: list[Any], positions: list[Any], *,
    mode: str = "linear", padding: str = "zeros", cubic: float = -0.75,
    corners: bool = True, join: Any = None,
) -> Any:  # fmt: skip
    """Interpolate rows at fractional positions, given by one tensor for each axis.

    `first` is the row where the data of each position starts. Outside is zero, or read
    as `padding` determines."""
    sizes = [cast_like(as_float64(n), positions[0]) for n in spatial]
    columns = []
    for p, n in zip(positions, sizes, strict=True):
        taps = []
        inside = _map_outside(p, n, mode, padding, corners)
        for at, weight in _axis_taps(inside, mode, cubic):
            if mode == "cubic":
                at = _map_outside(at, n, "tap", padding, corners)
            inner = in_range(at, 0.0, n - 1.0) if padding == "zeros" else None
            at = minimum(maximum(at, 0.0), n - 1.0)
            taps.append((as_int64(at), weight, inner))
        columns.append(taps)
    total = None
    for corner in itertools.product(*columns):
        factor: Any = None
        exists: Any = None
        step: Any = None
        for (at, own, inner), n in zip(corner, spatial, strict=True):
            step = at if step is None else add(multiply(step, n), at)
            if own is not None:
                factor = own if factor is None else multiply(factor, own)
            if inner is not None:
                exists = inner if exists is None else logical_and(exists, inner)
        seen = gather(rows, add(first, step), 0)
        if exists is not None:  # a product with 0 would be NaN for infinities
            seen = where_(expand_dims(exists, (-1,)), seen, 0.0)
        if factor is not None:
            seen = multiply(seen, expand_dims(factor, (-1,)))
        total = seen if total is None else (join or add)(total, seen)
    return total


def _map_outside(p: Any, n: Any, mode: str, padding: str, corners: bool) -> Any:
    """Map a position outside to where the padding mode reads; cubic taps one by one."""
    if padding == "zeros":  # 2 beyond the ends, all taps are outside
        return minimum(maximum(p, -3.0), n + 2.0)
    if mode == "cubic" and padding in ("border", "reflection"):
        return p
    if padding == "border":
        return minimum(maximum(p, 0.0), n - 1.0)
    if padding != "reflection":
        raise InvalidTypeError(
            "unknown padding", expected="zeros, border, reflection", got=padding
        )
    if corners:
        return _reflect(p, 0.0, n - 1.0)
    return _reflect(p, -0.5, n - 0.5)


def cast_like(number: Any, x: Any) -> Any:
    return astype(number, dtype=dtype_of(x))


@composite
def grid_sample(
    x: RealFloating, grid: RealFloating, *, mode: str = "linear",
    padding: str = "zeros", align_corners: bool = False, cubic: float = -0.75,
) -> RealFloating:  # fmt: skip
    """Sample NC* data at grid positions in [-1, 1], last axis first

    `align_corners`: -1 and 1 refer to the centers of the outer elements instead of
    their edges. Modes: nearest, linear, cubic; padding: zeros, border, reflection."""
    rows, spatial = flatten_positions(x)
    n = len(spatial)
    positions = []
    for axis, size in enumerate(spatial):
        p = gather(grid, np.asarray(n - 1 - axis), -1)
        d = cast_like(as_float64(size), x)
        if align_corners:
            positions.append((p + 1.0) / 2.0 * (d - 1.0))
        else:
            positions.append(((p + 1.0) * d - 1.0) / 2.0)
    y = interpolate_rows(rows, initial_offsets(x, spatial, n + 1), spatial, positions,
                mode=mode,
                padding=padding, cubic=cubic, corners=align_corners)  # fmt: skip
    return transpose(y, perm=(0, n + 1, *range(1, n + 1)))


def initial_offsets(x: Any, spatial: list[Any], rank: int) -> Any:
    """The row where each batch element starts, shaped along the first axis."""
    each: Any = 1
    for d in spatial:
        each = multiply(as_int64(each), as_int64(d))
    begin = multiply(arange(0, x.shape[0]), each)
    return expand_dims(begin, tuple(range(1, rank)))


@composite
def affine_grid(
    theta: RealFloating, size: ShapeArg, *, align_corners: bool = False
) -> RealFloating:
    """Sampling grid of affine maps [N, d, d + 1] for an NC* output size"""
    given = isinstance(size, tuple | list)
    rank = len(size) - 2 if given else dims_of(theta)[1].__index__()
    spatial = unpack_shape_argument(size, rank + 2)[2:]
    lines = []
    for axis, d in enumerate(spatial):
        length = as_float64(d)
        i = float_range(d)
        if align_corners:
            gaps = maximum(length - 1.0, 1.0)
            one = where_(greater(length, 1.0), i * 2.0 / gaps - 1.0, i * 0.0)
        else:
            one = (i * 2.0 + 1.0) / length - 1.0
        rest = tuple(a for a in range(rank) if a != axis)
        lines.append(expand_dims(cast_like(one, theta), rest))
    result = []
    for row in range(rank):
        factors = gather(theta, np.asarray(row), 1)
        total = None
        for column in range(rank + 1):
            factor = gather(factors, np.asarray(column), 1)
            part = expand_dims(factor, tuple(range(1, rank + 1)))
            if column < rank:
                line = expand_dims(lines[rank - 1 - column], (0,))
                part = multiply(part, line)
            total = part if total is None else add(total, part)
        result.append(total)
    return stack(*result, axis=-1)


def _reflect_by_loop(p: float, low: float, high: float) -> float:
    if high <= low:
        return 0.0
    while not low <= p <= high:
        p = 2 * low - p if p < low else 2 * high - p
    return p


def _map_outside_by_loop(p: float, n: int, padding: str, corners: bool) -> float:
    if padding == "border":
        return min(max(p, 0.0), n - 1.0)
    if padding == "reflection":
        low = 0.0 if corners else -0.5
        return min(max(_reflect_by_loop(p, low, n - 1 - low), 0.0), n - 1.0)
    return p


def corner_weights(p: float, mode: str) -> dict[int, float]:
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


def interpolate_at(plane: Any, at: list[float], mode: str = "linear",
               padding: str = "zeros", corners: bool = True) -> float:  # fmt: skip
    """A plane interpolated at a fractional position, by loops."""
    if mode != "cubic":
        at = [
            _map_outside_by_loop(p, n, padding, corners)
            for p, n in zip(at, plane.shape, strict=True)
        ]
    total = 0.0
    for taps in itertools.product(*(corner_weights(p, mode).items() for p in at)):
        weight = math.prod(w for _, w in taps)
        where = [float(i) for i, _ in taps]
        if padding != "zeros":
            where = [
                _map_outside_by_loop(p, n, padding, corners)
                for p, n in zip(where, plane.shape, strict=True)
            ]
        if all(0 <= p < n for p, n in zip(where, plane.shape, strict=True)):
            total += weight * float(plane[tuple(int(p) for p in where)])
    return total


def _grid_sample_by_loops(
    x: Any, grid: Any, mode: str, padding: str, corners: bool
) -> Any:
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for i, c, *at in np.ndindex(y.shape):
        unit = [float(v) for v in grid[(i, *at)]][::-1]
        sizes = x.shape[2:]
        positions = [
            (u + 1) / 2 * (n - 1) if corners else ((u + 1) * n - 1) / 2
            for u, n in zip(unit, sizes, strict=True)
        ]
        y[(i, c, *at)] = interpolate_at(x[i, c], positions, mode, padding, corners)
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
                    y = _grid_sample_by_loops(x, grid, mode, padding, corners)
                    yield Sample((x, grid), y, attrs)
    x = ramp(1, 1, 2, 3, 2)
    deep = array([[-0.9, 0.2, 0.4], [0.3, 1.4, -0.6]]).reshape(1, 1, 2, 1, 3)
    for mode in ("nearest", "linear"):
        y = _grid_sample_by_loops(x, deep, mode, "border", False)
        yield Sample((x, deep), y, {"mode": mode, "padding": "border"})
    y = _grid_sample_by_loops(x, deep, "linear", "zeros", False)
    yield Sample((x, deep), y)
    empty = np.zeros((0, 1, 2, 2))
    yield Sample((ramp(0, 1, 2, 2), empty), np.zeros((0, 1, 1, 2)), smooth=False)


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
