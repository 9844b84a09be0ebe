"""Grayscale morphology: dilation and erosion."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Real
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.ops.math.arithmetic import add, negative
from amanda_std.ops.math.reduction import extreme_identity, max_
from amanda_std.ops.nn.convolution import Pairs, strides_or_ones
from amanda_std.ops.nn.sliding_windows import (
    SlidingWindows,
    extract_windows,
    taps_of_window,
)
from amanda_std.ops.tensor.creation import scalar_like
from amanda_std.ops.tensor.index_arithmetic import dtype_of
from amanda_std.ops.tensor.manipulation import flip
from amanda_std.ops.tensor.shape import reshape


@composite
def dilation(
    x: Real, kernel: Real, *, window: tuple[int, ...],
    strides: tuple[int, ...] | None = None, padding: Pairs | str | None = None,
    dilations: tuple[int, ...] | None = None,
) -> Real:  # fmt: skip
    """Grayscale dilation: maximum of data plus kernel [C, *window] over each window"""
    cut = SlidingWindows(x.shape[2:], window, strides, padding, dilations)
    n = len(cut.window)
    low = extreme_identity(dtype_of(x).numpy, True)
    seen = extract_windows(
        x, cut, scalar_like(low if low == -math.inf else low // 2, x)
    )
    inner = reshape(kernel, [kernel.shape[0], *[1] * n, *cut.window])
    return max_(add(seen, inner), tuple(range(n + 2, 2 * n + 2)))


@composite
def erosion(
    x: Real, kernel: Real, *, window: tuple[int, ...],
    strides: tuple[int, ...] | None = None, padding: Pairs | str | None = None,
    dilations: tuple[int, ...] | None = None,
) -> Real:  # fmt: skip
    """Grayscale erosion: minimum of data minus the reversed kernel over each window"""
    transposed = flip(kernel, tuple(range(1, len(window) + 1)))
    result = dilation(negative(x), transposed, window=window, strides=strides,
                     padding=padding, dilations=dilations)  # fmt: skip
    return negative(result)


def _morphology_samples(erode: bool) -> Any:
    def make() -> Samples:
        forms = [((1, 2, 5, 4), (2, 3), None, ((0, 0), (0, 0)), None, (4, 2)),
                 ((2, 1, 6, 5), (3, 2), (2, 2), ((1, 1), (0, 1)), None, (3, 3)),
                 ((1, 2, 6), (2,), None, ((1, 0),), (2,), (5,))]  # fmt: skip
        for data, window, strides, pads, dilations, size in forms:
            s, d = (
                strides_or_ones(strides, len(window)),
                strides_or_ones(dilations, len(window)),
            )
            for dtype in ("float64", "float32", "int32"):
                x = ramp(*data, dtype=dtype)[:, :, ::-1].copy()
                kernel = ramp(data[1], *window, dtype=dtype)
                y = np.zeros((*data[:2], *size), dtype)
                for i, c, *at in np.ndindex(y.shape):
                    result = []
                    for tap, w in taps_of_window(at, window, s, pads, d, data[2:]):
                        k = tuple(m - 1 - p for m, p in zip(window, tap, strict=True))
                        inner = kernel[(c, *k)] if erode else kernel[(c, *tap)]
                        value = x[(i, c, *w)]
                        result.append(value - inner if erode else value + inner)
                    y[(i, c, *at)] = min(result) if erode else max(result)
                attrs = {"window": window, "strides": strides, "padding": pads,
                         "dilations": dilations}  # fmt: skip
                yield Sample((x, kernel), y, attrs)
        empty = np.zeros((0, 1, 3)), np.zeros((1, 2))
        yield Sample(empty, np.zeros((0, 1, 2)), {"window": (2,)}, smooth=False)

    return make


dilation.samples(_morphology_samples(False))


erosion.samples(_morphology_samples(True))
