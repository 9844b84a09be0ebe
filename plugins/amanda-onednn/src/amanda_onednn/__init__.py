"""A native library that runs graphs with oneDNN, as the backend `onednn`.

`LIBRARY` is the path of the library, for whoever loads it without Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["LIBRARY"]

_NAME: Final = "libonednn.so"


def _find_library() -> Path:
    """The library beside this file, or where an editable install has it."""
    found = [Path(folder) / _NAME for folder in __path__]
    return next(filter(Path.is_file, found), found[0])


LIBRARY: Final = _find_library()
"""The shared library with the C interface of amanda-native."""
