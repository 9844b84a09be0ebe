"""Zip archives with uncompressed members, which can be mapped.

Any zip program can read them. Each member begins at a multiple of 64 bytes, as vector
units and accelerators require of weights. The reader accepts only what is safe to map:
the directory is bounded, members may not overlap or have names outside a folder, and
both headers of a member must agree.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import BinaryIO, Final, NamedTuple, NoReturn, Self

from amanda.errors import FormatError, LimitError

Buffer = bytes | bytearray | memoryview

__all__ = [
    "ALIGNMENT",
    "ArchiveMember",
    "ArchiveWriter",
    "read_members",
    "verify_checksum",
]

ALIGNMENT: Final = 64
_ALIGN_ID = 0xD935  # the extra field that Android's zipalign writes
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # constant, so that every save gives the same bytes
_ZIP64_FROM = (1 << 32) - (1 << 16)
_MOST_MEMBERS = 10_000
_MOST_DIRECTORY = 4 << 20
_BLOCK = 1 << 20

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")


class ArchiveMember(NamedTuple):
    """The position of a member's bytes in the archive."""

    name: str
    start: int
    size: int
    crc: int
    header: int

    @property
    def stop(self) -> int:
        return self.start + self.size


# -- writing ---------------------------------------------------------------------


class ArchiveWriter:
    """Writes members, each streamed, and then the directory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        # After an error the file is discarded; closing here keeps the zip writer from
        # writing its directory when it is collected.
        with suppress(OSError, ValueError) if kind else nullcontext():
            self._zip.close()

    def add(self, name: str, size: int, chunks: Iterable[Buffer]) -> None:
        """Add a member of `size` bytes, the total of `chunks`."""
        info = zipfile.ZipInfo(name, _NO_TIME)
        info.create_system = 3  # Unix, on whatever system it is made
        info.external_attr = 0o100644 << 16
        long = size >= _ZIP64_FROM
        info.extra = _padding(self._file.tell() + _header_size(name, long))
        written = 0
        with self._zip.open(info, "w", force_zip64=long) as member:
            for chunk in chunks:
                member.write(chunk)
                written += len(chunk)
        if written != size:
            raise FormatError(
                "the data does not have the announced length",
                where=name,
                expected=f"{size} bytes",
                got=f"{written} bytes",
            )


def _header_size(name: str, long: bool) -> int:
    return _LOCAL.size + len(name.encode()) + (20 if long else 0)


def _padding(end: int) -> bytes:
    """An extra field that aligns the end of a header."""
    zeros = -(end + 6) % ALIGNMENT
    return struct.pack("<3H", _ALIGN_ID, 2 + zeros, ALIGNMENT) + bytes(zeros)


# -- reading ---------------------------------------------------------------------


def read_members(data: memoryview) -> dict[str, ArchiveMember]:
    """The members of an archive, checked; their bytes are not read."""
    at, count, size = _find_directory(data)
    if count > _MOST_MEMBERS or size > _MOST_DIRECTORY:
        raise LimitError(
            "the archive has a larger directory than any of ours",
            where=f"byte {at}",
            expected=f"at most {_MOST_MEMBERS} members in {_MOST_DIRECTORY} bytes",
            got=f"{count} members in {size} bytes",
        )
    found: dict[str, ArchiveMember] = {}
    pos, stop = at, at + size
    for _ in range(count):
        member, pos = _member(data, pos, stop)
        if member.name in found:
            _bad(f"the archive has two members {member.name!r}", member.header)
        found[member.name] = member
    if pos != stop:
        _bad("the directory of the archive has something after its members", pos)
    _check_overlap(found.values(), at)
    return found


def verify_checksum(data: memoryview, member: ArchiveMember) -> None:
    """Compare the checksum of a member, which reads all of it."""
    crc = 0
    for pos in range(member.start, member.stop, _BLOCK):
        crc = zlib.crc32(data[pos : min(pos + _BLOCK, member.stop)], crc)
    if crc != member.crc:
        raise FormatError(
            f"the member {member.name} is damaged",
            where=f"bytes {member.start} to {member.stop}",
            expected=f"checksum {member.crc:08x}",
            got=f"checksum {crc:08x}",
            hint="take the file again from where it came",
        )


def _find_directory(data: memoryview) -> tuple[int, int, int]:
    """Position, number of members, and size of the directory."""
    tail = max(0, len(data) - _END.size - 0xFFFF)
    found = bytes(data[tail:]).rfind(b"PK\5\6")
    at = tail + found
    if found < 0 or at + _END.size > len(data):
        raise FormatError(
            "not a whole zip archive: it has no directory at its end",
            where=f"byte {len(data)}",
            hint="the file may have been cut short; take it again",
        )
    _, disk, disk2, here, count, size, start, comment = _END.unpack_from(data, at)
    if at + _END.size + comment != len(data):
        _bad("the archive does not end where it says", at)
    end = at
    long = 0xFFFF in (count, here) or 0xFFFFFFFF in (size, start)
    if long or bytes(data[max(at - _END64_LOCATOR.size, 0) :][:4]) == b"PK\6\7":
        end, disk, disk2, here, count, size, start = _find_directory64(data, at)
    if disk or disk2 or here != count:
        _bad("archives in several parts are not read", at)
    if start + size != end:
        _bad(
            "the directory of the archive is not where it should be",
            at,
            expected=f"its end at byte {end}",
            got=f"byte {start + size}",
        )
    return start, count, size


def _find_directory64(
    data: memoryview, end: int
) -> tuple[int, int, int, int, int, int, int]:
    """The same of an archive of more than 4 GB."""
    at = end - _END64_LOCATOR.size
    if at < 0 or bytes(data[at : at + 4]) != b"PK\6\7":
        _bad("the archive lacks its 64-bit directory", end)
    _, disk, start, _disks = _END64_LOCATOR.unpack_from(data, at)
    if disk or start + _END64.size > at or bytes(data[start : start + 4]) != b"PK\6\6":
        _bad("the 64-bit directory of the archive is not where it should be", at)
    _, rest, _, _, disk, disk2, here, count, size, first = _END64.unpack_from(
        data, start
    )
    if start + 12 + rest != at:
        _bad("the 64-bit directory of the archive has a wrong length", start)
    return start, disk, disk2, here, count, size, first


def _member(data: memoryview, pos: int, stop: int) -> tuple[ArchiveMember, int]:
    """The member whose directory entry is at `pos`, and the entry's end."""
    if pos + _CENTRAL.size > stop or bytes(data[pos : pos + 4]) != b"PK\1\2":
        _bad("the directory of the archive is broken", pos)
    entry = _CENTRAL.unpack_from(data, pos)
    flags, method, crc, packed, size = entry[3], entry[4], *entry[7:10]
    names, extras, comment, header = *entry[10:13], entry[16]
    text = pos + _CENTRAL.size
    after = text + names + extras + comment
    if after > stop:
        _bad("an entry of the archive reaches beyond the directory", pos)
    raw = bytes(data[text : text + names])
    name = _check_name(raw, pos)
    extra = bytes(data[text + names : text + names + extras])
    size, packed, header = _long_sizes(extra, size, packed, header, pos)
    if method or packed != size:
        _bad(
            f"the member {name} is compressed",
            pos,
            expected="members stored as they are",
            hint="unpack it and pack it again without compression (zip -0)",
        )
    if flags & 0x2041:
        _bad(f"the member {name} is encrypted", pos)
    return ArchiveMember(name, _data_start(data, raw, header), size, crc, header), after


