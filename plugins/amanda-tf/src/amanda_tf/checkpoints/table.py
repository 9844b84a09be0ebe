"""Sorted tables of keys and values in a file, as LevelDB has them.

    block ... block | index of the blocks | footer

A block is a list of entries, each with the length of what its key shares with the key
before; then the positions of the entries that share nothing, and their number. Behind
it are its compression, in one byte, and its checksum. The footer has the places of two
blocks: one that TensorFlow leaves empty, and the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from amanda.errors import FormatError
from amanda.files import map_file
from amanda.formatkit import decode_varint, encode_varint, locate_error
from amanda_tf.checkpoints.crc import crc_of, expect_crc, mask_crc
from amanda_tf.checkpoints.snappy import decompress_snappy

__all__ = ["MAGIC", "Table", "table_bytes"]

MAGIC: Final = bytes.fromhex("57fb808b247547db")
"""The last bytes of every table."""
_FOOTER: Final = 48
_TRAILER: Final = 5  # behind each block
_BLOCK: Final = 1 << 18  # bytes of a block, as TensorFlow writes them
_INTERVAL: Final = 16  # entries of which one has its whole key
_LIMIT: Final = 1 << 28  # bytes of a compressed block

Row = tuple[bytes, memoryview]


class Table:
    """A table in a file; every block that is read has its checksum checked."""

    def __init__(self, data: memoryview, who: str) -> None:
        self.data = data
        self.who = who
        if len(data) < _FOOTER or bytes(data[-8:]) != MAGIC:
            raise FormatError(
                "this is no table: its last bytes are not those of one", who=who,
                expected=MAGIC.hex(), got=bytes(data[-8:]).hex(),
            )  # fmt: skip

    @classmethod
    def open(cls, path: str) -> Table:
        """The table of a file."""
        return cls(map_file(path), path)

    def __iter__(self) -> Iterator[Row]:
        """Keys and values, sorted."""
        start = len(self.data) - _FOOTER
        try:
            *unused, at = self._handle(self.data, start, start + 40)
            position, size, _ = self._handle(self.data, at, start + 40)
        except FormatError as error:
            raise self._error_at(error, start) from error
        for _ in self._block(*unused):  # only checked
            pass
        last = b""
        for _, handle in self._block(position, size):
            at, length, _ = self._handle(handle, 0, len(handle))
            for key, value in self._block(at, length):
                if key < last:
                    raise self._error_at(FormatError("its keys are not sorted"), at)
                last = key
                yield key, value

    def _handle(self, data: memoryview, start: int, stop: int) -> tuple[int, int, int]:
        """Position and size of a block, and where these end."""
        position, at = decode_varint(data, start, stop)
        size, at = decode_varint(data, at, stop)
        return position, size, at

    def _block(self, position: int, size: int) -> Iterator[Row]:
        end = position + size
        if end + _TRAILER > len(self.data) - _FOOTER:
            raise self._error_at(
                FormatError(
                    "a block reaches beyond the end of the file",
                    expected=f"{size + _TRAILER} bytes",
                    got=f"{max(len(self.data) - _FOOTER - position, 0)} bytes",
                ),
                position,
            )
        stored = int.from_bytes(self.data[end + 1 : end + _TRAILER], "little")
        checked = self.data[position : end + 1]
        expect_crc([checked], stored, "a block", self.who, position)
        content, kind = self.data[position:end], self.data[end]
        try:
            if kind == 1:
                content = memoryview(decompress_snappy(content, _LIMIT))
            elif kind:
                raise FormatError("a block of an unknown compression", got=kind)
            yield from _rows(content)
        except FormatError as error:
            raise self._error_at(error, position) from error

    def _error_at(self, error: FormatError, position: int) -> FormatError:
        found = locate_error(error, f"byte {position}")
        found.who = self.who
        return found


def _rows(block: memoryview) -> Iterator[Row]:
    """The entries of a block."""
    count = int.from_bytes(block[-4:], "little")
    stop = len(block) - 4 - 4 * count
    if len(block) < 4 or stop < 0:
        raise FormatError("a block without room for its entries")
    at, key = 0, b""
    while at < stop:
        shared, at = decode_varint(block, at, stop)
        own, at = decode_varint(block, at, stop)
        size, at = decode_varint(block, at, stop)
        end = at + own + size
        if shared > len(key) or end > stop:
            raise FormatError("an entry of a block reaches beyond it")
        key = key[:shared] + bytes(block[at : at + own])
        yield key, block[at + own : end]
        at = end


# -- writing -----------------------------------------------------------------------


def table_bytes(rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A table of sorted rows.

    >>> [(k, bytes(v)) for k, v in Table(memoryview(table_bytes([(b"a", b"1")])), "")]
    [(b'a', b'1')]
    """
    out = bytearray()
    index: list[tuple[bytes, bytes]] = []
    block = _BlockWriter()
    for key, value in rows:
        block.append(key, value)
        if len(block.content) >= _BLOCK:
            index.append((block.key, block.write(out)))
            block = _BlockWriter()
    if block.starts:
        index.append((block.key, block.write(out)))
    empty = _BlockWriter().write(out)
    top = _BlockWriter()
    for key, value in index:
        top.append(key, value)
    places = empty + top.write(out)
    return bytes(out + places.ljust(_FOOTER - 8, b"\0") + MAGIC)


class _BlockWriter:
    def __init__(self) -> None:
        self.content = bytearray()
        self.starts: list[int] = []
        self.key = b""
        self._count = 0

    def append(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._count % _INTERVAL == 0:
            self.starts.append(len(self.content))
        else:
            most = min(len(key), len(self.key))
            while shared < most and key[shared] == self.key[shared]:
                shared += 1
        sizes = (shared, len(key) - shared, len(value))
        self.content += b"".join(map(encode_varint, sizes)) + key[shared:] + value
        self.key = key
        self._count += 1

    def write(self, out: bytearray) -> bytes:
        """Append the block to a file; returns its place."""
        starts = self.starts or [0]
        for number in (*starts, len(starts)):
            self.content += number.to_bytes(4, "little")
        position, size = len(out), len(self.content)
        self.content.append(0)  # no compression
        crc = mask_crc(crc_of([bytes(self.content)]))
        out += self.content + crc.to_bytes(4, "little")
        return encode_varint(position) + encode_varint(size)
