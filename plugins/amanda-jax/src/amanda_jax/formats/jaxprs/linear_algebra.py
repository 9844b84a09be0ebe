"""Primitives of linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
    "triangular_solve": triangular_solve,
}
