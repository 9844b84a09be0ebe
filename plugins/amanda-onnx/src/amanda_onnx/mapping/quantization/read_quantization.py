"""From ONNX: quantization with scales and zero points, and quantized products."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.mapping.nn.read_conv import padding_of
from amanda_onnx.mapping.static_values import dtype_of, scalar_of_one, static_dims
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of, tensor_type_of

__all__ = ["READ", "read_dequantize", "read_quantize"]

_FLOAT32 = DType("float32")


def _granularity(x: Any, scale: Any, axis: int, block: int) -> dict[str, Any]:
    """Attributes of quantization per tensor (none), per axis, or in blocks."""
    shape = tensor_type_of(scale).shape
    rank = rank_of(x)
    if block or shape.rank == 1:
        expect(-rank <= axis < rank, f"axis={axis} of data of rank {rank}")
    if block:
        return {"axis": axis % rank, "block": block}
    expect(shape.rank <= 1, "scales in blocks need block_size")
    return {"axis": axis % rank} if shape.rank == 1 else {}


def read_quantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, saturate: int = 1,
    block_size: int = 0, output_dtype: int = 0, precision: int = 0,
) -> Any:  # fmt: skip
    """Division in float32 for half precision too, or in the dtype `precision`."""
    own = dtype_of(output_dtype) if output_dtype else DType("uint8")
    if zero is not None:
        fits = own == zero.dtype or not output_dtype
        expect(fits, "the zero point has another dtype than output_dtype")
        own = zero.dtype
    expect(str(own.kind) == "float" or own.bits <= 16, f"no quantization to {own}")
    wide = dtype_of(precision) if precision else _FLOAT32
    if str(x.dtype) == "float64":
        wide = x.dtype
    scale, zero = (v if block_size else scalar_of_one(v) for v in (scale, zero))
    return ops.quantize(
        cast_to(x, wide), cast_to(scale, wide), zero,
        dtype=None if zero is not None else own, saturate=bool(saturate),
        **_granularity(x, scale, axis, block_size),
    )  # fmt: skip


def read_dequantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1,
                    block_size: int = 0, output_dtype: int = 0) -> Any:  # fmt: skip
    wanted = dtype_of(output_dtype) if output_dtype else scale.dtype
    scale, zero = (v if block_size else scalar_of_one(v) for v in (scale, zero))
    attrs = _granularity(x, scale, axis, block_size)
    return cast_to(ops.dequantize(x, cast_to(scale, _FLOAT32), zero, **attrs), wanted)


def read_dynamic_quantize(x: Any) -> Any:
    return ops.dynamic_quantize(x)


def read_quantized_matmul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any,
                          b_zero: Any, scale: Any, zero: Any) -> Any:  # fmt: skip
    one, two, three = (scalar_of_one(s) for s in (a_scale, b_scale, scale))
    if str(one.dtype) != "float32":  # the factor is rounded to the dtype of the scales
        ones = np.ones((), "float32")
        factor = cast_to(one * two / three, _FLOAT32)
        one, two, three = factor, ones, ones
    first, second, third = (scalar_of_one(z) for z in (a_zero, b_zero, zero))
    return ops.quantized_matmul(a, one, first, b, two, second, three, third)


def _conv_attributes(
    x: Any, w: Any, auto_pad: str, pads: Any, strides: Any, dilations: Any,
    group: int, kernel_shape: Any,
) -> dict[str, Any]:  # fmt: skip
    if kernel_shape is not None and tensor_type_of(w).shape.is_static:
        expect(
            list(kernel_shape) == static_dims(w)[2:], "kernel_shape is not that of w"
        )
    expect(rank_of(x) > 2, "data without spatial axes")
    return {
        "padding": padding_of(auto_pad, pads), "strides": strides,
        "dilations": dilations, "groups": group,
    }  # fmt: skip


def read_quantized_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
    scale: Any, zero: Any, b: Any = None, *, auto_pad: str = "NOTSET",
    pads: Any = None, strides: Any = None, dilations: Any = None, group: int = 1,
    kernel_shape: Any = None,
) -> Any:  # fmt: skip
    attrs = _conv_attributes(
        x, w, auto_pad, pads, strides, dilations, group, kernel_shape
    )
    numbers = (x_scale, x_zero, w_scale, w_zero, scale, zero)
    xs, xz, ws, wz, s, z = map(scalar_of_one, numbers)
    return ops.quantized_conv(x, xs, xz, w, ws, wz, s, z, b, **attrs)


def read_conv_integer(
    x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *,
    auto_pad: str = "NOTSET", pads: Any = None, strides: Any = None,
    dilations: Any = None, group: int = 1, kernel_shape: Any = None,
) -> Any:  # fmt: skip
    attrs = _conv_attributes(
        x, w, auto_pad, pads, strides, dilations, group, kernel_shape
    )
    return ops.conv_integer(x, w, scalar_of_one(x_zero), scalar_of_one(w_zero), **attrs)


READ: dict[str, Any] = {
    "QuantizeLinear": read_quantize,
    "DequantizeLinear": read_dequantize,
    "DynamicQuantizeLinear": read_dynamic_quantize,
    "QLinearMatMul": read_quantized_matmul,
    "QLinearConv": read_quantized_conv,
    "ConvInteger": read_conv_integer,
}
