"""Heaps and trees: what groups and attributes are stored in where they are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amanda.errors import FormatError
from amanda_keras.hdf5.cursor import Cursor, Hdf5Data, damage_error

__all__ = ["FractalHeap", "GlobalHeap", "leaves", "records"]

_MOST_LEVELS: Final = 16


def leaves(
    data: Hdf5Data,
    address: int | None,
    kind: int,
    key_size: int,
    level: int | None = None,
) -> Iterator[tuple[bytes, int | None]]:
    """The keys and children of the lowest nodes of a B-tree of version 1."""
    node = data.block(address, b"TREE")
    own, height, count = node.number(1), node.number(1), node.number(2)
    wrong = level is not None and height != level
    if own != kind or wrong or height > _MOST_LEVELS:
        raise damage_error("a node of another tree", address)
    node.skip(16)  # the addresses of its neighbours
    for _ in range(count):
        key, child = node.take(key_size), node.address()
        if height:
            yield from leaves(data, child, kind, key_size, height - 1)
        else:
            yield key, child


def _bytes_for(limit: int) -> int:
    """The bytes of a number up to a limit."""
    return (max(limit, 1).bit_length() - 1) // 8 + 1


def records(data: Hdf5Data, address: int | None) -> Iterator[Cursor]:
    """The records of a B-tree of version 2."""
    head = data.block(address, b"BTHD")
    head.skip(2)
    node_size, record_size, depth = head.number(4), head.number(2), head.number(2)
    head.skip(2)
    root, count = head.address(), head.number(2)
    if depth > _MOST_LEVELS or record_size == 0:
        raise damage_error("a tree of wrong sizes", address)
    if root is not None:
        yield from _Tree(data, node_size, record_size).records(root, count, depth)


class _Tree:
    """The sizes of the nodes of a B-tree of version 2."""

    def __init__(self, data: Hdf5Data, node_size: int, record_size: int) -> None:
        self.data = data
        self.node_size, self.record_size = node_size, record_size
        leaf = (node_size - 10) // record_size
        self._count_size = _bytes_for(leaf)
        self._totals = [leaf]
        """The most records below a node, by its height."""

    def _pointer(self, height: int) -> tuple[int, int]:
        """The sizes of two counts in a pointer to a child below this height."""
        while len(self._totals) <= height:
            below = self._totals[-1]
            extra = _bytes_for(below) if len(self._totals) > 1 else 0
            pointer = 8 + self._count_size + extra
            own = (self.node_size - 10 - pointer) // (self.record_size + pointer)
            self._totals.append((own + 1) * below + own)
        return self._count_size, _bytes_for(self._totals[height - 1]) * (height > 1)

    def records(self, address: int | None, count: int, height: int) -> Iterator[Cursor]:
        node = self.data.block(address, b"BTIN" if height else b"BTLF")
        node.skip(2)
        own = [node.part(self.record_size) for _ in range(count)]
        if height:
            for _ in range(count + 1):
                child = node.address()
                first, second = self._pointer(height)
                number = node.number(first)
                node.skip(second)
                yield from self.records(child, number, height - 1)
        yield from own


class FractalHeap:
    """Objects in blocks of doubling sizes, by an identifier."""

    def __init__(self, data: Hdf5Data, address: int | None) -> None:
        self._data = data
        head = data.block(address, b"FRHP")
        head.skip(1)
        self.id_size, filters, flags = head.number(2), head.number(2), head.number(1)
        if filters:
            raise FormatError("a compressed heap of the HDF5 file is not read")
        largest = head.number(4)
        head.skip(12 * 8)
        self._width, self._first, self._direct = (
            head.number(2), head.number(8), head.number(8)
        )  # fmt: skip
        self._offset_size = -(-head.number(2) // 8)
        head.skip(2)
        self._root, self._rows = head.address(), head.number(2)
        self._size_size = min(_bytes_for(self._direct), _bytes_for(largest))
        self._checked = 4 if flags & 2 else 0
        if not (self._width and self._first and self._first <= self._direct):
            raise damage_error("a heap of wrong sizes", address)

    def object(self, id_: Cursor) -> Cursor:
        """The object of an identifier."""
        kind = id_.number(1)
        if kind & 0x30:
            raise FormatError(
                "an object of a heap of the HDF5 file is not read",
                expected="one within its blocks", where=f"byte {id_.at}",
            )  # fmt: skip
        place, size = id_.number(self._offset_size), id_.number(self._size_size)
        return self._data.cursor(self._address(place), size)

    def _address(self, place: int) -> int:
        """Where the byte at a place of the heap is in the file."""
        block, rows, left = self._root, self._rows, place
        if not rows:
            return _within(block, left, self._first)
        for _ in range(_MOST_LEVELS):
            row, before, size = self._row(left)
            if row >= rows:
                break
            column = (left - before) // size
            child = self._child(block, row * self._width + column)
            left -= before + column * size
            if size <= self._direct:
                return _within(child, left, size)
            block = child
            rows = size.bit_length() - (self._first * self._width).bit_length() + 1
        raise damage_error("an object outside of its heap", block)

    def _row(self, place: int) -> tuple[int, int, int]:
        """The row of a place, where the row starts, and the size of its blocks."""
        row, before, size = 0, 0, self._first
        while place >= before + size * self._width:
            before += size * self._width
            size *= 2 if row else 1
            row += 1
        return row, before, size

    def _child(self, block: int | None, index: int) -> int | None:
        cursor = self._data.block(block, b"FHIB")
        cursor.skip(9 + self._offset_size + 8 * index)
        return cursor.address()


def _within(block: int | None, place: int, size: int) -> int:
    if block is None or place >= size:
        raise damage_error("an object outside of its heap", block)
    return block + place


class GlobalHeap:
    """Texts of any length, by the address of a collection and an index."""

    def __init__(self, data: Hdf5Data) -> None:
        self._data = data
        self._collections: dict[int, dict[int, tuple[int, int]]] = {}

    def object(self, address: int | None, index: int) -> bytes:
        if address is None:
            raise damage_error("a text without an address")
        if address not in self._collections:
            self._collections[address] = self._read(address)
        found = self._collections[address].get(index)
        if found is None:
            raise damage_error(f"a heap has no object {index}", address)
        start, end = found
        return Cursor(self._data.bytes, start, end).take(end - start)

    def _read(self, address: int) -> dict[int, tuple[int, int]]:
        """Where the objects of a collection begin and end, by index."""
        head = self._data.block(address, b"GCOL")
        head.skip(4)
        size = head.number(8)
        block = self._data.cursor(address, size)
        block.skip(16)
        objects: dict[int, tuple[int, int]] = {}
        while block.remaining >= 16:
            index = block.number(2)
            block.skip(6)
            length = block.number(8)
            if not index:
                break
            at = block.at
            block.skip(length)
            block.skip(min(-length % 8, block.remaining))
            objects[index] = at, at + length
        return objects
