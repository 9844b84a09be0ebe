"""Convolutions: one op of XLA each, in the layouts that are told."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda_jax import settings
from amanda_jax.compile.trace_context import is_on
from amanda_jax.cpu_tuning import winograd
from amanda_std.backends import (
    channels_first_permutation,
    explicit_padding,
    input_first_permutation,
    per_axis,
    transposed_windows,
    window_counts,
    window_slices,
)

FEW: Final = 256
"""Places up to which a kernel that lies as columns do is worth it."""
DEEP: Final = 32
"""Channels from which what is put side by side is copied in large parts."""
NARROW: Final = 128
"""Channels of results below which XLA's library gives a convolution to one core."""
MUCH: Final = 1 << 24
"""Products from which a convolution is worth several cores."""
PARTS: Final = 8
"""Parts of a convolution at most, each of two rows of results at least."""


def conv(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int,
) -> Any:  # fmt: skip
    n = x.ndim - 2
    data, kernel = (
        channels_first_permutation(layout, x.ndim),
        channels_first_permutation(kernel_layout, w.ndim),
    )
    s, d = per_axis(strides, n), per_axis(dilations, n)
    spatial = [x.shape[i] for i in data[2:]]
    if w.ndim < x.ndim:  # turned for tiles on its way to the device
        pads = explicit_padding(padding, spatial, [winograd.KERNEL] * n, s, d)
        y = winograd.conv(jnp.asarray(x), w, pads)
        return y if b is None else y + b
    window = [w.shape[i] for i in kernel[2:]]
    pads = explicit_padding(padding, spatial, window, s, d)
    pads_none = not any(map(any, pads))
    behind = data[1] == x.ndim - 1 and kernel[:2] == (w.ndim - 1, w.ndim - 2)
    plain = behind and groups == 1
    if plain and pads_none and set(window) == {1} and is_on("pointwise"):
        y = _product(x, w, s)
    elif (
        plain and _are_few(x, window, s, d, pads) and w.shape[-2] >= DEEP
        and is_on("columns")
    ):  # fmt: skip
        y = _columns(jnp.asarray(x), w, s, d, pads)
    else:
        convolve = partial(
            lax.conv_general_dilated,
            rhs=jnp.asarray(w),
            window_strides=s,
            rhs_dilation=d,
            dimension_numbers=lax.ConvDimensionNumbers(data, kernel, data),
            feature_group_count=groups,
        )
        if plain and is_on("parts") and _is_for_one_core(x, w, s, d, pads):
            y = _in_parts(jnp.asarray(x), convolve, window[0], s[0], d[0], pads)
        else:
            y = convolve(jnp.asarray(x), padding=pads)
    return y if b is None else y + _on_channels(b, data)


def _are_few(x: Any, window: Any, s: Any, d: Any, pads: Any) -> bool:
    """Whether a kernel is put to so few places that turning it for them costs more."""
    sizes = [x.shape[0], *window_counts(x.shape[1:-1], window, s, tuple(pads), d)]
    return all(type(n) is int for n in sizes) and prod(sizes) <= FEW


def _is_for_one_core(x: Any, w: Any, s: Any, d: Any, pads: Any) -> bool:
    """Whether XLA's library would let one core do it, though it is worth several."""
    *window, _, out = w.shape
    sizes = [x.shape[0], *window_counts(x.shape[1:-1], window, s, tuple(pads), d)]
    if out >= NARROW or not all(type(n) is int for n in sizes):
        return False
    return bool(sizes[1] >= 2 * PARTS and prod(sizes) * w.size >= MUCH)


def _in_parts(x: Any, convolve: Any, window: int, s: int, d: int, pads: Any) -> Any:
    """Rows of results apart from each other, as many parts as there are cores.

    `window`, `s` and `d` are those of rows, `pads` those of all axes."""
    reach = d * (window - 1) + 1
    (low, high), *others = pads
    none = [(0, 0, 0)] * (x.ndim - 2)
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (low, high, 0), *none])
    rows = (x.shape[1] - reach) // s + 1
    parts = min(PARTS, settings.cores())
    ends = [rows * i // parts for i in range(parts + 1)]
    made = [
        convolve(x[:, first * s : (last - 1) * s + reach], padding=[(0, 0), *others])
        for first, last in pairwise(ends)
    ]
    return jnp.concatenate(made, 1)


def _columns(x: Any, w: Any, s: Any, d: Any, pads: Any) -> Any:
    """What each place of the kernel sees, side by side, and one product of it."""
    window, out = w.shape[:-2], w.shape[-1]
    every_pad = [(0, 0), *pads, (0, 0)]
    x = lax.pad(x, np.zeros((), x.dtype), [(*pair, 0) for pair in every_pad])
    size = window_counts(x.shape[1:-1], window, s, None, d)
    every = slice(None)
    seen = [
        x[(every, *window_slices(at, size, s, d), every)] for at in np.ndindex(*window)
    ]
    columns = jnp.concatenate(seen, -1)
    made = jnp.matmul(columns.reshape(-1, columns.shape[-1]), w.reshape(-1, out))
    return made.reshape(*columns.shape[:-1], out)


def _product(x: Any, w: Any, strides: Any) -> Any:
    """A convolution with a kernel of one element: a product of matrices."""
    every = (slice(None), *(slice(None, None, s) for s in strides), slice(None))
    x = jnp.asarray(x)[every]
    inner, out = w.shape[-2:]
    made = jnp.matmul(x.reshape(-1, inner), w.reshape(inner, out))
    return made.reshape(*x.shape[:-1], out)


def _on_channels(b: Any, data: tuple[int, ...]) -> Any:
    return b.reshape([-1 if i == data[1] else 1 for i in range(len(data))])


def conv_transpose(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int, output_padding: Any,
) -> Any:  # fmt: skip
    """A convolution of the data spread by the strides, with the kernel reversed."""
    data = channels_first_permutation(layout, x.ndim)
    w = jnp.transpose(w, input_first_permutation(kernel_layout, w.ndim))
    inner, out, *kernel = w.shape
    spatial = [x.shape[i] for i in data[2:]]
    rows = transposed_windows(
        spatial, kernel, strides, padding, dilations, output_padding
    )
    w = w.reshape(groups, inner // groups, out, *kernel).swapaxes(1, 2)
    w = w.reshape(groups * out, inner // groups, *kernel)
    y = lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.flip(w, range(2, w.ndim)),
        window_strides=(1,) * len(kernel),
        padding=[
            ((k - 1) * d - a, (k - 1) * d - c + r) for _, k, _, (a, c), d, r in rows
        ],
        lhs_dilation=[row[2] for row in rows],
        rhs_dilation=[row[4] for row in rows],
        dimension_numbers=lax.ConvDimensionNumbers(
            data, channels_first_permutation("OI*", w.ndim), data
        ),
        feature_group_count=groups,
    )
    return y if b is None else y + _on_channels(b, data)
