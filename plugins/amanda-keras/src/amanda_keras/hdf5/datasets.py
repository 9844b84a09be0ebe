"""Datasets: their elements, in one piece or in compressed chunks."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from amanda.errors import FormatError, LimitError
from amanda_keras.hdf5.cursor import Cursor, damage_error
from amanda_keras.hdf5.datatypes import read_shape, read_type
from amanda_keras.hdf5.groups import Node
from amanda_keras.hdf5.heaps import leaves

__all__ = ["Dataset"]

_SPACE, _TYPE, _FILL, _EXTERNAL = 0x01, 0x03, 0x05, 0x07
_LAYOUT, _FILTERS = 0x08, 0x0B
_DEFLATE, _SHUFFLE, _CHECKSUM = 1, 2, 3
_MAX_RATIO: Final = 1100
"""The most that deflate compresses."""


class _Chunks(NamedTuple):
    """The tree of the chunks of a dataset, and their size."""

    tree: int | None
    sizes: tuple[int, ...]


class Dataset:
    """A dataset of an HDF5 file; its elements are read on request."""

    def __init__(self, node: Node, path: str) -> None:
        self._node, self.path = node, path
        space, kind, layout = (node.first(m) for m in (_SPACE, _TYPE, _LAYOUT))
        if space is None or kind is None or layout is None:
            raise damage_error(
                "a dataset without a shape, a type or a place", node.address
            )
        if node.first(_EXTERNAL) is not None:
            raise _elsewhere(path)
        shape = read_shape(space)
        self.shape = (0,) if shape is None else shape
        self.element = read_type(kind)
        self.dtype = self.element.dtype
        self.size = int(np.prod([*self.shape, self.dtype.itemsize], dtype=object))
        if self.size > _MAX_RATIO * len(node.data.bytes):
            raise LimitError(
                "a dataset is larger than its file can be", who=path, got=self.size
            )
        self._place: Cursor | _Chunks | None = self._layout(layout)

    def _layout(self, layout: Cursor) -> Cursor | _Chunks | None:
        """Where the elements are; None where they were never written."""
        version, kind = layout.number(1), layout.number(1)
        if version == 4 and kind == 3:
            raise _elsewhere(self.path)
        if version == 3 and kind == 2:
            rank = layout.number(1)
            tree = layout.address()
            sizes = tuple(layout.number(4) for _ in range(rank))
            if rank != len(self.shape) + 1 or 0 in sizes:
                raise damage_error("chunks of another rank", layout.at)
            return _Chunks(tree, sizes[:-1])
        if version not in (3, 4) or kind > 1:
            raise FormatError(
                "a dataset of this layout is not read", who=self.path,
                expected="elements in one piece, or chunks in a tree of version 1",
                got=f"layout {kind} of version {version}",
            )  # fmt: skip
        if kind == 0:
            return layout.part(layout.number(2))
        start = layout.address()
        return None if start is None else self._node.data.cursor(start, self.size)

    def attributes(self) -> dict[str, Any]:
        """The attributes by name."""
        return self._node.attributes()

    @property
    def offset(self) -> int | None:
        """Where the elements are in the file, in one piece; else None."""
        return self._place.at if isinstance(self._place, Cursor) else None

    def read(self) -> np.ndarray:
        """The elements; texts as objects."""
        place = self._place
        if isinstance(place, Cursor):
            copy = Cursor(self._node.data.bytes, place.at, place.end)
            return self._node.elements(copy, self.element, self.shape)
        if place is not None:
            data = self._chunks(place)
        else:
            data = np.full(self.shape, self._fill(), self.dtype)
        block = memoryview(np.ascontiguousarray(data).tobytes())
        return self._node.elements(
            Cursor(block, 0, len(block)), self.element, self.shape
        )

    def _fill(self) -> Any:
        """The value of elements that were not written."""
        message = self._node.first(_FILL)
        if message is None:
            return np.zeros((), self.dtype)
        version = message.number(1)
        if version == 3:
            has_value = bool(message.number(1) & 0x20)
        else:
            message.skip(2)
            has_value = bool(message.number(1))
        size = message.number(4) if has_value else 0
        if size != self.dtype.itemsize:
            return np.zeros((), self.dtype)
        return np.frombuffer(message.take(size), self.dtype)[0]

    def _chunks(self, chunks: _Chunks) -> np.ndarray:
        whole = np.full(self.shape, self._fill(), self.dtype)
        if chunks.tree is None or not whole.size:
            return whole
        filters = self._filters()
        rank = len(self.shape)
        size = int(np.prod([*chunks.sizes, self.dtype.itemsize], dtype=object))
        if size > _MAX_RATIO * len(self._node.data.bytes):
            raise LimitError("a chunk is larger than its file can be", who=self.path)
        tree = leaves(self._node.data, chunks.tree, 1, 16 + 8 * rank)
        for key, address in tree:
            head = Cursor(memoryview(key), 0, len(key))
            stored, skipped = head.number(4), head.number(4)
            at = [head.number(8) for _ in range(rank)]
            data = self._node.data.cursor(address, stored).take(stored)
            used = [f for i, f in enumerate(filters) if not skipped >> i & 1]
            data = _decode_chunk(data, used, size)
            if len(data) != size or any(
                n % c for n, c in zip(at, chunks.sizes, strict=True)
            ):
                raise damage_error("a chunk of another size", address)
            _place_chunk(
                whole, np.frombuffer(data, self.dtype).reshape(chunks.sizes), at
            )
        return whole

    def _filters(self) -> list[tuple[int, list[int]]]:
        """The numbers of the filters, first to last, with their settings."""
        message = self._node.first(_FILTERS)
        if message is None:
            return []
        version, count = message.number(1), message.number(1)
        message.skip(6 if version == 1 else 0)
        return [_filter(message, version) for _ in range(count)]


def _filter(message: Cursor, version: int) -> tuple[int, list[int]]:
    kind = message.number(2)
    name = message.number(2) if version == 1 or kind >= 256 else 0
    message.skip(2)
    count = message.number(2)
    message.skip(-(-name // 8) * 8 if version == 1 else name)
    settings = [message.number(4) for _ in range(count)]
    message.skip(4 if version == 1 and count % 2 else 0)
    if kind not in (_DEFLATE, _SHUFFLE, _CHECKSUM):
        raise FormatError(
            "a filter of the HDF5 file is not known", where=f"byte {message.at}",
            expected="gzip, shuffle, fletcher32", got=kind,
        )  # fmt: skip
    return kind, settings


def _decode_chunk(
    data: bytes, filters: Sequence[tuple[int, list[int]]], size: int
) -> bytes:
    """The bytes of a chunk, its filters undone, of which it may have so many."""
    for kind, settings in reversed(filters):
        if kind == _CHECKSUM:
            data = data[:-4]
        elif kind == _SHUFFLE:
            width = settings[0] if settings else 1
            data = _unshuffle(data, width)
        else:
            try:
                data = zlib.decompressobj().decompress(data, size + 4)
            except zlib.error as error:
                raise damage_error(f"a chunk is not decompressed: {error}") from None
    return data


def _unshuffle(data: bytes, width: int) -> bytes:
    """Elements from their first bytes, then their second ones and so on."""
    if width < 2 or len(data) < width:
        return data
    count = len(data) // width
    rows = np.frombuffer(data, "u1", count * width).reshape(width, count)
    return rows.T.tobytes() + data[count * width :]


def _place_chunk(whole: np.ndarray, chunk: np.ndarray, at: Sequence[int]) -> None:
    """Put a chunk in its place, without what is beyond the dataset."""
    if any(n >= size for n, size in zip(at, whole.shape, strict=True)):
        return
    ends = [min(size - n, c) for n, size, c in
            zip(at, whole.shape, chunk.shape, strict=True)]  # fmt: skip
    inner = tuple(slice(end) for end in ends)
    whole[tuple(slice(n, n + e) for n, e in zip(at, ends, strict=True))] = chunk[inner]


def _elsewhere(path: str) -> FormatError:
    return FormatError("a dataset in another file is not read", who=path)
