"""SameDiff's other files: `.sdnb`, a FlatBuffer with data behind it, and `.sdz`.

A `.sdnb` file has a header of 32 bytes, big-endian: `SDNB`, the version 1, the position
and the size of the manifest, and the position of the FlatBuffer. The manifest is a map
of names to positions and sizes, as Java serializes it; data of large arrays is between
the two. A `.sdz` file is a zip of such files: one, or the parts `*.shard0-of-3.sdnb`
and so on, of which the first has the graph and all have arrays. Files are written as
one part with all arrays in the FlatBuffer, and the manifest of an empty map.
"""

from __future__ import annotations

import re
import struct
from pathlib import PurePath
from typing import BinaryIO, Final, NamedTuple

from amanda.errors import FormatError
from amanda.files import ArchiveWriter
from amanda.formatkit import Archive, MessageFile
from amanda_nd4j.samediff.java_maps import map_of_pairs

__all__ = ["MAGIC", "Part", "parts_of", "sdnb_of", "write_sdz"]

MAGIC: Final = b"SDNB"
_ZIP: Final = b"PK\x03\x04"
_HEADER: Final = struct.Struct(">4siqqq")
_NO_ARRAYS: Final = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1"
    b"\x03\x00\x02F\x00\x0aloadFactorI\x00\x09thresholdxp?@\x00\x00\x00\x00\x00\x00"
    b"w\x08\x00\x00\x00\x10\x00\x00\x00\x00x"
)
"""An empty java.util.HashMap, as Java serializes it."""


class Part(NamedTuple):
    """A FlatBuffer, and the data of arrays behind it by the names of variables."""

    flat_buffer: memoryview
    appended: dict[str, memoryview]


def parts_of(file: MessageFile) -> list[Part]:
    """The parts of a file of any of the three kinds; the first has the graph."""
    head = bytes(file.data[:4])
    if head == _ZIP:
        return _members(Archive(file))
    return [_read_sdnb(file.data) if head == MAGIC else Part(file.data, {})]


def _members(archive: Archive) -> list[Part]:
    names = [name for name in archive.members if name.endswith(".sdnb")]
    if len(names) != 1:
        count = len(names)
        numbers = {_part_number(name, count): name for name in names}
        if set(numbers) != set(range(count)) or not count:
            raise FormatError(
                "the parts of the archive are not those of one model",
                expected="one member *.sdnb, or all of *.shard0-of-N.sdnb and so on",
                got=", ".join(sorted(names)[:8]) or "none",
            )  # fmt: skip
        names = [numbers[i] for i in range(count)]
    return [_read_sdnb(memoryview(archive.read(name))) for name in names]


def _part_number(name: str, count: int) -> int:
    found = re.search(r"\.shard(\d{1,6})-of-(\d{1,6})\.sdnb$", name)
    return int(found[1]) if found and int(found[2]) == count else -1


def _read_sdnb(data: memoryview) -> Part:
    if len(data) < _HEADER.size:
        raise FormatError("the file ends within its header", got=f"{len(data)} bytes")
    magic, version, manifest, size, start = _HEADER.unpack_from(data)
    if magic != MAGIC or version != 1:
        raise FormatError(
            "this is no part of a SameDiff model", expected="SDNB, version 1",
            got=f"{magic!r}, version {version}",
        )  # fmt: skip
    if not _HEADER.size <= start <= manifest <= len(data) - max(size, 0) or size < 0:
        raise FormatError(
            "the header has positions outside the file",
            got=f"FlatBuffer at {start}, manifest at {manifest}, of {size} bytes",
            expected=f"{len(data)} bytes",
        )  # fmt: skip
    spans = map_of_pairs(data[manifest : manifest + size]) if size else {}
    return Part(
        data[start:manifest],
        {name: _span(data[:manifest], name, *span) for name, span in spans.items()},
    )


def _span(data: memoryview, name: str, start: int, size: int) -> memoryview:
    if not size >= 0 or not _HEADER.size <= start <= len(data) - size:
        raise FormatError(
            "the data of an array is outside the file", who=name,
            got=f"{size} bytes at {start}", expected=f"less than {len(data)}",
        )  # fmt: skip
    return data[start : start + size]


def sdnb_of(flat_buffer: bytes) -> bytes:
    """A `.sdnb` file with a FlatBuffer."""
    manifest = _HEADER.size + len(flat_buffer)
    head = _HEADER.pack(MAGIC, 1, manifest, len(_NO_ARRAYS), _HEADER.size)
    return head + flat_buffer + _NO_ARRAYS


def write_sdz(file: BinaryIO, flat_buffer: bytes, name: str) -> None:
    """A `.sdz` file with one part."""
    content = sdnb_of(flat_buffer)
    with ArchiveWriter(file) as archive:
        archive.add(f"{PurePath(name).stem}.sdnb", len(content), [content])
