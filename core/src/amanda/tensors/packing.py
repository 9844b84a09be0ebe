"""Packed elements: the representation in files, digests and pickles.

Elements of a byte or more are little-endian and contiguous. Smaller elements are packed
without gaps, the first in the lowest bits: two int4 per byte, four 6-bit floats in
three bytes. Unused bits of the last byte are zero.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import InvalidTypeError
from amanda.types import ElementType, Sym
from amanda.types.shapes import MAX_DIM

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["PERIOD", "check_shape", "clean_tail", "pack", "packed_size", "unpack"]

PERIOD: Final = 48
"""A multiple of every element width, in bytes; block sizes are multiples of it."""

_MOST_DIMS: Final = 64  # the limit of numpy
_UNPACKED_AT_ONCE: Final = 1 << 20  # a multiple of 8; unpacking needs a byte per bit


def check_shape(shape: Sequence[Any]) -> tuple[int, ...]:
    """Check that a shape is static and valid; return its dims as ints."""
    dims = []
    for dim in shape:
        if type(dim) is int:
            dims.append(dim)
            continue
        if isinstance(dim, bool | Sym) or not hasattr(dim, "__index__"):
            got = reprlib.repr(shape)
            raise InvalidTypeError("the shape of a tensor must be static", got=got)
        dims.append(int(dim.__index__()))
    if any(not 0 <= dim <= MAX_DIM for dim in dims):
        raise InvalidTypeError(
            "a dim is out of range",
            expected=f"0 to {MAX_DIM}",
            got=[d if d.bit_length() < 256 else "a huge number" for d in dims],
        )
    if len(dims) > _MOST_DIMS:
        raise InvalidTypeError(
            "too many dims for an array", expected=_MOST_DIMS, got=len(dims)
        )
    return tuple(dims)


def packed_size(dtype: ElementType, shape: tuple[int, ...]) -> int:
    """The number of packed bytes of a tensor with elements of fixed width."""
    count = prod(shape)
    bits = count * _width(dtype)
    if count > MAX_DIM or bits > 8 * MAX_DIM:
        raise InvalidTypeError("a tensor is too large", got=f"{dtype}{list(shape)}")
    return -(-bits // 8)


def _width(dtype: ElementType) -> int:
    if not dtype.bits:
        raise InvalidTypeError(
            f"elements of type {dtype} have no fixed width",
            hint="use Tensor.strings for strings"
            if dtype.kind in _STRING_KINDS
            else None,
        )
    return dtype.bits


_STRING_KINDS = ("string", "bytes")


def pack(flat: Array, dtype: ElementType) -> memoryview:
    """Pack a flat array; the result is a view of it if possible."""
    import numpy as np

    flat = np.ascontiguousarray(flat)
    if _needs_byteswap(flat.dtype):
        flat = flat.byteswap()
    codes = flat.view(np.uint8)
    if dtype.bits < 8:
        bits = np.unpackbits(
            codes.reshape(-1, 1), axis=1, count=dtype.bits, bitorder="little"
        )
        codes = np.packbits(bits.reshape(-1), bitorder="little")
    return codes.data.toreadonly()


def unpack(packed: memoryview, dtype: ElementType, shape: tuple[int, ...]) -> Array:
    """Unpack bytes into a read-only array, which shares them if possible."""
    import numpy as np

    element = dtype.numpy
    if dtype.bits >= 8:
        flat = np.frombuffer(packed, dtype=element)
        if _needs_byteswap(element):
            flat = flat.byteswap()
    else:
        flat = _unpack_bits(packed, dtype.bits, prod(shape)).view(element)
    array = flat.reshape(shape)
    array.flags.writeable = False
    return array


def _unpack_bits(packed: memoryview, width: int, count: int) -> Array:
    """Unpack to one byte per element; higher bits are zero."""
    import numpy as np

    if width in (1, 2, 4):
        per_byte = 8 // width
        data = np.frombuffer(packed, np.uint8)
        parts = np.empty((len(data), per_byte), np.uint8)
        for at in range(per_byte):
            np.right_shift(data, at * width, out=parts[:, at])
        parts &= (1 << width) - 1
        return parts.reshape(-1)[:count]
    codes = np.empty(count, np.uint8)
    for start in range(0, count, _UNPACKED_AT_ONCE):
        part = codes[start : start + _UNPACKED_AT_ONCE]
        source = np.frombuffer(
            packed[start * width // 8 :][: -(-len(part) * width // 8)], np.uint8
        )
        bits = np.unpackbits(source, count=len(part) * width, bitorder="little")
        part[:] = np.packbits(bits.reshape(-1, width), axis=1, bitorder="little")[:, 0]
    return codes


def _needs_byteswap(element: np.dtype[Any]) -> bool:
    import sys

    return sys.byteorder == "big" and element.itemsize > 1


def clean_tail(last: memoryview, dtype: ElementType, count: int) -> memoryview:
    """Set the unused bits of the last block of `count` elements to zero."""
    used = count * dtype.bits % 8
    if not used or not last or last[-1] >> used == 0:
        return last
    fresh = bytearray(last)
    fresh[-1] &= (1 << used) - 1
    return memoryview(fresh).toreadonly()
