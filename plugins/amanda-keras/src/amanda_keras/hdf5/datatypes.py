"""Element types of HDF5 as those of NumPy, and shapes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from amanda.errors import FormatError
from amanda_keras.hdf5.cursor import Cursor, damage_error

__all__ = ["ElementType", "read_shape", "read_type"]

_FLOATS: Final = {(2, 5, 10): "f2", (4, 8, 23): "f4", (8, 11, 52): "f8"}
"""Size, bits of the exponent and of the mantissa."""
_MOST_AXES: Final = 32


class ElementType(NamedTuple):
    """How elements are stored; texts of any length are in the global heap."""

    dtype: np.dtype
    is_text: bool = False
    is_in_heap: bool = False


def read_type(cursor: Cursor, depth: int = 0) -> ElementType:
    """The element type that a datatype message describes."""
    at = cursor.at
    first = cursor.number(1)
    kind, version = first & 15, first >> 4
    bits, size = cursor.number(3), cursor.number(4)
    order = ">" if bits & 1 else "<"
    if kind == 0 and size in (1, 2, 4, 8):
        cursor.skip(4)
        return ElementType(np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}"))
    if kind == 1 and not bits & 0x40:
        cursor.skip(5)
        exponent = cursor.number(1)
        cursor.skip(1)
        name = _FLOATS.get((size, exponent, cursor.number(1)))
        cursor.skip(4)
        if name:
            return ElementType(np.dtype(f"{order}{name}"))
    if kind == 3 and size:
        return ElementType(np.dtype(f"S{size}"), is_text=True)
    if kind == 5 and size:
        cursor.skip(-(-(bits & 0xFF) // 8) * 8)
        return ElementType(np.dtype(f"V{size}"))
    if kind == 6 and depth == 0:
        return _complex_type(cursor, version, size, bits & 0xFFFF)
    if kind == 8 and depth == 0:
        return _enumeration(cursor, version, size, bits & 0xFFFF)
    if kind == 9 and bits & 15 == 1 and size == 16:
        return ElementType(np.dtype("V16"), is_text=True, is_in_heap=True)
    raise FormatError(
        "a dataset of this element type is not read", where=f"byte {at}",
        expected="numbers or strings", got=f"class {kind} of {size} bytes",
    )  # fmt: skip


def _enumeration(cursor: Cursor, version: int, size: int, count: int) -> ElementType:
    """Names of integers; those that h5py gives booleans make these."""
    base = read_type(cursor, 1)
    names = []
    for _ in range(count):
        start = cursor.at
        names.append(cursor.text())
        if version < 3:
            cursor.skip(-(cursor.at - start) % 8)
    if names == ["FALSE", "TRUE"] and size == 1:
        return ElementType(np.dtype("bool"))
    return base


def _complex_type(cursor: Cursor, version: int, size: int, count: int) -> ElementType:
    """Records of two floats r and i, as h5py stores complex numbers."""
    members = []
    for _ in range(count):
        start = cursor.at
        name = cursor.text()
        if version < 3:
            cursor.skip(-(cursor.at - start) % 8)
        cursor.skip(4 if version < 3 else (max(size, 1).bit_length() - 1) // 8 + 1)
        cursor.skip(28 if version == 1 else 0)
        members.append((name, read_type(cursor, 1).dtype))
    parts = [dtype for _, dtype in members]
    names = [name for name, _ in members]
    if names == ["r", "i"] and parts[0] == parts[1] and parts[0].kind == "f":
        whole = f"{parts[0].byteorder}c{size}"
        if size == 2 * parts[0].itemsize and size in (8, 16):
            return ElementType(np.dtype(whole))
    raise FormatError(
        "a dataset of records is not read", where=f"byte {cursor.at}", got=names,
        expected="numbers or strings",
    )  # fmt: skip


def read_shape(cursor: Cursor) -> tuple[int, ...] | None:
    """The sizes of a dataspace message; None where it has no elements at all."""
    at = cursor.at
    version, rank, _ = cursor.number(1), cursor.number(1), cursor.number(1)
    if version not in (1, 2) or rank > _MOST_AXES:
        raise damage_error(f"a shape of version {version} and rank {rank}", at)
    if version == 1:
        cursor.skip(5)
    elif cursor.number(1) == 2:
        return None
    return tuple(cursor.number(8) for _ in range(rank))
