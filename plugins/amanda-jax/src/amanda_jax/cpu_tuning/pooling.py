"""Pooling over small windows as a reduction of slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any, Final, NamedTuple

from jax import lax

__all__ = ["PoolingCall", "reduce_slices"]

MAX_WINDOW: Final = 9
"""Elements of a window up to which slices are faster than `lax.reduce_window`."""


class PoolingCall(NamedTuple):
    """A reduction over windows; sequences have an element for each spatial axis."""

    x: Any
    initial: Any
    function: Callable[[Any, Any], Any]
    axes: Sequence[int]
    window: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    counts: Sequence[int]
    """The number of windows along each axis."""
    pads: Sequence[tuple[int, int]]
    """For all axes of the data."""


def reduce_slices(call: PoolingCall) -> Any:
    """The reduction axis by axis, over one slice for each element of the window."""
    if prod(call.window) > MAX_WINDOW:
        return None
    y = lax.pad(call.x, call.initial, [(*pair, 0) for pair in call.pads])
    rows = zip(call.axes, call.window, call.strides, call.dilations, call.counts,
               strict=True)  # fmt: skip
    for axis, k, s, d, count in rows:
        slices = [
            lax.slice_in_dim(y, i * d, i * d + (count - 1) * s + 1, s, axis)
            for i in range(k)
        ]
        y = reduce(call.function, slices)
    return y
