"""Bounded reads of the numbers of an HDF5 file."""

from __future__ import annotations

from typing import Final

from amanda.errors import FormatError, LimitError

__all__ = ["Cursor", "Hdf5Data", "damage_error"]

_UNDEFINED: Final = (1 << 64) - 1
_MOST_BLOCKS: Final = 1 << 19
"""Blocks of a file: headers, nodes of trees, heaps, names, chunks."""


def damage_error(why: str, at: int | None = None) -> FormatError:
    """The error of a file whose structure is wrong."""
    where = None if at is None else f"byte {at}"
    return FormatError("the HDF5 file is damaged", where=where, got=why)


class Hdf5Data:
    """The bytes of a file, and how many of its blocks were read."""

    def __init__(self, data: memoryview) -> None:
        self.bytes = data
        self._blocks = 0
        self._most = min(10_000 + len(data) // 4, _MOST_BLOCKS)

    def cursor(self, at: int | None, size: int | None = None) -> Cursor:
        """The numbers of a block at an address."""
        self._blocks += 1
        if self._blocks > self._most:
            raise LimitError("too many blocks in the HDF5 file", got=self._blocks)
        if at is None or at > len(self.bytes):
            raise damage_error("an address outside of the file", at)
        end = len(self.bytes) if size is None else at + size
        if end > len(self.bytes):
            raise damage_error("a block that the end of the file cuts off", at)
        return Cursor(self.bytes, at, end)

    def block(self, at: int | None, signature: bytes) -> Cursor:
        """The numbers behind the signature of a block."""
        cursor = self.cursor(at)
        start = cursor.at
        if cursor.take(len(signature)) != signature:
            raise damage_error(f"no {signature.decode('ascii', 'replace')} here", start)
        return cursor


class Cursor:
    """Numbers read one after the other, up to the end of a block."""

    def __init__(self, data: memoryview, at: int, end: int) -> None:
        self._data = data
        self.at = at
        self.end = end

    @property
    def remaining(self) -> int:
        return self.end - self.at

    def take(self, size: int) -> bytes:
        """The next bytes."""
        start = self.skip(size)
        return bytes(self._data[start : self.at])

    def skip(self, size: int) -> int:
        """Go on behind bytes; returns where they start."""
        start = self.at
        if size < 0 or size > self.remaining:
            raise damage_error("a block ends within its numbers", start)
        self.at += size
        return start

    def number(self, size: int) -> int:
        """The next unsigned integer, of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def address(self) -> int | None:
        """The next address; None where it is undefined."""
        found = self.number(8)
        return None if found == _UNDEFINED else found

    def part(self, size: int) -> Cursor:
        """The next bytes as a block of their own."""
        start = self.skip(size)
        return Cursor(self._data, start, self.at)

    def text(self) -> str:
        """The text up to the next zero byte."""
        rest = bytes(self._data[self.at : self.end])
        size = rest.find(0)
        if size < 0:
            raise damage_error("a name without an end", self.at)
        self.at += size + 1
        return decode(rest[:size])


def decode(data: bytes) -> str:
    """UTF-8 text; a name in another encoding is damaged."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise damage_error(f"a name that is not UTF-8: {data[:40]!r}") from None
