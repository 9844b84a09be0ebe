"""Memory that two processes share: a file without a name, mapped by both."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["SharedMemory"]

_ALIGNMENT: Final = 64
_LEAST: Final = 1 << 16
_FOLDER: Final = Path("/dev/shm")  # noqa: S108  a file system in memory


class SharedMemory:
    """A growing region. Arrays in it stay valid while they are referred to."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            folder = _FOLDER if _FOLDER.is_dir() else None
            with tempfile.TemporaryFile(dir=folder) as file:
                descriptor = os.dup(file.fileno())
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None
        self._used = 0

    @property
    def size(self) -> int:
        return 0 if self._map is None else len(self._map)

    def clear(self) -> None:
        """Use the region from its begin again."""
        self._used = 0

    def array(self, dtype: Any, shape: Sequence[int]) -> tuple[Any, int]:
        """A new array in the region, and its offset."""
        import numpy as np

        offset = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self._used = offset + size
        if self._used > self.size:
            self.grow(max(self._used, 2 * self.size, _LEAST))
        return self.view(dtype, shape, offset), offset

    def view(self, dtype: Any, shape: Sequence[int], offset: int) -> Any:
        """The array at an offset."""
        import numpy as np

        return np.ndarray(shape, dtype, self._map, offset)

    def grow(self, size: int) -> None:
        """Make the file larger, and map all of it; older arrays keep their memory."""
        if size > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, size)
        if size > self.size:
            self._map = mmap.mmap(self.descriptor, size)

    def close(self) -> None:
        """Close the file; arrays in it stay valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
