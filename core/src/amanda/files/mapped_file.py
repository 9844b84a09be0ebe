"""Reading files without copying them, guarded against later changes.

Programs that write to a file in place, as many exporters do, change the bytes of its
memory map; if they shorten it, reading the map ends the process. So files of up to
`COPY_BYTES` are copied when they are opened, and maps of larger ones compare size and
time of the file before they are read.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from contextlib import suppress
from typing import Any, BinaryIO, Final

from amanda.errors import FormatError

__all__ = ["COPY_BYTES", "FileIdentity", "MappedFile", "file_identity", "read_or_map"]

COPY_BYTES: Final = 8 << 20
"""The size up to which a file is copied into memory, not mapped."""

_CLOCK_NS: Final = 20_000_000
"""Twice the coarsest step of modification times: 10 ms with a kernel clock of 100 Hz.
Within it, two writes can leave equal times."""
_TRIES: Final = 5
_WINDOW: Final = 4 << 20
_DROP: Final = getattr(mmap, "MADV_DONTNEED", None)

FileIdentity = tuple[int, int, int, int]


class MappedFile(mmap.mmap):
    """A read-only memory map of a file; `check` detects that the file was changed.

    Views and arrays of it keep it alive. Replacing or deleting the file does not
    change it: only writing to the file in place does.
    """

    path: str
    identity: FileIdentity
    _used = 0

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> MappedFile:
        """Map a file that is not empty. OSError if it cannot be read."""
        with open(path, "rb") as file:
            return cls.map(file, os.fspath(path))

    @classmethod
    def map(cls, file: BinaryIO, path: str) -> MappedFile:
        """Map an open file."""
        identity = _wait_for_clock(file)
        found = cls(file.fileno(), identity[2], access=mmap.ACCESS_READ)
        found.path, found.identity = os.path.abspath(path), identity
        return found

    @property
    def is_changed(self) -> bool:
        """Whether the file was written to since it was mapped."""
        if self.size() != self.identity[2]:  # also if it has another path by now
            return True
        try:
            now = file_identity(os.stat(self.path))
        except (OSError, ValueError):
            return False  # deleted or moved: the map has the old file
        return now[:2] == self.identity[:2] and now != self.identity

    def check(self) -> None:
        """Raise FormatError if the file was written to since it was mapped."""
        if self.is_changed:
            raise FormatError(
                "the file has changed since it was loaded",
                who=self.path,
                hint="load it again, and compile again what was compiled from it; "
                "programs that write a new file and rename it leave loaded models "
                "as they are",
            )

    def release(self, count: int) -> None:
        """Let the system drop pages from memory after `count` more bytes were used.

        They stay in the file, and are loaded again on access. Nothing is dropped until
        4 MB were used."""
        self._used += count
        if self._used >= _WINDOW:
            self._used = 0
            self.drop_pages()

    def drop_pages(self) -> None:
        """Let the system drop all pages from memory."""
        if _DROP is not None:
            with suppress(OSError, ValueError):
                self.madvise(_DROP)

    @staticmethod
    def of(value: Any) -> MappedFile | None:
        """The mapped file that an array or a memoryview is in, if it is in one."""
        while not isinstance(value, memoryview):
            value = getattr(value, "base", None)
            if value is None:
                return None
        return value.obj if isinstance(value.obj, MappedFile) else None


def file_identity(status: os.stat_result) -> FileIdentity:
    """Device, inode, size and time, which change when a file is replaced or written."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def read_or_map(
    path: str | os.PathLike[str], limit: int = COPY_BYTES
) -> tuple[memoryview, FileIdentity]:
    """The bytes of a file, read-only: a copy of at most `limit` bytes, or a map.

    OSError or ValueError if the file cannot be read.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a pipe would wait
        raise FormatError("cannot read: not a regular file", who=os.fspath(path))
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max(limit, 0):
            mapped = MappedFile.map(file, os.fspath(path))
            return memoryview(mapped), mapped.identity
        return _read_unchanged(file, os.fspath(path))


def _read_unchanged(file: BinaryIO, path: str) -> tuple[memoryview, FileIdentity]:
    """The content of a file that nobody writes to meanwhile, page-aligned."""
    for _ in range(_TRIES):
        before = file_identity(os.fstat(file.fileno()))
        size = before[2]
        if not size:
            return memoryview(b""), before
        content = memoryview(mmap.mmap(-1, size, access=mmap.ACCESS_COPY))
        file.seek(0)
        count = file.readinto(content)  # type: ignore[attr-defined]
        if count == size and file_identity(os.fstat(file.fileno())) == before:
            return content.toreadonly(), before
        time.sleep(_CLOCK_NS / 1e9)
    raise FormatError(
        "the file is being written to", who=path, hint="load it when it is complete"
    )


def _wait_for_clock(file: BinaryIO) -> FileIdentity:
    """The identity of a file; any later write to it changes the identity."""
    while True:
        identity = file_identity(os.fstat(file.fileno()))
        age = time.time_ns() - identity[3]
        if not 0 <= age < _CLOCK_NS:
            return identity
        time.sleep((_CLOCK_NS - age) / 1e9)
