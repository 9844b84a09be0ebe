"""Convolutions with kernels of three elements along each axis, in fewer products.

Winograd's way: the elements that a tile of results needs are summed in a few ways, each
sum is multiplied once, and results are sums of these products. There are two:

- in pairs along every axis, F(2, 3): four products instead of six, so 16 instead of 36
  along two axes. They are the fewest, but each is small, and XLA's library for products
  on the CPU gives a small one to one core only;
- along rows, the first axis, alone: in fours, F(4, 3), six products instead of twelve,
  in threes or in pairs, each of all that the kernel sees along the other axes, or
  apart, with the sum over these behind. They are large enough for several cores.

In float32 the error of results is one to two times that of plain sums in pairs, and two
to three times in fours, where the elements that a tile takes are of like size. Where
they are not, the error is that of the largest, even if the plain sum takes it times
zero: 1e9 there leaves nothing of elements around 1. Where an element is infinite,
results are not a number. In pairs, each result depends on the same elements as a plain
sum; in threes and fours, on all that its tile takes: up to six rows instead of three.

Kernels are turned once, by `turned`, for data with channels behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from math import prod
from operator import add
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["KERNEL", "MOST", "PAIRS", "TILE", "Form", "conv", "products_of", "turned"]

KERNEL: Final = 3
TILE: Final = 2
"""Results of a tile along each axis, in pairs along every one."""
MOST: Final = 4
"""Results of a tile along rows, at most."""
Matrix = Sequence[Sequence[float]]


class _Way(NamedTuple):
    """How the tile of an axis is made: rows of factors, most of them 0, 1 or -1."""

    data: Matrix
    """What each product takes, of the elements that a tile needs."""
    kernel: Matrix
    """What it takes of the kernel."""
    sums: Matrix
    """What each result is, of the products."""

    @property
    def results(self) -> int:
        return len(self.sums)

    @property
    def products(self) -> int:
        return len(self.kernel)


def _through(*points: float) -> _Way:
    """Data and kernel as polynomials, multiplied at these points, and at infinity.

    >>> _through(0, 1, -1).sums
    [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]]
    """
    at = list(map(Fraction, points))
    results = len(at) + 2 - KERNEL
    weights = [prod(a - b for b in at if b != a) for a in at]
    last = [Fraction(i == KERNEL - 1) for i in range(KERNEL)]
    return _Way(
        data=_floats([*(_with_roots(b for b in at if b != a) for a in at),
                      _with_roots(at)], len(at) + 1),
        kernel=_floats([*([a**i / w for i in range(KERNEL)]
                          for a, w in zip(at, weights, strict=True)), last], KERNEL),
        sums=_floats([[*(a**i for a in at), Fraction(i == results - 1)]
                      for i in range(results)], len(at) + 1),
    )  # fmt: skip


def _with_roots(roots: Iterable[Fraction]) -> list[Fraction]:
    """The factors of the polynomial with these roots, the constant one first."""
    made = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *made], [root * c for c in made] + [Fraction(0)]
        made = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return made


def _floats(rows: list[list[Fraction]], width: int) -> list[list[float]]:
    return [[*map(float, row), *[0.0] * (width - len(row))] for row in rows]


_WAYS: Final = {
    2: _through(0, 1, -1),
    3: _through(0, 1, -1, 2),
    MOST: _through(0, 1, -1, 0.5, -2),
}
"""By how many results they give. Of the points with few digits, those with the least
errors."""
_BY_PRODUCTS: Final = {way.products: way for way in _WAYS.values()}


class Form(NamedTuple):
    """How a kernel lies."""

    along_rows: int = 0
    """Results of a tile along rows alone; 0 for pairs along every axis."""
    apart: bool = False
    """Whether what the kernel sees along other axes is summed behind the products."""


def products_of(along_rows: int) -> int:
    """How many products give so many results along rows.

    >>> products_of(4)
    6
    """
    return _WAYS[along_rows].products


PAIRS: Final = Form()


def turned(kernel: Any, form: Form = PAIRS) -> Any:
    """A kernel, OI*, as one matrix for each product of a tile.

    In pairs there are 4 * 4 for two axes. Along rows there are four to six, with a row
    for each channel at each place of the kernel along the other axes; or apart, with a
    column."""
    wide = np.asarray(kernel, "float64")
    inner, *window = wide.shape[1:]
    way, count = _WAYS[form.along_rows or TILE], 1 if form.along_rows else len(window)
    for axis in range(2, 2 + count):
        wide = np.moveaxis(np.tensordot(way.kernel, wide, (1, axis)), 0, axis)
    wide = np.moveaxis(wide, (1, 0), (-2, -1))  # places, channels, results
    if form.apart:
        wide = np.moveaxis(wide, -2, 1)
    rows = inner if form.apart else inner * KERNEL ** (len(window) - count)
    return wide.reshape(way.products**count, rows, -1).astype(kernel.dtype)


def conv(x: Any, w: Any, pads: Sequence[tuple[int, int]]) -> Any:
    """The convolution of N*C data, with steps of one."""
    batch, *sizes, inner = x.shape
    along_rows = w.shape[0] in _BY_PRODUCTS  # else there are more of them
    way = _BY_PRODUCTS[w.shape[0]] if along_rows else _WAYS[TILE]
    tiled = 1 if along_rows else len(sizes)
    size = [
        max(0, n + sum(pad) - KERNEL + 1) for n, pad in zip(sizes, pads, strict=True)
    ]
    tiles = [-(-n // way.results) for n in size[:tiled]]
    rest = size[tiled:]
    is_apart = bool(rest) and w.shape[1] == inner
    out = w.shape[-1] // (KERNEL ** len(rest) if is_apart else 1)
    if 0 in size:
        return jnp.zeros((batch, *size, out), x.dtype)
    more = [t * way.results - n for t, n in zip(tiles, size, strict=False)]
    rows = zip(pads, [*more, *[0] * len(rest)], strict=True)
    padded = [(low, high + extra, 0) for (low, high), extra in rows]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *padded, (0, 0, 0)])
    for i, n in enumerate(tiles):  # what products take comes in front, axis by axis
        x = jnp.stack(_spread(x, 1 + 2 * i, n, way), i)
    if not is_apart:
        x = jnp.concatenate(list(_seen(x, rest)), -1)
    others = x.shape[1 + 2 * tiled : -1]
    data = x.reshape(way.products**tiled, batch * prod((*tiles, *others)), w.shape[1])
    y = lax.dot_general(data, w, (((2,), (1,)), ((0,), (0,))))
    y = y.reshape(*[way.products] * tiled, batch, *tiles, *others, w.shape[-1])
    if is_apart:
        y = reduce(add, _seen(y, rest, out))
    for _ in tiles:  # and goes again: each axis then stands as far behind as the next
        y = _joined(y, tiled, way)
    return lax.slice(y, (0,) * y.ndim, (batch, *size, out))


def _spread(x: Any, axis: int, count: int, way: _Way) -> list[Any]:
    """What each product of each tile along an axis takes."""
    tile = way.results
    elements = [
        lax.slice_in_dim(x, i, i + tile * (count - 1) + 1, tile, axis)
        for i in range(tile + KERNEL - 1)
    ]
    return [_sum(row, elements) for row in way.data]


def _seen(x: Any, size: Sequence[int], channels: int | None = None) -> Iterator[Any]:
    """What each place of the kernel sees along the last axes but one.

    `channels`: how many are for each place, in turn; without it, all are for all."""
    first = x.ndim - 1 - len(size)
    for i, at in enumerate(np.ndindex(*[KERNEL] * len(size))):
        part = x
        if channels is not None:
            part = lax.slice_in_dim(x, i * channels, (i + 1) * channels, axis=-1)
        for axis, (low, n) in enumerate(zip(at, size, strict=True), first):
            part = lax.slice_in_dim(part, low, low + n, axis=axis)
        yield part


def _joined(products: Any, axis: int, way: _Way) -> Any:
    """The results of each tile along an axis, side by side."""
    parts = list(products)
    tile = jnp.stack([_sum(row, parts) for row in way.sums], axis + 1)
    shape = [n * way.results if i == axis else n for i, n in enumerate(parts[0].shape)]
    return tile.reshape(shape)


def _sum(factors: Sequence[float], parts: Sequence[Any]) -> Any:
    """The parts times these, added up."""
    total: Any = None
    for factor, part in zip(factors, parts, strict=True):
        if factor == 0:
            continue
        term = part if abs(factor) == 1 else abs(factor) * part
        if total is None:
            total = term if factor > 0 else -term
        else:
            total = total + term if factor > 0 else total - term
    return total
