"""A native library that runs graphs with oneDNN, as the backend `onednn`.

`LIBRARY` is the path of the library, for whoever loads it without Python.
"""

from __future__ import annotations

from typing import Final

from amanda_onednn.libraries import find_library

__all__ = ["LIBRARY"]

LIBRARY: Final = find_library("libonednn.so")
"""The shared library with the C interface of amanda-native."""
