"""To ONNX: numbers kept in few bits, with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.shapes.write_shapes import opset, rank

__all__ = ["WRITE"]

_SINCE = {
    "uint8": 10, "int8": 10, "float8_e4m3fn": 19, "float8_e4m3fnuz": 19,
    "float8_e5m2": 19, "float8_e5m2fnuz": 19, "uint16": 21, "int16": 21, "uint4": 21,
    "int4": 21, "float4_e2m1fn": 23, "uint2": 25, "int2": 25,
}  # fmt: skip
"""The first opset that keeps numbers so."""


def _has(o: Any, version: int, what: str) -> None:
    if opset(o) < version:
        raise Decline(f"{what} begins with opset {version}")


def _kept(o: Any, dtype: Any, floats: Any) -> None:
    name = str(dtype)
    if name not in _SINCE:
        raise Decline(f"ONNX does not quantise to {name}")
    _has(o, _SINCE[name], f"quantisation to {name}")
    if str(floats) != "float32":
        if str(floats) == "float64":
            raise Decline("ONNX does not quantise float64")
        _has(o, 19, f"quantisation of {floats}")


def _where(
    o: Any, scale: Any, zero_point: Any, axis: int | None, block: int
) -> dict[str, Any]:
    shapes = [v.type.shape for v in (scale, zero_point) if v is not None]
    if len({shape.rank for shape in shapes if shape.has_rank}) > 1:
        raise Decline("a zero point of another shape than the scale")
    if block:
        _has(o, 21, "quantisation by blocks")
        return {"axis": axis, "block_size": block}
    if axis is None:
        if rank(scale):
            raise Decline("a scale of several numbers without an axis")
        return {}
    _has(o, 13, "a scale for each place of an axis")
    return {"axis": axis}


def quantize(
    o: Any,
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    dtype: Any = None,
    axis: int | None = None,
    block: int = 0,
    saturate: bool = True,
) -> Any:
    own = DType("uint8") if zero_point is None else zero_point.type.dtype
    wanted = own if dtype is None else dtype
    if zero_point is not None and wanted != own:
        raise Decline("a zero point of another element type than the result")
    _kept(o, wanted, x.type.dtype)
    more = _where(o, scale, zero_point, axis, block)
    if not saturate:
        _has(o, 19, "quantisation that does not saturate")
        more["saturate"] = 0
    if zero_point is None and wanted != own:
        if opset(o) >= 21:
            more["output_dtype"] = CODES[wanted]
        elif rank(scale) == 0:
            zero_point = Tensor.of(np.zeros((), wanted.numpy))
        else:
            raise Decline("zero points that nothing tells of")
    return o.QuantizeLinear(x, scale, zero_point, **more)


def dequantize(o: Any, x: Any, scale: Any, zero_point: Any = None, *,
               axis: int | None = None, block: int = 0) -> Any:  # fmt: skip
    if str(x.type.dtype) == "int32":
        _has(o, 10, "DequantizeLinear")
    else:
        _kept(o, x.type.dtype, scale.type.dtype)
    how = _where(o, scale, zero_point, axis, block)
    return o.DequantizeLinear(x, scale, zero_point, **how)


def dynamic_quantize(o: Any, x: Any, *, dtype: Any = None) -> Any:
    if str(dtype or "uint8") != "uint8" or str(x.type.dtype) != "float32":
        raise Decline("DynamicQuantizeLinear makes uint8 of float32")
    _has(o, 11, "DynamicQuantizeLinear")
    return o.DynamicQuantizeLinear(x)


def _expect_bytes(*xs: Any) -> None:
    for x in xs:
        if x is not None and str(x.type.dtype) not in ("int8", "uint8"):
            raise Decline(f"products of {x.type.dtype} are not quantised ones")


def matmul_integer(
    o: Any, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None
) -> Any:
    _has(o, 10, "MatMulInteger")
    _expect_bytes(a, b)
    return o.MatMulInteger(a, b, a_zero, b_zero)


def quantized_matmul(o: Any, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any,
                     b_zero: Any, scale: Any, zero_point: Any) -> Any:  # fmt: skip
    _has(o, 10, "QLinearMatMul")
    _expect_bytes(a, b, zero_point)
    if str(scale.type.dtype) != "float32":
        raise Decline("scales of another element type than float32")
    return o.QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero_point)


def _convolution(layout: str, kernel_layout: str, strides: Any, padding: Any,
                 dilations: Any, groups: int) -> dict[str, Any]:  # fmt: skip
    if (layout, kernel_layout) != ("NC*", "OI*"):
        raise Decline("ONNX has channels before places")
    how: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    if isinstance(padding, str):
        how["auto_pad"] = padding.upper()
    elif padding is not None:
        how["pads"] = [p[0] for p in padding] + [p[1] for p in padding]
    return how


def conv_integer(
    o: Any, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *,
    layout: str = "NC*", kernel_layout: str = "OI*", strides: Any = None,
    padding: Any = None, dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    _has(o, 10, "ConvInteger")
    _expect_bytes(x, w)
    how = _convolution(layout, kernel_layout, strides, padding, dilations, groups)
    return o.ConvInteger(x, w, x_zero, w_zero, **how)


def quantized_conv(
    o: Any, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
    scale: Any, zero_point: Any, b: Any = None, *, layout: str = "NC*",
    kernel_layout: str = "OI*", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    _has(o, 10, "QLinearConv")
    _expect_bytes(x, w, zero_point)
    if str(scale.type.dtype) != "float32":
        raise Decline("scales of another element type than float32")
    how = _convolution(layout, kernel_layout, strides, padding, dilations, groups)
    return o.QLinearConv(
        x, x_scale, x_zero, w, w_scale, w_zero, scale, zero_point, b, **how
    )


WRITE: dict[str, Any] = {
    "quantize": quantize,
    "dequantize": dequantize,
    "dynamic_quantize": dynamic_quantize,
    "matmul_integer": matmul_integer,
    "quantized_matmul": quantized_matmul,
    "conv_integer": conv_integer,
    "quantized_conv": quantized_conv,
}
