"""To ONNX: quantization with scales and zero points, and quantized products."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import expect_opset, opset_of, padding_attributes
from amanda_std.mappings import rank_of, tensor_type_of

__all__ = ["WRITE"]

_SINCE = {
    "uint8": 10, "int8": 10, "float8_e4m3fn": 19, "float8_e4m3fnuz": 19,
    "float8_e5m2": 19, "float8_e5m2fnuz": 19, "uint16": 21, "int16": 21, "uint4": 21,
    "int4": 21, "float4_e2m1fn": 23, "uint2": 25, "int2": 25,
}  # fmt: skip
"""The first opset that quantizes to a dtype."""


def _expect_quantizable(o: Any, dtype: Any, floats: Any) -> None:
    name = str(dtype)
    if name not in _SINCE:
        raise Decline(f"ONNX does not quantize to {name}")
    expect_opset(o, _SINCE[name], f"quantization to {name}")
    if str(floats) != "float32":
        if str(floats) == "float64":
            raise Decline("ONNX does not quantize float64")
        expect_opset(o, 19, f"quantization of {floats}")


def _granularity(
    o: Any, scale: Any, zero_point: Any, axis: int | None, block: int
) -> dict[str, Any]:
    """Attributes of quantization per tensor (none), per axis, or in blocks."""
    shapes = [tensor_type_of(v).shape for v in (scale, zero_point) if v is not None]
    if len({shape.rank for shape in shapes if shape.has_rank}) > 1:
        raise Decline("the zero point has another shape than the scale")
    if block:
        expect_opset(o, 21, "blockwise quantization")
        return {"axis": axis, "block_size": block}
    if axis is None:
        if rank_of(scale):
            raise Decline("several scales need an axis")
        return {}
    expect_opset(o, 13, "quantization per axis")
    return {"axis": axis}


def write_quantize(
    o: Any, x: Any, scale: Any, zero_point: Any = None, *, dtype: Any = None,
    axis: int | None = None, block: int = 0, saturate: bool = True,
) -> Any:  # fmt: skip
    own = DType("uint8") if zero_point is None else tensor_type_of(zero_point).dtype
    wanted = own if dtype is None else dtype
    if zero_point is not None and wanted != own:
        raise Decline("the zero point has another dtype than the result")
    _expect_quantizable(o, wanted, tensor_type_of(x).dtype)
    attrs = _granularity(o, scale, zero_point, axis, block)
    if not saturate:
        expect_opset(o, 19, "quantization without saturation")
        attrs["saturate"] = 0
    if zero_point is None and wanted != own:
        if opset_of(o) >= 21:
            attrs["output_dtype"] = CODES[wanted]
        elif rank_of(scale) == 0:
            zero_point = Tensor.of(np.zeros((), wanted.numpy))
        else:
            raise Decline(f"quantization to {wanted} needs zero points in this opset")
    return o.QuantizeLinear(x, scale, zero_point, **attrs)


def write_dequantize(o: Any, x: Any, scale: Any, zero_point: Any = None, *,
                     axis: int | None = None, block: int = 0) -> Any:  # fmt: skip
    if str(tensor_type_of(x).dtype) == "int32":
        expect_opset(o, 10, "DequantizeLinear")
    else:
        _expect_quantizable(o, tensor_type_of(x).dtype, tensor_type_of(scale).dtype)
    attrs = _granularity(o, scale, zero_point, axis, block)
    return o.DequantizeLinear(x, scale, zero_point, **attrs)


def write_dynamic_quantize(o: Any, x: Any, *, dtype: Any = None) -> Any:
    if str(dtype or "uint8") != "uint8" or str(tensor_type_of(x).dtype) != "float32":
        raise Decline("DynamicQuantizeLinear quantizes float32 to uint8 only")
    expect_opset(o, 11, "DynamicQuantizeLinear")
    return o.DynamicQuantizeLinear(x)


# -- products ----------------------------------------------------------------------


def _expect_int8(*xs: Any) -> None:
    for x in xs:
        if x is not None and str(tensor_type_of(x).dtype) not in ("int8", "uint8"):
            raise Decline(
                "quantized products are of int8 and uint8",
                got=tensor_type_of(x).dtype,
            )


def _expect_float32_scale(scale: Any) -> None:
    if str(tensor_type_of(scale).dtype) != "float32":
        raise Decline("quantized products need float32 scales")


def write_matmul_integer(
    o: Any, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None
) -> Any:
    expect_opset(o, 10, "MatMulInteger")
    _expect_int8(a, b)
    return o.MatMulInteger(a, b, a_zero, b_zero)


def write_quantized_matmul(
    o: Any, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    scale: Any, zero_point: Any,
) -> Any:  # fmt: skip
    expect_opset(o, 10, "QLinearMatMul")
    _expect_int8(a, b, zero_point)
    _expect_float32_scale(scale)
    return o.QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero_point)


def _conv_attributes(layout: str, kernel_layout: str, strides: Any, padding: Any,
                     dilations: Any, groups: int) -> dict[str, Any]:  # fmt: skip
    if (layout, kernel_layout) != ("NC*", "OI*"):
        raise Decline(
            f"ONNX has the layouts NC* and OI*, not {layout}, {kernel_layout}"
        )
    attrs = {"strides": strides, "dilations": dilations, "group": groups}
    return attrs | padding_attributes(padding)


def write_conv_integer(
    o: Any, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *,
    layout: str = "NC*", kernel_layout: str = "OI*", strides: Any = None,
    padding: Any = None, dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    expect_opset(o, 10, "ConvInteger")
    _expect_int8(x, w)
    attrs = _conv_attributes(layout, kernel_layout, strides, padding, dilations, groups)
    return o.ConvInteger(x, w, x_zero, w_zero, **attrs)


def write_quantized_conv(
    o: Any, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
    scale: Any, zero_point: Any, b: Any = None, *, layout: str = "NC*",
    kernel_layout: str = "OI*", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    expect_opset(o, 10, "QLinearConv")
    _expect_int8(x, w, zero_point)
    _expect_float32_scale(scale)
    attrs = _conv_attributes(layout, kernel_layout, strides, padding, dilations, groups)
    return o.QLinearConv(
        x, x_scale, x_zero, w, w_scale, w_zero, scale, zero_point, b, **attrs
    )


WRITE: dict[str, Any] = {
    "quantize": write_quantize,
    "dequantize": write_dequantize,
    "dynamic_quantize": write_dynamic_quantize,
    "matmul_integer": write_matmul_integer,
    "quantized_matmul": write_quantized_matmul,
    "conv_integer": write_conv_integer,
    "quantized_conv": write_quantized_conv,
}
