"""Tensors in SameDiff's files: a buffer, and nd4j's description of its shape.

The description is the rank, the dims, the strides, and three more numbers, of which the
last is the order: `c` or `f`. Data is in that order; here tensors have the order c.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import DTypeCodes
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_nd4j.lenses import TYPE_CODES
from amanda_nd4j.samediff.tables import FlatTable

__all__ = [
    "ELEMENT_TYPES", "appended_array", "array_of", "shape_in_graph", "tensor_of",
]  # fmt: skip

ELEMENT_TYPES: Final = DTypeCodes(
    "nd4j", {code: name for name, code in TYPE_CODES.items()}
)
_ROWS_FIRST, _COLUMNS_FIRST = ord("c"), ord("f")
_LITTLE, _BIG = 0, 1


def _dims(info: Sequence[int], name: str) -> tuple[list[int], int]:
    """The dims and the order of a description of a shape."""
    rank = info[0] if info else -1
    if not 0 <= rank <= 32 or len(info) < 2 * rank + 4:
        raise FormatError(
            "an array has no description of its shape", who=name,
            expected="rank, dims, strides and three more numbers", got=list(info)[:12],
        )  # fmt: skip
    dims, order = list(info[1 : 1 + rank]), info[2 * rank + 3]
    if order not in (_ROWS_FIRST, _COLUMNS_FIRST) or any(
        not 0 <= n < 2**48 for n in dims
    ):
        raise FormatError(
            "the shape of an array is invalid", who=name, got=list(info)[:12]
        )
    return dims, order


def tensor_of(array: FlatTable, name: str, dtype: DType | None = None) -> Tensor:
    """A tensor on the data of an array; what is in no buffer is refused."""
    for field in ("bufferChunks", "externalDataFilename", "appendedDataLength"):
        if array.get(field):
            raise FormatError(
                f"the data of an array is outside of its buffer: {field}", who=name,
                hint="save the model as one file, with its arrays in it",
            )  # fmt: skip
    code = array.get("dtype", 0)
    kind = ELEMENT_TYPES.dtype(code, 0) if code or dtype is None else dtype
    dims, order = _dims(array.get("shape", []), name)
    data = array.get("buffer", memoryview(b""))
    if kind.kind == "string":
        return _strings(data, dims, name)
    size = prod(dims) * kind.bits // 8
    if len(data) < size:
        raise FormatError(
            "the buffer of an array is too small for its shape", who=name,
            expected=f"{size} bytes", got=len(data),
        )  # fmt: skip
    if order == _ROWS_FIRST and array.get("byteOrder", 0) == _LITTLE:
        return Tensor.from_buffer(data, kind, tuple(dims), 0)
    return _reorder(data[:size], kind, dims, order, array.get("byteOrder", 0))


def appended_array(variable: FlatTable, data: memoryview) -> FlatTable:
    """The array of a variable whose data is behind the FlatBuffer.

    The description of a shape is that of its array, if there is one with a shape, or
    is made of the dims of the variable; SameDiff takes `byteOrder` as the order there.
    """
    given = variable.get("ndarray", {})
    code = variable.get("dtype", 0)
    dims = [int(n) for n in variable.get("shape", ())]
    info = given.get("shape") or shape_in_graph(dims, code)
    if given.get("byteOrder", 0) == 1:
        info = [*info[:-1], _COLUMNS_FIRST]
    return {"shape": info, "buffer": data, "dtype": code, "byteOrder": _LITTLE}


def _reorder(
    data: memoryview, kind: DType, dims: Sequence[int], order: int, byte_order: int
) -> Tensor:
    import numpy as np

    numbers = np.frombuffer(data, kind.numpy)
    if byte_order == _BIG:
        numbers = numbers.byteswap()
    shaped = numbers.reshape(dims, order="C" if order == _ROWS_FIRST else "F")
    return Tensor.of(np.ascontiguousarray(shaped), kind)


def _strings(data: memoryview, dims: Sequence[int], name: str) -> Tensor:
    """Texts: the offsets of all and the end, in int64, then their bytes."""
    count = prod(dims)
    head = 8 * (count + 1)
    if len(data) < head:
        raise FormatError("an array of texts is damaged", who=name, got=len(data))
    ends = [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count + 1)]
    spans = list(pairwise(ends))
    if any(a > b for a, b in spans) or head + ends[-1] > len(data):
        raise FormatError("an array of texts is damaged", who=name, got=ends[:8])
    texts = [bytes(data[head + a : head + b]) for a, b in spans]
    return Tensor.strings(texts, tuple(dims))


def shape_in_graph(dims: Sequence[int], code: int) -> list[int]:
    """nd4j's description of a shape in the order c."""
    strides, step = [], 1
    for n in reversed(dims):
        strides.append(step)
        step *= max(n, 1)
    flags = _FLAGS.get(code, 0)
    return [len(dims), *dims, *reversed(strides), flags, 1, _ROWS_FIRST]


_FLAGS: Final = {
    1: 1 << 19, 3: 1 << 12, 5: 1 << 13, 6: 1 << 14, 7: 1 << 16, 8: 1 << 17, 9: 1 << 18,
    10: 1 << 15 | 1 << 18,
}  # fmt: skip


def array_of(tensor: Tensor, name: str) -> FlatTable:
    """The array of a tensor, with its data."""
    if not isinstance(tensor.dtype, DType) or str(tensor.dtype) not in TYPE_CODES:
        raise FormatError(
            "SameDiff has no arrays of this element type", who=name, got=tensor.dtype,
            expected=", ".join(TYPE_CODES),
        )  # fmt: skip
    code = TYPE_CODES[str(tensor.dtype)]
    data = b"".join(tensor.chunks()) if tensor.dtype.kind != "string" else (
        _join(tensor.tolist()))  # fmt: skip
    if len(data) >= 2**31 - 2**20:
        raise FormatError(
            "an array is too large for a FlatBuffer", who=name,
            expected="less than 2 GiB", got=f"{len(data)} bytes",
        )  # fmt: skip
    assert sys.byteorder == "little"
    return {
        "shape": shape_in_graph([int(n) for n in tensor.shape], code), "buffer": data,
        "dtype": code, "byteOrder": _LITTLE,
    }  # fmt: skip


def _join(found: Any) -> bytes:
    texts: list[bytes] = []

    def add(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                add(each)
        else:
            texts.append(value if isinstance(value, bytes) else str(value).encode())

    add(found)
    ends, place = [0], 0
    for text in texts:
        place += len(text)
        ends.append(place)
    return b"".join([*(end.to_bytes(8, "little") for end in ends), *texts])
