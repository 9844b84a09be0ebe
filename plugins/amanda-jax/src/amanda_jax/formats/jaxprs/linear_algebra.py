"""Primitives of linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda_jax.formats.jaxprs.shapes import expect
from amanda_jax.formats.jaxprs.sizes import shape_argument
from amanda_std import ops

__all__ = ["READ"]

_TRANSFORMS: Final = {
    "FFT": ops.fft, "IFFT": ops.ifft, "RFFT": ops.rfft, "IRFFT": ops.irfft,
}  # fmt: skip


def fft(x: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    axes = tuple(range(-len(fft_lengths), 0))
    return _TRANSFORMS[fft_type](x, tuple(fft_lengths), axes)


def cholesky(x: Any) -> Any:
    return ops.cholesky(x)


def qr(x: Any, *, full_matrices: bool, pivoting: bool, use_magma: Any) -> Any:
    del use_magma
    expect(not pivoting, "columns are pivoted")
    return ops.qr(x, full=full_matrices)


def svd(
    x: Any, *, full_matrices: bool, compute_uv: bool, algorithm: Any,
    subset_by_index: Any,
) -> Any:  # fmt: skip
    del algorithm
    expect(subset_by_index is None, "a subset of the singular values")
    u, s, vh = ops.svd(x, full=full_matrices)
    return (s, u, vh) if compute_uv else s


def eigh(
    x: Any, *, lower: bool, sort_eigenvalues: bool, algorithm: Any, subset_by_index: Any
) -> Any:
    """Eigenvectors, then eigenvalues in ascending order, as sorted or unsorted."""
    del algorithm, sort_eigenvalues
    expect(subset_by_index is None, "a subset of the eigenvalues")
    values, vectors = ops.eigh(x if lower else _swap_last(x))
    return vectors, values


def eig(
    x: Any, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool, implementation: Any,
) -> Any:  # fmt: skip
    """Eigenvalues, then eigenvectors if wanted, in the order of the hub."""
    del enable_eigvec_derivs, implementation
    expect(not compute_left_eigenvectors, "left eigenvectors")
    if compute_right_eigenvectors:
        return tuple(ops.eig(x))
    return (ops.eigvals(x),)


def lu(x: Any) -> Any:
    """The factors in one matrix, LAPACK's pivots, and the permutation of the rows."""
    factors, permutation = ops.lu(x)
    *batch, rows, columns = x.shape
    count = min(int(rows), int(columns))
    orders = ops.reshape(permutation, shape_argument([-1, rows]))
    pivots = ops.reshape(_pivots(orders, count), shape_argument([*batch, count]))
    return factors, pivots, ops.astype(permutation, dtype="int32")


def _pivots(orders: Any, count: int) -> Any:
    """For each step and order of rows, the row that is exchanged with its own."""
    rows = ops.arange(0, orders.shape[1])

    def exchange(step: Any, placed: Any, targets: Any) -> Any:
        """An exchange in each order, after which the row of `targets` is in place."""
        target = ops.expand_dims(targets, (1,))
        is_target = ops.astype(ops.equal(placed, target), dtype="int32")
        other = ops.argmax(is_target, 1)
        own = ops.expand_dims(ops.gather(placed, step, 1), (1,))
        moved = ops.where(ops.equal(rows, ops.expand_dims(other, (1,))), own, placed)
        return step + 1, ops.where(ops.equal(rows, step), target, moved), other

    targets = ops.transpose(ops.slice(orders, [0], [count], [1]), perm=(1, 0))
    start = ops.zeros_like(orders) + rows
    *_, pivots = ops.scan(exchange, None, np.int64(0), start, targets, carried=2)
    return ops.astype(ops.transpose(pivots, perm=(1, 0)), dtype="int32")


def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int) -> Any:
    """The order of the rows after the exchanges."""
    *batch, count = pivots.shape
    rows = ops.arange(0, permutation_size)

    def exchange(step: Any, order: Any, pivots: Any) -> Any:
        pivot = ops.expand_dims(pivots, (1,))
        own = ops.expand_dims(ops.gather(order, step, 1), (1,))
        other = ops.gather_elements(order, pivot, axis=1)
        moved = ops.where(ops.equal(rows, pivot), own, order)
        return step + 1, ops.where(ops.equal(rows, step), other, moved)

    flat = ops.reshape(ops.astype(pivots, dtype="int64"), shape_argument([-1, count]))
    start = ops.zeros_like(ops.slice(flat, [0], [1], [1])) + rows
    steps = ops.transpose(flat, perm=(1, 0))
    _, order = ops.scan(exchange, None, np.int64(0), start, steps, carried=2)
    whole = ops.reshape(order, shape_argument([*batch, permutation_size]))
    return ops.astype(whole, dtype="int32")


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> Any:  # fmt: skip
    """A right side is the left side of the transposed equation."""
    if conjugate_a and a.dtype.kind == "complex":
        a = ops.conj(a)
    if left_side:
        return ops.triangular_solve(
            a, b, lower=lower, transpose=transpose_a, unit=unit_diagonal
        )
    found = ops.triangular_solve(
        a, _swap_last(b), lower=lower, transpose=not transpose_a, unit=unit_diagonal
    )
    return _swap_last(found)


def _swap_last(x: Any) -> Any:
    rank = x.ndim
    return ops.transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2))


READ: Final[dict[str, Callable[..., Any]]] = {
    "fft": fft,
    "cholesky": cholesky,
    "qr": qr,
    "svd": svd,
    "eigh": eigh,
    "eig": eig,
    "lu": lu,
    "lu_pivots_to_permutation": lu_pivots_to_permutation,
    "triangular_solve": triangular_solve,
}
