"""Bit counts and bit casts."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType, Shape, TensorType
from amanda_std.engine.annotations import Cast, Integer, Other
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, elementwise_by_loop
from amanda_std.inference import shapes
from amanda_std.ops.math.logic import (
    bitwise_and,
    bitwise_invert,
    bitwise_or,
    bitwise_right_shift,
)
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.shape import astype

_NO_GRADIENT = "bit operations have no gradient"


def _bit_width(dtype: Any) -> int:
    return DType.of(dtype).bits


def _as_unsigned(x: Any) -> Any:
    """Reinterpret the bits as an unsigned integer."""
    return bitcast(x, dtype=DType(f"uint{_bit_width(x.dtype)}"))


@composite
def popcount(x: Integer) -> Integer:
    """Number of bits that are set"""
    kept, x = x.dtype, _as_unsigned(x)
    total = zeros_like(x)
    for i in range(_bit_width(x.dtype)):
        total = total + bitwise_and(bitwise_right_shift(x, i), 1)
    return astype(total, dtype=kept)


@composite
def leading_zeros(x: Integer) -> Integer:
    """Number of leading zero bits"""
    kept, x = x.dtype, _as_unsigned(x)
    step = 1
    while step < _bit_width(x.dtype):  # set every bit below the first one
        x = bitwise_or(x, bitwise_right_shift(x, step))
        step *= 2
    rest = popcount(bitwise_invert(x))
    return astype(rest, dtype=kept)


def _count_samples(function: Callable[[int, int], int]) -> Callable[[], Samples]:
    def make() -> Samples:
        for dtype in ("uint8", "int8", "int16", "int32", "uint32", "int64", "uint64"):
            info = np.iinfo(dtype)
            x = array([0, 1, 6, 100, info.max, info.min, 77], dtype)
            bits = info.bits

            def count(v: int, bits: int = bits) -> int:
                return function(v & ((1 << bits) - 1), bits)

            yield Sample((x,), elementwise_by_loop(count, x))
        yield Sample((array(9, "int32"),), array(function(9, 32), "int32"))
        yield Sample((np.zeros((0, 2), "int32"),), np.zeros((0, 2), "int32"))

    return make


popcount.samples(_count_samples(lambda v, _: v.bit_count()))
leading_zeros.samples(_count_samples(lambda v, bits: bits - v.bit_length()))
for _op in (popcount, leading_zeros):
    _op.not_differentiable(_NO_GRADIENT)


# -- bitcast ---------------------------------------------------------------------


def _bitcast_shape(x: TensorType, dtype: Any) -> Shape:
    """Narrower elements add a last axis, wider elements consume the last axis."""
    old, new = x.dtype.bits, dtype.bits
    if old == new:
        return x.shape
    dims = x.shape.dims
    if old > new:
        return Shape([*dims, old // new])
    if not dims:
        raise _missing_axis_error(x, dtype, new // old)
    shapes.expect_same(
        dims[-1], new // old, "the last axis does not hold one wider element"
    )
    return Shape(dims[:-1])


def _missing_axis_error(x: Any, dtype: Any, length: int) -> InvalidTypeError:
    return InvalidTypeError(
        f"cannot bitcast to {dtype} without a last axis",
        expected=f"a last axis of {length} elements", got=x,
    )  # fmt: skip


@primitive(shape=_bitcast_shape, numpy_only=True)
def bitcast(x: Other, *, dtype: Any) -> Cast:
    """Reinterpret the bits as another element type, least significant element first"""
    old, new = _bit_width(x.dtype), dtype.bits
    x = np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x)
    if old == new:
        return x.view(dtype.numpy)
    if min(old, new) < 8:
        return _regroup_bytes(x, old, new).view(dtype.numpy)[..., 0]
    if old > new:
        return x[..., None].view(dtype.numpy)
    return x.view(dtype.numpy)[..., 0]


def _regroup_bytes(x: Any, old: int, new: int) -> Any:
    """Regroup the bytes of wider or narrower elements, including 4-bit types.

    numpy stores each 4-bit element in a byte of its own."""
    each = np.unpackbits(x[..., None].view("uint8"), axis=-1, bitorder="little")
    shape = (*x.shape, old // new) if old > new else x.shape[:-1]
    rows = each[..., :old].reshape(*shape, new)
    return np.packbits(rows, axis=-1, bitorder="little")


bitcast.not_differentiable(_NO_GRADIENT)

_STRUCT_CODES = {"float32": "<f", "int32": "<i", "uint32": "<I", "float64": "<d",
          "int64": "<q", "uint8": "<B", "int16": "<h", "float16": "<e"}  # fmt: skip


def _pack_bytes(x: Any) -> list[int]:
    """Pack an array to bytes with the struct module."""
    code = _STRUCT_CODES[str(x.dtype)]
    return [b for v in x.reshape(-1).tolist() for b in struct.pack(code, v)]


@bitcast.samples
def _() -> Samples:
    rows = [("float32", "int32"), ("int32", "float32"), ("float64", "int64"),
            ("float32", "uint8"), ("int64", "uint32"),
            ("float16", "int16")]  # fmt: skip
    for old, new in rows:
        x = array([[1, 2], [100, 3]], old)
        form = _STRUCT_CODES[new]
        raw = bytes(_pack_bytes(x))
        y = [v for (v,) in struct.iter_unpack(form, raw)]
        ratio = np.dtype(old).itemsize // np.dtype(new).itemsize
        shape = (2, 2, ratio) if ratio > 1 else (2, 2)
        yield Sample((x,), array(y, new).reshape(shape), {"dtype": DType(new)})
        if ratio > 1:
            back = array(y, new).reshape(shape)
            yield Sample((back,), x, {"dtype": DType(old)})
    transposed = array([[1, 100], [2, 3]], "int32").T
    parts = [[[1, 0, 0, 0], [2, 0, 0, 0]], [[100, 0, 0, 0], [3, 0, 0, 0]]]
    yield Sample((transposed,), array(parts, "uint8"), {"dtype": DType("uint8")})
    whole = array(parts, "uint8").transpose(2, 0, 1).copy().transpose(1, 2, 0)
    yield Sample((whole,), transposed, {"dtype": DType("int32")})
    one = array(1.0, "float32")
    yield Sample((one,), array(0x3F800000, "int32"), {"dtype": DType("int32")})
    empty = np.zeros((0, 2), "float32")
    yield Sample((empty,), np.zeros((0, 2), "int32"), {"dtype": DType("int32")})
    yield from _four_bit_samples()


def _four_bit_samples() -> Samples:
    """0x21 unpacks to 1, then 2; wider elements and the round trip as well."""
    for whole, parts in (("uint8", [1, 2, 3, 15]), ("int16", [1, 2, 3, 4, 5, 6, 7, 0])):
        x = array([0x21, 0xF3] if whole == "uint8" else [0x4321, 0x0765], whole)
        y = array(parts, "uint4").reshape(2, -1)
        yield Sample((x,), y, {"dtype": DType("uint4")})
        yield Sample((y,), x, {"dtype": DType(whole)})
    quarters = array([[[1, 0], [3, 2]]], "uint2")
    yield Sample((quarters,), array([[1, -5]], "int4"), {"dtype": DType("int4")})
