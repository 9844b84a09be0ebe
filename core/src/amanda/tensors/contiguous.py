"""Contiguous copies of transposed arrays."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from amanda.files.mapped_file import MappedFile

__all__ = ["contiguous_array"]

_SIDE: Final = 64
"""The elements of a tile along its source and along its target: both fit the cache."""
_FEW: Final = 1 << 14


def contiguous_array(array: Any) -> Any:
    """The array in row-major order, as `numpy.ascontiguousarray`.

    A large one that is transposed is copied tile by tile, several times as fast. Of a
    mapped file, the pages that were copied need not stay in memory.
    """
    import numpy as np

    array = np.asarray(array)
    wide = [axis for axis, size in enumerate(array.shape) if size > 1]
    if array.size < _FEW or len(wide) < 2 or array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    near = min(wide, key=lambda axis: abs(array.strides[axis]))
    if near == wide[-1]:
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    for place in product(*_tiles(array.shape, near)):
        made[place] = array[place]
    file = MappedFile.of(array)
    if file is not None:
        file.release(array.nbytes)
    return made


def _tiles(shape: tuple[int, ...], near: int) -> list[list[slice]]:
    """Along each axis, the parts of the tiles: a row of the source is along `near`, one
    of the target along the last axes."""
    sizes, left = [1] * len(shape), _SIDE
    for axis in reversed(range(len(shape))):
        sizes[axis] = min(shape[axis], left) if axis != near else 1
        left = max(left // sizes[axis], 1)
    sizes[near] = _SIDE
    return [
        [slice(at, at + step) for at in range(0, size, step)]
        for size, step in zip(shape, sizes, strict=True)
    ]
