"""Memory of the host: pages that need not stay, copies that devices read in place."""

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

__all__ = ["ALIGNMENT", "aligned", "give_back", "is_in_file", "let_go", "room_for"]

ALIGNMENT: Final = 64
PART: Final = 16 << 20
"""Bytes that are copied at once."""
_LET_GO: Final = getattr(mmap, "MADV_DONTNEED", None)


def let_go(array: Any) -> None:
    """The pages of a file that an array lies in need not stay in memory.

    Who reads it later finds it as before; so only where nobody can write to it."""
    held = _file_of(array)
    if _LET_GO is None or held is None:
        return
    page = mmap.PAGESIZE
    first = array.ctypes.data - np.frombuffer(held, "uint8").ctypes.data
    begin = -(-first // page) * page
    end = (first + array.nbytes) // page * page
    if begin < end:
        with suppress(OSError, ValueError):
            held.madvise(_LET_GO, begin, end - begin)


def is_in_file(array: Any) -> bool:
    """Whether it lies in pages of a file, which come when they are read."""
    return _file_of(array) is not None


def _file_of(array: Any) -> mmap.mmap | None:
    """The file that an array lies in, where nobody can write to it."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) and base.readonly else None
    return held if isinstance(held, mmap.mmap) else None


def room_for(shape: Sequence[int], dtype: Any) -> Any:
    """A row-major array to be filled, where devices of the CPU can read it in place."""
    form = np.dtype(dtype)
    nbytes = prod(shape) * form.itemsize
    room = np.empty(nbytes + ALIGNMENT, "uint8")
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + nbytes].view(form).reshape(shape)


def aligned(array: Any) -> Any:
    """A row-major copy where devices of the CPU can read it without another one.

    Made in parts, along what lies outermost: of what is in a file, no more than one
    part is in memory."""
    made = room_for(array.shape, array.dtype)
    if not array.size or not array.ndim:
        np.copyto(made, array)
        return made
    axis = int(np.argmax(np.abs(array.strides)))
    given, behind = np.moveaxis(array, axis, 0), np.moveaxis(made, axis, 0)
    step = max(1, PART * len(given) // array.nbytes)
    for first in range(0, len(given), step):
        part = given[first : first + step]
        np.copyto(behind[first : first + step], part)
        let_go(part)
    return made


def give_back() -> None:
    """Memory that was freed goes back to the system.

    A compiler leaves much of it behind, which the C library keeps for each thread."""
    trim = _trimmer()
    if trim is not None:
        trim(0)


@cache
def _trimmer() -> Callable[[int], int] | None:
    """What does that in the C library, where it is one that keeps much and says so."""
    if sys.platform != "linux":
        return None
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
