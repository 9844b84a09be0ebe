"""From TensorFlow: fake quantization, and its gradients."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    gradient_of,
    gradients_of,
    rank_of,
    required_integer,
)

__all__ = ["READ"]


def read_fake_quant_args(
    x: Any, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8,
    narrow_range: bool = False,
) -> Any:  # fmt: skip
    """FakeQuantWithMinMaxArgs to `fake_quantize_range`."""
    return ops.fake_quantize_range(
        x, np.float32(min), np.float32(max), bits=num_bits, narrow=narrow_range
    )


def read_fake_quant_vars_gradient(
    g: Any, x: Any, low: Any, high: Any, *, num_bits: int = 8,
    narrow_range: bool = False,
) -> Any:  # fmt: skip
    """The gradients of data and of both limits."""

    def forward(x: Any, low: Any, high: Any) -> Any:
        return ops.fake_quantize_range(x, low, high, bits=num_bits, narrow=narrow_range)

    return gradients_of(forward, (x, low, high), g)


def read_fake_quant_args_gradient(g: Any, x: Any, **attrs: Any) -> Any:
    """FakeQuantWithMinMaxArgsGradient to the gradient of the quantization."""
    return gradient_of(lambda x: read_fake_quant_args(x, **attrs), x, g)


def _range_of(x: Any, axis: int) -> tuple[Any, Any]:
    """The least and greatest element, of each slice along an axis if not -1."""
    rank = rank_of(x)
    axes = [i for i in range(rank) if axis == -1 or i != axis]
    return ops.min(x, axes), ops.max(x, axes)


def read_quantize_and_dequantize(
    x: Any, low: Any = None, high: Any = None, *, signed_input: bool = True,
    num_bits: int = 8, range_given: bool = False, round_mode: str = "HALF_TO_EVEN",
    narrow_range: bool = False, axis: int = -1,
) -> Any:  # fmt: skip
    """Rounded to multiples of a step, which the wider side of the range decides."""
    if not range_given:
        low, high = _range_of(x, axis)
    least = -(2 ** (num_bits - 1)) + narrow_range if signed_input else 0
    most = 2 ** (num_bits - signed_input) - 1
    if axis != -1:
        shape = [-1 if i == axis else 1 for i in range(rank_of(x))]
        low, high = ops.reshape(low, shape), ops.reshape(high, shape)
    top = high / ops.number_like(x, value=most)
    step = ops.maximum(top, low / ops.number_like(x, value=least)) if least else top
    least, most = (ops.number_like(x, value=n) for n in (least, most))
    safe = ops.where(ops.greater(step, ops.zeros_like(step)), step, ops.ones_like(step))
    scaled = ops.minimum(ops.maximum(x, step * least), step * most) / safe
    is_even = round_mode == "HALF_TO_EVEN"
    half = ops.number_like(x, value=0.5)
    return (ops.round(scaled) if is_even else ops.floor(scaled + half)) * step


def read_quantize_and_dequantize_v3(
    x: Any, low: Any, high: Any, num_bits: Any, *, range_given: bool = True,
    **attrs: Any,
) -> Any:  # fmt: skip
    """QuantizeAndDequantizeV3, as version 2 with its number of bits as input."""
    bits = required_integer(num_bits, "num_bits")
    return read_quantize_and_dequantize(
        x, low, high, num_bits=bits, range_given=range_given, **attrs
    )


def read_quantize_and_dequantize_v1(
    x: Any, *, input_min: float = 0.0, input_max: float = 0.0, **attrs: Any
) -> Any:
    """QuantizeAndDequantize, as version 2 with its range as attributes."""
    ends = (ops.number_like(x, value=v) for v in (input_min, input_max))
    return read_quantize_and_dequantize(x, *ends, **attrs)


_LIMITS: Final = {
    "quint8": (0, 255), "qint8": (-128, 127), "quint16": (0, 65535),
    "qint16": (-(2**15), 2**15 - 1), "qint32": (-(2**31), 2**31 - 1),
}  # fmt: skip


def read_dequantize(
    x: Any, low: Any, high: Any, *, mode: str = "MIN_COMBINED",
    narrow_range: bool = False, axis: int = -1, dtype: Any = None, context: Any,
) -> Any:  # fmt: skip
    """The numbers that quantized ones stand for, in a range from `low` to `high`."""
    least, most = _LIMITS[str(context.source.attrs["T"])]
    if axis != -1:
        shape = [-1 if i == axis else 1 for i in range(rank_of(x))]
        low, high = ops.reshape(low, shape), ops.reshape(high, shape)
    wide = ops.astype(x, dtype="float32")
    if mode == "SCALED":
        step = high / np.float32(most)
        if least:
            least += narrow_range
            step = ops.maximum(step, low / np.float32(least))
        return cast_to(wide * step, dtype or "float32")
    step = (high - low) / np.float32(most - least)
    start = ops.round(low / step) * step if mode == "MIN_FIRST" else low
    return cast_to((wide - np.float32(least)) * step + start, dtype or "float32")


READ: dict[str, Any] = {
    "Dequantize": read_dequantize,
    "FakeQuantWithMinMaxArgs": read_fake_quant_args,
    "FakeQuantWithMinMaxVarsGradient": read_fake_quant_vars_gradient,
    "FakeQuantWithMinMaxVarsPerChannelGradient": read_fake_quant_vars_gradient,
    "FakeQuantWithMinMaxArgsGradient": read_fake_quant_args_gradient,
    "QuantizeAndDequantize": read_quantize_and_dequantize_v1,
    "QuantizeAndDequantizeV2": read_quantize_and_dequantize,
    "QuantizeAndDequantizeV3": read_quantize_and_dequantize_v3,
    "QuantizeAndDequantizeV4": read_quantize_and_dequantize,
}
