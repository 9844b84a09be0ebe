"""From ONNX: numbers kept in few bits, with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.mapping.nn.read_nn import padding_of
from amanda_onnx.mapping.static_values import dims, dtype_of, expect, rank_of
from amanda_std import ops

__all__ = ["READ"]


def _placed(x: Any, scale: Any, axis: int, block: int) -> dict[str, Any]:
    """Which axis scales are for, if they are for one."""
    shape = scale.type.shape
    rank = rank_of(x)
    if block or shape.rank == 1:
        expect(-rank <= axis < rank, f"there is no axis {axis} of {rank}")
    if block:
        return {"axis": axis % rank, "block": block}
    expect(shape.rank <= 1, "scales of blocks without their size")
    return {"axis": axis % rank} if shape.rank == 1 else {}


def _one(value: Any) -> Any:
    """A list of one as a number."""
    if value is not None and value.type.shape.dims == (1,):
        return ops.reshape(value, [])
    return value


def _as(value: Any, dtype: Any) -> Any:
    same = value is None or value.dtype == dtype
    return value if same else ops.astype(value, dtype=dtype)


_SINGLE = DType("float32")


def quantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1,
             saturate: int = 1, block_size: int = 0, output_dtype: int = 0,
             precision: int = 0) -> Any:  # fmt: skip
    """Half precision is divided in single; `precision` names another type for it."""
    own = dtype_of(output_dtype) if output_dtype else DType("uint8")
    if zero is not None:
        fits = own == zero.dtype or not output_dtype
        expect(fits, "its zero point is of another element type")
        own = zero.dtype
    expect(str(own.kind) == "float" or own.bits <= 16, f"no quantisation to {own}")
    wide = dtype_of(precision) if precision else _SINGLE
    if str(x.dtype) == "float64":
        wide = x.dtype
    scale, zero = (v if block_size else _one(v) for v in (scale, zero))
    return ops.quantize(
        _as(x, wide), _as(scale, wide), zero, dtype=None if zero is not None else own,
        saturate=bool(saturate), **_placed(x, scale, axis, block_size),
    )  # fmt: skip


def dequantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1,
               block_size: int = 0, output_dtype: int = 0) -> Any:  # fmt: skip
    wanted = dtype_of(output_dtype) if output_dtype else scale.dtype
    scale, zero = (v if block_size else _one(v) for v in (scale, zero))
    how = _placed(x, scale, axis, block_size)
    return _as(ops.dequantize(x, _as(scale, _SINGLE), zero, **how), wanted)


def dynamic(x: Any) -> Any:
    return ops.dynamic_quantize(x)


def matmul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
           scale: Any, zero: Any) -> Any:  # fmt: skip
    one, two, three = (_one(s) for s in (a_scale, b_scale, scale))
    if str(one.dtype) != "float32":  # the factor has the digits of the scales
        ones = np.ones((), "float32")
        factor = _as(one * two / three, _SINGLE)
        one, two, three = factor, ones, ones
    first, second, third = (_one(z) for z in (a_zero, b_zero, zero))
    return ops.quantized_matmul(a, one, first, b, two, second, three, third)


def _convolution(
    x: Any, w: Any, auto_pad: str, pads: Any, strides: Any, dilations: Any,
    group: int, kernel_shape: Any,
) -> dict[str, Any]:  # fmt: skip
    if kernel_shape is not None and w.type.shape.is_static:
        told = dims(w)[2:]
        expect(list(kernel_shape) == told, "a kernel of another shape than it says")
    expect(rank_of(x) > 2, "data without places")
    return {
        "padding": padding_of(auto_pad, pads), "strides": strides,
        "dilations": dilations, "groups": group,
    }  # fmt: skip


def conv(x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
         scale: Any, zero: Any, b: Any = None, *, auto_pad: str = "NOTSET",
         pads: Any = None, strides: Any = None, dilations: Any = None, group: int = 1,
         kernel_shape: Any = None) -> Any:  # fmt: skip
    how = _convolution(x, w, auto_pad, pads, strides, dilations, group, kernel_shape)
    singles = (_one(v) for v in (x_scale, x_zero, w_scale, w_zero, scale, zero))
    xs, xz, ws, wz, s, z = singles
    return ops.quantized_conv(x, xs, xz, w, ws, wz, s, z, b, **how)


def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *,
                 auto_pad: str = "NOTSET", pads: Any = None, strides: Any = None,
                 dilations: Any = None, group: int = 1,
                 kernel_shape: Any = None) -> Any:  # fmt: skip
    how = _convolution(x, w, auto_pad, pads, strides, dilations, group, kernel_shape)
    return ops.conv_integer(x, w, _one(x_zero), _one(w_zero), **how)


READ: dict[str, Any] = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic,
    "QLinearMatMul": matmul,
    "QLinearConv": conv,
    "ConvInteger": conv_integer,
}
