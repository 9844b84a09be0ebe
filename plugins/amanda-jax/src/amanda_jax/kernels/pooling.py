"""Pooling: a reduction over windows, one op of XLA each, or a faster algorithm."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda_jax.compile.trace_context import enabled_steps
from amanda_jax.cpu_tuning.pooling import PoolingCall
from amanda_std.backends import (
    channels_first_permutation,
    dtype_bound,
    explicit_padding,
    per_axis,
    pooled_sizes,
    replace_nan,
)

Pads = list[tuple[int, int]]


class _Windows:
    """The windows of one call: sizes, strides, pads and their number."""

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

    def _for_every_axis(self, values: Any, other: Any) -> list[Any]:
        """Values for the spatial axes, and `other` for batch and channels."""
        values_by_axis = [other] * len(self.order)
        for axis, value in zip(self.order[2:], values, strict=True):
            values_by_axis[axis] = value
        return values_by_axis

    def _needed_pads(self) -> Pads:
        """The pads for exactly the windows that there are."""
        rows = zip(self.spatial, self.window, self.strides, self.pads, self.dilations,
                   self.size, strict=True)  # fmt: skip
        return [
            (a, (count - 1) * s + (k - 1) * d + 1 - n - a)
            for n, k, s, (a, _), d, count in rows
        ]

    def reduce(self, x: Any, initial: Any, function: Any) -> Any:
        pads = self._for_every_axis(self._needed_pads(), (0, 0))
        call = PoolingCall(
            x, initial, function, self.order[2:], self.window, self.strides,
            self.dilations, self.size, pads,
        )  # fmt: skip
        for step in enabled_steps():
            y = None if step.pooling is None else step.pooling(call)
            if y is not None:
                return y
        return lax.reduce_window(
            x,
            initial,
            function,
            self._for_every_axis(self.window, 1),
            self._for_every_axis(self.strides, 1),
            call.pads,
            window_dilation=self._for_every_axis(self.dilations, 1),
        )

    def counts(self, dtype: Any, count_pads: bool) -> Any:
        """How many elements each window contains, computed from shapes alone."""
        total: Any = np.ones((1,) * len(self.order), "int64")
        rows = zip(self.order[2:], self.spatial, self.window, self.strides, self.pads,
                   self.dilations, self.size, strict=True)  # fmt: skip
        for axis, n, k, s, (a, b), d, count in rows:
            at = np.arange(count)[:, None] * s + np.arange(k)[None, :] * d - a
            low, high = (-a, n + b) if count_pads else (0, n)
            inside = ((at >= low) & (at < high)).sum(1)
            shape = [-1 if i == axis else 1 for i in range(len(self.order))]
            total = total * inside.reshape(shape)
        return total.astype(dtype)


def max_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str,
) -> Any:  # fmt: skip
    windows = _Windows(x, window, strides, padding, dilations, ceil, layout)
    low = np.asarray(dtype_bound(x.dtype, True), x.dtype)
    return windows.reduce(replace_nan(x), low, lax.max)


def avg_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str, count_pads: bool,
) -> Any:  # fmt: skip
    windows = _Windows(x, window, strides, padding, dilations, ceil, layout)
    total = windows.reduce(x, np.asarray(0, x.dtype), lax.add)
    total = jnp.where(total == 0, jnp.zeros((), x.dtype), total)  # never -0
    return total / windows.counts(x.dtype, count_pads)
