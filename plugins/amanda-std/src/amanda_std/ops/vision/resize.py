"""Resize (interpolation): along any axes, in the coordinate modes of all frameworks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.graph import Op
from amanda.types import DType
from amanda_std.engine.annotations import Other, Real, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import (
    add,
    clip,
    divide,
    maximum,
    minimum,
    multiply,
    where,
)
from amanda_std.ops.math.comparison import equal, greater, less, less_equal
from amanda_std.ops.math.elementary import ceil, floor, sin
from amanda_std.ops.math.elementary import round as round_
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.index_arithmetic import (
    FLOAT,
    align_to_axis,
    as_float64,
    as_int64,
    cubic_weights,
    dtype_of,
    float_range,
    in_range,
    interpolation_dtype,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import astype, expand_dims, transpose

# -- coordinate transformations ---------------------------------------------------


def _half_pixel(i: Any, s: Any, _old: Any, *_: Any) -> Any:
    return (i + 0.5) / s - 0.5


def _symmetric(i: Any, s: Any, old: Any, new: Any, exact: Any) -> Any:
    return old / 2.0 * (1.0 - new / exact) + (i + 0.5) / s - 0.5


def _align_corners(i: Any, _scale: Any, old: Any, _new: Any, exact: Any) -> Any:
    end = where(greater(exact, 1.0), exact - 1.0, exact / exact)
    return i * (old - 1.0) / end


def _asymmetric(i: Any, s: Any, _old: Any, *_: Any) -> Any:
    return i / s


def _half_pixel_nearest(i: Any, s: Any, _old: Any, *_: Any) -> Any:
    return (i + 0.5) / s


def _half_pixel_or_start(i: Any, s: Any, _old: Any, new: Any, _: Any) -> Any:
    return where(greater(new, 1.0), (i + 0.5) / s - 0.5, i)


COORDINATES: dict[str, Any] = {
    # (output position, scale, old length, new length, new length before rounding
    # down) -> input position
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _half_pixel_or_start,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _half_pixel_nearest,
}


def _region_positions(i: Any, start: Any, end: Any, old: Any, new: Any) -> Any:
    """Positions in a region of the source, given by its relative start and end."""
    last = old - 1.0
    many = start * last + i * (end - start) * last / maximum(new - 1.0, 1.0)
    return where(greater(new, 1.0), many, (start + end) * last / 2.0)


ROUNDING: dict[str, Any] = {
    "round_prefer_floor": lambda p: ceil(p - 0.5),
    "round_prefer_ceil": lambda p: floor(p + 0.5),
    "round_even": lambda p: round_(p),
    "floor": lambda p: floor(p),
    "ceil": lambda p: ceil(p),
}

# -- interpolation kernels ---------------------------------------------------------


def _triangle(t: Any, _cubic: float) -> Any:
    return maximum(1.0 - t, 0.0)


def _cubic(t: Any, a: float) -> Any:
    near = (t * (a + 2) - (a + 3)) * t * t + 1.0
    far = ((t * a - 5 * a) * t + 8 * a) * t - 4 * a
    outer = where(less(t, 2.0), far, 0.0)
    return where(less_equal(t, 1.0), near, outer)


def _lanczos(radius: int) -> Any:
    def kernel(t: Any, _cubic: float) -> Any:
        angle = maximum(t, 1e-20) * math.pi
        weight = sin(angle) / angle * sin(angle / radius) / (angle / radius)
        return where(less(t, float(radius)), weight, 0.0)

    return kernel


KERNELS: dict[str, tuple[int, Any]] = {
    # radius of the kernel, and its weight at a distance
    "linear": (1, _triangle),
    "cubic": (2, _cubic),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
}


def _taps(mode: str, positions: Any, rounding: str, cubic: float) -> list[Any]:
    """For each output element: the input elements that it uses, with their weights."""
    _choose({"nearest": 0} | KERNELS, mode, "mode")
    if mode == "nearest":
        return [(_choose(ROUNDING, rounding, "rounding")(positions), None)]
    low = floor(positions)
    part = positions - low
    if mode == "linear":
        return [(low, 1.0 - part), (low + 1.0, part)]
    weights = cubic_weights(part, cubic)
    return [(low + float(i - 1), weight) for i, weight in enumerate(weights)]


def _choose(table: dict[str, Any], name: str, kind: str) -> Any:
    if name not in table:
        raise InvalidTypeError(
            f"unknown {kind}", expected=", ".join(table), got=repr(name)
        )
    return table[name]


def _gather_interpolate(
    y: Any, axis: int, taps: list[Any], old: Any, outside: bool
) -> Any:
    """Interpolate along an axis from a few neighbors each (gather)."""
    last = old - 1.0
    if outside and taps[0][1] is not None:
        kept = [where(in_range(at, 0.0, last), s, 0.0) for at, s in taps]
        total = sum(kept[1:], start=kept[0])
        taps = [(at, s / total) for (at, _), s in zip(taps, kept, strict=True)]
    total = None
    for at, weight in taps:
        seen = gather(y, as_int64(minimum(maximum(at, 0.0), last)), axis)
        if weight is not None:
            weight = astype(weight, dtype=dtype_of(y))
            seen = multiply(seen, align_to_axis(weight, axis, y.ndim))
        total = seen if total is None else add(total, seen)
    return total


def _weight_matrix(mode: str, positions: Any, scale: Any, old: Any, cubic: float,
            outside: bool, antialias: bool) -> Any:  # fmt: skip
    """[new, old] matrix of interpolation weights."""
    reach, kernel = _choose(KERNELS, mode, "mode")
    squeeze = minimum(scale, 1.0) if antialias else np.asarray(1.0)
    more = np.asarray(0.0) if outside else ceil(float(reach) / squeeze) + 1.0
    columns = float_range(_as_shape_argument(old + more * 2.0)) - more
    difference = expand_dims(columns, (0,)) - expand_dims(positions, (1,))
    weight = kernel(abs_(difference) * squeeze, cubic)
    weight = divide(weight, sum_(weight, (1,), keepdims=True))
    if outside:
        return weight
    edge = minimum(maximum(columns, 0.0), old - 1.0)
    own = expand_dims(float_range(_as_shape_argument(old)), (0,))
    fold = astype(equal(expand_dims(edge, (1,)), own), dtype=FLOAT)
    return matmul(weight, fold)


def _area_matrix(scale: Any, old: Any, new: Any) -> Any:
    """[new, old] matrix: overlap of each old element with the interval of a new one."""
    step = 1.0 / scale
    low = expand_dims(float_range(_as_shape_argument(new)), (1,)) * step
    left = expand_dims(float_range(_as_shape_argument(old)), (0,))
    over = minimum(low + step, left + 1.0) - maximum(low, left)
    over = maximum(over, 0.0)
    return divide(over, sum_(over, (1,), keepdims=True))


def _as_shape_argument(number: Any) -> Any:
    """A float64 scalar as an integer shape argument."""
    return int(number) if isinstance(number, np.ndarray | float) else as_int64(number)


def _matrix_interpolate(y: Any, axis: int, weights: Any) -> Any:
    """Interpolate along an axis by a matrix product with weights."""
    rank = y.ndim
    order = [*(i for i in range(rank) if i != axis), axis]
    back = tuple(int(i) for i in np.argsort(order))
    matrix = transpose(astype(weights, dtype=dtype_of(y)), perm=(1, 0))
    transposed = matmul(transpose(y, perm=tuple(order)), matrix)
    return transpose(transposed, perm=back)


@composite
def resize(
    x: Real, sizes: ShapeArg, scales: Other = None, region: Other = None, *,
    axes: tuple[int, ...] | None = None, mode: str = "nearest",
    coordinates: str = "half_pixel", rounding: str = "round_prefer_floor",
    cubic: float = -0.75, exclude_outside: bool = False, antialias: bool = False,
    extrapolation: float = 0.0,
) -> Real:  # fmt: skip
    """Resize to new sizes by interpolation

    One size for each of `axes` (default: all). `scales` determine the positions where
    they are not new / old. `region`: relative starts and ends of the region that is
    resized; positions outside become `extrapolation`. Modes: nearest, linear, cubic,
    area, lanczos3, lanczos5."""
    at = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    news = unpack_shape_argument(sizes, len(at))
    if len(news) != len(at):
        raise InvalidTypeError(
            "expected one size for each axis", expected=len(at), got=sizes
        )
    y = x if mode == "nearest" else astype(x, dtype=interpolation_dtype(x))
    for i, (axis, new) in enumerate(zip(at, news, strict=True)):
        same = isinstance(new, int) and isinstance(x.shape[axis], int)
        if same and new == x.shape[axis] and scales is None and region is None:
            continue
        old, size = as_float64(x.shape[axis]), as_float64(new)
        scale = size / old if scales is None else as_float64(_item(scales, i))
        if mode == "area":
            y = _matrix_interpolate(y, axis, _area_matrix(scale, old, size))
            continue
        if region is None:
            rule = _choose(COORDINATES, coordinates, "coordinates")
            exact = size if scales is None else old * scale
            positions = rule(float_range(new), scale, old, size, exact)
        else:
            start, end = (as_float64(_item(region, j)) for j in (i, i + len(at)))
            positions = _region_positions(float_range(new), start, end, old, size)
        if antialias or mode.startswith("lanczos"):
            weights = _weight_matrix(
                mode, positions, scale, old, cubic, exclude_outside, antialias
            )
            y = _matrix_interpolate(y, axis, weights)
        else:
            y = _gather_interpolate(y, axis, _taps(mode, positions, rounding, cubic),
                                    old, exclude_outside)  # fmt: skip
        if region is not None:
            y = _extrapolate(y, axis, positions, old, extrapolation)
    return _cast_back(y, dtype_of(x))


def _extrapolate(
    y: Any, axis: int, positions: Any, old: Any, extrapolation: float
) -> Any:
    """Replace elements interpolated from outside the source."""
    seen = in_range(positions, 0.0, old - 1.0)
    fill = np.asarray(extrapolation, dtype_of(y).numpy)
    return where(align_to_axis(seen, axis, y.ndim), y, fill)


def _item(vector: Any, i: int) -> Any:
    return gather(vector, np.asarray(i))


def _cast_back(y: Any, dtype: DType) -> Any:
    """Cast interpolated elements back to the source type; integers are rounded."""
    if dtype_of(y) == dtype:
        return y
    if dtype.kind in ("int", "uint"):
        info = np.iinfo(dtype.numpy)
        y = clip(round_(y), float(info.min), float(info.max))
    return astype(y, dtype=dtype)


# -- samples -------------------------------------------------------------------


# 1 2 3 4 resized to twice the length by linear interpolation, in each mode
_TWICE = {
    "half_pixel": [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4],
    "half_pixel_symmetric": [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4],
    "pytorch_half_pixel": [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4],
    "align_corners": [1 + i * 3 / 7 for i in range(8)],
    "asymmetric": [1, 1.5, 2, 2.5, 3, 3.5, 4, 4],
    "tf_half_pixel_for_nn": [1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4, 4],
}
_ROW = [1.0, 2, 3, 4]
_GRID = [[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]


def _linear_samples() -> Samples:
    row = array(_ROW)
    for name, expected in _TWICE.items():
        attrs = {"mode": "linear", "coordinates": name}
        yield Sample((row, (8,)), array(expected), attrs)
    for name, only in (("half_pixel", 2.5), ("pytorch_half_pixel", 1.0),
                       ("align_corners", 1.0), ("asymmetric", 1.0)):  # fmt: skip
        attrs = {"mode": "linear", "coordinates": name}
        yield Sample((row, (1,)), array([only]), attrs)
    # 4 * 2.3 is 9.2; the 0.2 cut off are half on either side
    shift = 2 * (1 - 9 / 9.2)
    positions = [shift + (i + 0.5) / 2.3 - 0.5 for i in range(9)]
    expected = [min(max(p, 0), 3) + 1 for p in positions]
    cut = {"mode": "linear", "coordinates": "half_pixel_symmetric"}
    scale = array([2.3], "float64")
    yield Sample((row, (9,), scale), array(expected), cut, smooth=False)
    steps = {"mode": "linear", "coordinates": "align_corners"}
    yield Sample((array([0, 3], "uint8"), (5,)), array([0, 1, 2, 2, 3], "uint8"), steps)
    wide = {"mode": "linear", "axes": (1,)}
    pairs = array([[1.0, 3.0], [5.0, 9.0]])
    yield Sample((pairs, (4,)), array([[1.0, 1.5, 2.5, 3], [5, 6, 8, 9]]), wide)
    yield Sample((pairs[:0], (4,)), np.zeros((0, 4)), wide, smooth=False)
    yield Sample(
        (array([[10]], "uint8"), (2, 1)), array([[10], [10]], "uint8"),
        {"mode": "linear"},
    )  # fmt: skip


def _nearest_samples() -> Samples:
    x = array([[1.0, 2.0], [3.0, 4.0]])
    double = array([[1.0, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]])
    yield Sample((x, (4, 4)), double)
    row = array(_ROW)
    for name, rounding, expected in (
        ("asymmetric", "floor", [1.0, 3]),
        ("tf_half_pixel_for_nn", "floor", [2.0, 4]),
        ("half_pixel", "round_prefer_floor", [1.0, 3]),
        ("half_pixel", "round_prefer_ceil", [2.0, 4]),
        ("half_pixel", "round_even", [1.0, 3]),
        ("half_pixel", "ceil", [2.0, 4]),
    ):
        attrs = {"coordinates": name, "rounding": rounding}
        yield Sample((row, (2,)), array(expected), attrs)


def _cubic_samples() -> Samples:
    """The examples of the ONNX specification for cubic interpolation."""
    grid, scale = array(_GRID, "float32"), array([0.8, 0.8], "float32")
    small = array([[1.47119141, 2.78125, 4.08251953],
                   [6.71142578, 8.02148438, 9.32275391],
                   [11.91650391, 13.2265625, 14.52783203]], "float32")  # fmt: skip
    attrs: dict[str, Any] = {"mode": "cubic"}
    yield Sample((grid, (3, 3), scale), small, attrs, tolerance=1e-5)
    edge = array([[1.36812675, 2.6695014, 4.0133367], [6.57362535, 7.875, 9.2188353],
                  [11.94896657, 13.25034122, 14.59417652]], "float32")  # fmt: skip
    attrs |= {"cubic": -0.5, "exclude_outside": True}
    yield Sample((grid, (3, 3), scale), edge, attrs, tolerance=1e-5)


def _resize_by_loops(
    row: list[float], size: int, weight: Any, outside: bool
) -> list[float]:
    """Weighted sums over all old elements, with edge copies where they are read."""
    n = len(row)
    outputs = []
    for i in range(size):
        position = (i + 0.5) * n / size - 0.5
        reach = range(n) if outside else range(-20, n + 20)
        pairs = [(weight(abs(j - position)), row[min(max(j, 0), n - 1)]) for j in reach]
        outputs.append(sum(s * v for s, v in pairs) / sum(s for s, _ in pairs))
    return outputs


def _lanczos_kernel(t: float, r: int) -> float:
    if t == 0:
        return 1.0
    angle = math.pi * t
    return r * math.sin(angle) * math.sin(angle / r) / angle**2 if t < r else 0.0


def _cubic_kernel(t: float, a: float) -> float:
    if t < 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


def _kernel_samples() -> Samples:
    row = ramp(7)
    numbers = row.tolist()
    kernels: list[tuple[str, Any]] = [
        ("linear", lambda t: max(1 - t, 0.0)),
        ("cubic", lambda t: _cubic_kernel(t, -0.5)),
        ("lanczos3", lambda t: _lanczos_kernel(t, 3)),
        ("lanczos5", lambda t: _lanczos_kernel(t, 5)),
    ]
    for mode, kernel in kernels:
        for size in (3, 10):
            for outside in (False, True):
                squeeze = min(size / 7, 1)
                expected = _resize_by_loops(
                    numbers, size, lambda t, s=squeeze, k=kernel: k(t * s), outside
                )
                attrs = {"mode": mode, "antialias": True, "cubic": -0.5,
                         "exclude_outside": outside}  # fmt: skip
                yield Sample((row, (size,)), array(expected), attrs)
    third = [sum(numbers[:2]) + numbers[2] / 3, 0.0, 0.0]
    third[1] = numbers[2] * 2 / 3 + numbers[3] + numbers[4] * 2 / 3
    third[2] = numbers[4] / 3 + sum(numbers[5:])
    expected = [total * 3 / 7 for total in third]
    yield Sample((row, (3,)), array(expected), {"mode": "area"})


def _region_samples() -> Samples:
    row = array(_ROW)
    part = array([0.5, 1.5], "float32")
    attrs: dict[str, Any] = {"mode": "linear", "extrapolation": 9.0}
    yield Sample((row, (3,), None, part), array([2.5, 4.0, 9.0]), attrs)
    yield Sample((row, (1,), None, part), array([4.0]), attrs)
    half = array([0.25, 0.75], "float32")
    yield Sample((row, (1,), None, half), array([2.5]), attrs)
    uneven = array([0.0, 8, 24, 40])  # off the grid, so that the gradient exists
    moved, scale = array([0.1, 0.8]), array([0.8])
    line = {"mode": "linear"}
    yield Sample((uneven, (3,), None, moved), array([2.4, 13.6, 30.4]), line)
    yield Sample((uneven, (3,), scale), array([1.0, 14.0, 34.0]), line)
    whole_ = array([5, 6, 7], "int32")
    beyond = array([-0.5, 0.5], "float32")
    ints = {"extrapolation": 3.0}
    yield Sample((whole_, (2,), None, beyond), array([3, 6], "int32"), ints)


@resize.compile_time
def _(op: Op) -> Sequence[str]:
    """With antialiasing, a scale is how many old elements make a new one."""
    return ("scales",) if op.attrs.get("antialias") else ()


@resize.samples
def _() -> Samples:
    for rule in (
        _nearest_samples,
        _linear_samples,
        _cubic_samples,
        _kernel_samples,
        _region_samples,
    ):
        yield from rule()
