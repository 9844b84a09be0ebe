"""From PyTorch: quantization, as quantizers of exported programs add it.

PyTorch multiplies by the reciprocal of a scale, and the hub divides by the scale: the
results differ only where x / scale is halfway between two integers within rounding.
Zero points are within the limits of the quantized type.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of, static_value
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.type_promotion import (
    FLOAT,
    INT,
    as_value,
    is_number,
    number,
)

__all__ = ["READ", "as_single", "clip_integers", "expect_integers"]

_DOUBLE: Final = DType("float64")


def expect_integers(dtype: Any) -> None:
    expect(dtype.kind in ("int", "uint"), f"quantization to {dtype}")


def as_single(x: Any) -> Any:
    """Data as float32, which PyTorch quantizes half precision in."""
    return x if x.dtype == FLOAT else cast_to(x, FLOAT)


def _scalar(value: Any, dtype: Any) -> Any:
    """A number, or a tensor of one element, as a scalar."""
    if is_number(value):
        return number(value, dtype)
    return ops.reshape(cast_to(value, dtype), [])


def clip_integers(y: Any, low: Any, high: Any) -> Any:
    """Integers within limits, where these are narrower than the type."""
    limits = [static_value(each) for each in (low, high)]
    if any(each is None for each in limits):
        raise Decline("the limits of quantized values are known at run time only")
    least, most = (int(np.asarray(each).item()) for each in limits)
    info = np.iinfo(y.dtype.numpy)
    if (least, most) == (info.min, info.max):
        return y
    return ops.clip(y, *(np.asarray(n, y.dtype.numpy) for n in (least, most)))


# -- per tensor ----------------------------------------------------------------------


def read_quantize(x: Any, scale: Any, zero_point: Any, low: Any, high: Any,
                  dtype: Any) -> Any:  # fmt: skip
    expect_integers(dtype)
    scale, zero = _scalar(scale, FLOAT), _scalar(zero_point, dtype)
    return clip_integers(ops.quantize(as_single(x), scale, zero), low, high)


def read_dequantize(x: Any, scale: Any, zero_point: Any, _low: Any, _high: Any,
                    _dtype: Any, *, out_dtype: Any = None) -> Any:  # fmt: skip
    expect_integers(x.dtype)
    scale, zero = _scalar(scale, FLOAT), _scalar(zero_point, x.dtype)
    return cast_to(ops.dequantize(x, scale, zero), out_dtype or FLOAT)


# -- per channel, and in groups ------------------------------------------------------


def read_quantize_channels(
    x: Any, scales: Any, zero_points: Any, axis: int, low: Any, high: Any, dtype: Any
) -> Any:
    expect_integers(dtype)
    scales, zeros = as_value(scales, FLOAT), as_value(zero_points, dtype)
    y = ops.quantize(as_single(x), scales, zeros, axis=axis)
    return clip_integers(y, low, high)


def read_dequantize_channels(
    x: Any, scales: Any, zero_points: Any, axis: int, _low: Any, _high: Any,
    _dtype: Any, *, out_dtype: Any = None,
) -> Any:  # fmt: skip
    expect_integers(x.dtype)
    scales, zeros = as_value(scales, FLOAT), as_value(zero_points, x.dtype)
    y = ops.dequantize(x, scales, zeros, axis=axis)
    return cast_to(y, out_dtype or FLOAT)


def _per_group(x: Any, *values: Any) -> list[Any]:
    """Values for each row and group of a matrix."""
    expect(rank_of(x) == 2, "groups of data that is no matrix")
    return [
        v if v is None or rank_of(v) == 2 else ops.reshape(v, [x.shape[0], -1])
        for v in values
    ]


def read_quantize_groups(
    x: Any, scales: Any, zero_points: Any, low: Any, high: Any, dtype: Any, size: int
) -> Any:
    expect_integers(dtype)
    scales, zeros = _per_group(x, as_value(scales, FLOAT), as_value(zero_points, dtype))
    y = ops.quantize(as_single(x), scales, zeros, axis=1, block=size)
    return clip_integers(y, low, high)


def read_dequantize_groups(
    x: Any, scales: Any, zero_points: Any, _low: Any, _high: Any, _dtype: Any,
    size: int, out_dtype: Any,
) -> Any:  # fmt: skip
    expect_integers(x.dtype)
    scales, zeros = _per_group(
        x, as_value(scales, FLOAT), as_value(zero_points, x.dtype)
    )
    return cast_to(ops.dequantize(x, scales, zeros, axis=1, block=size), out_dtype)


# -- per row, whose zero points are added before rounding ----------------------------


def read_quantize_rows(x: Any, scales: Any, zero_points: Any, low: int, high: int,
                       dtype: Any) -> Any:  # fmt: skip
    scales, zeros = as_value(scales, x.dtype), as_value(zero_points, x.dtype)
    steps = ops.round(x * ops.reciprocal(scales) + zeros)
    return cast_to(ops.clip(steps, float(low), float(high)), dtype)


def read_dequantize_rows(
    x: Any, scales: Any, zero_points: Any, _low: Any, _high: Any, _dtype: Any,
    out_dtype: Any = FLOAT,
) -> Any:  # fmt: skip
    scales, zeros = as_value(scales, FLOAT), as_value(zero_points, FLOAT)
    return cast_to((cast_to(x, FLOAT) - zeros) * scales, out_dtype)


# -- dynamic quantization ------------------------------------------------------------


def _range_with_zero(x: Any, axes: Any, keepdims: bool = False) -> tuple[Any, Any]:
    least = ops.min(x, axes, keepdims=keepdims)
    most = ops.max(x, axes, keepdims=keepdims)
    return ops.minimum(least, 0.0), ops.maximum(most, 0.0)


def _parameters(scale: Any, zero: Any) -> tuple[Any, Any]:
    """Scale and zero point with the types and the shape that PyTorch returns."""
    scale, zero = (ops.reshape(v, [1]) for v in (scale, zero))
    return cast_to(scale, _DOUBLE), cast_to(zero, INT)


def read_choose(x: Any, low: int, high: int, eps: float,
                _dtype: Any) -> tuple[Any, Any]:  # fmt: skip
    """Scale and zero point of the range of a tensor, with 0 in it."""
    least, most = _range_with_zero(x, None)
    scale = cast_to((most - least) / float(high - low), FLOAT)
    scale = ops.maximum(scale, np.float32(eps))
    zero = float(low) - ops.round(cast_to(least, FLOAT) / scale)
    return _parameters(scale, ops.clip(zero, float(low), float(high)))


def read_choose_symmetric(x: Any, low: int, high: int, eps: float,
                          dtype: Any) -> tuple[Any, Any]:  # fmt: skip
    least, most = _range_with_zero(x, None)
    reach = ops.maximum(-least, most)
    scale = cast_to(reach / (float(high - low) / 2), FLOAT)
    zero = np.asarray(128 if dtype.kind == "uint" and dtype.bits == 8 else 0, "int64")
    return _parameters(ops.maximum(scale, np.float32(eps)), zero)


def read_choose_rows(x: Any, dtype: Any) -> tuple[Any, Any]:
    expect(str(dtype) == "int8", f"rows quantized to {dtype}")
    reach = ops.max(ops.abs(x), [-1], keepdims=True)
    reach = reach if x.dtype.bits > 16 or str(x.dtype) == "bfloat16" else (
        cast_to(reach, FLOAT)
    )  # fmt: skip
    scales = ops.maximum(reach, 1e-5) / 127.0
    return scales, ops.zeros_like(scales)


def read_choose_rows_with_zero(x: Any, _dtype: Any) -> tuple[Any, Any]:
    """The end of the range whose zero point has the smaller error decides it."""
    low, high = -128.0, 127.0
    least, most = _range_with_zero(x, [-1], keepdims=True)
    scale = ops.maximum((most - least) / (high - low), float(np.finfo("f4").eps))
    under, over = least / scale, most / scale
    from_low = ops.greater((under + low) + (over + high), 0.0)
    zero = ops.where(from_low, low - under, high - over)
    zero = ops.round(ops.clip(zero, low, high))
    return cast_to(scale, _DOUBLE), cast_to(zero, INT)


def read_fake_quantize(x: Any, scales: Any, zero_points: Any, axis: int, low: int,
                       high: int) -> Any:  # fmt: skip
    scales = as_value(scales, FLOAT)
    return ops.fake_quantize(x, scales, zero_points, low=low, high=high, axis=axis)


READ = torch_functions(
    {
        "quantize_per_tensor quantize_per_tensor.tensor quantize_per_tensor.tensor2":
            read_quantize,
        "dequantize_per_tensor dequantize_per_tensor.tensor "
        "dequantize_per_tensor.tensor2": read_dequantize,
        "quantize_per_channel": read_quantize_channels,
        "dequantize_per_channel": read_dequantize_channels,
        "quantize_per_channel_group": read_quantize_groups,
        "dequantize_per_channel_group": read_dequantize_groups,
        "quantize_per_token": read_quantize_rows,
        "dequantize_per_token": read_dequantize_rows,
        "choose_qparams.tensor": read_choose,
        "choose_qparams_symmetric.tensor": read_choose_symmetric,
        "choose_qparams_per_token": read_choose_rows,
        "choose_qparams_per_token_asymmetric "
        "_choose_qparams_per_token_asymmetric_impl": read_choose_rows_with_zero,
        "fake_quant_per_channel": read_fake_quantize,
        "convert_element_type.no_fuse": cast_to,
    },
    domain="quantized_decomposed",
)  # fmt: skip
