"""Object headers: the messages that describe a group or a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from amanda.errors import FormatError, LimitError
from amanda_keras.hdf5.cursor import Cursor, Hdf5Data, damage_error

__all__ = ["Message", "header_messages"]

_CONTINUATION: Final = 0x10
_MOST_MESSAGES: Final = 1 << 16
_SHARED: Final = 2


class Message(NamedTuple):
    """One message: its kind, its bytes, and whether these are elsewhere."""

    kind: int
    body: Cursor
    is_shared: bool

    def unshared_body(self) -> Cursor:
        """The bytes, which must be in the message itself."""
        if self.is_shared:
            raise FormatError(
                "a message of the HDF5 file that objects share is not read",
                where=f"byte {self.body.at}",
            )
        return self.body


def header_messages(data: Hdf5Data, address: int | None) -> list[Message]:
    """The messages of the object header at an address."""
    start = data.cursor(address)
    is_new = start.take(4) == b"OHDR"
    head = data.cursor(address)
    messages = _new_messages(data, head) if is_new else _old_messages(data, head)
    found: list[Message] = []
    for message in messages:
        found.append(message)
        if len(found) > _MOST_MESSAGES:
            raise LimitError("too many messages of an object", where=f"byte {address}")
    return found


def _old_messages(data: Hdf5Data, head: Cursor) -> Iterator[Message]:
    """Headers of version 1."""
    at = head.at
    version = head.number(1)
    if version != 1:
        raise damage_error(f"an object header of version {version}", at)
    head.skip(1)
    count, _, size = head.number(2), head.number(4), head.number(4)
    head.skip(4)  # aligned to 8 bytes
    blocks = [head.part(size)]
    seen: set[int] = set()
    for block in blocks:
        while block.remaining >= 8 and count:
            kind, length, flags = block.number(2), block.number(2), block.number(1)
            block.skip(3)
            body, count = block.part(length), count - 1
            if kind == _CONTINUATION:
                place, extent = _continuation(body, seen)
                blocks.append(data.cursor(place, extent))
            else:
                yield Message(kind, body, bool(flags & _SHARED))


def _new_messages(data: Hdf5Data, head: Cursor) -> Iterator[Message]:
    """Headers of version 2, which have signatures and checksums."""
    at = head.skip(4)
    version, flags = head.number(1), head.number(1)
    if version != 2:
        raise damage_error(f"an object header of version {version}", at)
    head.skip((16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0))
    blocks = [head.part(head.number(1 << (flags & 3)))]
    ordered = 2 if flags & 4 else 0
    seen: set[int] = set()
    for block in blocks:
        while block.remaining >= 4 + ordered:
            kind, length, own = block.number(1), block.number(2), block.number(1)
            block.skip(ordered)
            body = block.part(length)
            if kind == _CONTINUATION:
                place, extent = _continuation(body, seen)
                rest = data.cursor(place, extent)
                if rest.take(4) != b"OCHK":
                    raise damage_error("no OCHK here", place)
                blocks.append(rest.part(max(rest.remaining - 4, 0)))  # then a checksum
            else:
                yield Message(kind, body, bool(own & _SHARED))


def _continuation(body: Cursor, seen: set[int]) -> tuple[int, int]:
    """Where a header goes on; not where it was before."""
    place, extent = body.number(8), body.number(8)
    if place in seen:
        raise damage_error("an object header goes on in a circle", place)
    seen.add(place)
    return place, extent
