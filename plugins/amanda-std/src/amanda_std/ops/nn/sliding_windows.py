"""Sliding windows over spatial axes: geometry, extraction and samples."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from amanda.types import minimum
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.values import Operators
from amanda_std.inference.shape_arguments import is_static
from amanda_std.ops.math.arithmetic import add, maximum, multiply, subtract
from amanda_std.ops.math.arithmetic import minimum as minimum_
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.nn.convolution import output_sizes as places_without_ceil
from amanda_std.ops.nn.convolution import resolve_padding, strides_or_ones
from amanda_std.ops.nn.window_reduction import axis_windows
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.index_arithmetic import as_int64, in_range
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import expand_dims, transpose


class SlidingWindows:
    """Geometry of sliding windows; dims may be static or computed."""

    def __init__(
        self, spatial: Any, window: Any, strides: Any, padding: Any, dilations: Any,
        ceil: bool = False,
    ) -> None:  # fmt: skip
        n = len(window)
        self.spatial, self.window = list(spatial), tuple(window)
        self.strides, self.dilations = (
            strides_or_ones(strides, n),
            strides_or_ones(dilations, n),
        )
        self.pads = resolve_padding(
            padding, spatial, window, self.strides, self.dilations
        )
        self.size = places_without_ceil(
            spatial, window, self.strides, tuple(self.pads), self.dilations
        )
        if ceil:
            self.size = [self._rounded_up(i) for i in range(n)]

    def _rounded_up(self, i: int) -> Any:
        """Round up; the last window must start in the data or the padding before it."""
        n, k, s, d = (
            self.spatial[i], self.window[i], self.strides[i], self.dilations[i],
        )  # fmt: skip
        a, b = self.pads[i]
        most = -(-(n + a + b - (k - 1) * d - 1) // s) + 1
        initial = (n + a - 1) // s + 1
        if isinstance(most, Operators) or isinstance(initial, Operators):
            return minimum_(most, initial)
        return minimum(most, initial)

    def clip_to_data(self) -> SlidingWindows:
        """The same windows without the positions that never see the data.

        Unchanged where dims are computed, or where no window sees the data."""
        counts = [size for size in self.size if isinstance(size, int)]
        if len(counts) < len(self.size) or not is_static(tuple(self.spatial)):
            return self
        taps = [
            each.taps()
            for each in axis_windows(
                self.spatial,
                self.window,
                self.strides,
                tuple(map(tuple, self.pads)),
                self.dilations,
                counts,
            )
        ]
        if not all(taps):
            return self
        twin = copy(self)
        twin.window = tuple(map(len, taps))
        rows = zip(self.pads, taps, self.dilations, strict=True)
        twin.pads = [(a - t[0] * d, b) for (a, b), t, d in rows]
        return twin

    def at(self, i: int) -> tuple[Any, Any]:
        """Indices [output, window] along an axis, and a mask of those in the data."""
        begin = multiply(arange(0, self.size[i]), self.strides[i])
        inside = multiply(arange(0, self.window[i]), self.dilations[i])
        begin = subtract(begin, self.pads[i][0])
        at = add(expand_dims(begin, (1,)), inside)
        last = subtract(as_int64(self.spatial[i]), 1)
        return at, in_range(at, np.asarray(0), last)


def clamp_index(at: Any, size: Any) -> Any:
    last = subtract(as_int64(size), 1)
    return minimum_(maximum(at, np.asarray(0)), last)


def extract_windows(
    x: Any, windows: SlidingWindows, fill: Any, ceil: bool = False
) -> Any:
    """Windows [N, C, *output, *window], with `fill` outside the data."""
    n = len(windows.window)
    for i in reversed(range(n)):
        at, there = windows.at(i)
        x = gather(x, clamp_index(at, windows.spatial[i]), i + 2)
        if ceil or not is_static(windows.pads[i]) or any(windows.pads[i]):
            rest = tuple(range(2, 2 * (n - i)))
            x = where_(expand_dims(there, rest) if rest else there, x, fill)
    odd, even = range(3, 2 * n + 2, 2), range(2, 2 * n + 2, 2)
    return transpose(x, perm=(0, 1, *even, *odd))


def taps_of_window(at: Any, window: Any, s: Any, pads: Any, d: Any, size: Any) -> Any:
    """Yield (offset in the window, index in the data) of elements inside the data."""
    for tap in np.ndindex(*window):
        where = tuple(
            p * q - low + k * e
            for p, q, k, e, (low, _) in zip(at, s, tap, d, pads, strict=True)
        )
        if all(0 <= p < n for p, n in zip(where, size, strict=True)):
            yield tap, where


WINDOW_CASES: list[tuple[Any, ...]] = [
    # data, window, strides, pads, dilations, ceil, output size
    ((1, 2, 5, 4), (2, 3), None, ((0, 0), (0, 0)), None, False, (4, 2)),
    ((2, 1, 6, 5), (3, 2), (2, 2), ((1, 1), (0, 1)), None, False, (3, 3)),
    ((1, 1, 7), (2,), (2,), ((0, 0),), None, True, (4,)),
    ((1, 2, 6), (2,), None, ((1, 0),), (2,), False, (5,)),
]


def window_samples(make: Any, dtypes: Any = ("float64", "float32")) -> Samples:
    """Samples of an op on windows; `make(x, plane, taps)` is the expected result."""
    for data, window, strides, pads, dilations, ceil, size in WINDOW_CASES:
        s, d = (
            strides_or_ones(strides, len(window)),
            strides_or_ones(dilations, len(window)),
        )
        for dtype in dtypes:
            x = ramp(*data, dtype=dtype)
            x = x[:, :, ::-1].copy()
            given = {"window": window, "strides": strides, "padding": pads,
                     "dilations": dilations, "ceil": ceil}  # fmt: skip
            for attrs, results in make(x):
                outputs = [np.zeros((*data[:2], *size), t) for t in results]
                for i, c, *at in np.ndindex(outputs[0].shape):
                    taps = taps_of_window(at, window, s, pads, d, data[2:])
                    one = attrs["of"](x, (i, c), [w for _, w in taps])
                    for y, v in zip(outputs, one, strict=True):
                        y[(i, c, *at)] = v
                more = {k: v for k, v in attrs.items() if k != "of"}
                many = len(outputs) > 1
                yield Sample((x,), outputs if many else outputs[0], given | more)