def _check_name(raw: bytes, pos: int) -> str:
    """The name of a member, if it is safe as a file name."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        _bad(f"the name {raw!r} of a member is not UTF-8", pos)
    parts = name.removesuffix("/").split("/")
    unsafe = any(part in ("", ".", "..") for part in parts)
    if unsafe or any(char in "\\:" or char < " " for char in name):
        _bad(
            "a member of the archive has an unsafe name",
            pos,
            expected="a relative path without '..'",
            got=repr(name),
        )
    return name


def _long_sizes(
    extra: bytes, size: int, packed: int, header: int, pos: int
) -> tuple[int, int, int]:
    """The 64-bit sizes in an extra field, for those that overflowed."""
    values = [size, packed, header]
    missing = [i for i, value in enumerate(values) if value == 0xFFFFFFFF]
    at = 0
    while missing and at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1:
            if length < 8 * len(missing) or at + length > len(extra):
                break
            for i in missing:
                (values[i],) = struct.unpack_from("<Q", extra, at)
                at += 8
            missing = []
        at += length
    if missing:
        _bad("a member of the archive lacks its 64-bit size", pos)
    return values[0], values[1], values[2]


def _data_start(data: memoryview, raw: bytes, header: int) -> int:
    """The position of a member's bytes, after its own header."""
    text = header + _LOCAL.size
    if text > len(data) or bytes(data[header : header + 4]) != b"PK\3\4":
        _bad(f"the member {raw.decode()} has no header where it should", header)
    entry = _LOCAL.unpack_from(data, header)
    names, extras = entry[9:11]
    if bytes(data[text : text + names]) != raw or entry[3]:
        _bad(f"the two headers of the member {raw.decode()} differ", header)
    return int(text + names + extras)


def _check_overlap(found: Iterable[ArchiveMember], directory: int) -> None:
    """Refuse overlapping members, with which a small archive claims a large size."""
    before = 0
    for member in sorted(found, key=lambda member: member.header):
        if member.header < before:
            _bad(f"the member {member.name} overlaps another", member.header)
        before = member.stop
        if before > directory:
            _bad(
                f"the member {member.name} reaches beyond the end of the members",
                member.header,
                expected=f"at most {directory - member.start} bytes",
                got=f"{member.size} bytes",
            )


def _bad(message: str, place: int, **parts: str) -> NoReturn:
    raise FormatError(message, where=f"byte {place}", **parts)
