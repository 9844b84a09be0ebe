"""From ONNX: numbers kept in few bits, with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.mapping.known import dims, expect, rank_of
from amanda_onnx.tensors import DTYPES
from amanda_std import ops

__all__ = ["READ"]

_FLOATS = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float4_e2m1fn": 6.0,
}


def _bounds(dtype: Any) -> tuple[float, float]:
    bits = dtype.bits
    if str(dtype.kind) == "uint":
        return 0.0, float(2**bits - 1)
    return float(-(2 ** (bits - 1))), float(2 ** (bits - 1) - 1)


def quantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1,
             saturate: int = 1, block_size: int = 0, output_dtype: int = 0,
             precision: int = 0) -> Any:  # fmt: skip
    expect(not precision, "no precision of its own for a quantisation yet")
    own = DTYPES[output_dtype] if output_dtype else DType("uint8")
    own = own if zero is None else zero.dtype
    expect(str(x.dtype) in ("float32", "float16"), f"no quantisation of {x.dtype} yet")
    wide = x if str(x.dtype) == "float32" else ops.astype(x, dtype="float32")
    y = wide / _single(_along(scale, x, axis, block_size))
    start = None if zero is None else _single(_along(zero, x, axis, block_size))
    if str(own) in _FLOATS:
        expect(saturate, "a quantisation that does not saturate")
        y = y if start is None else y + start
        largest = _FLOATS[str(own)]
        return ops.astype(ops.clip(y, -largest, largest), dtype=own)
    expect(str(own.kind) in ("int", "uint") and own.bits <= 16, f"no {own} yet")
    y = ops.round(y)
    y = y if start is None else y + start
    return ops.astype(ops.clip(y, *_bounds(own)), dtype=own)


def dequantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1,
               block_size: int = 0, output_dtype: int = 0) -> Any:  # fmt: skip
    wanted = DTYPES[output_dtype] if output_dtype else scale.dtype
    is_float = str(x.dtype) in _FLOATS
    expect(is_float or str(x.dtype.kind) in ("int", "uint"), f"no {x.dtype} yet")
    # integers are subtracted as such: a zero point may be as large as they are
    kind = "float32" if is_float else "int32"
    y = ops.astype(x, dtype=kind)
    if zero is not None:
        y = y - _along(ops.astype(zero, dtype=kind), x, axis, block_size)
    y = _single(y) * _single(_along(scale, x, axis, block_size))
    return y if y.dtype == wanted else ops.astype(y, dtype=wanted)


def _single(value: Any) -> Any:
    same = str(value.dtype) == "float32"
    return value if same else ops.astype(value, dtype="float32")


def _along(values: Any, x: Any, axis: int, block: int = 0) -> Any:
    """Values, one for each place of an axis or for each block of them, or for all."""
    rank = values.type.shape.rank
    if rank == 0:
        return values
    at = axis % rank_of(x)
    if block:
        places = np.arange(dims(x)[at]) // block
        return ops.gather(values, places, at)
    expect(rank == 1, "scales of blocks without their size")
    if values.type.shape.dims == (1,):
        return ops.reshape(values, [])
    return ops.reshape(values, [1] * at + [-1] + [1] * (rank_of(x) - at - 1))


def dynamic(x: Any) -> Any:
    """The scale is that of the numbers that are there, 0 included."""
    low = ops.minimum(ops.min(x), np.float32(0))
    high = ops.maximum(ops.max(x), np.float32(0))
    scale = (high - low) / 255.0
    start = ops.clip(ops.round(ops.negative(low) / scale), 0.0, 255.0)
    zero = ops.astype(start, dtype="uint8")
    y = ops.clip(ops.round(x / scale) + start, 0.0, 255.0)
    return ops.astype(y, dtype="uint8"), scale, zero


def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return ops.matmul(_moved(a, a_zero, rows=True), _moved(b, b_zero, rows=False))


def _moved(x: Any, zero: Any, *, rows: bool) -> Any:
    """Integers less their zero point, of which each row or column may have one."""
    y = ops.astype(x, dtype="int32")
    if zero is None:
        return y
    zero = ops.astype(zero, dtype="int32")
    if zero.type.shape.rank == 1 and zero.type.shape.dims != (1,) and rows:
        zero = ops.expand_dims(zero, (1,))
    return y - zero


def matmul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
           y_scale: Any, y_zero: Any) -> Any:  # fmt: skip
    for each in (a_scale, b_scale, y_scale, a_zero, b_zero, y_zero):
        shape = each.type.shape
        expect(shape.rank == 0 or shape.dims == (1,), "a scale for each row or column")
    whole = ops.matmul(_moved(a, a_zero, rows=True), _moved(b, b_zero, rows=False))
    factor = _single(a_scale) * _single(b_scale) / _single(y_scale)
    y = ops.round(_single(whole) * factor) + _single(y_zero)
    return ops.astype(ops.clip(y, *_bounds(y_zero.dtype)), dtype=y_zero.dtype)


READ: dict[str, Any] = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": matmul,
}
