"""From TensorFlow: linear algebra, and diagonals of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    known_scalar,
    rank_of,
    required_integer,
)

__all__ = ["READ"]

_STEPS = 24
"""Iterations of a square root, enough for eigenvalues from 1e-6 to 1e6."""


def _adjoint(x: Any) -> Any:
    y = ops.swap_last(x)
    return ops.conj(y) if x.dtype.kind == "complex" else y


def read_log_determinant(x: Any) -> Any:
    """LogMatrixDeterminant to `slogdet`; both results have the type of the matrix."""
    sign, size = ops.slogdet(x)
    return sign, cast_to(size, x.dtype)


def read_svd(x: Any, *, compute_uv: bool = True, full_matrices: bool = False) -> Any:
    """TensorFlow's V is the adjoint of Vh; singular values have the type of x."""
    u, s, vh = ops.svd(x, full=full_matrices)
    s = cast_to(s, x.dtype)
    if not compute_uv:
        empty = ops.zeros([0], dtype=x.dtype)
        return s, empty, empty
    return s, u, _adjoint(vh)


def read_self_adjoint_eig(x: Any, *, compute_v: bool = True) -> Any:
    """SelfAdjointEigV2 and BatchSelfAdjointEigV2 to `eigh`."""
    values, vectors = ops.eigh(x)
    values = cast_to(values, x.dtype)
    return values, vectors if compute_v else ops.zeros([0], dtype=x.dtype)


def read_eig(x: Any, *, compute_v: bool = True, Tout: Any) -> Any:  # noqa: N803
    """Eig to `eig`, in the order of the hub."""
    if not compute_v:
        return cast_to(ops.eigvals(x), Tout), ops.zeros([0], dtype=Tout)
    values, vectors = ops.eig(x)
    return cast_to(values, Tout), cast_to(vectors, Tout)


def read_lu(x: Any, *, output_idx_type: Any = None) -> Any:
    """Lu to `lu`."""
    matrix, order = ops.lu(x)
    return matrix, ops.astype(order, dtype=output_idx_type or "int32")


def read_lstsq(a: Any, b: Any, l2: Any, *, fast: bool = True) -> Any:
    """With a regularizer, the solution of the normal equations."""
    weight = known_content(l2)
    if weight == 0 and not fast:
        return ops.lstsq(a, b)
    transposed = _adjoint(a)
    square = ops.matmul(transposed, a)
    if weight != 0:
        size = int(a.shape[-1])
        square = square + ops.eye(size, dtype=a.dtype) * ops.astype(l2, dtype=a.dtype)
    return ops.solve(square, ops.matmul(transposed, b))


def read_band_part(x: Any, lower: Any, upper: Any) -> Any:
    """Elements between diagonals; a negative number keeps that whole triangle."""
    low, high = (
        required_integer(lower, "num_lower"),
        required_integer(upper, "num_upper"),
    )
    if high >= 0:
        x = ops.tril(x, high)
    return ops.triu(x, -low) if low >= 0 else x


def read_set_diag(x: Any, diagonal: Any) -> Any:
    """MatrixSetDiag and BatchMatrixSetDiag to another main diagonal."""
    return _set_one_diagonal(x, diagonal, 0)


def _set_one_diagonal(x: Any, diagonal: Any, offset: int) -> Any:
    rows, columns = x.shape[-2], x.shape[-1]
    expect(
        isinstance(rows, int) and isinstance(columns, int), "the matrix is not static"
    )
    mask = np.eye(int(rows), int(columns), offset, dtype=bool)
    if offset >= 0:
        at = np.clip(np.arange(int(rows)), 0, None)[:, None] + 0 * np.arange(
            int(columns)
        )
    else:
        at = np.arange(int(columns))[None, :] + 0 * np.arange(int(rows))[:, None]
    size = max(min(int(rows) + min(offset, 0), int(columns) - max(offset, 0)), 0)
    if not size:
        return ops.identity(x)
    spread = ops.gather(diagonal, np.clip(at, 0, size - 1), axis=-1)
    return ops.where(mask, spread, x)


def read_set_diag_v3(
    x: Any, diagonal: Any, k: Any, *, align: str = "RIGHT_LEFT"
) -> Any:
    """One diagonal, or a band of them."""
    low, high = _band_of(k)
    if low == high:
        return _set_one_diagonal(x, diagonal, low)
    rows, columns = (int(n) for n in x.shape[-2:])
    width = int(diagonal.shape[-1])
    for row, offset in enumerate(range(high, low - 1, -1)):
        size = min(rows + min(offset, 0), columns - max(offset, 0))
        start = _start_of(offset, size, width, align)
        one = ops.gather(diagonal, np.asarray(row), axis=-2)
        one = ops.slice_(one, [start], [start + size], [-1])
        x = _set_one_diagonal(x, one, offset)
    return x


