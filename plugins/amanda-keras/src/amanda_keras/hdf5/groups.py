"""Groups: the links to what they contain, and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from amanda.errors import FormatError, LimitError
from amanda_keras.hdf5.cursor import Cursor, Hdf5Data, damage_error, decode
from amanda_keras.hdf5.datatypes import ElementType, read_shape, read_type
from amanda_keras.hdf5.headers import header_messages
from amanda_keras.hdf5.heaps import FractalHeap, GlobalHeap, leaves, records

__all__ = ["Node"]

_LINK_INFO, _LINK, _ATTRIBUTE = 0x02, 0x06, 0x0C
_SYMBOLS, _ATTRIBUTE_INFO = 0x11, 0x15
_SOFT: Final = 2
"""The cache type of a symbol that is a soft link."""
_MOST_ELEMENTS: Final = 1 << 24


class Node:
    """An object of the file: a group or a dataset."""

    def __init__(self, data: Hdf5Data, heap: GlobalHeap, address: int | None) -> None:
        self.data, self.heap, self.address = data, heap, address
        self.messages = header_messages(data, address)

    def first(self, kind: int) -> Cursor | None:
        """The bytes of the first message of a kind."""
        for message in self.messages:
            if message.kind == kind:
                body = message.unshared_body()
                return Cursor(self.data.bytes, body.at, body.end)
        return None

    @property
    def is_group(self) -> bool:
        kinds = {message.kind for message in self.messages}
        return bool(kinds & {_LINK_INFO, _LINK, _SYMBOLS})

    # -- links -------------------------------------------------------------------------

    def links(self) -> Iterator[tuple[str, int | None]]:
        """The names in a group and the addresses of their objects."""
        for name, address in self._all_links():
            if name in ("", ".") or "/" in name or "\0" in name:
                raise damage_error(f"an object has the name {name[:80]!r}", address)
            yield name, address

    def _all_links(self) -> Iterator[tuple[str, int | None]]:
        symbols = self.first(_SYMBOLS)
        if symbols is not None:
            yield from self._symbols(symbols)
        for message in self.messages:
            if message.kind == _LINK:
                yield self._link(message.unshared_body())
        for body in self._heap_objects(_LINK_INFO, 8, 4):
            yield self._link(body)

    def _symbols(self, message: Cursor) -> Iterator[tuple[str, int | None]]:
        tree, heap = message.address(), message.address()
        head = self.data.block(heap, b"HEAP")
        head.skip(4)
        size = head.number(8)
        head.skip(8)
        start = head.address()
        for _, child in leaves(self.data, tree, 0, 8):
            node = self.data.block(child, b"SNOD")
            node.skip(2)
            for _ in range(node.number(2)):
                place, target = node.number(8), node.address()
                kind = node.number(4)
                node.skip(20)
                names = self.data.cursor(start, size)
                names.skip(place)
                name = names.text()
                if kind == _SOFT:
                    raise _not_followed(name)
                yield name, target

    def _link(self, body: Cursor) -> tuple[str, int | None]:
        version, flags = body.number(1), body.number(1)
        if version != 1:
            raise damage_error(f"a link of version {version}", body.at)
        kind = body.number(1) if flags & 8 else 0
        body.skip((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
        name = decode(body.take(body.number(1 << (flags & 3))))
        if kind:
            raise _not_followed(name)
        return name, body.address()

    def _heap_objects(
        self, kind: int, order_size: int, skipped: int
    ) -> Iterator[Cursor]:
        """The objects of the heap that a message names, by the tree of their names."""
        info = self.first(kind)
        if info is None:
            return
        info.skip(1)
        info.skip(order_size if info.number(1) & 1 else 0)
        place, tree = info.address(), info.address()
        if place is None:
            return
        heap = FractalHeap(self.data, place)
        for record in records(self.data, tree):
            record.skip(skipped)
            yield heap.object(record.part(heap.id_size))

    # -- attributes --------------------------------------------------------------------

    def attributes(self) -> dict[str, Any]:
        """The attributes by name: text, numbers, and lists of them."""
        found: dict[str, Any] = {}
        own = (m.unshared_body() for m in self.messages if m.kind == _ATTRIBUTE)
        for body in (*own, *self._heap_objects(_ATTRIBUTE_INFO, 2, 0)):
            name, value = self._attribute(Cursor(self.data.bytes, body.at, body.end))
            found[name] = value
        return found

    def _attribute(self, body: Cursor) -> tuple[str, Any]:
        version, flags = body.number(1), body.number(1)
        if version not in (1, 2, 3):
            raise damage_error(f"an attribute of version {version}", body.at)
        sizes = [body.number(2) for _ in range(3)]
        if version > 1 and flags:
            raise FormatError("an attribute of a shared type is not read")
        body.skip(1 if version == 3 else 0)
        step = 8 if version == 1 else 1
        name, kind, space = (body.part(-(-size // step) * step) for size in sizes)
        text = decode(name.take(name.remaining).partition(b"\0")[0])
        shape, element = read_shape(space), read_type(kind)
        return text, None if shape is None else self._value(body, element, shape)

    def _value(self, body: Cursor, element: ElementType, shape: Sequence[int]) -> Any:
        count = int(np.prod(shape, dtype=object))
        if count > _MOST_ELEMENTS:
            raise LimitError("too many elements of an attribute", got=count)
        array = self.elements(body, element, shape)
        if element.is_text:
            return array.tolist()
        return array.tolist() if array.ndim else array[()]

    def elements(
        self, body: Cursor, element: ElementType, shape: Sequence[int]
    ) -> np.ndarray:
        """The elements in a block; texts as objects."""
        count = int(np.prod(shape, dtype=object))
        data = body.take(count * element.dtype.itemsize)
        if element.is_in_heap:
            cells = [
                self._text(Cursor(memoryview(data), 16 * i, 16 * i + 16))
                for i in range(count)
            ]
        elif element.is_text:
            size = element.dtype.itemsize
            cells = [
                data[i : i + size].partition(b"\0")[0].decode("utf-8", "replace")
                for i in range(0, len(data), size)
            ]
        else:
            return np.frombuffer(data, element.dtype).reshape(shape)
        array = np.empty(count, object)
        array[:] = cells
        return array.reshape(shape)

    def _text(self, cell: Cursor) -> str:
        """A text of the global heap; one of no length is in no heap."""
        size, address, index = cell.number(4), cell.number(8), cell.number(4)
        if not size:
            return ""
        found = self.heap.object(address, index)
        return found[:size].partition(b"\0")[0].decode("utf-8", "replace")


def _not_followed(name: str) -> FormatError:
    return FormatError(
        "a link of the HDF5 file is not followed", who=name,
        expected="groups and datasets of the file itself",
    )  # fmt: skip
