"""Region of interest (ROI) pooling: ROI align and ROI pool."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import Index, Other, Real, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    maximum,
    minimum,
    multiply,
    where,
)
from amanda_std.ops.math.comparison import equal, greater_equal, less
from amanda_std.ops.math.elementary import ceil, floor
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.math.reduction import any_, extreme_identity, max_, sum_
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.index_arithmetic import (
    as_float64,
    as_int64,
    dtype_of,
    float_range,
    in_range,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import concat, stack
from amanda_std.ops.tensor.shape import expand_dims, reshape, transpose
from amanda_std.ops.vision.grid_sample import (
    cast_like,
    corner_weights,
    flatten_positions,
    interpolate_rows,
)


@composite
def roi_align(
    x: RealFloating, rois: RealFloating, batch: Index, *, size: tuple[int, int],
    scale: float = 1.0, ratio: int = 0, mode: str = "avg", half_pixel: bool = True,
) -> RealFloating:  # fmt: skip
    """ROI align: regions (x1, y1, x2, y2) of NCHW data, resampled inside each bin

    `ratio` samples along each axis of a bin; as many as elements in the bin if 0. Mode
    "max" takes the largest weighted element of a sample, as ONNX does."""
    if mode not in ("avg", "max"):
        raise InvalidTypeError("unknown mode", expected="avg, max", got=mode)
    rows, spatial = flatten_positions(x)
    offset = 0.5 if half_pixel else 0.0
    ends = [gather(rois, np.asarray(i), 1) * scale - offset for i in range(4)]
    each = multiply(as_int64(spatial[0]), as_int64(spatial[1]))
    first = expand_dims(multiply(as_int64(batch), each), (1, 2, 3, 4))
    positions: list[Any] = []
    near: Any = None
    there: Any = None
    count: Any = None
    for i, wide in ((0, (2, 4)), (1, (1, 3))):
        at, own, number = _bin_samples(
            ends[1 - i], ends[3 - i], size[i], ratio, half_pixel
        )
        p, n = expand_dims(at, wide), cast_like(as_float64(spatial[i]), x)
        near = _and_optional(near, in_range(p, -1.0, n))
        there = _and_optional(there, expand_dims(own, wide))
        positions.append(minimum(maximum(p, 0.0), n - 1.0))
        count = number if count is None else multiply(count, number)
    join = add if mode == "avg" else maximum
    seen = interpolate_rows(rows, first, spatial, positions, join=join)
    seen = where(expand_dims(near, (-1,)), seen, 0.0)
    exists = expand_dims(there, (-1,))
    if mode == "avg":
        total = sum_(where(exists, seen, 0.0), (3, 4))
        y = divide(total, maximum(count, 1.0))
    else:
        result = max_(where(exists, seen, -math.inf), (3, 4))
        empty = equal(count, 0.0)
        y = where(empty, 0.0, result)
    return transpose(y, perm=(0, 3, 1, 2))


def _and_optional(a: Any, b: Any) -> Any:
    return b if a is None else logical_and(a, b)


def _bin_samples(
    low: Any, high: Any, bins: int, ratio: int, exact: bool
) -> tuple[Any, ...]:
    """Sampling positions [regions, bins, samples] along an axis.

    Returns them with their mask, and their number [regions, 1, 1, 1]."""
    length = high - low
    if not exact:
        length = maximum(length, 1.0)
    step = expand_dims(length / float(bins), (1, 2))
    most: Any = ratio
    number = step * 0.0 + float(ratio)
    if ratio <= 0:
        number = maximum(ceil(step), 0.0)
        one = np.ones(1, dtype_of(low).numpy)
        most = as_int64(max_(concat(reshape(number, [-1]), one)))
    i, k = (cast_like(float_range(n), low) for n in (bins, most))
    start = add(
        expand_dims(low, (1, 2)),
        multiply(step, expand_dims(i, (0, 2))),
    )
    k = expand_dims(k, (0, 1))
    weight = divide(k + 0.5, maximum(number, 1.0))
    positions = add(start, multiply(step, weight))
    return positions, less(k, number), expand_dims(number, (3,))


@composite
def roi_pool(
    x: Real, rois: Other, batch: Index, *, size: tuple[int, int], scale: float = 1.0
) -> Real:
    """ROI max pooling: maximum of each bin of regions (x1, y1, x2, y2) of NCHW data

    NaN is not the maximum, as in max_pool."""
    least = np.asarray(extreme_identity(dtype_of(x).numpy, True), dtype_of(x).numpy)
    y = gather(where(equal(x, x), x, least), batch, 0)
    for i in (0, 1):
        low, high = (
            floor(gather(rois, np.asarray(j), 1) * scale + 0.5) for j in (1 - i, 3 - i)
        )
        y = _largest_of_bins(y, low, high, size[i], 2 + i)
    return y


def _largest_of_bins(y: Any, low: Any, high: Any, bins: int, axis: int) -> Any:
    """Maximum along an axis between the ends of each bin; 0 if it is empty."""
    n = cast_like(as_float64(y.shape[axis]), low)
    at = cast_like(float_range(y.shape[axis]), low)
    one = low * 0.0 + 1.0
    step = maximum(high - low + 1.0, one) / float(bins)
    least = np.asarray(extreme_identity(dtype_of(y).numpy, True), dtype_of(y).numpy)
    result = []
    for i in range(bins):
        start = maximum(floor(step * float(i)) + low, 0.0)
        end = minimum(ceil(step * float(i + 1)) + low, n)
        inside = logical_and(
            greater_equal(at, expand_dims(start, (1,))),
            less(at, expand_dims(end, (1,))),
        )
        seen = max_(where(_align_mask(inside, axis, y.ndim), y, least), (axis,))
        some = any_(inside, (1,))
        rest = expand_dims(some, tuple(range(1, y.ndim - 1)))
        result.append(where(rest, seen, zeros_like(seen)))
    return stack(*result, axis=axis)


def _align_mask(mask: Any, axis: int, rank: int) -> Any:
    """[regions, positions] broadcast along the first axis and one other."""
    return expand_dims(mask, tuple(a for a in range(rank) if a not in (0, axis)))


def _roi_align_by_loops(x: Any, rois: Any, batch: Any, size: Any, scale: float,
                        ratio: int,
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
            taps = itertools.product(
                *(corner_weights(v, "linear").items() for v in at_)
            )
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
                    y = _roi_align_by_loops(
                        x, rois, batch, (2, 3), 0.9, ratio, mode, half
                    )
                    attrs = {"size": (2, 3), "scale": 0.9, "ratio": ratio,
                             "mode": mode, "half_pixel": half}  # fmt: skip
                    yield Sample((x, rois, batch), y, attrs, smooth=ratio > 0)
    empty = np.zeros((0, 4)), np.zeros(0, "int64")
    x = ramp(1, 2, 3, 3)
    yield Sample((x, *empty), np.zeros((0, 2, 1, 2)), {"size": (1, 2)}, smooth=False)


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
    x = array([[[[1, 3], [math.nan, 2]]]], "float32")
    whole = array([[0, 0, 1, 1]], "float32"), array([0], "int64")
    y = array([[[[1, 3]]]], "float32")
    yield Sample((x, *whole), y, {"size": (1, 2)}, smooth=False)
    empty = np.zeros((0, 4), "float32"), np.zeros(0, "int64")
    yield Sample((x, *empty), np.zeros((0, 1, 1, 1), "float32"), {"size": (1, 1)})
