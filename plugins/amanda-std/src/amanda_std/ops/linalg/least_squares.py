"""Least squares, pseudo-inverse and rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops._oracles.matrices import (
    householder,
    identity_like,
    matrices,
    matrix_product,
    sample_matrix,
    solve_by_elimination,
)
from amanda_std.ops.linalg.factorizations import svd
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import maximum, multiply, reciprocal, where
from amanda_std.ops.math.comparison import greater
from amanda_std.ops.math.reduction import max_, sum_
from amanda_std.ops.tensor.shape import astype, dim, expand_dims, swap_last


def _significant(x: Any, s: Any, tolerance: float | None) -> Any:
    """Which singular values are above the tolerance."""
    if tolerance is None:
        longer = maximum(dim(x, axis=-2), dim(x, axis=-1))
        import ml_dtypes

        kept = x.dtype
        own = DType.of(kept).numpy
        info: Any = ml_dtypes.finfo(own)  # type: ignore[no-untyped-call]
        limit = multiply(astype(longer, dtype=x.dtype), float(info.eps))
    else:
        limit = tolerance
    return greater(s, multiply(max_(s, (-1,), keepdims=True), limit))


@composite
def pinv(x: RealFloating, *, tolerance: float | None = None) -> RealFloating:
    """Moore-Penrose pseudo-inverse

    Singular values up to `tolerance` times the largest count as 0; by default, the
    machine epsilon times the longer dim."""
    u, s, vh = svd(x)
    counts = _significant(x, s, tolerance)
    scale = where(counts, reciprocal(where(counts, s, 1.0)), 0.0)
    right = multiply(swap_last(vh), expand_dims(scale, (-2,)))
    return matmul(right, swap_last(u))


@pinv.gradient
def _(g: Any, y: Any, x: Any) -> Any:
    """For matrices of constant rank; Golub and Pereyra, 1973."""
    y_, g_ = swap_last(y), swap_last(g)
    rows = identity_like(matmul(x, y)) - matmul(x, y)
    columns = identity_like(matmul(y, x)) - matmul(y, x)
    through = matmul(matmul(y_, g), y_)
    left = matmul(matmul(rows, g_), matmul(y, y_))
    right = matmul(matmul(y_, y), matmul(g_, columns))
    return [left + right - through]


@composite
def lstsq(
    a: RealFloating, b: RealFloating, *, tolerance: float | None = None
) -> RealFloating:
    """Least-squares solution of a @ x = b, of minimum norm

    `tolerance` is that of `pinv`."""
    return matmul(pinv(a, tolerance=tolerance), b)


@composite
def matrix_rank(x: RealFloating, *, tolerance: float | None = None) -> Index:
    """Rank: the number of singular values above `tolerance` times the largest"""
    s = svd(x)[1]
    return sum_(astype(_significant(x, s, tolerance), dtype="int64"), (-1,))


matrix_rank.not_differentiable("the rank is an integer")


def _rank_two_matrix(rows: int, columns: int) -> tuple[Any, Any]:
    """A matrix with singular values 4 and 1.5, and its pseudo-inverse."""
    left = householder(sample_matrix(rows, 2) + 2 * np.eye(rows, 2))[0][:, :2]
    right = householder(sample_matrix(columns, 2) - np.eye(columns, 2))[0][:, :2]
    values = array([4.0, 1.5])
    return matrix_product(left * values, right.T), matrix_product(
        right / values, left.T
    )


_SHAPES = (2, 2), (3, 2), (2, 4), (3, 3)
"""The last one has a singular value of 0."""


@pinv.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        tolerance = 1e-4 if dtype == "float32" else 1e-9
        for rows, columns in _SHAPES:
            x, y = (v.astype(dtype) for v in _rank_two_matrix(rows, columns))
            whole = min(rows, columns) == 2
            yield Sample((x,), y, tolerance=tolerance, smooth=whole)
            x, y = np.stack([x, 2 * x]), np.stack([y, y / 2])
            yield Sample((x,), y, tolerance=tolerance, smooth=whole)
    x = np.diag(array([8.0, 2.0, 0.5]))
    y = np.diag(array([0.125, 0.5, 0.0]))
    yield Sample((x,), y, {"tolerance": 0.1}, smooth=False)
    yield Sample((np.zeros((0, 2, 3)),), np.zeros((0, 3, 2)), smooth=False)


@lstsq.samples
def _() -> Samples:
    b = sample_matrix(2, 3, 2)
    for dtype in ("float64", "float32"):
        tolerance = 1e-4 if dtype == "float32" else 1e-9
        for rows, columns in _SHAPES:
            a, inverse = _rank_two_matrix(rows, columns)
            y = matrix_product(inverse, b[:, :rows])
            given = (v.astype(dtype) for v in (a, b[:, :rows]))
            whole = min(rows, columns) == 2
            yield Sample(
                tuple(given), y.astype(dtype), tolerance=tolerance, smooth=whole
            )
        tall = np.concatenate([matrices(3)[0], sample_matrix(1, 3)])
        right = sample_matrix(4, 2)
        y = solve_by_elimination(
            matrix_product(tall.T, tall), matrix_product(tall.T, right)
        )
        given = (v.astype(dtype) for v in (tall, right))
        yield Sample(tuple(given), y.astype(dtype), tolerance=tolerance)
    a = np.diag(array([8.0, 2.0, 0.5]))
    y = array([[1.0], [4.0], [0.0]])
    yield Sample((a, array([[8.0]] * 3)), y, {"tolerance": 0.1}, smooth=False)
    empty = np.zeros((0, 2, 3)), np.zeros((0, 2, 1))
    yield Sample(empty, np.zeros((0, 3, 1)), smooth=False)


@matrix_rank.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for shape in _SHAPES:
            x = _rank_two_matrix(*shape)[0].astype(dtype)
            yield Sample((np.stack([x, x * 0]),), array([2, 0], "int64"))
    x = np.diag(array([8.0, 2.0, 0.5]))
    for tolerance, rank in ((0.01, 3), (0.1, 2), (0.5, 1)):
        yield Sample((x,), array(rank, "int64"), {"tolerance": tolerance})
    yield Sample((np.zeros((0, 2, 3)),), array([], "int64"), smooth=False)
