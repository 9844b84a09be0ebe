"""Reductions of sliding windows on numpy, one axis after the other.

Only elements of the data are touched: windows are clipped to it. Long windows are
combined from halves that windows share, so that their cost grows with the logarithm of
the length; no sum is a difference of others, which would lose digits and spread NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from amanda_std.ops.nn.convolution import resolve_padding, strides_or_ones

__all__ = ["AxisWindows", "axis_windows", "count_elements", "reduce_windows"]


class AxisWindows(NamedTuple):
    """The sliding windows along one axis."""

    length: int
    """Of the data."""
    window: int
    stride: int
    dilation: int
    pads: tuple[int, int]
    """Elements added before and after; negative ones crop the data."""
    places: int
    """The number of windows."""

    @property
    def data(self) -> tuple[int, int]:
        """Start and stop of the elements that are not cropped."""
        before, after = self.pads
        return max(0, -before), min(self.length, self.length + after)

    def taps(self) -> range:
        """The positions in a window that see the data in some window."""
        start, stop = self.data
        last_begin = (self.places - 1) * self.stride - self.pads[0]
        first = max(0, -((last_begin - start) // self.dilation))
        last = min(self.window - 1, (stop - 1 + self.pads[0]) // self.dilation)
        return range(first, last + 1) if start < stop and self.places > 0 else range(0)


def axis_windows(
    spatial: Sequence[int], window: Sequence[int], strides: Any, padding: Any,
    dilations: Any, counts: Sequence[int],
) -> list[AxisWindows]:  # fmt: skip
    """The windows along each axis."""
    s = strides_or_ones(strides, len(window))
    d = strides_or_ones(dilations, len(window))
    pads = resolve_padding(padding, spatial, window, s, d)
    rows = zip(spatial, window, s, d, map(tuple, pads), counts, strict=True)
    return [AxisWindows(*row) for row in rows]


def reduce_windows(
    x: Any, windows: Sequence[AxisWindows], fold: Callable[..., Any], identity: Any
) -> Any:
    """Reduce all windows over the last axes of x by a function of two arrays."""
    for i, each in enumerate(windows):
        x = _reduce_axis(x, x.ndim - len(windows) + i, each, fold, identity)
    return x


def _reduce_axis(
    x: Any, axis: int, windows: AxisWindows, fold: Callable[..., Any], identity: Any
) -> Any:
    taps, count, stride = windows.taps(), windows.places, windows.stride
    if not taps:
        shape = (*x.shape[:axis], max(count, 0), *x.shape[axis + 1 :])
        return np.full(shape, identity, x.dtype)
    dilation, many = windows.dilation, len(taps)
    x = _padded_span(x, axis, windows, taps, identity)

    def at_windows(of: Any, offset: int) -> Any:
        return _cut(of, axis, offset, offset + (count - 1) * stride + 1, stride)

    if count * many <= 2 * many.bit_length() * x.shape[axis]:
        y = at_windows(x, 0).copy()
        for tap in range(1, many):
            y = fold(y, at_windows(x, tap * dilation))
        return y
    y, done, step = None, 0, 1  # x: the reductions of `step` elements
    while True:
        if many & step:
            part = at_windows(x, done * dilation)
            y, done = part if y is None else fold(y, part), done + step
        if done == many:
            return y
        by = step * dilation
        x = fold(_cut(x, axis, 0, x.shape[axis] - by), _cut(x, axis, by))
        step *= 2


def _padded_span(
    x: Any, axis: int, windows: AxisWindows, taps: range, identity: Any
) -> Any:
    """The elements from the first to the last one that a tap sees."""
    start, stop = windows.data
    first = taps[0] * windows.dilation - windows.pads[0]
    reach = (windows.places - 1) * windows.stride + (len(taps) - 1) * windows.dilation
    last = first + reach + 1
    part = _cut(x, axis, max(first, start), max(min(last, stop), start))
    pads = [(0, 0)] * x.ndim
    pads[axis] = (max(start - first, 0), max(last - stop, 0))
    if not any(pads[axis]):
        return part
    return np.pad(part, pads, constant_values=identity)


def _cut(x: Any, axis: int, start: int, stop: int | None = None, step: int = 1) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


def count_elements(windows: Sequence[AxisWindows], count_pads: bool) -> Any:
    """The number of elements in each window, with or without padding."""
    total: Any = np.ones(())
    for each in windows:
        before, after = each.pads
        start, stop = (-before, each.length + after) if count_pads else each.data
        begins = np.arange(each.places) * each.stride - before
        first = np.maximum(0, -((begins - start) // each.dilation))
        last = np.minimum(each.window - 1, (stop - 1 - begins) // each.dilation)
        total = total[..., None] * np.maximum(0, last - first + 1)
    return total