def _band_of(k: Any) -> tuple[int, int]:
    found = known_content(k)
    expect(found is not None, "k is not constant")
    both = [found] if isinstance(found, int) else list(found)
    return int(both[0]), int(both[-1])


def _start_of(offset: int, size: int, width: int, align: str) -> int:
    """Where a diagonal starts in its row of a band."""
    upper, lower = align.split("_")
    side = upper if offset >= 0 else lower
    return width - size if side == "RIGHT" else 0


def read_diag_part_v3(
    x: Any, k: Any, padding: Any, *, align: str = "RIGHT_LEFT"
) -> Any:
    """MatrixDiagPartV3 to `diagonal` for each of the band, padded."""
    low, high = _band_of(k)
    if low == high:
        return ops.diagonal(x, offset=low)
    rows, columns = (int(n) for n in x.shape[-2:])
    sizes = {
        o: max(min(rows + min(o, 0), columns - max(o, 0)), 0)
        for o in range(low, high + 1)
    }
    width = max(sizes.values())
    parts = []
    for offset in range(high, low - 1, -1):
        one = ops.diagonal(x, offset=offset)
        start = _start_of(offset, sizes[offset], width, align)
        rest = width - sizes[offset] - start
        parts.append(
            ops.pad(one, [[start, rest]], padding, [-1]) if start or rest else one
        )
    return ops.stack(*parts, axis=-2)


def read_matrix_diag_v3(
    diagonal: Any, k: Any, rows: Any, columns: Any, padding: Any, *,
    align: str = "RIGHT_LEFT",
) -> Any:  # fmt: skip
    """A matrix with a diagonal, or a band of them, and padding elsewhere."""
    low, high = _band_of(k)
    height = required_integer(rows, "num_rows")
    breadth = required_integer(columns, "num_cols")
    size = diagonal.type.shape.dims[-1]
    is_square = (low, high, height, breadth) == (0, 0, -1, -1)
    if is_square and not isinstance(size, int) and known_scalar(padding) == 0:
        return ops.diagonal_matrix(diagonal)
    width = int(size)
    least_rows, least_columns = width - min(high, 0), width + max(low, 0)
    if height < 0 and breadth < 0:
        height = breadth = max(least_rows, least_columns)
    height = least_rows if height < 0 else height
    breadth = least_columns if breadth < 0 else breadth
    batch = ops.slice_(
        ops.shape_of(diagonal), [0], [rank_of(diagonal) - (1 if low == high else 2)]
    )
    shape = ops.concat(batch, np.array([height, breadth]))
    empty = ops.broadcast_to(ops.reshape(padding, []), shape)
    return read_set_diag_v3(empty, diagonal, k, align=align)


def read_diag_part_v2(x: Any, k: Any, padding: Any) -> Any:
    """MatrixDiagPartV2, as version 3 with its alignment."""
    return read_diag_part_v3(x, k, padding, align="LEFT_LEFT")


def read_set_diag_v2(x: Any, diagonal: Any, k: Any) -> Any:
    """MatrixSetDiagV2, as version 3 with its alignment."""
    return read_set_diag_v3(x, diagonal, k, align="LEFT_LEFT")


def read_matrix_diag_v2(
    diagonal: Any, k: Any, rows: Any, columns: Any, padding: Any
) -> Any:
    """MatrixDiagV2, as version 3 with its alignment."""
    return read_matrix_diag_v3(diagonal, k, rows, columns, padding, align="LEFT_LEFT")


def read_tridiagonal_matmul(upper: Any, main: Any, lower: Any, x: Any) -> Any:
    """Each diagonal is a row [..., 1, m]; unused ends are ignored."""
    above, middle, below = (ops.swap_last(v) for v in (upper, main, lower))
    rank = rank_of(x)
    rest = [[0, 0]] * (rank - 2)
    after = ops.pad(ops.slice_(x, [1], [2**31], [-2]), [*rest, [0, 1], [0, 0]])
    before = ops.pad(ops.slice_(x, [0], [-1], [-2]), [*rest, [1, 0], [0, 0]])
    return above * after + middle * x + below * before


