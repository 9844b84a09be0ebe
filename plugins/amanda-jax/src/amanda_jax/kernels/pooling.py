"""Pooling: a reduction over windows, one op of XLA each."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any, Final

import numpy as np
from jax import lax

from amanda_jax.compile.trace_context import is_on
from amanda_std.backends import (
    channels_first_permutation,
    dtype_bound,
    explicit_padding,
    per_axis,
    pooled_sizes,
)

Pads = list[tuple[int, int]]

SMALL: Final = 9
"""Elements of a window up to which slices of the data are faster than windows."""


class _Windows:
    """Where the windows of one call lie."""

    def __init__(
        self, x: Any, window: Any, strides: Any, padding: Any, dilations: Any,
        ceil: bool, layout: str,
    ) -> None:  # fmt: skip
        n = len(window)
        self.order = channels_first_permutation(layout, x.ndim)
        self.window = tuple(window)
        self.strides, self.dilations = per_axis(strides, n), per_axis(dilations, n)
        self.spatial = [x.shape[i] for i in self.order[2:]]
        self.pads: Pads = explicit_padding(
            padding, self.spatial, window, self.strides, self.dilations
        )
        self.size = pooled_sizes(
            self.spatial, window, self.strides, self.pads, self.dilations, ceil
        )

    def _whole(self, values: Any, other: Any) -> list[Any]:
        """Numbers for each spatial axis, among those for batch and channels."""
        found = [other] * len(self.order)
        for axis, value in zip(self.order[2:], values, strict=True):
            found[axis] = value
        return found

    def _needed(self) -> Pads:
        """The pads that make room for exactly the windows that there are."""
        rows = zip(self.spatial, self.window, self.strides, self.pads, self.dilations,
                   self.size, strict=True)  # fmt: skip
        return [
            (a, (count - 1) * s + (k - 1) * d + 1 - n - a)
            for n, k, s, (a, _), d, count in rows
        ]

    def reduced(self, x: Any, first: Any, function: Any) -> Any:
        if prod(self.window) <= SMALL and is_on("windows"):
            return self._of_slices(x, first, function)
        return lax.reduce_window(
            x,
            first,
            function,
            self._whole(self.window, 1),
            self._whole(self.strides, 1),
            self._whole(self._needed(), (0, 0)),
            window_dilation=self._whole(self.dilations, 1),
        )

    def _of_slices(self, x: Any, first: Any, function: Any) -> Any:
        """The same, axis by axis, as sums or the largest of slices."""
        y = lax.pad(
            x, first, [(*pair, 0) for pair in self._whole(self._needed(), (0, 0))]
        )
        rows = zip(self.order[2:], self.window, self.strides, self.dilations,
                   self.size, strict=True)  # fmt: skip
        for axis, k, s, d, count in rows:
            cuts = [
                lax.slice_in_dim(y, i * d, i * d + (count - 1) * s + 1, s, axis)
                for i in range(k)
            ]
            y = reduce(function, cuts)
        return y

    def counts(self, dtype: Any, count_pads: bool) -> Any:
        """How many elements each window sees, told without looking at the data."""
        total: Any = np.ones((1,) * len(self.order), "int64")
        rows = zip(self.order[2:], self.spatial, self.window, self.strides, self.pads,
                   self.dilations, self.size, strict=True)  # fmt: skip
        for axis, n, k, s, (a, b), d, count in rows:
            at = np.arange(count)[:, None] * s + np.arange(k)[None, :] * d - a
            low, high = (-a, n + b) if count_pads else (0, n)
            seen = ((at >= low) & (at < high)).sum(1)
            shape = [-1 if i == axis else 1 for i in range(len(self.order))]
            total = total * seen.reshape(shape)
        return total.astype(dtype)


def max_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str,
) -> Any:  # fmt: skip
    windows = _Windows(x, window, strides, padding, dilations, ceil, layout)
    return windows.reduced(x, np.asarray(dtype_bound(x.dtype, True), x.dtype), lax.max)


def avg_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str, count_pads: bool,
) -> Any:  # fmt: skip
    windows = _Windows(x, window, strides, padding, dilations, ceil, layout)
    total = windows.reduced(x, np.asarray(0, x.dtype), lax.add)
    return total / windows.counts(x.dtype, count_pads)
