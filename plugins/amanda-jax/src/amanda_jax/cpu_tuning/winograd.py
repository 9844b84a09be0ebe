"""Winograd convolution for kernels of 3 elements along each axis: fewer
multiplications.

The elements that a tile of results depends on are transformed by a few sums, each sum
is multiplied once, and the results are sums of these products. There are two forms:

- F(2, 3) along every axis: four products instead of six, so 16 instead of 36 for two
axes. They are the fewest, but each matrix product is small, and XLA's library on the
CPU runs a small one on one core only;

- F(4, 3), F(3, 3) or F(2, 3) along rows, the first axis, alone: with F(4, 3) six
products instead of twelve, each over all kernel elements along the other axes, or
separate, with the sum over these elements afterwards. They are large enough for several
cores.

In float32 the error is one to two times that of direct sums for F(2, 3), and two to
three times for F(4, 3), where the elements of a tile are of similar magnitude. Where
they are not, the error is that of the largest element, even if the direct sum
multiplies it by zero: beside 1e9, nothing is left of elements around 1. Beside an
infinite element, results are NaN. For F(2, 3) each result depends on the same elements
as a direct sum; for F(3, 3) and F(4, 3) on all elements of its tile: up to six rows
instead of three.

`transform_kernel` transforms kernels once, for channels-last data."""

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

__all__ = [
    "EVERY_AXIS",
    "KERNEL",
    "MAX_ROWS",
    "WinogradForm",
    "conv",
    "product_count",
    "transform_kernel",
]

KERNEL: Final = 3
TILE: Final = 2
"""Results of a tile along each axis, for tiles along every axis."""
MAX_ROWS: Final = 4
"""The maximum number of results of a tile along rows."""
Matrix = Sequence[Sequence[float]]


class WinogradTransform(NamedTuple):
    """The transforms for tiles along one axis: factors, most of them 0, 1 or -1."""

    data: Matrix
    """How each product combines the elements that a tile needs."""
    kernel: Matrix
    """How each product combines the elements of the kernel."""
    sums: Matrix
    """How each result combines the products."""

    @property
    def results(self) -> int:
        return len(self.sums)

    @property
    def products(self) -> int:
        return len(self.kernel)


def _transform_at(*points: float) -> WinogradTransform:
    """The transforms for polynomial multiplication at these points, and at infinity.

    >>> _transform_at(0, 1, -1).sums
    [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]]
    """
    exact = list(map(Fraction, points))
    results = len(exact) + 2 - KERNEL
    weights = [prod(a - b for b in exact if b != a) for a in exact]
    last = [Fraction(i == KERNEL - 1) for i in range(KERNEL)]
    return WinogradTransform(
        data=_floats([*(_coefficients(b for b in exact if b != a) for a in exact),
                      _coefficients(exact)], len(exact) + 1),
        kernel=_floats([*([a**i / w for i in range(KERNEL)]
                          for a, w in zip(exact, weights, strict=True)), last], KERNEL),
        sums=_floats([[*(a**i for a in exact), Fraction(i == results - 1)]
                      for i in range(results)], len(exact) + 1),
    )  # fmt: skip


