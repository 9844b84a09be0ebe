"""Definitions of matrix ops for targets without LAPACK, most by loops over columns.

Each iteration updates the whole matrix, so a loop has as many iterations as the matrix
has columns, of any batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std.engine.values import dims_of
from amanda_std.ops._late import late as ops
from amanda_std.ops.linalg.factorizations import lu
from amanda_std.ops.linalg.matrices import (
    adjoint,
    cholesky,
    det,
    diagonal,
    inverse,
    is_complex,
    slogdet,
    solve,
    triangular_solve,
)

__all__ = [
    "column_of",
    "element_size",
    "identity_of",
    "in_type_of",
    "iterate",
    "magnitude",
    "numbers",
    "permutation_matrix",
    "real_part",
    "row_of",
    "swap_rows",
    "unit",
]


def element_size(x: Any) -> Any:
    """The magnitude by which LAPACK chooses pivots: of complex numbers, the sum of
    those of both parts."""
    if not is_complex(x):
        return ops.abs(x)
    return ops.abs(ops.real(x)) + ops.abs(ops.imag(x))


def magnitude(x: Any) -> Any:
    return ops.modulus(x) if is_complex(x) else ops.abs(x)


def real_part(x: Any) -> Any:
    return ops.real(x) if is_complex(x) else x


def in_type_of(x: Any, values: Any) -> Any:
    """Real values in the element type of x."""
    return ops.astype(values, dtype=x.dtype) if is_complex(x) else values


def unit(x: Any) -> Any:
    """x / |x|, and 1 for 0."""
    if not is_complex(x):
        return ops.where(ops.less(x, 0.0), -1.0, ops.ones_like(x))
    size = ops.modulus(x)
    zero = ops.equal(size, 0.0)
    turned = x / ops.astype(ops.where(zero, 1.0, size), dtype=x.dtype)
    return ops.where(zero, ops.ones_like(x), turned)


def numbers(x: Any, axis: int) -> Any:
    """The indices along an axis."""
    return ops.arange(0, ops.dim(x, axis=axis))


def column_of(x: Any, i: Any) -> Any:
    return ops.gather(x, i, -1)


def row_of(x: Any, i: Any) -> Any:
    return ops.gather(x, i, -2)


def identity_of(x: Any, axis: int = -1) -> Any:
    """The identity matrix whose size is that of an axis, in the element type of x."""
    row = numbers(x, axis)
    return ops.astype(ops.equal(ops.expand_dims(row, (1,)), row), dtype=x.dtype)


def iterate(count: Any, step: Any, *init: Any) -> Any:
    """Apply `step(i, *carried)` to carried values for i = 0 ... count - 1."""

    def body(i: Any, condition: Any, *carried: Any) -> Any:
        made = step(i, *carried)
        return (condition, *(made if isinstance(made, tuple) else (made,)))

    found = ops.loop(count, np.asarray(True), body, *init)
    return found if len(found) > 1 else found[0]


@diagonal.decomposition
def diagonal_by_gather(x: Any, *, offset: int = 0) -> Any:
    """The elements of a diagonal are at equal distances in a flattened matrix."""
    *batch, rows, columns = x.shape
    sizes = rows + min(offset, 0), columns - max(offset, 0)
    if isinstance(rows, int) and isinstance(columns, int):
        count: Any = max(min(sizes), 0)
    else:
        count = ops.maximum(ops.minimum(*sizes), 0)
    start = offset if offset >= 0 else columns * -offset
    places = ops.arange(0, count) * (columns + 1) + start
    return ops.gather(ops.reshape(x, [*batch, rows * columns]), places, -1)


@cholesky.decomposition
def cholesky_by_columns(x: Any) -> Any:
    """Subtract the product of each column with itself from what remains."""
    rows = numbers(x, -1)

    def step(i: Any, rest: Any, low: Any) -> Any:
        column = column_of(rest, i)
        pivot = ops.expand_dims(column_of(column, i), (-1,))
        if is_complex(x):
            pivot = ops.complex(ops.real(pivot), ops.imag(pivot) * 0.0)
        column = ops.expand_dims(
            ops.where(ops.less(rows, i), 0.0, column / ops.sqrt(pivot)), (-1,)
        )
        low = ops.where(ops.equal(rows, i), column, low)
        return rest - column * adjoint(column), low

    return iterate(ops.dim(x, axis=-1), step, x, ops.zeros_like(x))[1]


@triangular_solve.decomposition
def substitute(a: Any, b: Any, *, lower: bool, transpose: bool, unit: bool) -> Any:
    """Forward or backward substitution, one row of the result after the other."""
    if transpose:
        a, lower = ops.swap_last(a), not lower
    a = ops.tril(a) if lower else ops.triu(a)
    count = ops.dim(a, axis=-1)
    rows = ops.expand_dims(numbers(a, -1), (1,))

    def step(k: Any, x: Any) -> Any:
        i = k if lower else count - 1 - k
        row = row_of(a, i)
        found = row_of(b, i) - ops.sum(ops.expand_dims(row, (-1,)) * x, (-2,))
        if not unit:
            found = found / ops.expand_dims(column_of(row, i), (-1,))
        return ops.where(ops.equal(rows, i), ops.expand_dims(found, (-2,)), x)

    return iterate(count, step, _zeros_of_product(a, b))


def _zeros_of_product(a: Any, b: Any) -> Any:
    """Zeros of the shape of a @ b, for square a."""
    if len(dims_of(a)) == 2:
        return ops.zeros_like(b)
    return ops.matmul(ops.zeros_like(a), ops.zeros_like(b))


@lu.decomposition
def eliminate(x: Any) -> Any:
    """Gaussian elimination; the row of the largest element comes first."""
    rows, columns = numbers(x, -2), numbers(x, -1)
    order = rows + ops.astype(
        ops.zeros_like(element_size(ops.sum(x, (-1,)))), dtype=rows.dtype
    )

    def step(i: Any, packed: Any, order: Any) -> Any:
        size = ops.where(ops.less(rows, i), -1.0, element_size(column_of(packed, i)))
        best = ops.argmax(size, -1, keepdims=True)
        packed = swap_rows(packed, rows, i, ops.expand_dims(best, (-1,)))
        order = swap_rows(
            ops.expand_dims(order, (-1,)), rows, i, ops.expand_dims(best, (-1,))
        )
        column = column_of(packed, i)
        pivot = ops.expand_dims(column_of(column, i), (-1,))
        factor = column / ops.where(ops.equal(pivot, 0.0), 1.0, pivot)
        factor = ops.expand_dims(ops.where(ops.greater(rows, i), factor, 0.0), (-1,))
        row = ops.where(
            ops.greater(columns, i), ops.expand_dims(row_of(packed, i), (-2,)), 0.0
        )
        below = ops.logical_and(
            ops.greater(ops.expand_dims(rows, (1,)), i), ops.equal(columns, i)
        )
        packed = ops.where(below, factor, packed - factor * row)
        return packed, ops.gather(order, 0, -1)

    least = ops.minimum(ops.dim(x, axis=-2), ops.dim(x, axis=-1))
    return iterate(least, step, x, order)


def swap_rows(x: Any, rows: Any, i: Any, best: Any) -> Any:
    """Exchange row i and the row `best` of each matrix."""
    down = ops.expand_dims(rows, (1,))
    there, zero = ops.equal(down, best), ops.zeros_like(x)
    chosen = ops.sum(ops.where(there, x, zero), (-2,), keepdims=True)
    first = ops.expand_dims(row_of(x, i), (-2,))
    return ops.where(ops.equal(down, i), chosen, ops.where(there, first, x))


def permutation_matrix(order: Any, x: Any) -> Any:
    """The matrix that brings rows into this order."""
    places = numbers(order, -1)
    return ops.astype(ops.equal(ops.expand_dims(order, (-1,)), places), dtype=x.dtype)


@solve.decomposition
def solve_by_lu(a: Any, b: Any) -> Any:
    packed, order = lu(a)
    found = triangular_solve(
        packed, ops.matmul(permutation_matrix(order, a), b), unit=True
    )
    return triangular_solve(packed, found, lower=False)


@inverse.decomposition
def inverse_by_solve(x: Any) -> Any:
    return solve(x, identity_of(x))


def _parity(order: Any) -> Any:
    """1 for an even permutation, -1 for an odd one, by the number of inversions."""
    places = numbers(order, -1)
    later = ops.less(ops.expand_dims(places, (1,)), places)
    greater_ = ops.greater(ops.expand_dims(order, (-1,)), ops.expand_dims(order, (-2,)))
    count = ops.sum(
        ops.astype(ops.logical_and(later, greater_), dtype=order.dtype), (-2, -1)
    )
    return 1 - ops.remainder(count, 2) * 2


@det.decomposition
def det_by_lu(x: Any) -> Any:
    packed, order = lu(x)
    return ops.prod(ops.diagonal(packed), (-1,)) * ops.astype(
        _parity(order), dtype=x.dtype
    )


@slogdet.decomposition
def slogdet_by_lu(x: Any) -> Any:
    packed, order = lu(x)
    pivots = ops.diagonal(packed)
    parity = ops.astype(_parity(order), dtype=x.dtype)
    some = ops.astype(ops.not_equal(pivots, 0.0), dtype=x.dtype)
    sign = ops.prod(unit(pivots) * some, (-1,)) * parity
    return sign, ops.sum(ops.log(magnitude(pivots)), (-1,))
