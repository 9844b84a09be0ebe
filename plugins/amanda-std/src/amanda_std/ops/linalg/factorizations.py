"""Matrix factorizations (QR, eigh, SVD, LU) with fixed signs, so that backends agree.

LAPACK leaves the signs of vectors open. Here the diagonal of R is nonnegative, and the
entries of a vector, weighted by 1 / (i + sqrt(2)), have a positive sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Shape, TensorType, minimum
from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.values import dims_of
from amanda_std.ops._oracles.matrices import (
    householder,
    jacobi,
    matrix_product,
    normalize_signs,
    sample_matrix,
    symmetric,
)
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.linalg.matrices import (
    call_lapack,
    diagonal_matrix,
    matrix_dims,
    square_dims,
    triangular_solve,
)
from amanda_std.ops.math.arithmetic import where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.tensor.creation import arange, eye, tril, triu, zeros_like
from amanda_std.ops.tensor.shape import astype, broadcast_like, expand_dims, swap_last


def _transpose(x: Any) -> Any:
    return swap_last(x)


def _column_signs(np_: Any, vectors: Any) -> Any:
    """1 or -1 for each column."""
    weights = np.asarray(1 / (np.arange(vectors.shape[-2]) + math.sqrt(2)))
    weights = np_.asarray(weights.astype(vectors.dtype))
    total = np_.sum(vectors * weights[:, None], axis=-2)
    return np_.where(total < 0, -1, 1).astype(vectors.dtype)


def _factor_dims(x: TensorType, full: bool) -> tuple[Any, Any, Any, Any, Any]:
    batch, rows, columns = matrix_dims(x)
    least = minimum(rows, columns)
    return batch, rows, columns, least, (rows if full else least)


def _qr_shapes(x: TensorType, full: bool) -> list[Shape]:
    batch, rows, columns, _, inner = _factor_dims(x, full)
    return [Shape([*batch, rows, inner]), Shape([*batch, inner, columns])]


@primitive(shape=_qr_shapes)
def qr(x: RealFloating, *, full: bool = False) -> tuple[RealFloating, RealFloating]:
    """QR factorization: Q @ R is x, Q has orthonormal columns, R is upper triangular

    `full`: a square Q."""
    np_ = xp(x)

    def run(x: Any) -> Any:
        q, r = np_.linalg.qr(x, mode="complete" if full else "reduced")
        least = min(x.shape[-2:])
        short = np_.where(np_.linalg.diagonal(r) < 0, -1, 1).astype(x.dtype)
        ones = np_.ones((*short.shape[:-1], q.shape[-1] - least), dtype=x.dtype)
        sign = np_.concat([short, ones], axis=-1)
        return q * sign[..., None, :], r * sign[..., :, None]

    outputs: tuple[Any, Any] = call_lapack(run, x)
    return outputs


@qr.gradient
def _(g: Any, y: Any, x: Any, *, full: bool) -> Any:
    rows, columns = dims_of(x)[-2:]
    if full or rows < columns:
        raise InvalidTypeError(
            "qr has no gradient for more columns than rows, nor with full=True"
        )
    q, r = y
    to_q, to_r = (v if v is not None else zeros_like(w)
                  for v, w in zip(g, y, strict=True))  # fmt: skip
    m = matmul(r, _transpose(to_r)) - matmul(_transpose(to_q), q)
    whole = tril(m) + _transpose(tril(m, -1))
    top = to_q + matmul(q, whole)
    return [_transpose(triangular_solve(r, _transpose(top), lower=False))]


@qr.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for rows, columns in ((3, 3), (4, 2), (2, 4)):
            x = sample_matrix(2, rows, columns)
            x = (x + 5 * np.eye(rows, columns)).astype(dtype)
            pairs = [householder(m) for m in x]
            q, r = (np.stack([p[i] for p in pairs]) for i in range(2))
            least, tolerance = min(rows, columns), 1e-4 if dtype == "float32" else None
            parts = [q[..., :least].astype(dtype), r[:, :least].astype(dtype)]
            smooth = rows >= columns
            yield Sample((x,), parts, tolerance=tolerance, smooth=smooth)
            if rows <= columns:
                parts = [q.astype(dtype), r.astype(dtype)]
                yield Sample((x,), parts, {"full": True}, tolerance, smooth=False)
    tall = array([[[0.5, 0], [0, 0.25], [0, 0]], [[3, 0], [0, 2], [0, 0]]])
    parts = [np.stack([np.eye(3)] * 2), tall]
    yield Sample((tall,), parts, {"full": True}, smooth=False)
    yield Sample((np.zeros((0, 3, 2)),), [np.zeros((0, 3, 2)), np.zeros((0, 2, 2))],
                 smooth=False)  # fmt: skip


# -- symmetric matrices ----------------------------------------------------------


def _eigh_shapes(x: TensorType) -> list[Shape]:
    whole = square_dims(x)
    return [Shape(whole[:-1]), Shape(whole)]


@primitive(shape=_eigh_shapes)
def eigh(x: RealFloating) -> tuple[RealFloating, RealFloating]:
    """Eigenvalues (ascending) and eigenvectors (columns) of symmetric matrices

    Only the lower triangle of x is read."""
    np_ = xp(x)

    def run(x: Any) -> Any:
        low = np_.tril(x)
        whole = low + np_.swapaxes(np_.tril(x, k=-1), -1, -2)
        values, vectors = np_.linalg.eigh(whole)
        return values, vectors * _column_signs(np_, vectors)[..., None, :]

    outputs: tuple[Any, Any] = call_lapack(run, x)
    return outputs


def _reciprocal_gaps(values: Any) -> Any:
    """1 / (v[j] - v[i]), with 0 on the diagonal."""
    gaps = expand_dims(values, (-2,)) - expand_dims(values, (-1,))
    empty = equal(gaps, 0.0)
    return where(empty, 0.0, 1.0 / where(empty, 1.0, gaps))


@eigh.gradient
def _(g: Any, y: Any) -> Any:
    values, vectors = y
    inner = None
    if g[0] is not None:
        inner = diagonal_matrix(g[0])
    if g[1] is not None:
        transposed = _reciprocal_gaps(values) * matmul(_transpose(vectors), g[1])
        inner = transposed if inner is None else inner + transposed
    whole = matmul(matmul(vectors, inner), _transpose(vectors))
    whole = (whole + _transpose(whole)) * 0.5
    return [tril(whole) + tril(whole, -1)]


@eigh.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for side in (3, 2):
            x = symmetric(side).astype(dtype)
            pairs = [jacobi(m) for m in x]
            parts = [np.stack([p[i] for p in pairs]).astype(dtype) for i in range(2)]
            tolerance = 1e-4 if dtype == "float32" else None
            yield Sample((x,), parts, tolerance=tolerance)
            half = np.tril(x) + np.triu(np.full_like(x, 9), 1)
            yield Sample((half,), parts, tolerance=tolerance)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), [empty[..., 0], empty], smooth=False)


# -- singular values -------------------------------------------------------------


def _svd_shapes(x: TensorType, full: bool) -> list[Shape]:
    batch, rows, columns, least, inner = _factor_dims(x, full)
    right = columns if full else least
    return [Shape([*batch, rows, inner]), Shape([*batch, least]),
            Shape([*batch, right, columns])]  # fmt: skip


@primitive(shape=_svd_shapes)
def svd(
    x: RealFloating, *, full: bool = False
) -> tuple[RealFloating, RealFloating, RealFloating]:
    """Singular value decomposition: U * s @ Vh is x, s in descending order

    `full`: square U and Vh."""
    np_ = xp(x)

    def run(x: Any) -> Any:
        u, s, vh = np_.linalg.svd(x, full_matrices=full)
        sign = _column_signs(np_, u)
        least = s.shape[-1]
        ones = np_.ones((*sign.shape[:-1], vh.shape[-2] - least), dtype=x.dtype)
        down = np_.concat([sign[..., :least], ones], axis=-1)
        return u * sign[..., None, :], s, vh * down[..., :, None]

    outputs: tuple[Any, Any, Any] = call_lapack(run, x)
    return outputs


@svd.gradient
def _(g: Any, y: Any, *, full: bool) -> Any:
    if full:
        raise InvalidTypeError("svd has no gradient with full=True", hint="full=False")
    u, s, vh = y
    v = _transpose(vh)
    to_u, to_s, to_vh = g
    wide, down = expand_dims(s, (-2,)), expand_dims(s, (-1,))
    gaps = _reciprocal_gaps(s * s)
    inner = None if to_s is None else diagonal_matrix(to_s)
    outer = None
    if to_u is not None:
        part = matmul(_transpose(u), to_u)
        inner = _add_optional(inner, gaps * (part - _transpose(part)) * wide)
        rest = to_u - matmul(u, part)
        outer = matmul(rest / wide, vh)
    if to_vh is not None:
        part = matmul(vh, _transpose(to_vh))
        inner = _add_optional(inner, down * (gaps * (part - _transpose(part))))
        rest = to_vh - matmul(_transpose(part), vh)
        outer = _add_optional(outer, matmul(u, rest / down))
    return [_add_optional(matmul(matmul(u, inner), _transpose(v)), outer)]


def _add_optional(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


@svd.samples
def _() -> Samples:
    values = array([4.0, 1.5])
    for rows, columns in ((2, 2), (3, 2), (2, 4)):
        left = householder(sample_matrix(rows, 2) + 2 * np.eye(rows, 2))[0][:, :2]
        right = householder(sample_matrix(columns, 2) - np.eye(columns, 2))[0][:, :2]
        left, signs = normalize_signs(left)
        right = right * signs
        x = matrix_product(left * values, right.T)
        for dtype in ("float64", "float32"):
            parts = [v.astype(dtype) for v in (left, values, right.T)]
            tolerance = 1e-4 if dtype == "float32" else 1e-8
            yield Sample((x.astype(dtype),), parts, tolerance=tolerance)
            many = [np.stack([p, p]) for p in parts]
            yield Sample((np.stack([x, x]).astype(dtype),), many, tolerance=tolerance)
    square = householder(sample_matrix(2, 2) + 2 * np.eye(2))[0]
    left, signs = normalize_signs(square)
    x = matrix_product(left * values, left.T)
    yield Sample((x,), [left, values, left.T], {"full": True}, 1e-8, smooth=False)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), [empty, empty[..., 0], empty], smooth=False)


# -- LU --------------------------------------------------------------------------


def _lu_shapes(x: TensorType) -> list[Shape]:
    batch, rows, columns = matrix_dims(x)
    return [Shape([*batch, rows, columns]), Shape([*batch, rows])]


@primitive(shape=_lu_shapes, numpy_only=True)
def lu(x: RealFloating) -> tuple[RealFloating, Index]:
    """LU factorization with partial pivoting: L and U in one matrix, and the row order

    The unit diagonal of L is not stored. L @ U is x with its rows in that order."""
    from scipy.linalg import lu_factor

    packed, order = np.zeros_like(x), np.zeros(x.shape[:-1], "int64")
    for at in np.ndindex(x.shape[:-2]):
        if not x[at].size:
            order[at] = np.arange(x.shape[-2])
            continue
        packed[at], swaps = call_lapack(lu_factor, x[at], first=True)
        rows = list(range(x.shape[-2]))
        for i, j in enumerate(swaps):
            rows[i], rows[j] = rows[j], rows[i]
        order[at] = rows
    return packed, order


@lu.gradient
def _(g: Any, y: Any, x: Any) -> Any:
    rows, columns = dims_of(x)[-2:]
    if not rows == columns:
        raise InvalidTypeError("lu has a gradient for square matrices only")
    packed, order = y
    lower = tril(packed, -1) + _identity_like(packed)
    upper = triu(packed)
    left = tril(matmul(_transpose(lower), tril(g[0], -1)), -1)
    right = triu(matmul(triu(g[0]), _transpose(upper)))
    inner = triangular_solve(lower, left + right, transpose=True, unit=True)
    whole = _transpose(triangular_solve(upper, _transpose(inner), lower=False))
    number = arange(0, x.shape[-1])
    moved = equal(expand_dims(order, (-1,)), number)
    return [matmul(_transpose(astype(moved, dtype=x.dtype)), whole)]


def _identity_like(x: Any) -> Any:
    return broadcast_like(eye(x.shape[-1], dtype=x.dtype), x)


@lu.samples
def _() -> Samples:
    low = array([[1, 0, 0], [0.5, 1, 0], [-0.25, 0.75, 1]])
    for columns in (3, 2, 4):
        up = np.triu(sample_matrix(3, columns) + 3 * np.eye(3, columns))[
            : min(3, columns)
        ]
        left = low[:, : up.shape[0]]
        whole = matrix_product(left, up)
        order = [2, 0, 1]
        x = np.zeros_like(whole)
        for i, row in enumerate(order):
            x[row] = whole[i]
        packed = np.zeros_like(whole)
        packed += np.tril(left, -1) @ np.eye(left.shape[1], columns)
        packed[: up.shape[0]] += up
        for dtype in ("float64", "float32"):
            parts = [packed.astype(dtype), array(order, "int64")]
            smooth = columns == 3
            tolerance = 1e-5 if dtype == "float32" else None
            yield Sample((x.astype(dtype),), parts, tolerance=tolerance, smooth=smooth)
        many = [np.stack([p, p]) for p in (packed, array(order, "int64"))]
        yield Sample((np.stack([x, x]),), many, smooth=columns == 3)
    half = array([[1, 2], [2, 8]], "float16")
    parts = [array([[2, 8], [0.5, -2]], "float16"), array([1, 0], "int64")]
    yield Sample((half,), parts)
    none = np.zeros((0, 2, 2))
    yield Sample((none,), [none, np.zeros((0, 2), "int64")], smooth=False)
    for empty in (np.zeros((3, 0)), np.zeros((2, 3, 0))):
        rows = np.broadcast_to(array([0, 1, 2], "int64"), empty.shape[:-1])
        yield Sample((empty,), [empty, rows], smooth=False)
