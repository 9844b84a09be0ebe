"""To ONNX: bitcast, whose BitCast keeps the number of bits of elements.

Between elements of other sizes the words are moved by shifts: the least significant one
comes first along the last axis.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import int64_tensor, opset_of, unsqueeze
from amanda_std.mappings import rank_of

__all__ = ["WRITE"]

_FIRST_BITCAST: Final = 26  # opset


def write_bitcast(o: Any, x: Any, *, dtype: DType) -> Any:
    own = x.type.dtype if isinstance(x.type, TensorType) else None
    if not isinstance(own, DType) or dtype not in CODES or own not in CODES:
        raise Decline(f"no bitcast from {own} to {dtype}")
    if own.bits == dtype.bits:
        return _cast_bits(o, x, own, dtype)
    words = _cast_bits(o, x, own, _bits_type(own))
    if own.bits > dtype.bits:
        words = _split_words(o, words, own, dtype)
    else:
        words = _join_words(o, words, own, dtype, rank_of(x))
    return _cast_bits(o, words, _bits_type(dtype), dtype)


def _bits_type(dtype: DType) -> DType:
    if dtype.bits not in (8, 16, 32, 64):
        raise Decline(f"elements of {dtype.bits} bits are not moved")
    return DType(f"uint{dtype.bits}")


def _cast_bits(o: Any, x: Any, own: DType, wanted: DType) -> Any:
    """The bits as another type of as many; a cast between integers keeps them, too."""
    if own == wanted:
        return x
    are_integers = {own.kind, wanted.kind} <= {"int", "uint"}
    if opset_of(o) < _FIRST_BITCAST and are_integers:
        return o.Cast(x, to=CODES[wanted])
    return o.BitCast(x, to=CODES[wanted])


def _shift_type(*dtypes: DType) -> DType:
    """The element type of shifts, which runtimes have for 32 and 64 bits."""
    return DType("uint64" if max(d.bits for d in dtypes) == 64 else "uint32")


def _scalar(value: int, dtype: DType) -> Tensor:
    return Tensor.of(np.asarray(value).astype(dtype.numpy))


def _split_words(o: Any, x: Any, own: DType, wanted: DType) -> Any:
    """Elements as several along a new last axis."""
    wide = _shift_type(own)
    x = x if _bits_type(own) == wide else o.Cast(x, to=CODES[wide])
    mask = _scalar((1 << wanted.bits) - 1, wide)
    parts = []
    for i in range(own.bits // wanted.bits):
        part = x
        if i:
            part = o.BitShift(x, _scalar(i * wanted.bits, wide), direction="RIGHT")
        part = o.Cast(o.BitwiseAnd(part, mask), to=CODES[_bits_type(wanted)])
        parts.append(unsqueeze(o, part, [-1]))
    return o.Concat(*parts, axis=-1)


def _join_words(o: Any, x: Any, own: DType, wanted: DType, rank: int) -> Any:
    """The elements of the last axis as one."""
    wide = _shift_type(wanted)
    x = x if _bits_type(own) == wide else o.Cast(x, to=CODES[wide])
    parts = []
    for i in range(wanted.bits // own.bits):
        part = o.Gather(x, int64_tensor(i), axis=rank - 1)
        if i:
            part = o.BitShift(part, _scalar(i * own.bits, wide), direction="LEFT")
        parts.append(part)
    joined = reduce(o.BitwiseOr, parts)
    narrow = _bits_type(wanted)
    return joined if narrow == wide else o.Cast(joined, to=CODES[narrow])


WRITE: dict[str, Any] = {"bitcast": write_bitcast}
