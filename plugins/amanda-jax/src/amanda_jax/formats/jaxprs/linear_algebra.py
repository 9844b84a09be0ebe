"""Primitives of linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda_jax.formats.jaxprs.shapes import expect
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
    expect(x.ndim == 2, "a batch of matrices")
    factors, permutation = ops.lu(x)
    rows, columns = (int(dim) for dim in x.type.shape)
    return (
        factors,
        _pivots(permutation, min(rows, columns)),
        ops.astype(permutation, dtype="int32"),
    )


def _pivots(permutation: Any, count: int) -> Any:
    """For each step, the row that it exchanges its own row with."""
    rows = ops.arange(0, permutation.type.shape[0])

    def exchange(step: Any, order: Any, target: Any) -> Any:
        """One exchange, after which the row `target` is at its place."""
        other = ops.argmax(ops.astype(ops.equal(order, target), dtype="int32"), 0)
        own = ops.gather(order, step, 0)
        moved = ops.where(ops.equal(rows, other), own, order)
        placed = ops.where(ops.equal(rows, step), target, moved)
        return step + 1, placed, other

    targets = ops.slice(permutation, [0], [count], [0])
    *_, pivots = ops.scan(exchange, None, np.int64(0), rows, targets, carried=2)
    return ops.astype(pivots, dtype="int32")


def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int) -> Any:
    """The order of the rows after the exchanges."""
    expect(pivots.ndim == 1, "pivots of a batch of matrices")
    rows = ops.arange(0, permutation_size)

    def exchange(step: Any, order: Any, pivot: Any) -> Any:
        own, other = ops.gather(order, step, 0), ops.gather(order, pivot, 0)
        moved = ops.where(ops.equal(rows, pivot), own, order)
        return step + 1, ops.where(ops.equal(rows, step), other, moved)

    wide = ops.astype(pivots, dtype="int64")
    _, order = ops.scan(exchange, None, np.int64(0), rows, wide, carried=2)
    return ops.astype(order, dtype="int32")


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> Any:  # fmt: skip
    """A right side is the left side of the transposed equation."""
    expect(not conjugate_a or a.dtype.kind != "complex", "complex conjugates")
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
