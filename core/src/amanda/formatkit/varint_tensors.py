"""Tensors whose elements are varints, as protobuf stores integers and small floats.

One varint is one element; of elements of 4 or 2 bits it is as many as fill a byte. A
16-bit or 8-bit float is the integer with its bits. Few elements are decoded without
numpy.
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
    "count_varints",
    "decode_varint_array",
    "encode_varint_tensor",
    "pack_elements",
    "varints_per_tensor",
]

_CONTINUED: Final = bytes(range(128, 256))  # bytes of a varint except its last
_SLICE: Final = 1 << 20
_MAX_BYTES: Final = 10  # of one varint


def count_varints(data: Buffer, start: int, end: int) -> int:
    """The number of varints between two positions."""
    count = 0
    for at in range(start, end, _SLICE):
        part = bytes(data[at : min(at + _SLICE, end)])
        count += len(part.translate(None, _CONTINUED))
    return count


def varints_per_tensor(dtype: DType, shape: tuple[int, ...]) -> int:
    """The number of varints that a tensor consists of."""
    size = prod(shape)
    return -(-size // (8 // dtype.bits)) if dtype.bits in (2, 4) else size


def pack_elements(values: list[int], dtype: DType, size: int) -> bytes:
    """The packed bytes, `size` of them, of a few decoded varints."""
    width = _item_bytes(dtype)
    mask = (1 << 8 * width) - 1
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[width]
    if dtype.bits != 6:
        return struct.pack(f"<{len(values)}{code}", *[v & mask for v in values])
    whole = sum((value & 63) << 6 * i for i, value in enumerate(values))
    return whole.to_bytes(size, "little")


def decode_varint_array(data: Buffer, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of a tensor of any size."""
    import numpy as np

    values = _decode(np.frombuffer(data, np.uint8))
    width = _item_bytes(dtype)
    codes = values.astype(f"<u{width}")  # truncated to the lowest bits, as in C
    if dtype.bits in (2, 4):
        return Tensor.from_buffer(codes, dtype, shape).numpy()
    if dtype.bits == 6:
        codes &= 63
    return codes.view(dtype.numpy).reshape(shape)


def encode_varint_tensor(tensor: Tensor) -> bytes:
    """The varints of a tensor: negative integers as 64 bits, floats as their bits."""
    import numpy as np

    dtype = tensor.dtype
    assert isinstance(dtype, DType)
    if dtype.bits in (2, 4):
        codes = np.frombuffer(b"".join(tensor.chunks()), np.uint8)
    else:
        codes = np.ascontiguousarray(tensor.numpy()).reshape(-1)
        if dtype.kind not in ("int", "uint"):
            codes = codes.view(f"<u{_item_bytes(dtype)}")
    values = codes.astype(np.int64) if codes.dtype.kind == "i" else codes
    return _encode(values.astype(np.uint64))


def _item_bytes(dtype: DType) -> int:
    """The bytes that one varint stands for."""
    return max(dtype.bits // 8, 1)


def _decode(data: Array) -> Array:
    """Varints as uint64, all at once."""
    import numpy as np

    ends = np.flatnonzero(data < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > _MAX_BYTES or (len(ends) and ends[-1] != len(data) - 1):
        raise FormatError("a varint of more than 10 bytes in the data of a tensor")
    values = np.zeros(len(ends), np.uint64)
    for at in range(longest):
        present = lengths > at
        part = (data[starts[present] + at] & 127).astype(np.uint64)
        values[present] |= part << np.uint64(7 * at)
    return values


def _encode(values: Array) -> bytes:
    import numpy as np

    if not len(values):
        return b""
    lengths = np.ones(len(values), np.int64)
    for at in range(1, _MAX_BYTES):
        lengths += values >= np.uint64(1 << 7 * at)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    out = np.empty(int(ends[-1]), np.uint8)
    for at in range(int(lengths.max())):
        present = lengths > at
        part = (values[present] >> np.uint64(7 * at)).astype(np.uint8) & 127
        more = (lengths[present] > at + 1).astype(np.uint8) << 7
        out[starts[present] + at] = part | more
    return out.tobytes()
