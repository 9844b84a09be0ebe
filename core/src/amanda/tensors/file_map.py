"""Files that tensors share: a private copy, or one memory map per file."""

from __future__ import annotations

import os
import stat
from weakref import WeakValueDictionary

from amanda.errors import FormatError
from amanda.files.atomic import read_errors
from amanda.files.mapped_file import (
    COPY_BYTES,
    FileIdentity,
    MappedFile,
    file_identity,
    read_or_map,
)

__all__ = ["FileMap"]

_open: WeakValueDictionary[FileIdentity, FileMap] = WeakValueDictionary()


class FileMap:
    """The bytes of a file, for tensors in it.

    `FileMap.of(path)` is memory-mapped on first access, and the same object for the
    same file while it is alive. `FileMap.read(path)` is a copy if the file is small,
    else such a map. A file that is written to in place raises an error at the next
    access; if it is replaced or deleted after the first one, the old bytes remain.
    """

    __slots__ = ("__weakref__", "_identity", "_view", "path", "size")

    def __init__(
        self, path: str, identity: FileIdentity, view: memoryview | None = None
    ) -> None:
        self.path = path
        self.size = identity[2] if view is None else len(view)
        self._identity = identity
        self._view = view

    @staticmethod
    def of(path: str | os.PathLike[str]) -> FileMap:
        """The map of a file, shared with others of the same file."""
        name, identity = _identify(path)
        found = _open.get(identity)
        if found is None:
            found = _open[identity] = FileMap(name, identity)
        return found

    @staticmethod
    def read(path: str | os.PathLike[str], limit: int = COPY_BYTES) -> FileMap:
        """A copy of a file of at most `limit` bytes; else its map, made at once."""
        name = os.path.abspath(os.fspath(path))
        with read_errors(name):
            view, identity = read_or_map(name, limit)
        if not isinstance(view.obj, MappedFile):
            return FileMap(name, identity, view)
        found = _open.get(identity)
        if found is None or found._view is None:
            found = _open[identity] = FileMap(name, identity, view)
        return found

    @property
    def is_copy(self) -> bool:
        """Whether the bytes are in memory; False if they stay in the file."""
        return self._view is not None and not isinstance(self._view.obj, MappedFile)

    @property
    def is_replaced(self) -> bool:
        """Whether there is another file, or another content, at its path by now."""
        try:
            return file_identity(os.stat(self.path)) != self._identity
        except OSError:
            return True

    def view(self) -> memoryview:
        """All bytes, read-only; pages are loaded on access."""
        if self._view is None:
            with read_errors(self.path):
                view = memoryview(b"")
                if self.size:  # empty files cannot be mapped
                    view = memoryview(MappedFile.open(self.path))
            owner = view.obj
            if isinstance(owner, MappedFile) and owner.identity != self._identity:
                raise FormatError(
                    "the file has changed since it was opened",
                    who=self.path,
                    hint="load it again",
                )
            self._view = view
        elif isinstance(self._view.obj, MappedFile):
            self._view.obj.check()
        return self._view

    def release(self, count: int) -> None:
        """Let the system drop pages from memory after `count` more bytes were used."""
        owner = None if self._view is None else self._view.obj
        if isinstance(owner, MappedFile):
            owner.release(count)


def _identify(path: str | os.PathLike[str]) -> tuple[str, FileIdentity]:
    """The absolute path of a regular file, and its identity."""
    name = os.path.abspath(os.fspath(path))
    with read_errors(name):
        found = os.stat(name)
    if not stat.S_ISREG(found.st_mode):
        raise FormatError("cannot read: not a regular file", who=name)
    return name, file_identity(found)
