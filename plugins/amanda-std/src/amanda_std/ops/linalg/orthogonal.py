"""Definitions of QR by reflections, and of eigh and SVD by Jacobi rotations.

For targets without LAPACK. A step of the Jacobi method rotates disjoint pairs of
columns at once, by one matrix product: Golub and Van Loan, Matrix Computations, 8.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from amanda.errors import Undecided
from amanda_std.engine.values import dims_of
from amanda_std.ops._late import late as ops
from amanda_std.ops.linalg.elimination import (
    column_of,
    identity_of,
    in_type_of,
    iterate,
    magnitude,
    numbers,
    real_part,
    unit,
)
from amanda_std.ops.linalg.factorizations import eigh, machine_epsilon, qr, svd
from amanda_std.ops.linalg.matrices import adjoint, conjugate, is_complex

_SWEEPS = 20
"""The most rounds over all pairs; matrices of size 100 need about 10."""


@qr.decomposition
def qr_by_reflections(x: Any, *, full: bool) -> Any:
    """Householder reflections, one for each column."""
    rows = numbers(x, -2)

    def step(i: Any, q: Any, r: Any) -> Any:
        v = ops.where(ops.less(rows, i), 0.0, column_of(r, i))
        norm = ops.sqrt(ops.sum(ops.square(magnitude(v)), (-1,)))
        shift = ops.expand_dims(unit(column_of(v, i)) * in_type_of(x, norm), (-1,))
        v = ops.expand_dims(ops.where(ops.equal(rows, i), v + shift, v), (-1,))
        total = ops.sum(ops.square(magnitude(v)), (-2,), keepdims=True)
        factor = 2.0 / ops.where(ops.equal(total, 0.0), 1.0, total)
        scaled = v * in_type_of(x, factor)
        r = r - ops.matmul(scaled, ops.matmul(adjoint(v), r))
        return q - ops.matmul(ops.matmul(q, v), adjoint(scaled)), r

    height = ops.dim(x, axis=-2)
    least = ops.minimum(height, ops.dim(x, axis=-1))
    batch = ops.zeros_like(ops.sum(x, (-2, -1), keepdims=True))
    q, r = iterate(least, step, identity_of(x, -2) + batch, x)
    signs = ops.pad(unit(ops.diagonal(r)), [(0, height - least)], 1.0, (-1,))
    q = q * ops.expand_dims(signs, (-2,))
    r = ops.triu(r * ops.expand_dims(conjugate(signs), (-1,)))
    if full:
        return q, r
    return ops.slice_(q, (0,), (least,), (-1,)), ops.slice_(r, (0,), (least,), (-2,))


@eigh.decomposition
def eigh_by_rotations(x: Any) -> Any:
    below, line = ops.tril(x, -1), ops.triu(ops.tril(x))
    whole = below + adjoint(below) + in_type_of(x, real_part(line))
    scaled = whole / in_type_of(x, _scale_of(whole))
    limit = machine_epsilon(x.dtype) * 8

    def products(vectors: Any) -> Any:
        return ops.matmul(adjoint(vectors), ops.matmul(scaled, vectors))

    def remains(gram: Any) -> Any:
        return ops.greater(magnitude(gram), limit)

    vectors = _rotate_until(products, remains, whole)
    values = ops.sum(conjugate(vectors) * ops.matmul(whole, vectors), (-2,))
    values = real_part(values)
    order = ops.argsort(values)
    vectors = ops.matmul(vectors, _column_order(order, x))
    vectors = vectors * ops.expand_dims(_column_signs(vectors), (-2,))
    return ops.gather_elements(values, order, axis=-1), vectors


@svd.decomposition
def svd_by_rotations(x: Any, *, full: bool) -> Any:
    """By the transpose of a wide matrix; the run decides where sizes are symbolic."""
    rows, columns = dims_of(x)[-2:]
    try:
        is_wide = bool(rows < columns)
    except Undecided:
        rows, columns = (ops.dim(x, axis=i) for i in (-2, -1))
        return tuple(ops.if_(
            ops.less(rows, columns), lambda: _svd_of_wide(x, full),
            lambda: _svd_of_tall(x, full),
        ))  # fmt: skip
    return _svd_of_wide(x, full) if is_wide else _svd_of_tall(x, full)


def _svd_of_wide(x: Any, full: bool) -> Any:
    right, values, left = _svd_of_tall(adjoint(x), full)
    return _with_signs(adjoint(left), values, adjoint(right))


def _svd_of_tall(x: Any, full: bool) -> Any:
    """Rotations that make the columns of a tall matrix orthogonal."""
    scale = _scale_of(x)
    scaled = x / in_type_of(x, scale)
    limit = machine_epsilon(x.dtype) * 4

    def products(vectors: Any) -> Any:
        a = ops.matmul(scaled, vectors)
        return ops.matmul(adjoint(a), a)

    def remains(gram: Any) -> Any:
        sizes = ops.sqrt(real_part(_diagonal(gram)))
        bound = ops.expand_dims(sizes * limit, (-1,)) * ops.expand_dims(sizes, (-2,))
        return ops.greater(magnitude(gram), bound)

    vectors = _rotate_until(products, remains, x)
    a = ops.matmul(scaled, vectors)
    values = ops.sqrt(ops.sum(ops.square(magnitude(a)), (-2,)))
    order = ops.argsort(values, descending=True)
    by_size = _column_order(order, x)
    values = ops.gather_elements(values, order, axis=-1)
    sizes = ops.expand_dims(ops.where(ops.equal(values, 0.0), 1.0, values), (-2,))
    left, _ = qr(ops.matmul(a, by_size) / in_type_of(x, sizes), full=full)
    right = adjoint(ops.matmul(vectors, by_size))
    return _with_signs(left, values * ops.squeeze(scale, (-1,)), right)


def _rotate_until(
    products: Callable[[Any], Any], remains: Callable[[Any], Any], x: Any
) -> Any:
    """An orthogonal matrix of which no products of two columns remain.

    Each step ends with one of Newton's iteration for orthogonal matrices: otherwise
    rounding errors of many rotations would add up."""
    size = ops.dim(x, axis=-1)
    diagonal = ops.equal(ops.expand_dims(numbers(x, -1), (1,)), numbers(x, -1))

    def goes_on(step: Any, gram: Any, vectors: Any) -> Any:
        del vectors
        left = ops.logical_and(remains(gram), ops.logical_not(diagonal))
        count = ops.sum(ops.astype(left, dtype="int64"))
        return ops.logical_and(ops.greater(count, 0), ops.less(step, size * _SWEEPS))

    def turn(step: Any, gram: Any, vectors: Any) -> Any:
        v = ops.matmul(vectors, _rotation(gram, remains(gram), step))
        v = v * 1.5 - ops.matmul(v, ops.matmul(adjoint(v), v)) * 0.5
        return step + 1, products(v), v

    batch = ops.zeros_like(ops.sum(x, (-2, -1), keepdims=True))
    first, start = ops.sum(numbers(x, -1)) * 0, identity_of(x) + batch
    return ops.while_(goes_on, turn, first, products(start), start)[2]


def _rotation(gram: Any, remains: Any, step: Any) -> Any:
    """The rotation that makes the products of this step's pairs zero, where any
    remains: rotations by rounding errors would never end."""
    places = numbers(gram, -1)
    others = _partners(places, ops.dim(gram, axis=-1), step)
    pairs = ops.equal(ops.expand_dims(others, (-1,)), places)
    sizes = real_part(_diagonal(gram))
    gap = ops.sum(ops.where(pairs, ops.expand_dims(sizes, (-2,)), 0.0), (-1,)) - sizes
    cross = ops.where(ops.logical_and(pairs, remains), gram, ops.zeros_like(gram))
    signed = magnitude(cross) if is_complex(gram) else cross
    twice = ops.sum(signed, (-1,)) * 2.0
    twice = ops.where(ops.equal(others, places), 0.0, twice)
    equal, first = ops.equal(gap, 0.0), ops.less(places, others)
    forward = ops.where(equal, first, ops.greater(gap, 0.0))
    length = ops.abs(gap) + ops.sqrt(ops.square(gap) + ops.square(twice))
    tangent = twice / ops.where(ops.equal(length, 0.0), 1.0, length)
    tangent = ops.where(forward, tangent, -tangent)
    cosine = ops.rsqrt(ops.square(tangent) + 1.0)
    here = ops.equal(ops.expand_dims(places, (-1,)), places)
    rest = ops.where(pairs, ops.expand_dims(tangent * cosine, (-1,)), 0.0)
    if is_complex(gram):
        rest = in_type_of(gram, rest) * unit(gram)
    return ops.where(here, in_type_of(gram, ops.expand_dims(cosine, (-1,))), rest)


def _partners(places: Any, size: Any, step: Any) -> Any:
    """The partner of each column in a round of a tournament, or itself."""
    half = ops.floor_divide(size + 1, 2)
    last = half * 2 - 1
    found = ops.remainder(step - places, last)
    found = ops.where(ops.equal(found, places), last, found)
    found = ops.where(ops.equal(places, last), ops.remainder(step * half, last), found)
    return ops.where(ops.less(found, size), found, places)


def _diagonal(x: Any) -> Any:
    """The diagonal of square matrices of any size, also one unknown until run time."""
    places = numbers(x, -1)
    here = ops.equal(ops.expand_dims(places, (-1,)), places)
    return ops.sum(ops.where(here, x, 0.0), (-1,))


def _column_order(order: Any, x: Any) -> Any:
    """The matrix that brings columns into this order."""
    places = ops.expand_dims(numbers(order, -1), (-1,))
    return ops.astype(ops.equal(places, ops.expand_dims(order, (-2,))), dtype=x.dtype)


def _scale_of(x: Any) -> Any:
    """The largest magnitude of each matrix, so that squares do not overflow; 1 for 0.

    Not a reduction by max, which empty matrices do not have."""
    largest = ops.max(
        ops.pad(magnitude(x), [(0, 1), (0, 1)], 0.0, (-2, -1)), (-2, -1), keepdims=True
    )
    return ops.where(ops.equal(largest, 0.0), 1.0, largest)


def _column_signs(vectors: Any) -> Any:
    """The sign, or phase, that each column is multiplied by: see `factorizations`."""
    places = ops.astype(numbers(vectors, -2), dtype=vectors.dtype)
    weights = ops.expand_dims(1.0 / (places + math.sqrt(2)), (-1,))
    return conjugate(unit(ops.sum(vectors * weights, (-2,))))


def _with_signs(left: Any, values: Any, right: Any) -> Any:
    signs = _column_signs(left)
    down = ops.slice_(signs, (0,), (ops.dim(values, axis=-1),), (-1,))
    extra = ops.dim(right, axis=-2) - ops.dim(values, axis=-1)
    down = ops.pad(down, [(0, extra)], 1.0, (-1,))
    left = left * ops.expand_dims(signs, (-2,))
    return left, values, right * ops.expand_dims(conjugate(down), (-1,))
