"""Memory-mapped files: one map per file, shared by its tensors."""

from __future__ import annotations

import os
import stat
from weakref import WeakValueDictionary

from amanda.errors import FormatError
from amanda.files.atomic import map_file

__all__ = ["FileMap"]

_Identity = tuple[int, int, int, int]

_open: WeakValueDictionary[_Identity, FileMap] = WeakValueDictionary()


class FileMap:
    """A file that is memory-mapped on first access.

    `FileMap.of(path)` returns the same object for the same file while it is alive. A
    file that is replaced or changed before the first access is an error. Afterwards,
    the old bytes remain.
    """

    __slots__ = ("__weakref__", "_identity", "_view", "path", "size")

    def __init__(self, path: str, identity: _Identity) -> None:
        self.path = path
        self.size = identity[2]
        self._identity = identity
        self._view: memoryview | None = None

    @staticmethod
    def of(path: str | os.PathLike[str]) -> FileMap:
        name = os.path.abspath(os.fspath(path))
        identity = _identity(name)
        found = _open.get(identity)
        if found is None:
            found = _open[identity] = FileMap(name, identity)
        return found

    def view(self) -> memoryview:
        """All bytes, read-only; pages are loaded on access."""
        if self._view is None:
            view = map_file(self.path)
            if _identity(self.path) != self._identity or len(view) != self.size:
                raise FormatError(
                    "the file has changed since it was opened",
                    who=self.path,
                    hint="load it again",
                )
            self._view = view
        return self._view


def _identity(path: str) -> _Identity:
    """Device, inode, size and time, which change when a file is replaced or written."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot read: {cause}", who=path) from error
    if not stat.S_ISREG(found.st_mode):
        raise FormatError("cannot read: not a regular file", who=path)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