def read_tridiagonal_solve(
    diagonals: Any, b: Any, *, partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Any:  # fmt: skip
    """Diagonals [..., 3, m]: upper, main, lower; solved as a full matrix."""
    del partial_pivoting, perturb_singular
    upper, main, lower = (
        ops.squeeze(row, [-2]) for row in ops.split(diagonals, axis=-2, outputs=3)
    )
    matrix = ops.diagonal_matrix(main)
    matrix = _set_one_diagonal(matrix, ops.slice_(upper, [0], [-1], [-1]), 1)
    matrix = _set_one_diagonal(matrix, ops.slice_(lower, [1], [2**31], [-1]), -1)
    return ops.solve(matrix, b)


def read_banded_triangular_solve(
    bands: Any, b: Any, *, lower: bool = True, adjoint: bool = False
) -> Any:
    """Bands [..., k, m], each a diagonal, solved as a full triangular matrix."""
    count, size = (int(n) for n in bands.shape[-2:])
    rows = [ops.squeeze(row, [-2]) for row in ops.split(bands, axis=-2, outputs=count)]
    main = rows[0] if lower else rows[-1]
    matrix = ops.diagonal_matrix(main)
    for offset in range(1, count):
        if lower:
            one = ops.slice_(rows[offset], [offset], [size], [-1])
            matrix = _set_one_diagonal(matrix, one, -offset)
        else:
            one = ops.slice_(rows[-1 - offset], [0], [size - offset], [-1])
            matrix = _set_one_diagonal(matrix, one, offset)
    if adjoint and matrix.dtype.kind == "complex":
        matrix = ops.conj(matrix)
    return ops.triangular_solve(matrix, b, lower=lower, transpose=adjoint)


def read_cholesky_grad(lower: Any, g: Any) -> Any:
    """The gradient of a matrix, from its Cholesky factor and the gradient of that."""
    expect(lower.dtype.kind == "float", "the gradient of a complex matrix")
    inner = ops.matmul(ops.swap_last(lower), ops.tril(g))
    half = ops.tril(inner) - ops.diagonal_matrix(ops.diagonal(inner)) * 0.5
    left = ops.triangular_solve(lower, half, lower=True, transpose=True)
    whole = ops.swap_last(
        ops.triangular_solve(lower, ops.swap_last(left), lower=True, transpose=True)
    )
    return (whole + ops.swap_last(whole)) * 0.5


def read_matrix_square_root(x: Any) -> Any:
    """By the iteration of Denman and Beavers, which converges quadratically."""
    half = ops.number_like(x, value=0.5)

    def step(number: Any, y: Any, z: Any) -> Any:
        following = half * (y + ops.inverse(z)), half * (z + ops.inverse(y))
        return number + np.int64(1), *following

    one = ops.broadcast_like(ops.eye(int(x.shape[-1]), dtype=x.dtype), x)
    start = np.int64(0), x, one
    return ops.while_(lambda n, *_: ops.less(n, np.int64(_STEPS)), step, *start)[1]


READ: dict[str, Any] = {
    "MatrixSquareRoot": read_matrix_square_root,
    "MatrixDiagPartV2": read_diag_part_v2,
    "MatrixSetDiagV2": read_set_diag_v2,
    "MatrixDiagV2": read_matrix_diag_v2,
    "BatchMatrixSetDiag": read_set_diag,
    "BatchSvd": read_svd,
    "BatchSelfAdjointEigV2": read_self_adjoint_eig,
    "BatchMatrixSolveLs": read_lstsq,
    "TridiagonalMatMul": read_tridiagonal_matmul,
    "TridiagonalSolve": read_tridiagonal_solve,
    "BandedTriangularSolve": read_banded_triangular_solve,
    "CholeskyGrad": read_cholesky_grad,
    "BatchCholeskyGrad": read_cholesky_grad,
    "Svd": read_svd,
    "Eig": read_eig,
    "LogMatrixDeterminant": read_log_determinant,
    "SelfAdjointEigV2": read_self_adjoint_eig,
    "Lu": read_lu,
    "MatrixSolveLs": read_lstsq,
    "MatrixBandPart": read_band_part,
    "BatchMatrixBandPart": read_band_part,
    "MatrixSetDiag": read_set_diag,
    "MatrixSetDiagV3": read_set_diag_v3,
    "MatrixDiagPartV3": read_diag_part_v3,
    "MatrixDiagV3": read_matrix_diag_v3,
}
