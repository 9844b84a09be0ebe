"""Arrays of a run, in memory up to a limit and in temporary files beyond it."""

from __future__ import annotations

import mmap
import tempfile
import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from amanda.graph import OutputPort
from amanda_inspect.windows import array_bytes

__all__ = ["MemoryBudget", "ValueStore"]

_FILE_BYTES: Final = 1 << 26
"""The size of a file, if no array is larger; many arrays share one."""
_ALIGNMENT: Final = 64


class MemoryBudget:
    """Bytes that several stores may keep in memory together; what exceeds it is kept in
    files."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.files = _MappedFiles()


class ValueStore(MutableMapping[OutputPort, Any]):
    """A mapping to arrays; those that exceed the budget are mapped from files.

    Strings and other objects stay in memory."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._arrays: dict[OutputPort, Any] = {}
        self._sizes: dict[OutputPort, int] = {}

    def __getitem__(self, port: OutputPort) -> Any:
        return self._arrays[port]

    def __setitem__(self, port: OutputPort, value: Any) -> None:
        if port in self._arrays:
            del self[port]
        size = array_bytes(value)
        if self._budget.used + size > self._budget.limit:
            value = self._budget.files.move(value)
            size = _bytes_in_memory(value)
        self._arrays[port] = value
        self._sizes[port] = size
        self._budget.used += size

    def __delitem__(self, port: OutputPort) -> None:
        del self._arrays[port]
        self._budget.used -= self._sizes.pop(port)

    def __iter__(self) -> Iterator[OutputPort]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class _MappedFiles:
    """Temporary files that arrays are moved to.

    A file ends with the last of its arrays, and is never written to twice at one place,
    so arrays may be used after they have left the store."""

    def __init__(self) -> None:
        self._file: Any = None
        self._map: Any = b""
        self._end = 0

    def move(self, value: Any) -> Any:
        """A read-only array of a file, or a sequence of them."""
        import numpy as np

        if isinstance(value, list | tuple):
            return type(value)([self.move(each) for each in value])
        is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if not is_array or value.dtype.kind == "T" or not value.nbytes:
            return value
        if self._end + value.nbytes > len(self._map):
            self._begin_file(max(value.nbytes, _FILE_BYTES))
        start = self._end
        self._file.seek(start)
        self._file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        self._file.flush()
        self._end += -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
        raw = np.frombuffer(self._map, np.uint8, value.nbytes, start)
        return raw.view(value.dtype).reshape(value.shape)

    def _begin_file(self, length: int) -> None:
        if self._file is not None:
            self._file.close()  # what is mapped stays
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it is written to later
        weakref.finalize(self, self._file.close)
        self._file.truncate(length)
        self._map = mmap.mmap(self._file.fileno(), length, access=mmap.ACCESS_READ)
        self._end = 0


def _bytes_in_memory(value: Any) -> int:
    """The size of what is in no file: objects."""
    if isinstance(value, list | tuple):
        return sum(map(_bytes_in_memory, value))
    return 0 if _is_mapped(value) else array_bytes(value)


def _is_mapped(value: Any) -> bool:
    base = value
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None
