"""Memory: pages of mapped files, and aligned copies that devices read in place."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np

from amanda.files import MappedFile

__all__ = [
    "ALIGNMENT",
    "aligned_copy",
    "return_freed_memory",
    "is_memory_mapped",
    "release_pages",
    "empty_aligned",
]

ALIGNMENT: Final = 64
CHUNK: Final = 16 << 20
"""Bytes that are copied at once."""
_DONTNEED: Final = getattr(mmap, "MADV_DONTNEED", None)


def release_pages(array: Any) -> None:
    """Release the pages of a mapped file that an array occupies.

    They are read again when they are needed; so this is done only for read-only
    maps."""
    mapped = MappedFile.of(array)
    if _DONTNEED is None or mapped is None:
        return
    page = mmap.PAGESIZE
    first = array.ctypes.data - np.frombuffer(mapped, "uint8").ctypes.data
    begin = -(-first // page) * page
    end = (first + array.nbytes) // page * page
    if begin < end:
        with suppress(OSError, ValueError):
            mapped.madvise(_DONTNEED, begin, end - begin)


def is_memory_mapped(array: Any) -> bool:
    """Whether an array is in pages of a mapped file, which load when they are read."""
    return MappedFile.of(array) is not None


def empty_aligned(shape: Sequence[int], dtype: Any) -> Any:
    """An uninitialized row-major array that CPU devices read in place."""
    form = np.dtype(dtype)
    nbytes = prod(shape) * form.itemsize
    buffer = np.empty(nbytes + ALIGNMENT, "uint8")
    skip = -buffer.ctypes.data % ALIGNMENT
    return buffer[skip : skip + nbytes].view(form).reshape(shape)


def aligned_copy(array: Any) -> Any:
    """A row-major copy that CPU devices read in place.

    It is copied in parts along the outermost axis: of an array in a mapped file, no
    more than one part is in memory."""
    copy = empty_aligned(array.shape, array.dtype)
    if not array.size or not array.ndim:
        np.copyto(copy, array)
        return copy
    axis = int(np.argmax(np.abs(array.strides)))
    source, target = np.moveaxis(array, axis, 0), np.moveaxis(copy, axis, 0)
    step = max(1, CHUNK * len(source) // array.nbytes)
    for first in range(0, len(source), step):
        part = source[first : first + step]
        np.copyto(target[first : first + step], part)
        release_pages(part)
    return copy


def return_freed_memory() -> None:
    """Return freed memory to the operating system.

    Compilers free much memory, which the C library would keep for each thread."""
    trim = _trimmer()
    if trim is not None:
        trim(0)


@cache
def _trimmer() -> Callable[[int], int] | None:
    """`malloc_trim` of the C library, where it is glibc; else None."""
    if sys.platform != "linux":
        return None
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
