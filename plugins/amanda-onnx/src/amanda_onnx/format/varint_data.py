"""Tensors whose elements are varints: what each number holds, both ways.

One number is one element; of elements of 4 or 2 bits it is as many as fill a byte. A
16-bit or 8-bit float is the number that its bits are. Few numbers go without numpy.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import FormatError
from amanda.formatkit.wire import Buffer
from amanda.tensors import Tensor
from amanda.types import DType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = [
    "decode_array",
    "count_varints",
    "encode_tensor",
    "varints_per_tensor",
    "pack_few",
]

_TAILS: Final = bytes(range(128, 256))  # the bytes of a number that are not its last
_SLICE: Final = 1 << 20
_MOST: Final = 10  # bytes of a number


def count_varints(data: Buffer, start: int, end: int) -> int:
    """How many numbers there are between two positions."""
    found = 0
    for at in range(start, end, _SLICE):
        part = bytes(data[at : min(at + _SLICE, end)])
        found += len(part.translate(None, _TAILS))
    return found


def varints_per_tensor(dtype: DType, shape: tuple[int, ...]) -> int:
    """How many numbers a tensor takes."""
    size = prod(shape)
    return -(-size // (8 // dtype.bits)) if dtype.bits in (2, 4) else size


def _width(dtype: DType) -> int:
    """The bytes that a number stands for."""
    return max(dtype.bits // 8, 1)


def pack_few(values: list[int], dtype: DType, size: int) -> bytes:
    """The packed bytes of a few numbers, which are `size`."""
    width = _width(dtype)
    mask = (1 << 8 * width) - 1
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[width]
    if dtype.bits != 6:
        return struct.pack(f"<{len(values)}{code}", *[v & mask for v in values])
    whole = sum((value & 63) << 6 * i for i, value in enumerate(values))
    return whole.to_bytes(size, "little")


def decode_array(data: Buffer, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of a tensor of any size."""
    import numpy as np

    values = _decoded(np.frombuffer(data, np.uint8))
    width = _width(dtype)
    codes = values.astype(f"<u{width}")  # the lowest bits, as C has it
    if dtype.bits in (2, 4):
        return Tensor.from_buffer(codes, dtype, shape).numpy()
    if dtype.bits == 6:
        codes &= 63
    return codes.view(dtype.numpy).reshape(shape)


def _decoded(data: Array) -> Array:
    """The numbers of varints, as uint64."""
    import numpy as np

    ends = np.flatnonzero(data < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > _MOST or (len(ends) and ends[-1] != len(data) - 1):
        raise FormatError("a number of more than 10 bytes in the data of a tensor")
    values = np.zeros(len(ends), np.uint64)
    for at in range(longest):
        there = lengths > at
        part = (data[starts[there] + at] & 127).astype(np.uint64)
        values[there] |= part << np.uint64(7 * at)
    return values


def encode_tensor(tensor: Tensor) -> bytes:
    """The varints of a tensor: negative numbers as 64 bits, floats as their bits."""
    import numpy as np

    dtype = tensor.dtype
    assert isinstance(dtype, DType)
    if dtype.bits in (2, 4):
        codes = np.frombuffer(b"".join(tensor.chunks()), np.uint8)
    else:
        codes = np.ascontiguousarray(tensor.numpy()).reshape(-1)
        if dtype.kind not in ("int", "uint"):
            codes = codes.view(f"<u{_width(dtype)}")
    values = codes.astype(np.int64) if codes.dtype.kind == "i" else codes
    return _encoded(values.astype(np.uint64))


def _encoded(values: Array) -> bytes:
    import numpy as np

    if not len(values):
        return b""
    lengths = np.ones(len(values), np.int64)
    for at in range(1, _MOST):
        lengths += values >= np.uint64(1 << 7 * at)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    out = np.empty(int(ends[-1]), np.uint8)
    for at in range(int(lengths.max())):
        there = lengths > at
        part = (values[there] >> np.uint64(7 * at)).astype(np.uint8) & 127
        more = (lengths[there] > at + 1).astype(np.uint8) << 7
        out[starts[there] + at] = part | more
    return out.tobytes()
