"""Cropping of images: around the center, and by boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std.engine.annotations import Array, Index, Real, RealFloating, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    floor_divide,
    maximum,
    minimum,
    multiply,
    sign,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import greater
from amanda_std.ops.math.elementary import floor as floor_
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.tensor.index_arithmetic import (
    as_float64,
    as_int64,
    dtype_of,
    float_range,
    in_range,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import pad
from amanda_std.ops.tensor.shape import astype, expand_dims, reshape, transpose
from amanda_std.ops.vision.grid_sample import flatten_positions, interpolate_rows


@composite
def center_crop_pad(
    x: Array, sizes: ShapeArg, *, axes: tuple[int, ...] | None = None
) -> Array:
    """Crop or zero-pad axes around the center to sizes; odd elements at the end"""
    at = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    pairs: list[Any] = []
    news = unpack_shape_argument(sizes, len(at))
    for axis, new in zip(at, news, strict=True):
        old = x.shape[axis]
        if isinstance(old, int) and isinstance(new, int):
            more = new - old
            low = more // 2 if more > 0 else -(-more // 2)
            pairs.append((low, more - low))
            continue
        more = subtract(as_int64(new), as_int64(old))
        half = floor_divide(abs_(more), 2)
        low = multiply(half, sign(more))
        pairs.append((low, subtract(more, low)))
    y = pad(x, pairs, None, tuple(at))
    if all(isinstance(low, int) for low, _ in pairs):
        return y
    shape = list(x.shape)
    for axis, new in zip(at, news, strict=True):
        shape[axis] = new
    return reshape(y, shape)  # gives the result its static shape


@center_crop_pad.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        line = arange_of_shape(5, dtype=dtype, start=1)
        for size, expected in ((5, [1, 2, 3, 4, 5]), (3, [2, 3, 4]), (2, [2, 3]),
                           (7, [0, 1, 2, 3, 4, 5, 0]), (8, [0, 1, 2, 3, 4, 5, 0, 0]),
                           (0, [])):  # fmt: skip
            yield Sample((line, (size,)), array(expected, dtype))
        x = arange_of_shape(2, 3, dtype=dtype)
        y = array([[0, 1, 0], [3, 4, 0]], dtype)[:, :2]
        yield Sample((x, (2, 1)), x[:, 1:2], {"axes": (0, 1)})
        yield Sample((x, (2,)), y * 0 + x[:, :2], {"axes": (-1,)})


@composite
def crop_and_resize(
    x: Real,
    boxes: RealFloating,
    batch: Index,
    sizes: ShapeArg,
    *,
    mode: str = "linear",
    extrapolation: float = 0.0,
) -> RealFloating:
    """Crop boxes (relative y1, x1, y2, x2) of NCHW images and resize them

    Samples outside the image become `extrapolation`."""
    data = x if dtype_of(x) == dtype_of(boxes) else astype(x, dtype=boxes.dtype)
    rows, spatial = flatten_positions(data)
    first = multiply(
        as_int64(batch), multiply(as_int64(spatial[0]), as_int64(spatial[1]))
    )
    first = expand_dims(first, (1, 2))
    positions, seen = [], None
    for axis, new in enumerate(unpack_shape_argument(sizes, 2)):
        low, high = (gather(boxes, np.asarray(i), 1) for i in (axis, axis + 2))
        p = _box_positions(low, high, spatial[axis], new)
        last = astype(as_float64(spatial[axis]), dtype=dtype_of(p)) - 1.0
        inside = in_range(p, 0.0, last)
        if mode == "nearest":
            p = floor_(p + 0.5)
        wide = (1,) if axis else (2,)
        p, inside = expand_dims(p, wide), expand_dims(inside, wide)
        positions.append(minimum(maximum(p, 0.0), last))
        seen = inside if seen is None else logical_and(seen, inside)
    y = interpolate_rows(rows, first, spatial, positions, mode=mode, padding="border")
    fill = np.asarray(extrapolation, dtype_of(y).numpy)
    y = where(expand_dims(seen, (-1,)), y, fill)
    return transpose(y, perm=(0, 3, 1, 2))


def _box_positions(low: Any, high: Any, old: Any, new: Any) -> Any:
    """Sampling positions [boxes, new], from the low to the high edge of each box."""
    dtype = dtype_of(low)
    last = astype(as_float64(old), dtype=dtype) - 1.0
    count = astype(as_float64(new), dtype=dtype)
    low, high = (expand_dims(multiply(v, last), (1,)) for v in (low, high))
    steps = astype(float_range(new), dtype=dtype)
    gaps = maximum(count - 1.0, 1.0)
    many = add(low, multiply(divide(high - low, gaps), steps))
    one = add((low + high) * 0.5, steps * 0.0)
    return where(greater(count, 1.0), many, one)


@crop_and_resize.samples
def _() -> Samples:
    from math import floor

    boxes = [[0.1, 0.2, 0.8, 0.9], [0.9, -0.3, 0.2, 1.2], [0.27, 0.26, 0.74, 0.73]]
    for dtype in ("float64", "float32"):
        x, at = ramp(2, 2, 4, 5, dtype=dtype), array([1, 0, 1], "int32")
        corners = array(boxes, dtype)
        for mode, sizes in (
            ("linear", (3, 2)),
            ("nearest", (2, 3)),
            ("linear", (1, 1)),
        ):
            y = np.full((3, 2, *sizes), 7.0)
            for r, c, i, j in np.ndindex(y.shape):
                positions = []
                for p, n, m, axis in ((i, 4, sizes[0], 0), (j, 5, sizes[1], 1)):
                    a, b = (float(corners[r, k]) for k in (axis, axis + 2))
                    step = (b - a) * (n - 1) / (m - 1) if m > 1 else 0
                    start = a * (n - 1) if m > 1 else (a + b) * (n - 1) / 2
                    positions.append((start + p * step, n))
                if not all(0 <= p <= n - 1 for p, n in positions):
                    continue
                total = 0.0
                for u in (0, 1):
                    for v in (0, 1):
                        indices, weight = [], 1.0
                        for (p, n), k in zip(positions, (u, v), strict=True):
                            q = floor(p + 0.5) if mode == "nearest" else p
                            low = floor(q)
                            weight *= (q - low) if k else 1 - (q - low)
                            indices.append(min(low + k, n - 1))
                        total += weight * float(x[(at[r], c, *indices)])
                y[r, c, i, j] = total
            attrs = {"mode": mode, "extrapolation": 7.0}
            yield Sample((x, corners, at, sizes), y.astype(dtype), attrs)
    empty = np.zeros((0, 4)), np.zeros(0, "int32")
    yield Sample(
        (ramp(1, 2, 3, 3), *empty, (2, 2)), np.zeros((0, 2, 2, 2)), smooth=False
    )
