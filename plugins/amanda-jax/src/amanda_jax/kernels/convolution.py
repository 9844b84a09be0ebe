"""Convolutions: one op of XLA each, in their own layouts, or a faster algorithm."""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
from jax import lax

from amanda_jax.compile.trace_context import enabled_steps, note
from amanda_jax.cpu_tuning import winograd
from amanda_jax.cpu_tuning.convolution import ConvolutionCall
from amanda_jax.cpu_tuning.packed_weights import PackedWeights, convolve_packed
from amanda_std.backends import (
    channels_first_permutation,
    explicit_padding,
    input_first_permutation,
    per_axis,
    transposed_windows,
)

FUSED: Final = {"conv": "convolution", "add": "addition", "relu": "relu"}
"""The parts of a convolution with a sum and ReLU, by the ops that they are."""


def conv(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int, addend: Any = None, relu: bool = False,
) -> Any:  # fmt: skip
    if isinstance(w, PackedWeights):
        attrs = {"strides": strides, "padding": padding, "dilations": dilations,
                 "groups": groups}  # fmt: skip
        note("convolutions by oneDNN")
        return convolve_packed(x, w, b, addend, relu, attrs)
    n = x.ndim - 2
    data, kernel = (
        channels_first_permutation(layout, x.ndim),
        channels_first_permutation(kernel_layout, w.ndim),
    )
    s, d = per_axis(strides, n), per_axis(dilations, n)
    spatial = [x.shape[i] for i in data[2:]]
    if w.ndim < x.ndim:  # the device layout is that of Winograd
        pads = explicit_padding(padding, spatial, [winograd.KERNEL] * n, s, d)
        y = winograd.conv(jnp.asarray(x), w, pads)
        return y if b is None else y + b
    pads = explicit_padding(padding, spatial, [w.shape[i] for i in kernel[2:]], s, d)

    def convolve(x: Any, padding: Any) -> Any:
        return lax.conv_general_dilated(
            jnp.asarray(x),
            jnp.asarray(w),
            window_strides=s,
            padding=padding,
            rhs_dilation=d,
            dimension_numbers=lax.ConvDimensionNumbers(data, kernel, data),
            feature_group_count=groups,
        )

    y = None
    is_channels_last = data[1] == x.ndim - 1 and groups == 1
    if is_channels_last and kernel[:2] == (w.ndim - 1, w.ndim - 2):
        y = _convolve_faster(ConvolutionCall(x, w, s, d, pads, convolve))
    elif is_channels_last and kernel == (*range(w.ndim),):
        call = ConvolutionCall(x, w, s, d, pads, convolve, output_first=True)
        y = _convolve_faster(call)
    y = convolve(x, pads) if y is None else y
    return y if b is None else y + _on_channels(b, data)


def _convolve_faster(call: ConvolutionCall) -> Any:
    """The result by the first enabled algorithm that is faster here, or None."""
    for step in enabled_steps():
        y = None if step.convolution is None else step.convolution(call)
        if y is not None:
            return y
    return None


def _on_channels(b: Any, data: tuple[int, ...]) -> Any:
    return b.reshape([-1 if i == data[1] else 1 for i in range(len(data))])


def conv_transpose(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int, output_padding: Any,
) -> Any:  # fmt: skip
    """A convolution of the dilated data with the reversed kernel."""
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
