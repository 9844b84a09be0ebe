"""The members of a zip archive, within bounds, and JSON in them."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from typing import Any, Final

from amanda.errors import FormatError, LimitError
from amanda.formatkit.message_file import MessageFile

__all__ = ["Archive", "BytesFile", "parse_json"]

_MAX_INFLATION: Final = 64
"""How many times larger than the archive its members may be, without a limit below."""
_FREE_BYTES: Final = 64 << 20
_MAX_DEPTH: Final = 200
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_ERRORS: Final = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError,
    OSError, ValueError, struct.error, KeyError, OverflowError,
)  # fmt: skip


class BytesFile:
    """A seekable file on a memoryview, without a copy."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    def read(self, size: int = -1) -> bytes:
        end = len(self.data) if size < 0 else self.position + size
        found = bytes(self.data[self.position : end])
        self.position += len(found)
        return found

    def readinto(self, buffer: Any) -> int:
        found = self.data[self.position : self.position + len(buffer)]
        buffer[: len(found)] = found
        self.position += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self.position, len(self.data))[whence]
        self.position = max(start + offset, 0)
        return self.position

    def tell(self) -> int:
        return self.position

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is written."""


class Archive:
    """The members of a zip archive by name.

    Members that are stored stay in the file; deflated ones are inflated in memory, all
    of them to at most 64 times the size of the archive plus 64 MB.
    """

    def __init__(self, file: MessageFile) -> None:
        self.file = file
        self.left = _FREE_BYTES + _MAX_INFLATION * len(file.data)
        try:
            self.zip = zipfile.ZipFile(BytesFile(file.data))
            self.members = {each.filename: each for each in self.zip.infolist()}
        except _ERRORS as error:
            raise FormatError(
                "the archive cannot be read", expected="a complete zip file", got=error
            ) from error

    def read(self, name: str) -> bytes:
        """The bytes of a member; FormatError where it is missing or damaged."""
        info = self.members.get(name)
        if info is None:
            raise FormatError(
                f"the archive has no member {name!r}",
                got=", ".join(sorted(self.members)[:8]) or "no members",
            )
        if info.file_size > self.left:
            raise LimitError(
                "the members of the archive are too large for its size", who=name,
                expected=f"at most {self.left} bytes more", got=info.file_size,
            )  # fmt: skip
        self.left -= info.file_size
        try:
            return self.zip.read(info)
        except _ERRORS as error:
            raise FormatError(
                "a member of the archive is damaged", who=name, got=error
            ) from error

    def file_of(self, name: str) -> tuple[MessageFile, int]:
        """The file that has the bytes of a member, and the position where they begin.

        A stored member is a part of the archive, and is not copied.
        """
        info = self.members.get(name)
        if info is None or info.compress_type != zipfile.ZIP_STORED:
            return MessageFile(memoryview(self.read(name))), 0
        try:
            at = info.header_offset
            lengths = _LOCAL_HEADER.unpack_from(self.file.data, at)
        except struct.error as error:
            raise FormatError("a member of the archive is damaged", who=name) from error
        start = at + _LOCAL_HEADER.size + sum(lengths)
        if info.flag_bits & 1 or start + info.file_size > len(self.file.data):
            raise FormatError("a member of the archive is damaged", who=name)
        data = self.file.data[: start + info.file_size]
        return MessageFile(data, file=self.file.file), start

    def read_json(self, name: str) -> Any:
        """The value of a member in JSON."""
        return parse_json(self.read(name), name)


_SURROGATE: Final = re.compile(r"\\u[dD]|[\ud800-\udfff]")


def parse_json(text: bytes | str, what: str) -> Any:
    """The value of a JSON text; FormatError where it is invalid or too deep.

    A text with half a surrogate pair is invalid: no file can hold it as UTF-8."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text)
        _expect_depth(value)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FormatError("this is not valid JSON", who=what, got=error) from error
    return value


def _expect_depth(value: Any) -> None:
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise ValueError(f"more than {_MAX_DEPTH} levels")
        if isinstance(item, dict):
            waiting += [(each, depth + 1) for each in item.values()]
        elif isinstance(item, list):
            waiting += [(each, depth + 1) for each in item]
