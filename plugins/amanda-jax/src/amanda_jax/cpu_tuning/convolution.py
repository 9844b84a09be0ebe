"""Other algorithms for convolutions, which are faster than XLA's where they apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda_jax.cpu_tuning import cores
from amanda_std.backends import window_counts, window_slices

__all__ = [
    "ConvolutionCall",
    "convolve_in_parts",
    "im2col",
    "parallel_parts",
    "pointwise",
]

MAX_POSITIONS: Final = 256
"""Positions up to which im2col is faster."""
MIN_CHANNELS: Final = 32
"""Input channels from which im2col copies contiguous memory."""
SERIAL_CHANNELS: Final = 128
"""Output channels below which XLA's library runs a convolution on one core."""
MIN_PRODUCTS: Final = 1 << 24
"""Multiplications from which a convolution is worth several cores."""
MAX_PARTS: Final = 8
"""The maximum number of parts, each of two rows of results at least."""


class ConvolutionCall(NamedTuple):
    """A channels-last convolution in one group: N*C data, a kernel in *IO or OI*."""

    x: Any
    w: Any
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[tuple[int, int]]
    convolve: Callable[..., Any]
    """XLA's convolution with this kernel, of `x` and `padding`."""
    output_first: bool = False
    """Whether the kernel is in OI*, which only products read as fast as *IO."""

    @property
    def window(self) -> Sequence[int]:
        size: Sequence[int] = (
            self.w.shape[2:] if self.output_first else self.w.shape[:-2]
        )
        return size

    @property
    def result_sizes(self) -> list[Any]:
        """The batch and the spatial dims of the result."""
        spatial = window_counts(
            self.x.shape[1:-1], self.window, self.strides, tuple(self.pads),
            self.dilations,
        )  # fmt: skip
        return [self.x.shape[0], *spatial]


def pointwise(call: ConvolutionCall) -> Any:
    """A convolution with a kernel of one element, as a matrix product."""
    if any(map(any, call.pads)) or set(call.window) != {1}:
        return None
    strided = (slice(None, None, s) for s in call.strides)
    x = jnp.asarray(call.x)[(slice(None), *strided, slice(None))]
    if call.output_first:
        w, contracted = call.w.reshape(call.w.shape[:2]), 1
    else:
        w, contracted = call.w.reshape(call.w.shape[-2:]), 0
    y = lax.dot_general(
        x.reshape(-1, x.shape[-1]), w, (((1,), (contracted,)), ((), ()))
    )
    return y.reshape(*x.shape[:-1], w.shape[1 - contracted])


def im2col(call: ConvolutionCall) -> Any:
    """A convolution at few positions, as one matrix product of patches (im2col)."""
    sizes = call.result_sizes
    is_short = all(type(n) is int for n in sizes) and prod(sizes) <= MAX_POSITIONS
    if call.output_first or not is_short or call.w.shape[-2] < MIN_CHANNELS:
        return None
    window, out = call.window, call.w.shape[-1]
    pads = [(0, 0, 0), *((*pair, 0) for pair in call.pads), (0, 0, 0)]
    x = jnp.asarray(call.x)
    x = lax.pad(x, np.zeros((), x.dtype), pads)
    size = window_counts(x.shape[1:-1], window, call.strides, None, call.dilations)
    every = slice(None)
    elements = [
        x[(every, *window_slices(at, size, call.strides, call.dilations), every)]
        for at in np.ndindex(*window)
    ]
    columns = jnp.concatenate(elements, -1)
    y = jnp.matmul(columns.reshape(-1, columns.shape[-1]), call.w.reshape(-1, out))
    return y.reshape(*columns.shape[:-1], out)


def parallel_parts(call: ConvolutionCall) -> Any:
    """A convolution that XLA's library would run on one core, in parts."""
    sizes = call.result_sizes
    if call.output_first:
        return None
    if call.w.shape[-1] >= SERIAL_CHANNELS or not all(type(n) is int for n in sizes):
        return None
    if sizes[1] < 2 * MAX_PARTS or prod(sizes) * call.w.size < MIN_PRODUCTS:
        return None
    return convolve_in_parts(call)


def convolve_in_parts(call: ConvolutionCall) -> Any:
    """The convolution of parts along rows, as many as there are cores, concatenated."""
    x, s = jnp.asarray(call.x), call.strides[0]
    reach = call.dilations[0] * (call.window[0] - 1) + 1
    (low, high), *others = call.pads
    none = [(0, 0, 0)] * (x.ndim - 2)
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (low, high, 0), *none])
    rows = (x.shape[1] - reach) // s + 1
    parts = min(MAX_PARTS, cores.core_count())
    ends = [rows * i // parts for i in range(parts + 1)]
    results = [
        call.convolve(x[:, first * s : (last - 1) * s + reach], [(0, 0), *others])
        for first, last in pairwise(ends)
    ]
    return jnp.concatenate(results, 1)
