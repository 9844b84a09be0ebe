"""A reader of HDF5 files, as far as Keras writes them, in Python alone.

Superblocks of all versions, groups of both kinds, attributes, datasets in one piece, in
chunks and in compressed ones. What it does not read is an error that names it; a
damaged file is one, too, after work in proportion to its size.
"""

from __future__ import annotations

from amanda.errors import FormatError
from amanda_keras.hdf5.cursor import Hdf5Data, damage_error
from amanda_keras.hdf5.datasets import Dataset
from amanda_keras.hdf5.groups import Node
from amanda_keras.hdf5.heaps import GlobalHeap

__all__ = ["SIGNATURE", "Dataset", "Node", "open_root"]

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def open_root(data: memoryview) -> Node:
    """The root group of the bytes of a file."""
    whole = Hdf5Data(data)
    head = whole.block(0, SIGNATURE)
    version = head.number(1)
    if version in (0, 1):
        head.skip(4)
        sizes = head.number(1), head.number(1)
        head.skip(9 if version == 0 else 13)
        base = head.number(8)
        head.skip(4 * 8)  # other addresses, and the name of the root group
    elif version in (2, 3):
        sizes = head.number(1), head.number(1)
        head.skip(1)
        base = head.number(8)
        head.skip(2 * 8)
    else:
        raise damage_error(f"a superblock of version {version}", 8)
    if sizes != (8, 8) or base:
        raise FormatError(
            "an HDF5 file of this kind is not read", expected="addresses of 8 bytes",
            got=f"addresses and lengths of {sizes[0]} and {sizes[1]} bytes",
        )  # fmt: skip
    return Node(whole, GlobalHeap(whole), head.address())
