"""From PyTorch: Householder reflections, and QR factorizations that consist of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import integer
from amanda_torch.mapping.shapes.read_shapes import read_adjoint
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ"]


def _reflections(a: Any, tau: Any) -> list[tuple[Any, Any]]:
    """The vectors v, columns of `a`, and factors tau of reflections I - tau v v^H."""
    rows, columns = (integer(d, "a size") for d in a.type.shape.dims[-2:])
    low = ops.tril(a, -1) + ops.eye(rows, columns, dtype=a.dtype)
    last = rank_of(a) - 1
    return [
        (ops.slice_(low, [i], [i + 1], [last]),
         ops.expand_dims(ops.slice_(tau, [i], [i + 1], [last - 1]), [last]))
        for i in range(integer(tau.type.shape.dims[-1], "a size"))
    ]  # fmt: skip


def _reflect(x: Any, v: Any, tau: Any) -> Any:
    return x - tau * ops.matmul(v, ops.matmul(read_adjoint(v), x))


def read_householder(a: Any, tau: Any) -> Any:
    """The first columns of the product of reflections."""
    rows, columns = (integer(d, "a size") for d in a.type.shape.dims[-2:])
    q = ops.eye(rows, columns, dtype=a.dtype) + ops.zeros_like(a)
    for v, t in reversed(_reflections(a, tau)):
        q = _reflect(q, v, t)
    return q


def read_ormqr(a: Any, tau: Any, x: Any, left: bool = True,
               transpose: bool = False) -> Any:  # fmt: skip
    """A matrix multiplied by the product Q of reflections, or by its adjoint."""
    if not left:
        return read_adjoint(read_ormqr(a, tau, read_adjoint(x), True, not transpose))
    pairs = _reflections(a, tau)
    for v, t in pairs if transpose else reversed(pairs):
        is_adjoint = transpose and t.dtype.kind == "complex"
        x = _reflect(x, v, ops.conj(t) if is_adjoint else t)
    return x


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
