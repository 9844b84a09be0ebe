"""Definition of eig by the QR algorithm, for targets without LAPACK.

Shifted QR steps turn a matrix into its complex Schur form, from which the eigenvectors
follow by substitution: Golub and Van Loan, Matrix Computations, 7.5 and 7.6. The
eigenvalues of a batch are found at the same time, the last of each matrix first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amanda_std.inference.element_types import complex_type
from amanda_std.ops._late import late as ops
from amanda_std.ops.linalg.eigenvalues import eig
from amanda_std.ops.linalg.elimination import (
    identity_of,
    in_type_of,
    iterate,
    magnitude,
    numbers,
    row_of,
    unit,
)
from amanda_std.ops.linalg.factorizations import machine_epsilon, qr
from amanda_std.ops.linalg.matrices import adjoint, conjugate, is_complex

_STEPS = 40
"""The most QR steps for each eigenvalue; two or three are usual."""
_UNUSUAL = 10
"""Every so many steps the shift is an unusual one, which ends cycles."""


class _Schur(NamedTuple):
    """Matrices on the way to triangular ones, the basis, and how many rows are left."""

    triangle: Any
    basis: Any
    count: Any


@eig.decomposition
def eig_by_qr_steps(x: Any) -> Any:
    is_real, x = not is_complex(x), ops.astype(x, dtype=complex_type(x.dtype))
    limit = _rounding_error(x)
    triangle, basis, _ = schur_form(x)
    values = _diagonal(triangle)
    vectors = ops.matmul(basis, _vectors_of_triangle(triangle, values, limit))
    lengths = ops.sqrt(ops.sum(ops.square(magnitude(vectors)), (-2,), keepdims=True))
    vectors = vectors / in_type_of(x, lengths)
    values = _in_pairs(values) if is_real else values
    order = ops.argsort(ops.imag(values))
    by_real = ops.argsort(ops.gather_elements(ops.real(values), order, axis=-1))
    order = ops.gather_elements(order, by_real, axis=-1)
    places = ops.expand_dims(numbers(x, -1), (-1,))
    chosen = ops.equal(places, ops.expand_dims(order, (-2,)))
    vectors = ops.matmul(vectors, ops.astype(chosen, dtype=x.dtype))
    return ops.gather_elements(values, order, axis=-1), vectors * _phases(vectors)


def _in_pairs(values: Any) -> Any:
    """Eigenvalues of real matrices without the rounding errors by which they are not
    conjugates of each other, or real, so that their order is exact."""
    mirrored = conjugate(values)
    gaps = ops.expand_dims(values, (-2,)) - ops.expand_dims(mirrored, (-1,))
    partner = ops.argmin(magnitude(gaps), -1)
    other = ops.gather_elements(mirrored, partner, axis=-1)
    return (values + other) * 0.5


def _phases(vectors: Any) -> Any:
    rows = ops.astype(numbers(vectors, -2), dtype=vectors.dtype)
    weights = ops.expand_dims(1.0 / (rows + 2**0.5), (-1,))
    return conjugate(unit(ops.sum(vectors * weights, (-2,), keepdims=True)))


def _diagonal(x: Any) -> Any:
    places = numbers(x, -1)
    here = ops.equal(ops.expand_dims(places, (-1,)), places)
    return ops.sum(ops.where(here, x, ops.zeros_like(x)), (-1,))


def _rounding_error(x: Any) -> Any:
    norm = ops.sqrt(ops.sum(ops.square(magnitude(x)), (-2, -1), keepdims=True))
    return norm * machine_epsilon(x.dtype)


def schur_form(x: Any) -> _Schur:
    """Upper triangular matrices and the unitary ones that turn complex x into them."""
    limit = _rounding_error(x)
    places = numbers(x, -1)
    size = ops.dim(x, axis=-1)
    batch = ops.zeros_like(ops.sum(x, (-2, -1), keepdims=True))
    counts = ops.astype(ops.real(batch), dtype="int64") + size

    def goes_on(step: Any, triangle: Any, basis: Any, count: Any) -> Any:
        del triangle, basis
        left = ops.sum(ops.astype(ops.greater(count, 1), dtype="int64"))
        return ops.logical_and(ops.greater(left, 0), ops.less(step, size * _STEPS))

    def turn(step: Any, *state: Any) -> Any:
        return step + 1, *_deflate(places, _qr_step(places, step, *state), limit)

    start = _Schur(x, identity_of(x) + batch, counts)
    found = ops.while_(goes_on, turn, ops.sum(places) * 0, *start)
    return _Schur(*found[1:])


def _qr_step(places: Any, step: Any, triangle: Any, basis: Any, count: Any) -> _Schur:
    """A QR step of the rows and columns that are left of each matrix."""
    inside = ops.less(places, count)
    block = ops.logical_and(inside, ops.less(ops.expand_dims(places, (-1,)), count))
    one = identity_of(triangle)
    shifted = triangle - one * _shift(places, step, triangle, count)
    turn, _ = qr(ops.where(block, shifted, one))
    triangle = ops.matmul(adjoint(turn), ops.matmul(triangle, turn))
    return _Schur(triangle, ops.matmul(basis, turn), count)


def _shift(places: Any, step: Any, x: Any, count: Any) -> Any:
    """Wilkinson's: the eigenvalue of the last two rows that is nearer to the last
    element."""
    down = ops.expand_dims(places, (-1,))

    def element(row: int, column: int) -> Any:
        rows, columns = ops.equal(down, count - row), ops.equal(places, count - column)
        here = ops.logical_and(rows, columns)
        return ops.sum(ops.where(here, x, ops.zeros_like(x)), (-2, -1), keepdims=True)

    end, product = element(1, 1), element(1, 2) * element(2, 1)
    half = (element(2, 2) - end) * 0.5
    root = ops.sqrt(half * half + product)
    same = ops.greater_equal(ops.real(half * conjugate(root)), 0.0)
    far = half + ops.where(same, root, -root)
    zero = ops.equal(magnitude(far), 0.0)
    usual = end - product / ops.where(zero, ops.ones_like(far), far)
    other = end + in_type_of(x, magnitude(element(1, 2)) * 0.75)
    odd = ops.equal(ops.remainder(step, _UNUSUAL), _UNUSUAL - 1)
    return ops.where(odd, other, usual)


def _deflate(places: Any, now: _Schur, limit: Any) -> _Schur:
    """Leave out the last row of a matrix where only its last element is not 0."""
    last = ops.equal(ops.expand_dims(places, (-1,)), now.count - 1)
    before = ops.logical_and(last, ops.less(places, now.count - 1))
    sizes = ops.where(before, magnitude(now.triangle), 0.0)
    small = ops.less_equal(ops.sum(sizes, (-2, -1), keepdims=True), limit)
    gone = ops.logical_and(small, before)
    triangle = ops.where(gone, ops.zeros_like(now.triangle), now.triangle)
    fewer = ops.astype(ops.logical_and(small, ops.greater(now.count, 1)), dtype="int64")
    return _Schur(triangle, now.basis, now.count - fewer)


def _vectors_of_triangle(x: Any, values: Any, limit: Any) -> Any:
    """Eigenvectors of triangular matrices, one row of all after the other.

    Differences of equal eigenvalues count as the rounding error of the matrix."""
    places, size = numbers(x, -1), ops.dim(x, axis=-1)
    down = ops.expand_dims(places, (-1,))
    gaps = ops.expand_dims(values, (-1,)) - ops.expand_dims(values, (-2,))
    least = ops.where(ops.equal(limit, 0.0), ops.ones_like(limit), limit)
    close = ops.less(magnitude(gaps), least)
    gaps = ops.where(close, in_type_of(x, least), gaps)

    def step(k: Any, found: Any) -> Any:
        i = size - 1 - k
        row = ops.matmul(ops.expand_dims(row_of(x, i), (-2,)), found)
        solved = -row / ops.expand_dims(row_of(gaps, i), (-2,))
        here = ops.logical_and(ops.equal(down, i), ops.greater(places, i))
        return ops.where(here, solved, found)

    return iterate(size, step, identity_of(x) + ops.zeros_like(x))
