"""Convolutions: one op of XLA each, in the layouts that are told."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from amanda_jax.notes import is_on
from amanda_std.ops.convolution import (
    explicit,
    input_first,
    steps,
    to_front,
    transposed_rows,
)


def conv(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int,
) -> Any:  # fmt: skip
    n = x.ndim - 2
    data, kernel = to_front(layout, x.ndim), to_front(kernel_layout, w.ndim)
    s, d = steps(strides, n), steps(dilations, n)
    spatial = [x.shape[i] for i in data[2:]]
    window = [w.shape[i] for i in kernel[2:]]
    pads = explicit(padding, spatial, window, s, d)
    pads_none = not any(map(any, pads))
    behind = data[1] == x.ndim - 1 and kernel[:2] == (w.ndim - 1, w.ndim - 2)
    if (
        behind
        and pads_none
        and groups == 1
        and set(window) == {1}
        and is_on("pointwise")
    ):
        y = _product(x, w, s)
    else:
        y = lax.conv_general_dilated(
            jnp.asarray(x),
            jnp.asarray(w),
            window_strides=s,
            padding=pads,
            rhs_dilation=d,
            dimension_numbers=lax.ConvDimensionNumbers(data, kernel, data),
            feature_group_count=groups,
        )
    return y if b is None else y + _on_channels(b, data)


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
    data = to_front(layout, x.ndim)
    w = jnp.transpose(w, input_first(kernel_layout, w.ndim))
    inner, out, *kernel = w.shape
    spatial = [x.shape[i] for i in data[2:]]
    rows = transposed_rows(spatial, kernel, strides, padding, dilations, output_padding)
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
        dimension_numbers=lax.ConvDimensionNumbers(data, to_front("OI*", w.ndim), data),
        feature_group_count=groups,
    )
    return y if b is None else y + _on_channels(b, data)