def _coefficients(roots: Iterable[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, constant term first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [*(root * c for c in coefficients), Fraction(0)]
        coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients


def _floats(rows: list[list[Fraction]], width: int) -> list[list[float]]:
    return [[*map(float, row), *[0.0] * (width - len(row))] for row in rows]


_TRANSFORMS: Final = {
    2: _transform_at(0, 1, -1),
    3: _transform_at(0, 1, -1, 2),
    MAX_ROWS: _transform_at(0, 1, -1, 0.5, -2),
}
"""By their number of results; these points have the smallest error."""
_BY_PRODUCT_COUNT: Final = {t.products: t for t in _TRANSFORMS.values()}


class WinogradForm(NamedTuple):
    """How a kernel is transformed."""

    along_rows: int = 0
    """Results of a tile along rows alone; 0 for F(2, 3) along every axis."""
    sum_after: bool = False
    """Whether the sum over kernel elements along other axes follows the products."""


def product_count(along_rows: int) -> int:
    """How many products compute this many results along rows.

    >>> product_count(4)
    6
    """
    return _TRANSFORMS[along_rows].products


EVERY_AXIS: Final = WinogradForm()


def transform_kernel(kernel: Any, form: WinogradForm = EVERY_AXIS) -> Any:
    """A kernel, OI*, as one matrix for each product of a tile.

    Along every axis there are 4 * 4 for two axes. Along rows there are four to six,
    with a row for each input channel at each kernel element along the other axes; or,
    if separate, with a column."""
    doubles = np.asarray(kernel, "float64")
    inner, *window = doubles.shape[1:]
    transform, count = (
        _TRANSFORMS[form.along_rows or TILE],
        1 if form.along_rows else len(window),
    )
    for axis in range(2, 2 + count):
        doubles = np.moveaxis(
            np.tensordot(transform.kernel, doubles, (1, axis)), 0, axis
        )
    doubles = np.moveaxis(doubles, (1, 0), (-2, -1))  # output channels come last
    if form.sum_after:
        doubles = np.moveaxis(doubles, -2, 1)
    rows = inner if form.sum_after else inner * KERNEL ** (len(window) - count)
    return doubles.reshape(transform.products**count, rows, -1).astype(kernel.dtype)


def conv(x: Any, w: Any, pads: Sequence[tuple[int, int]]) -> Any:
    """The convolution of N*C data, with strides of one."""
    batch, *sizes, inner = x.shape
    along_rows = w.shape[0] in _BY_PRODUCT_COUNT  # otherwise there are more products
    transform = _BY_PRODUCT_COUNT[w.shape[0]] if along_rows else _TRANSFORMS[TILE]
    tiled = 1 if along_rows else len(sizes)
    size = [
        max(0, n + sum(pad) - KERNEL + 1) for n, pad in zip(sizes, pads, strict=True)
    ]
    tiles = [-(-n // transform.results) for n in size[:tiled]]
    direct = size[tiled:]
    sums_after = bool(direct) and w.shape[1] == inner
    out = w.shape[-1] // (KERNEL ** len(direct) if sums_after else 1)
    if 0 in size:
        return jnp.zeros((batch, *size, out), x.dtype)
    excess = [t * transform.results - n for t, n in zip(tiles, size, strict=False)]
    rows = zip(pads, [*excess, *[0] * len(direct)], strict=True)
    padded = [(low, high + extra, 0) for (low, high), extra in rows]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *padded, (0, 0, 0)])
    for i, n in enumerate(tiles):  # the axis of products comes first, axis by axis
        x = jnp.stack(_transform_data(x, 1 + 2 * i, n, transform), i)
    if not sums_after:
        x = jnp.concatenate(list(_kernel_slices(x, direct)), -1)
    others = x.shape[1 + 2 * tiled : -1]
    data = x.reshape(
        transform.products**tiled, batch * prod((*tiles, *others)), w.shape[1]
    )
    y = lax.dot_general(data, w, (((2,), (1,)), ((0,), (0,))))
    y = y.reshape(*[transform.products] * tiled, batch, *tiles, *others, w.shape[-1])
    if sums_after:
        y = reduce(add, _kernel_slices(y, direct, out))
    for _ in tiles:  # this removes the first axis, so that `tiled` is the next one
        y = _transform_results(y, tiled, transform)
    return lax.slice(y, (0,) * y.ndim, (batch, *size, out))


def _transform_data(
    x: Any, axis: int, count: int, transform: WinogradTransform
) -> list[Any]:
    """The data of each product, for all tiles along an axis."""
    tile = transform.results
    elements = [
        lax.slice_in_dim(x, i, i + tile * (count - 1) + 1, tile, axis)
        for i in range(tile + KERNEL - 1)
    ]
    return [_weighted_sum(row, elements) for row in transform.data]


def _kernel_slices(
    x: Any, size: Sequence[int], channels: int | None = None
) -> Iterator[Any]:
    """The slices that each kernel element reads along the last axes but one.

    `channels`: how many channels belong to each kernel element, in turn; without it,
    all belong to each."""
    first = x.ndim - 1 - len(size)
    for i, offsets in enumerate(np.ndindex(*[KERNEL] * len(size))):
        part = x
        if channels is not None:
            part = lax.slice_in_dim(x, i * channels, (i + 1) * channels, axis=-1)
        for axis, (low, n) in enumerate(zip(offsets, size, strict=True), first):
            part = lax.slice_in_dim(part, low, low + n, axis=axis)
        yield part


def _transform_results(products: Any, axis: int, transform: WinogradTransform) -> Any:
    """The results of all tiles along an axis, interleaved."""
    parts = list(products)
    tile = jnp.stack([_weighted_sum(row, parts) for row in transform.sums], axis + 1)
    shape = [
        n * transform.results if i == axis else n for i, n in enumerate(parts[0].shape)
    ]
    return tile.reshape(shape)


def _weighted_sum(factors: Sequence[float], parts: Sequence[Any]) -> Any:
    """The sum of the parts, each times its factor."""
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
