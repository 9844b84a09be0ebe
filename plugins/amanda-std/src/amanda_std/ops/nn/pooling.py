"""Pooling: a reduction of each window, channel by channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Shape, TensorType, minimum
from amanda_std.engine.annotations import Floating, Real
from amanda_std.engine.arrays import is_small_float, xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import dims_of
from amanda_std.inference.shape_arguments import is_static
from amanda_std.ops.math.arithmetic import divide
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.logic import logical_and, logical_not
from amanda_std.ops.math.reduction import (
    accumulation_type,
    extreme_identity,
    max_,
    mean,
)
from amanda_std.ops.nn.convolution import (
    Pairs,
    inverse_permute,
    output_sizes,
    permute,
    resolve_padding,
    strides_or_ones,
    to_channels_first,
    window_slice,
)
from amanda_std.ops.nn.sliding_windows import SlidingWindows
from amanda_std.ops.nn.symbolic_pooling import avg_pool_gradient, max_pool_gradient
from amanda_std.ops.nn.window_reduction import (
    AxisWindows,
    axis_windows,
    count_elements,
    reduce_windows,
)
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.manipulation import pad, scatter_along_axis, slice_
from amanda_std.ops.tensor.shape import astype, transpose


def pooled_sizes(
    spatial: Sequence[Any], window: Sequence[Any], s: Sequence[Any],
    pads: Sequence[Sequence[Any]], d: Sequence[Any], ceil: bool,
) -> list[Any]:  # fmt: skip
    """Output size along each axis; with `ceil`, the last window starts in the data."""
    output = output_sizes(spatial, window, s, tuple(pads), d)
    if not ceil:
        return output
    rows = zip(spatial, window, s, pads, d, strict=True)
    result = []
    for n, k, q, (a, b), e in rows:
        size = -(-(n + a + b - (k - 1) * e - 1) // q) + 1
        result.append(minimum(size, (n + a - 1) // q + 1))
    return result


def _pool_shape(
    x: TensorType, *, window: Any, strides: Any, padding: Any, dilations: Any,
    ceil: bool, layout: str, ) -> Shape:  # fmt: skip
    order = to_channels_first(layout, len(window) + 2)
    batch, channels, *spatial = permute(x.shape.dims, order)
    if len(spatial) != len(window):
        raise InvalidTypeError(
            "the window has another number of axes", expected=spatial, got=window
        )
    s, d = (
        strides_or_ones(strides, len(window)),
        strides_or_ones(dilations, len(window)),
    )
    if isinstance(padding, str) and padding != "valid":
        size = output_sizes(spatial, window, s, padding, d)
    else:
        pads = resolve_padding(padding, spatial, window, s, d)
        size = pooled_sizes(spatial, window, s, pads, d, ceil)
    return Shape(inverse_permute([batch, channels, *size], order))


def _windows_of(
    spatial: Any, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool
) -> list[AxisWindows]:
    n = len(window)
    s, d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
    pads = resolve_padding(padding, spatial, window, s, d)
    size = pooled_sizes(spatial, window, s, pads, d, ceil)
    return axis_windows(spatial, window, s, pads, d, size)


def replace_nan(x: Any) -> Any:
    """NaN replaced by the identity of maxima."""
    if x.dtype.kind != "f" and not is_small_float(x.dtype):
        return x
    low = np.asarray(extreme_identity(x.dtype, True), x.dtype)
    return xp(x).where(x != x, low, x)


@primitive(shape=_pool_shape, numpy_only=True)
def max_pool(
    x: Real, *, window: tuple[int, ...], strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
    ceil: bool = False, layout: str = "NC*",
) -> Real:  # fmt: skip
    """Max pooling; neither padding nor NaN is the maximum

    Of windows of only these, it is negative infinity."""
    order = to_channels_first(layout, x.ndim)
    x = replace_nan(x.transpose(order))
    windows = _windows_of(x.shape[2:], window, strides, padding, dilations, ceil)
    y = reduce_windows(x, windows, np.maximum, extreme_identity(x.dtype, True))
    return y.transpose(inverse_permute(range(y.ndim), order))


max_pool.trait(Trait.KEEPS_FINITE)


@primitive(shape=_pool_shape, numpy_only=True)
def avg_pool(
    x: Floating, *, window: tuple[int, ...], strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
    ceil: bool = False, layout: str = "NC*", count_pads: bool = False,
) -> Floating:  # fmt: skip
    """Average pooling; padding counts only if `count_pads`"""
    order = to_channels_first(layout, x.ndim)
    wide = x.transpose(order).astype(accumulation_type(x))
    windows = _windows_of(wide.shape[2:], window, strides, padding, dilations, ceil)
    y = reduce_windows(wide, windows, np.add, 0) + 0.0  # never -0, as of any sum
    y = y / count_elements(windows, count_pads).astype(y.dtype)
    return y.astype(x.dtype).transpose(inverse_permute(range(y.ndim), order))


class _WindowGeometry:
    """Geometry of windows over NC* data, for gradients; requires static shapes."""

    def __init__(
        self, x: Any, window: Any, strides: Any, padding: Any, dilations: Any,
        ceil: bool,
    ) -> None:  # fmt: skip
        n = len(window)
        self.window = window
        self.s, self.d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
        self.data = tuple(int(m) for m in dims_of(x)[2:])
        self.pads = resolve_padding(padding, self.data, window, self.s, self.d)
        self.size = pooled_sizes(self.data, window, self.s, self.pads, self.d, ceil)
        self.axes = axis_windows(
            self.data, window, self.s, self.pads, self.d, self.size
        )
        self.taps = [each.taps() for each in self.axes]
        """For each axis, the positions in a window that see the data."""
        rows = zip(self.axes, self.taps, strict=True)
        self.grown = [
            (
                each.pads[0],
                (each.places - 1) * each.stride
                + (taps[-1] if taps else 0) * each.dilation
                + 1
                - each.length
                - each.pads[0],
            )
            for each, taps in rows
        ]
        """Padding, or cropping, up to the last element that a window sees."""

    def sum_windows(self, part: Any) -> Any:
        """Sum, over window positions, of what `part` contributes at each."""
        total: Any = None
        for at in product(*self.taps):
            cut = window_slice(at, self.size, self.s, self.d)
            piece = part(cut)
            for i, c in enumerate(cut):
                piece = self._place(piece, i, c)
            total = piece if total is None else total + piece
        return self._crop(total)

    def spread_over_windows(self, values: Any) -> Any:
        """Each value added to all elements of its window, one axis at a time."""
        for i, taps in enumerate(self.taps):
            total: Any = None
            for tap in taps:
                (cut,) = window_slice([tap], [self.size[i]], [self.s[i]], [self.d[i]])
                piece = self._place(values, i, cut)
                total = piece if total is None else total + piece
            values = total
        return self._crop(values)

    def _place(self, values: Any, i: int, cut: slice) -> Any:
        """Values at some positions of a padded axis, zeros elsewhere."""
        a, b = self.grown[i]
        full = self.data[i] + a + b
        at = np.arange(full)[cut]
        return scatter_along_axis(values, at, full, i + 2, len(self.data) + 2)

    def _crop(self, padded: Any) -> Any:
        return pad(padded, ((0, 0), (0, 0), *((-a, -b) for a, b in self.grown)))

    def counts(self, count_pads: bool) -> Any:
        """Number of elements in each window."""
        return count_elements(self.axes, count_pads)


@max_pool.gradient
def _(
    g: Any, y: Any, x: Any, *, window: Any, strides: Any, padding: Any,
    dilations: Any, ceil: bool, layout: str,
) -> Any:  # fmt: skip
    """Route the gradient to the maximum of each window, the first of several."""
    order = to_channels_first(layout, x.ndim)
    g, y, x = (transpose(v, perm=order) for v in (g, y, x))
    back = tuple(inverse_permute(range(len(order)), order))
    if not is_static(dims_of(x)[2:]):
        cut = SlidingWindows(x.shape[2:], window, strides, padding, dilations, ceil)
        return [transpose(max_pool_gradient(g, x, cut, ceil), perm=back)]
    windows_ = _WindowGeometry(x, window, strides, padding, dilations, ceil)
    if not all(windows_.taps):
        return [zeros_like(transpose(x, perm=back))]
    low = astype(np.asarray(-math.inf, "float32"), dtype=x.dtype)
    wide = pad(x, ((0, 0), (0, 0), *windows_.grown), low)
    axes = tuple(range(2, len(window) + 2))
    left = equal(y, y)

    def part(cut: Any) -> Any:
        nonlocal left
        seen = slice_(wide, [c.start for c in cut], [c.stop for c in cut], axes,
                          [c.step or 1 for c in cut])  # fmt: skip
        hit = logical_and(left, equal(seen, y))
        left = logical_and(left, logical_not(hit))
        return where_(hit, g, g * 0.0)

    return [transpose(windows_.sum_windows(part), perm=back)]


avg_pool.trait(Trait.PARTWISE)


@avg_pool.gradient
def _(g: Any, x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any,
      ceil: bool, layout: str, count_pads: bool) -> Any:  # fmt: skip
    order = to_channels_first(layout, x.ndim)
    g, x = (transpose(v, perm=order) for v in (g, x))
    back = tuple(inverse_permute(range(len(order)), order))
    if not is_static(dims_of(x)[2:]):
        cut = SlidingWindows(x.shape[2:], window, strides, padding, dilations, ceil)
        return [transpose(avg_pool_gradient(g, x, cut, ceil, count_pads), perm=back)]
    windows_ = _WindowGeometry(x, window, strides, padding, dilations, ceil)
    if not all(windows_.taps):
        return [zeros_like(transpose(x, perm=back))]
    count = windows_.counts(count_pads).astype(x.dtype.numpy)
    weight = divide(g, count)
    return [transpose(windows_.spread_over_windows(weight), perm=back)]


# -- samples -------------------------------------------------------------------


def _pool_by_loops(
    x: Any, size: Any, window: Any, s: Any, pads: Any, d: Any, fold: Any
) -> Any:
    """Apply a function of (elements, number of pads) to every window, by loops."""
    y = np.zeros((*x.shape[:2], *size), "float64")
    for i, c, *at in np.ndindex(y.shape):
        numbers, missing = [], 0
        for inside in np.ndindex(*window):
            where = [
                p * q + k * e - a
                for p, q, k, e, (a, _) in zip(at, s, inside, d, pads, strict=True)
            ]
            limits = zip(where, x.shape[2:], pads, strict=True)
            if all(0 <= p < m for p, m, _ in limits):
                numbers.append(float(x[(i, c, *where)]))
            elif all(
                -a <= p < m + b
                for p, m, (a, b) in zip(where, x.shape[2:], pads, strict=True)
            ):
                missing += 1
        y[(i, c, *at)] = fold(numbers, missing)
    return y.astype(x.dtype)


_FORMS: list[tuple[Any, ...]] = [
    # data, window, strides, pads, dilations, ceil, output size
    ((1, 2, 5, 4), (2, 3), None, ((0, 0), (0, 0)), None, False, (4, 2)),
    ((2, 1, 6, 5), (3, 2), (2, 2), ((1, 1), (0, 1)), None, False, (3, 3)),
    ((1, 1, 7), (2,), (2,), ((0, 0),), None, True, (4,)),
    ((1, 1, 4, 4), (2, 2), (3, 3), ((1, 1), (1, 1)), None, True, (2, 2)),
    ((1, 2, 6), (2,), None, ((1, 0),), (2,), False, (5,)),
    ((1, 1, 8), (5,), (2,), ((0, 0),), None, True, (3,)),
    ((1, 1, 9), (3,), (3,), ((1, 0),), (2,), True, (3,)),
    ((1, 1, 5), (2,), (2,), ((0, 1),), None, True, (3,)),
]


def _pool_samples(fold: Any, dtypes: Any, **attrs: Any) -> Samples:
    for data, window, strides, pads, dilations, ceil, size in _FORMS:
        for dtype in dtypes:
            x = ramp(*data, dtype=dtype)
            s, d = (
                strides_or_ones(strides, len(window)),
                strides_or_ones(dilations, len(window)),
            )
            y = _pool_by_loops(x, size, window, s, pads, d, fold)
            given = {"window": window, "strides": strides, "padding": pads,
                     "dilations": dilations, "ceil": ceil, **attrs}  # fmt: skip
            yield Sample((x,), y, given)
    x = ramp(1, 2, 5, 4)
    y = _pool_by_loops(x, (4, 3), (2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), fold)
    back = {"window": (2, 2), "layout": "N*C", **attrs}
    yield Sample((np.moveaxis(x, 1, -1),), np.moveaxis(y, 1, -1), back)
    y = _pool_by_loops(x, (3, 2), (2, 2), (2, 2), ((0, 1), (0, 0)), (1, 1), fold)
    same = {"window": (2, 2), "strides": (2, 2), "padding": "same_upper", **attrs}
    yield Sample((x,), y, same)
    y = _pool_by_loops(x, (2, 2), (1, 1), (3, 3), ((0, 0), (0, 0)), (1, 1), fold)
    difference = {"window": (1, 1), "strides": (3, 3), "padding": "same_upper", **attrs}
    yield Sample((x,), y, difference)
    yield Sample(
        (x[:0],), np.zeros((0, 2, 4, 3)), {"window": (2, 2), **attrs}, smooth=False
    )


max_pool.samples(lambda: _pool_samples(lambda n, _: max(n), ("float64", "float32")))


@avg_pool.samples
def _() -> Samples:
    yield from _pool_samples(lambda n, _: math.fsum(n) / len(n), ("float64", "float32"))
    yield from _pool_samples(
        lambda n, m: math.fsum(n) / (len(n) + m), ("float64",), count_pads=True
    )
    x = ramp(1, 1, 40)  # windows so long that they share sums
    means = [math.fsum(x[0, 0, i : i + 11]) / 11 for i in range(30)]
    yield Sample((x,), array([[means]]), {"window": (11,)})


# -- composites ----------------------------------------------------------------


def _spatial_axes(x: Any, layout: str) -> tuple[int, ...]:
    return tuple(range(2, x.ndim) if layout == "NC*" else range(1, x.ndim - 1))


@composite
def global_avg_pool(x: Floating, *, layout: str = "NC*") -> Floating:
    """Global average pooling"""
    return mean(x, _spatial_axes(x, layout), keepdims=True)


@composite
def global_max_pool(x: Real, *, layout: str = "NC*") -> Real:
    """Global max pooling"""
    return max_(x, _spatial_axes(x, layout), keepdims=True)


def _global_samples(fold: Any) -> Any:
    def make() -> Samples:
        for dtype in ("float64", "float32"):
            x = ramp(2, 3, 2, 2, dtype=dtype)
            y = np.zeros((2, 3, 1, 1))
            for i, c in np.ndindex(2, 3):
                y[i, c, 0, 0] = fold([float(n) for n in x[i, c].reshape(-1)])
            yield Sample((x,), y.astype(x.dtype))
            back = np.moveaxis(x, 1, -1), np.moveaxis(y.astype(x.dtype), 1, -1)
            yield Sample(back[:1], back[1], {"layout": "N*C"})
            yield Sample((x[:0],), y[:0].astype(x.dtype), smooth=False)

    return make


global_avg_pool.samples(_global_samples(lambda n: math.fsum(n) / len(n)))
global_max_pool.samples(_global_samples(max))
