"""Products, factorizations and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import torch

from amanda_torch.backend.definitions import by_numpy

__all__ = ["KERNELS"]


def matmul(a: Any, b: Any) -> Any:
    return torch.matmul(a, b)


def einsum(*xs: Any, equation: str) -> Any:
    return torch.einsum(equation.replace(" ", ""), *xs)


def _in_lapack_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes floats of 16 bits in float32."""

    @wraps(function)
    def call(*xs: Any, **attrs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize > 2:
            return function(*xs, **attrs)
        results = function(*(x.float() for x in xs), **attrs)
        if not isinstance(results, tuple):
            return results.to(dtype)
        return tuple(y.to(dtype) if y.is_floating_point() else y for y in results)

    return call


def triangular_solve(
    a: Any, b: Any, *, lower: bool = True, transpose: bool = False, unit: bool = False
) -> Any:
    if transpose:
        a, lower = a.mT, not lower
    return torch.linalg.solve_triangular(a, b, upper=not lower, unitriangular=unit)


def _signs(x: Any) -> Any:
    """Numbers of magnitude 1 by which the products with x are nonnegative."""
    return torch.sgn(x).conj() + (x == 0).to(x.dtype)


def _with_ones(signs: Any, count: int) -> Any:
    """Signs for `count` rows or columns; 1 for those after the last sign."""
    ones = signs.new_ones((*signs.shape[:-1], count - signs.shape[-1]))
    return torch.cat([signs, ones], -1)


def _column_signs(x: Any) -> Any:
    """The sign that each column is multiplied by, as the ops define it."""
    part = x.real.dtype if x.is_complex() else x.dtype
    rows = torch.arange(x.shape[-2], dtype=part, device=x.device)
    return _signs((x / (rows + math.sqrt(2))[:, None]).sum(-2))


def qr(x: Any, *, full: bool = False) -> Any:
    q, r = torch.linalg.qr(x, "complete" if full else "reduced")
    signs = _with_ones(_signs(torch.diagonal(r, dim1=-2, dim2=-1)), q.shape[-1])
    return q * signs.conj()[..., None, :], r * signs[..., :, None]


def eigh(x: Any) -> Any:
    values, vectors = torch.linalg.eigh(x)
    return values, vectors * _column_signs(vectors)[..., None, :]


def svd(x: Any, *, full: bool = False) -> Any:
    u, s, vh = torch.linalg.svd(x, full_matrices=full)
    signs = _column_signs(u)
    down = _with_ones(signs[..., : s.shape[-1]], vh.shape[-2])
    return u * signs[..., None, :], s, vh * down.conj()[..., :, None]


def _ascending(values: Any) -> Any:
    """The order of complex numbers by real parts, then by imaginary parts."""
    order = torch.argsort(values.imag, dim=-1, stable=True)
    by_real = torch.argsort(values.real.gather(-1, order), dim=-1, stable=True)
    return order.gather(-1, by_real)


def _single(x: Any) -> Any:
    return x.float() if x.dtype.itemsize <= 2 else x


def eig(x: Any) -> Any:
    values, vectors = torch.linalg.eig(_single(x))
    order = _ascending(values)
    vectors = torch.take_along_dim(vectors, order[..., None, :], -1)
    signs = _column_signs(vectors)
    return values.gather(-1, order), vectors * signs[..., None, :]


def eigvals(x: Any) -> Any:
    values = torch.linalg.eigvals(_single(x))
    return values.gather(-1, _ascending(values))


def lu(x: Any) -> Any:
    packed, pivots = torch.linalg.lu_factor(x)
    permutation, _, _ = torch.lu_unpack(packed, pivots, unpack_data=False)
    return packed, torch.argmax(permutation.real, -2)


def ldl_factor(x: Any, *, hermitian: bool = False) -> Any:
    packed, pivots = torch.linalg.ldl_factor(x, hermitian=hermitian)
    return packed, pivots.long()


def ldl_solve(packed: Any, pivots: Any, b: Any, *, hermitian: bool = False) -> Any:
    return torch.linalg.ldl_solve(packed, pivots.int(), b, hermitian=hermitian)


def slogdet(x: Any) -> Any:
    return tuple(torch.linalg.slogdet(x))


def _transform(op: str) -> Callable[..., Any]:
    function = getattr(torch.fft, op + "n")

    def run(
        x: Any, sizes: Any = None, axes: Any = (-1,), *, norm: str = "backward"
    ) -> Any:
        if not x.numel():  # the library of PyTorch refuses these
            return by_numpy(op)(x, sizes, axes, norm=norm)
        if x.dtype == torch.float16 or x.dtype == torch.bfloat16:
            x = x.float()
        count = None if sizes is None else list(sizes)
        return function(x, count, list(axes), norm)

    return run


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "matmul": matmul,
    "einsum": einsum,
    "triangular_solve": _in_lapack_precision(triangular_solve),
    "qr": _in_lapack_precision(qr),
    "eig": eig,
    "eigvals": eigvals,
    "eigh": _in_lapack_precision(eigh),
    "svd": _in_lapack_precision(svd),
    "lu": _in_lapack_precision(lu),
    "ldl_factor": _in_lapack_precision(ldl_factor),
    "ldl_solve": ldl_solve,
    "cholesky": _in_lapack_precision(torch.linalg.cholesky),
    "solve": _in_lapack_precision(lambda a, b: torch.linalg.solve(a, b)),
    "inverse": _in_lapack_precision(torch.linalg.inv),
    "det": _in_lapack_precision(torch.linalg.det),
    "slogdet": _in_lapack_precision(slogdet),
    "fft": _transform("fft"),
    "ifft": _transform("ifft"),
    "rfft": _transform("rfft"),
    "irfft": _transform("irfft"),
}
