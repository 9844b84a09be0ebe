"""From Keras: convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amanda_keras.mapping.activations import apply_activation
from amanda_keras.mapping.layer_calls import Weights, expect, layers
from amanda_keras.mapping.layouts import layout_of, per_axis, same_or_valid
from amanda_keras.mapping.read_core import add_bias
from amanda_std import ops

__all__ = ["READ", "convolve"]


def convolve(
    x: Any, kernel: Any, rank: int, *, strides: Any = 1, padding: str = "valid",
    data_format: Any = None, dilation_rate: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """A convolution with a kernel [*window, in, out]."""
    layout = layout_of(data_format)
    dilations = per_axis(dilation_rate, rank)
    mode: Any
    if padding == "causal":
        pads = [(0, 0)] * (rank + 2)
        axis = 2 if layout == "NC*" else 1
        pads[axis] = (dilations[0] * (int(kernel.shape[0]) - 1), 0)
        x, mode = ops.pad(x, pads), "valid"
    else:
        mode = same_or_valid(padding)
    return ops.conv(
        x, kernel, layout=layout, kernel_layout="*IO", padding=mode,
        strides=per_axis(strides, rank), dilations=dilations, groups=groups,
    )  # fmt: skip


def _conv(rank: int) -> Callable[..., Any]:
    def read_conv(
        inputs: Any, *, weights: Weights, filters: int = 0, kernel_size: Any = None,
        strides: Any = 1, padding: str = "valid", data_format: Any = None,
        dilation_rate: Any = 1, groups: Any = None, activation: Any = None,
        use_bias: bool = True,
    ) -> Any:  # fmt: skip
        del filters, kernel_size
        y = convolve(
            inputs, weights["kernel"], rank, strides=strides, padding=padding,
            data_format=data_format, dilation_rate=dilation_rate, groups=groups or 1,
        )  # fmt: skip
        if use_bias:
            y = add_bias(y, weights["bias"], data_format == "channels_first")
        return apply_activation(y, activation)

    return read_conv


def _depthwise(x: Any, kernel: Any, rank: int, **config: Any) -> Any:
    """A convolution of each channel by a kernel [*window, channels, multiplier]."""
    *window, channels, times = kernel.shape
    flat = ops.reshape(kernel, [*window, 1, channels * times])
    return convolve(x, flat, rank, groups=int(channels), **config)


def _depthwise_conv(rank: int) -> Callable[..., Any]:
    def read_depthwise_conv(
        inputs: Any, *, weights: Weights, kernel_size: Any = None, strides: Any = 1,
        padding: str = "valid", depth_multiplier: int = 1, data_format: Any = None,
        dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
        groups: Any = None, filters: Any = None,
    ) -> Any:  # fmt: skip
        del kernel_size, depth_multiplier, groups, filters
        y = _depthwise(
            inputs, weights["kernel"], rank, strides=strides, padding=padding,
            data_format=data_format, dilation_rate=dilation_rate,
        )  # fmt: skip
        if use_bias:
            y = add_bias(y, weights["bias"], data_format == "channels_first")
        return apply_activation(y, activation)

    return read_depthwise_conv


def _separable_conv(rank: int) -> Callable[..., Any]:
    def read_separable_conv(
        inputs: Any, *, weights: Weights, filters: int = 0, kernel_size: Any = None,
        strides: Any = 1, padding: str = "valid", data_format: Any = None,
        dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None,
        use_bias: bool = True, groups: Any = None,
    ) -> Any:  # fmt: skip
        del filters, kernel_size, depth_multiplier, groups
        y = _depthwise(
            inputs, weights["depthwise_kernel"], rank, strides=strides,
            padding=padding, data_format=data_format, dilation_rate=dilation_rate,
        )  # fmt: skip
        y = convolve(y, weights["pointwise_kernel"], rank, data_format=data_format)
        if use_bias:
            y = add_bias(y, weights["bias"], data_format == "channels_first")
        return apply_activation(y, activation)

    return read_separable_conv


def _conv_transpose(rank: int) -> Callable[..., Any]:
    def read_conv_transpose(
        inputs: Any, *, weights: Weights, filters: int = 0, kernel_size: Any = None,
        strides: Any = 1, padding: str = "valid", output_padding: Any = None,
        data_format: Any = None, dilation_rate: Any = 1, activation: Any = None,
        use_bias: bool = True, groups: Any = None,
    ) -> Any:  # fmt: skip
        del filters, kernel_size
        expect(groups in (None, 1), "a transposed convolution of groups")
        kernel = weights["kernel"]
        s, d = per_axis(strides, rank), per_axis(dilation_rate, rank)
        extra: Any = [None] * rank
        if output_padding is not None:
            extra = per_axis(output_padding, rank)
        cuts = [
            _transposed_pads((int(k) - 1) * b + 1, a, padding, e)
            for k, a, b, e in zip(kernel.shape[:rank], s, d, extra, strict=True)
        ]
        more = tuple(max(-high, 0) for _, high in cuts)
        y = ops.conv_transpose(
            inputs, kernel, layout=layout_of(data_format), kernel_layout="*OI",
            strides=s, dilations=d,
            padding=tuple((low, max(high, 0)) for low, high in cuts),
            output_padding=more if any(more) else None,
        )  # fmt: skip
        if use_bias:
            y = add_bias(y, weights["bias"], data_format == "channels_first")
        return apply_activation(y, activation)

    return read_conv_transpose


def _transposed_pads(
    window: int, stride: int, padding: str, extra: int | None
) -> tuple[int, int]:
    """How much of the whole result is cut at both ends; negative if it is longer."""
    if padding == "valid":
        longer = max(window, stride) - window if extra is None else extra
        return 0, -longer
    expect(padding == "same", f"padding={padding} is not supported")
    total = stride + window - 2
    if extra is not None:
        total = window + window % 2 - 2 + extra
    left = min(total // 2 + total % 2, window - 1)
    return window - 1 - left, window - 1 - (total - left)


READ: Final = layers(
    {f"Conv{n}D": _conv(n) for n in (1, 2, 3)}
    | {f"Conv{n}DTranspose": _conv_transpose(n) for n in (1, 2, 3)}
    | {f"DepthwiseConv{n}D": _depthwise_conv(n) for n in (1, 2)}
    | {f"SeparableConv{n}D": _separable_conv(n) for n in (1, 2)}
)
