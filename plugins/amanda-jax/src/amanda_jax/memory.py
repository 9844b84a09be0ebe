"""Memory of the host: pages that need not stay, copies that devices read in place."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any, Final

import numpy as np

__all__ = ["ALIGNMENT", "aligned", "let_go"]

ALIGNMENT: Final = 64
_LET_GO: Final = getattr(mmap, "MADV_DONTNEED", None)


def let_go(array: Any) -> None:
    """The pages of a file that an array lies in need not stay in memory.

    Who reads it later finds it as before; so only where nobody can write to it."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) and base.readonly else None
    if _LET_GO is None or not isinstance(held, mmap.mmap):
        return
    page = mmap.PAGESIZE
    first = array.ctypes.data - np.frombuffer(held, "uint8").ctypes.data
    begin = -(-first // page) * page
    end = (first + array.nbytes) // page * page
    if begin < end:
        with suppress(OSError, ValueError):
            held.madvise(_LET_GO, begin, end - begin)


def aligned(array: Any) -> Any:
    """A row-major copy where devices of the CPU can read it without another one."""
    room = np.empty(array.nbytes + ALIGNMENT, "uint8")
    skip = -room.ctypes.data % ALIGNMENT
    made = room[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(made, array)
    return made
