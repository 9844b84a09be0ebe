"""SameDiff's other files: `.sdnb`, a FlatBuffer with data behind it, and `.sdz`.

A `.sdnb` file has a header of 32 bytes, big-endian: `SDNB`, the version 1, the position
and the size of the manifest, and the position of the FlatBuffer. The manifest is a map
of names to positions and sizes, as Java serializes it; data of large arrays is between
the two. A `.sdz` file is a zip of such files. Files are written without such data, with
the manifest of an empty map.
"""

from __future__ import annotations

import struct
from pathlib import PurePath
from typing import BinaryIO, Final

from amanda.errors import FormatError
from amanda.files import ArchiveWriter
from amanda.formatkit import Archive, MessageFile

__all__ = ["MAGIC", "flat_buffer_of", "read_sdnb", "sdnb_of", "write_sdz"]

MAGIC: Final = b"SDNB"
_ZIP: Final = b"PK\x03\x04"
_HEADER: Final = struct.Struct(">4siqqq")
_NO_ARRAYS: Final = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1"
    b"\x03\x00\x02F\x00\x0aloadFactorI\x00\x09thresholdxp?@\x00\x00\x00\x00\x00\x00"
    b"w\x08\x00\x00\x00\x10\x00\x00\x00\x00x"
)
"""An empty java.util.HashMap, as Java serializes it."""


def flat_buffer_of(file: MessageFile) -> memoryview:
    """The FlatBuffer of a file of any of the three kinds."""
    head = bytes(file.data[:4])
    if head == _ZIP:
        return _member(Archive(file))
    return read_sdnb(file.data) if head == MAGIC else file.data


def _member(archive: Archive) -> memoryview:
    names = [name for name in archive.members if name.endswith(".sdnb")]
    if len(names) != 1:
        raise FormatError(
            "only archives with one part can be read",
            expected="one member *.sdnb", got=", ".join(sorted(names)[:8]) or "none",
            hint="a model of less than 1 GiB is saved as one part",
        )  # fmt: skip
    return read_sdnb(memoryview(archive.read(names[0])))


def read_sdnb(data: memoryview) -> memoryview:
    """The FlatBuffer of a `.sdnb` file without data behind it."""
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
    return data[start:manifest]


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
