"""From PyTorch: Householder reflections, and QR factorizations that consist of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import dims_of, integer
from amanda_torch.mapping.shapes.read_shapes import read_adjoint, take_slice
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ"]


def _reflect_by_all(a: Any, tau: Any, x: Any, is_adjoint: bool = False) -> Any:
    """Q x, or Q^H x, for the product Q of reflections I - tau v v^H.

    The vectors v are the columns of `a`. All at once: Q = I - V T V^H, where T is
    (I + D U)^-1 D for D = diag(tau) and the part U of V^H V above the diagonal.
    """
    count = dims_of(tau)[-1]
    vectors = ops.tril(take_slice(a, rank_of(a) - 1, 0, count), -1)
    vectors = vectors + ops.eye(dims_of(a)[-2], count, dtype=a.dtype)
    factors = ops.expand_dims(tau, [rank_of(tau)])
    inner = ops.triu(ops.matmul(read_adjoint(vectors), vectors), 1) * factors
    inner = inner + ops.eye(count, count, dtype=a.dtype)
    y = ops.matmul(read_adjoint(vectors), x)
    if is_adjoint:
        conjugate = ops.conj(factors) if a.dtype.kind == "complex" else factors
        y = conjugate * _solve_triangle(read_adjoint(inner), y, lower=True)
    else:
        y = _solve_triangle(inner, factors * y, lower=False)
    return x - ops.matmul(vectors, y)


def _solve_triangle(a: Any, b: Any, *, lower: bool) -> Any:
    """The solution of a x = b for a triangular matrix with ones on its diagonal."""
    if a.dtype.kind == "complex":
        return ops.solve(a, b)
    return ops.triangular_solve(a, b, lower=lower, unit=True)


def _reflect(x: Any, v: Any, tau: Any) -> Any:
    return x - tau * ops.matmul(v, ops.matmul(read_adjoint(v), x))


def read_householder(a: Any, tau: Any) -> Any:
    """The first columns of the product of reflections."""
    start = ops.eye(*dims_of(a)[-2:], dtype=a.dtype) + ops.zeros_like(a)
    return _reflect_by_all(a, tau, start)


def read_ormqr(a: Any, tau: Any, x: Any, left: bool = True,
               transpose: bool = False) -> Any:  # fmt: skip
    """A matrix multiplied by the product Q of reflections, or by its adjoint."""
    if not left:
        return read_adjoint(read_ormqr(a, tau, read_adjoint(x), True, not transpose))
    return _reflect_by_all(a, tau, x, transpose)


def read_geqrf(a: Any) -> Any:
    """R, and below it the vectors of reflections, as LAPACK chooses their signs."""
    expect(a.dtype.kind == "float", "reflections of complex matrices")
    rows, columns = (integer(d, "a size") for d in a.type.shape.dims[-2:])
    found = []
    for i in range(min(rows, columns)):
        a, tau = _eliminate(a, i, np.arange(rows)[:, None], np.arange(columns))
        found.append(tau)
    if not found:
        return ops.identity(a), ops.sum(a, [-2])[..., :0]
    return a, ops.squeeze(ops.concat(*found, axis=rank_of(a) - 1), [-2])


def _eliminate(a: Any, i: int, row: Any, column: Any) -> tuple[Any, Any]:
    """A column below the diagonal in zeros, by a reflection that is stored there."""
    last = rank_of(a) - 1
    zero, one = number(0, a.dtype), number(1, a.dtype)
    x = ops.slice_(a, [i], [i + 1], [last])
    alpha = ops.slice_(x, [i], [i + 1], [last - 1])
    below = ops.where(row > i, x, zero)
    rest = ops.sum(below * below, [last - 1], keepdims=True)
    is_done = ops.equal(rest, zero)
    length = ops.sqrt(alpha * alpha + rest)
    beta = ops.where(ops.less(alpha, zero), length, ops.negative(length))
    beta = ops.where(is_done, alpha, beta)
    safe = ops.where(is_done, one, beta)
    tau = ops.where(is_done, zero, (safe - alpha) / safe)
    v = below / ops.where(is_done, one, alpha - beta)
    whole = ops.where(row == i, one, v)
    after = ops.where(column > i, _reflect(a, whole, tau), a)
    stored = ops.where(row == i, beta, ops.where(row > i, v, x))
    return ops.where(column == i, stored, after), tau


READ = torch_functions(
    {
        "linalg_householder_product orgqr": read_householder,
        "ormqr": read_ormqr,
        "geqrf": read_geqrf,
    }
)
