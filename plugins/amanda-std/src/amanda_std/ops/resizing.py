"""Resizing along any axes, in the coordinate modes of all frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Shape, Sym, TensorType
from amanda_std.hosts import is_data
from amanda_std.kinds import Host, Real
from amanda_std.operation import primitive
from amanda_std.samples import Sample, Samples, array


def _half_pixel(i: Any, s: float, _old: int, _new: int) -> Any:
    return (i + 0.5) / s - 0.5


def _symmetric(i: Any, s: float, old: int, new: int) -> Any:
    return old / 2 * (1 - new / (old * s)) + (i + 0.5) / s - 0.5


def _half_pixel_or_start(i: Any, s: float, _old: int, new: int) -> Any:
    return (i + 0.5) / s - 0.5 if new > 1 else i


def _corners(i: Any, _scale: float, old: int, new: int) -> Any:
    return i * (old - 1) / (new - 1) if new > 1 else i


def _asymmetric(i: Any, s: float, _old: int, _new: int) -> Any:
    return i / s


def _half_pixel_nearest(i: Any, s: float, _old: int, _new: int) -> Any:
    return (i + 0.5) / s


COORDINATES: dict[str, Any] = {
    # (place in the result, scale, old length, new length) -> place in the source
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _half_pixel_or_start,
    "align_corners": _corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _half_pixel_nearest,
}

ROUNDING: dict[str, Any] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _sizes(x: TensorType, sizes: Any) -> Shape:
    wanted = [Sym.unknown() if is_data(d) else d for d in sizes]
    if x.shape.has_rank and x.shape.rank != len(wanted):
        raise InvalidTypeError("a size for each axis", expected=x.shape, got=sizes)
    return Shape(wanted)


def taps(mode: str, places: Any, rounding: str, cubic: float) -> Any:
    """For each new element: the old ones it is made of, and their shares."""
    if mode == "nearest":
        at = ROUNDING[rounding](places)[:, None]
        return at, np.ones_like(at)
    if mode == "linear":
        low = np.floor(places)
        part = places - low
        return np.stack([low, low + 1], 1), np.stack([1 - part, part], 1)
    if mode != "cubic":
        raise InvalidTypeError(
            "no such mode", expected="nearest, linear, cubic", got=mode
        )
    low = np.floor(places)
    r, a = places - low, cubic
    shares = [
        ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a,
        ((a + 2) * r - (a + 3)) * r * r + 1,
        ((a + 2) * (1 - r) - (a + 3)) * (1 - r) * (1 - r) + 1,
        ((a * (2 - r) - 5 * a) * (2 - r) + 8 * a) * (2 - r) - 4 * a,
    ]
    return np.stack([low - 1, low, low + 1, low + 2], 1), np.stack(shares, 1)


@primitive(shape=_sizes, numpy_only=True)
def resize(
    x: Real, sizes: Host, *, mode: str = "nearest", coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor", cubic: float = -0.75,
    exclude_outside: bool = False, scales: tuple[float, ...] | None = None,
) -> Real:  # fmt: skip
    """x at new sizes; each new element is made of the old ones around its place

    `scales` are what the places are computed by, where they are not new / old."""
    if coordinates not in COORDINATES:
        known = ", ".join(COORDINATES)
        raise InvalidTypeError("no such coordinates", expected=known, got=coordinates)
    y = (
        x
        if mode == "nearest"
        else x.astype("float64" if x.dtype == "float64" else "float32")
    )
    for axis, (old, new) in enumerate(zip(x.shape, sizes, strict=True)):
        scale = new / old if scales is None else scales[axis]
        if old == new and scale == 1:
            continue
        places = COORDINATES[coordinates](
            np.arange(new, dtype="float64"), scale, old, new
        )
        at, share = taps(mode, places, rounding, cubic)
        if exclude_outside and mode != "nearest":
            share = np.where((at >= 0) & (at < old), share, 0)
            share = share / share.sum(1, keepdims=True)
        at = np.clip(at, 0, old - 1).astype("int64")
        y = _blended(y, at, share.astype(y.dtype), axis)
    if y.dtype == x.dtype:
        return y
    return (np.rint(y) if x.dtype.kind in "iu" else y).astype(x.dtype)


def _blended(x: Any, at: Any, share: Any, axis: int) -> Any:
    if at.shape[1] == 1:
        return np.take(x, at[:, 0], axis=axis)
    wide = (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    y = np.take(x, at[:, 0], axis=axis) * share[:, 0].reshape(wide)
    for i in range(1, at.shape[1]):
        y += np.take(x, at[:, i], axis=axis) * share[:, i].reshape(wide)
    return y


resize.not_differentiable("its gradient is not there yet")


# 1 2 3 4 made twice as long by straight lines, as each mode places the elements
_TWICE = {
    "half_pixel": [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4],
    "half_pixel_symmetric": [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4],
    "pytorch_half_pixel": [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4],
    "align_corners": [1 + i * 3 / 7 for i in range(8)],
    "asymmetric": [1, 1.5, 2, 2.5, 3, 3.5, 4, 4],
    "tf_half_pixel_for_nn": [1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4, 4],
}


@resize.samples
def _() -> Samples:
    x = array([[1.0, 2.0], [3.0, 4.0]])
    double = array([[1.0, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]])
    yield Sample((x, (4, 4)), double)
    row = array([1.0, 2, 3, 4])
    yield Sample(
        (row, (2,)),
        array([1.0, 3.0]),
        {"coordinates": "asymmetric", "rounding": "floor"},
    )
    yield Sample(
        (row, (2,)),
        array([2.0, 4.0]),
        {"coordinates": "tf_half_pixel_for_nn", "rounding": "floor"},
    )
    for name, want in _TWICE.items():
        attrs = {"mode": "linear", "coordinates": name}
        yield Sample((row, (8,)), array(want), attrs)
    for name, only in (("half_pixel", 2.5), ("pytorch_half_pixel", 1.0),
                       ("align_corners", 1.0), ("asymmetric", 1.0)):  # fmt: skip
        attrs = {"mode": "linear", "coordinates": name}
        yield Sample((row, (1,)), array([only]), attrs)
    # 4 * 2.3 is 9.2, of which 0.2 are cut: half on either side
    shift = 2 * (1 - 9 / 9.2)
    places = [shift + (i + 0.5) / 2.3 - 0.5 for i in range(9)]
    cut: dict[str, Any] = {"coordinates": "half_pixel_symmetric", "scales": (2.3,)}
    want = [min(max(p, 0), 3) + 1 for p in places]
    yield Sample((row, (9,)), array(want), {"mode": "linear", **cut})
    steps = {"mode": "linear", "coordinates": "align_corners"}
    yield Sample((array([0, 3], "uint8"), (5,)), array([0, 1, 2, 2, 3], "uint8"), steps)
    # by the standard's own example for cubic interpolation
    grid = array(
        [[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]], "float32"
    )
    small = array([[1.47119141, 2.78125, 4.08251953],
                   [6.71142578, 8.02148438, 9.32275391],
                   [11.91650391, 13.2265625, 14.52783203]], "float32")  # fmt: skip
    yield Sample(
        (grid, (3, 3)), small, {"mode": "cubic", "scales": (0.8, 0.8)}, tolerance=1e-5
    )
    edge = array([[1.36812675, 2.6695014, 4.0133367], [6.57362535, 7.875, 9.2188353],
                  [11.94896657, 13.25034122, 14.59417652]], "float32")  # fmt: skip
    yield Sample((grid, (3, 3)), edge,
                 {"mode": "cubic", "scales": (0.8, 0.8), "cubic": -0.5,
                  "exclude_outside": True}, tolerance=1e-5)  # fmt: skip
    yield Sample(
        (array([[10]], "uint8"), (2, 1)),
        array([[10], [10]], "uint8"),
        {"mode": "linear"},
    )


_taps = taps  # its name before it was public
