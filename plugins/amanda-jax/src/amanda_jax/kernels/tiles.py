"""Convolutions with kernels of three elements along each axis, in fewer products.

Winograd's way, F(2, 3): of four elements next to each other, two results are made with
four products instead of six; along two axes, with 16 instead of 36. Sums and halves are
all that stands around them, so each result depends on the same elements as a plain sum.
In float32 it is as near to the true one where the elements under a kernel are of like
size. Where they are not, the error is that of the largest, even if the plain sum takes
it times zero: 1e9 there leaves nothing of elements around 1. Where an element is
infinite, results are not a number.

Kernels are turned once, by `turned`, for data with channels behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["KERNEL", "TILE", "conv", "turned"]

KERNEL: Final = 3
TILE: Final = 2
"""Results of a tile along each axis."""
_KERNEL: Final = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def turned(kernel: Any) -> Any:
    """A kernel, OI*, as one matrix for each product of a tile: 4 * 4 for two axes."""
    wide = np.asarray(kernel, "float64")
    for axis in range(2, wide.ndim):
        wide = np.moveaxis(np.tensordot(_KERNEL, wide, (1, axis)), 0, axis)
    out, inner = wide.shape[:2]
    made = wide.reshape(out, inner, -1).transpose(2, 1, 0)
    return made.astype(kernel.dtype)


def conv(x: Any, w: Any, pads: Sequence[tuple[int, int]]) -> Any:
    """The convolution of N*C data, with steps of one."""
    axes = range(1, x.ndim - 1)
    size = [
        max(0, x.shape[a] + sum(pad) - KERNEL + 1)
        for a, pad in zip(axes, pads, strict=True)
    ]
    if 0 in size:
        return jnp.zeros((x.shape[0], *size, w.shape[-1]), x.dtype)
    tiles = [-(-n // TILE) for n in size]
    rows = zip(pads, tiles, size, strict=True)
    more = [(low, high + TILE * t - n, 0) for (low, high), t, n in rows]
    batch, inner = x.shape[0], x.shape[-1]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *more, (0, 0, 0)])
    for i, count in enumerate(tiles):  # what products take comes in front, axis by axis
        x = jnp.stack(_spread(x, 1 + 2 * i, count), i)
    data = x.reshape(4 ** len(tiles), batch * prod(tiles), inner)
    y = lax.dot_general(data, w, (((2,), (1,)), ((0,), (0,))))
    y = y.reshape(*[4] * len(tiles), batch, *tiles, w.shape[-1])
    for _ in tiles:  # and goes again: each axis then stands as far behind as the next
        y = _joined(y, len(tiles))
    return lax.slice(y, (0,) * y.ndim, (batch, *size, w.shape[-1]))


def _spread(x: Any, axis: int, count: int) -> list[Any]:
    """What the four products of each tile along an axis take."""
    a, b, c, d = (
        lax.slice_in_dim(x, i, i + TILE * (count - 1) + 1, TILE, axis) for i in range(4)
    )
    return [a - c, b + c, c - b, b - d]


def _joined(products: Any, axis: int) -> Any:
    """The two results of each tile along an axis, side by side."""
    a, b, c, d = products
    pair = jnp.stack([a + b + c, b - c - d], axis + 1)
    shape = [n * TILE if i == axis else n for i, n in enumerate(a.shape)]
    return pair.reshape(shape)
