"""From nd4j: linear algebra, and diagonals of matrices."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_nd4j.std.arguments import expect_no_other, flag_of, integer_of
from amanda_std import ops
from amanda_std.dataflow import diagonal_of_tensor, tensor_of_diagonal
from amanda_std.mappings import cast_to, expect

__all__ = ["READ"]


def _adjoint(x: Any) -> Any:
    y = ops.swap_last(x)
    return ops.conj(y) if x.dtype.kind == "complex" else y


def read_log_determinant(x: Any) -> Any:
    """log_matrix_determinant to `slogdet`: the sign, and the logarithm of its size."""
    sign, size = ops.slogdet(x)
    return sign, cast_to(size, x.dtype)


def read_logdet(x: Any) -> Any:
    """logdet to twice the logarithms of the diagonal of the Cholesky factor."""
    roots = ops.diagonal(ops.cholesky(x))
    return ops.sum(ops.log(roots), [-1]) * ops.number_like(x, value=2)


def read_svd(
    x: Any, *, computeUv: Any = None, fullUV: Any = None, calcUV: Any = None,
    switchNum: Any = None, outputs: int, **more: Any,
) -> Any:  # fmt: skip
    """V is the adjoint of Vh; singular values have the type of x."""
    del switchNum
    expect_no_other(more, ("fullUV.int64",))
    u, s, vh = ops.svd(x, full=flag_of(fullUV, *more.values()))
    s = cast_to(s, x.dtype)
    if not flag_of(computeUv, calcUV):
        empty = ops.zeros([0], dtype=x.dtype)
        return (s, empty, empty)[:outputs]
    return (s, u, _adjoint(vh))[:outputs]


def read_lu(x: Any) -> Any:
    """lu to `lu`; the order of rows is of int32."""
    matrix, order = ops.lu(x)
    return matrix, ops.astype(order, dtype="int32")


def read_qr(x: Any, *, fullMatrices: Any = False) -> Any:
    """qr to `qr`."""
    return ops.qr(x, full=bool(fullMatrices))


def read_solve(a: Any, b: Any, given: Any = None, *, useAdjoint: Any = False) -> Any:
    """solve to `solve`."""
    expect(given is None, "an adjoint that is given")
    return ops.solve(_adjoint(a) if useAdjoint else a, b)


def read_triangular_solve(
    a: Any,
    b: Any,
    *,
    isLower: Any = True,
    useAdjoint: Any = False,
) -> Any:
    """triangular_solve to `triangular_solve`."""
    if useAdjoint and a.dtype.kind == "complex":
        a = ops.conj(a)
    return ops.triangular_solve(a, b, lower=bool(isLower), transpose=bool(useAdjoint))


def read_least_squares(
    a: Any,
    b: Any,
    *,
    fastFlag: Any = True,
    l2_factor: Any = 0.0,
) -> Any:
    """With a regularizer, or fast, the solution of the normal equations."""
    if not l2_factor and not fastFlag:
        return ops.lstsq(a, b)
    transposed = _adjoint(a)
    square = ops.matmul(transposed, a)
    if l2_factor:
        eye = ops.eye(int(a.shape[-1]), dtype=a.dtype)
        square = square + eye * ops.number_like(a, value=l2_factor)
    return ops.solve(square, ops.matmul(transposed, b))


def read_band_part(
    x: Any, lower: Any = None, upper: Any = None, *, minLower: Any = None,
    maxUpper: Any = None,
) -> Any:  # fmt: skip
    """Elements between diagonals; a negative number keeps that whole triangle."""
    low, high = (
        integer_of(lower, minLower, "the number of diagonals"),
        integer_of(upper, maxUpper, "the number of diagonals"),
    )
    y = ops.tril(x, high) if high >= 0 else x
    return ops.triu(y, -low) if low >= 0 else y


def read_set_diagonal(x: Any, diagonal: Any) -> Any:
    """matrix_set_diag to another main diagonal."""
    rows, columns = x.shape[-2], x.shape[-1]
    static = isinstance(rows, int) and isinstance(columns, int)
    expect(static, "the matrix is not static")
    size = min(int(rows), int(columns))
    if not size:
        return ops.identity(x)
    at = np.arange(int(rows))[:, None] + 0 * np.arange(int(columns))
    spread = ops.gather(diagonal, np.clip(at, 0, size - 1), axis=-1)
    return ops.where(np.eye(int(rows), int(columns), dtype=bool), spread, x)


def read_cross(a: Any, b: Any) -> Any:
    """cross to products of rotated vectors."""
    return ops.roll(a, [-1], axes=(-1,)) * ops.roll(b, [1], axes=(-1,)) - ops.roll(
        a, [1], axes=(-1,)
    ) * ops.roll(b, [-1], axes=(-1,))


READ: dict[str, Any] = {
    "log_matrix_determinant": read_log_determinant,
    "logdet": read_logdet,
    "svd": read_svd,
    "lu": read_lu,
    "qr": read_qr,
    "solve": read_solve,
    "triangular_solve": read_triangular_solve,
    "lstsq": read_least_squares,
    "solve_ls": read_least_squares,
    "matrix_set_diag": read_set_diagonal,
    "matrix_band_part": read_band_part,
    "diag": tensor_of_diagonal,
    "diag_part": diagonal_of_tensor,
    "cross": read_cross,
}
