"""Matrix factorizations (QR, eigh, SVD, LU) with fixed signs, so that backends agree.

LAPACK leaves the signs of vectors open, and the phases of complex ones. Here the
diagonal of R is nonnegative, and the entries of a vector, weighted by
1 / (i + sqrt(2)), have a positive sum.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType, Shape, TensorType, minimum
from amanda_std.engine.annotations import Floating, Index, RealOf
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.values import dims_of
from amanda_std.inference.element_types import part_type
from amanda_std.ops._oracles.matrices import (
    householder,
    jacobi,
    matrix_product,
    normalize_signs,
    sample_matrix,
    symmetric,
    unitary_matrix,
)
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.linalg.matrices import (
    adjoint,
    call_lapack,
    conjugate,
    diagonal,
    diagonal_matrix,
    gradient_of_lower,
    hermitian,
    is_complex,
    matrix_dims,
    square_dims,
    triangular_solve,
)
from amanda_std.ops.math.arithmetic import where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.complex_numbers import complex_, imag, real
from amanda_std.ops.math.logic import logical_or
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import arange, eye, tril, triu, zeros_like
from amanda_std.ops.tensor.shape import astype, broadcast_like, expand_dims, swap_last


def _transpose(x: Any) -> Any:
    return swap_last(x)


def machine_epsilon(dtype: Any) -> float:
    """The difference between 1 and the next number of an element type."""
    part = part_type(DType.of(dtype)).numpy
    info: Any = ml_dtypes.finfo(part)  # type: ignore[no-untyped-call]
    return float(info.eps)


def column_signs(np_: Any, vectors: Any) -> Any:
    """The sign that each column of arrays is multiplied by, or the phase."""
    weights = np.asarray(1 / (np.arange(vectors.shape[-2]) + math.sqrt(2)))
    weights = np_.asarray(weights.astype(vectors.dtype))
    return _signs(np_, np_.sum(vectors * weights[:, None], axis=-2))


def _signs(np_: Any, x: Any) -> Any:
    """Numbers of magnitude 1 by which the products with x are nonnegative."""
    if x.dtype.kind != "c":
        return np_.where(x < 0, -1, 1).astype(x.dtype)
    size = np_.abs(x)
    zero = size == 0
    return np_.where(zero, 1, np_.conj(x) / np_.where(zero, 1, size)).astype(x.dtype)


def without_turn(g: Any, vectors: Any, turn: Any = None) -> Any:
    """The gradient of complex vectors before their phases were normalized.

    `turn`: by how much the loss changes with the phase of a column, where other
    values have that phase too."""
    if turn is None:
        turn = imag(sum_(g * vectors, (-2,)))
    rows = expand_dims(astype(arange(0, vectors.shape[-2]), dtype=turn.dtype), (1,))
    weights = 1.0 / (rows + math.sqrt(2))
    total = sum_(real(vectors) * weights, (-2,))
    change = weights * expand_dims(turn / total, (-2,))
    change = complex_(zeros_like(change), change)
    return -change if g is None else g - change


def _factor_dims(x: TensorType, full: bool) -> tuple[Any, Any, Any, Any, Any]:
    batch, rows, columns = matrix_dims(x)
    least = minimum(rows, columns)
    return batch, rows, columns, least, (rows if full else least)


def _qr_shapes(x: TensorType, full: bool) -> list[Shape]:
    batch, rows, columns, _, inner = _factor_dims(x, full)
    return [Shape([*batch, rows, inner]), Shape([*batch, inner, columns])]


@primitive(shape=_qr_shapes)
def qr(x: Floating, *, full: bool = False) -> tuple[Floating, Floating]:
    """QR factorization: Q @ R is x, Q has orthonormal columns, R is upper triangular

    `full`: a square Q."""
    np_ = xp(x)

    def run(x: Any) -> Any:
        q, r = np_.linalg.qr(x, mode="complete" if full else "reduced")
        least = min(x.shape[-2:])
        short = _signs(np_, np_.linalg.diagonal(r))
        ones = np_.ones((*short.shape[:-1], q.shape[-1] - least), dtype=x.dtype)
        sign = np_.concat([short, ones], axis=-1)
        return q * np_.conj(sign)[..., None, :], r * sign[..., :, None]

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
    m = matmul(conjugate(r), adjoint(to_r)) - matmul(adjoint(to_q), conjugate(q))
    half = (tril(m) + tril(m, -1)) * 0.5
    top = to_q + matmul(conjugate(q), half + adjoint(half))
    return [_transpose(triangular_solve(r, _transpose(top), lower=False))]


_UPPER = [[2, 1 - 1j, 0.5], [0, 1.5, 2j], [0, 0, 0.75]]


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
    for dtype in ("complex128", "complex64"):
        tolerance = 1e-4 if dtype == "complex64" else None
        q, r = unitary_matrix(), array(_UPPER, "complex128")
        x = matrix_product(q, r)
        parts = [v.astype(dtype) for v in (q, r)]
        yield Sample((x.astype(dtype),), parts, tolerance=tolerance)
    x = np.concatenate([x, x], axis=-1)
    parts = [q, np.concatenate([r, r], axis=-1)]
    yield Sample((x,), parts, tolerance=1e-9, smooth=False)


# -- symmetric matrices ----------------------------------------------------------


def _eigh_shapes(x: TensorType) -> list[Shape]:
    whole = square_dims(x)
    return [Shape(whole[:-1]), Shape(whole)]


@primitive(shape=_eigh_shapes)
def eigh(x: Floating) -> tuple[RealOf, Floating]:
    """Eigenvalues (ascending) and eigenvectors (columns) of Hermitian matrices

    Only the lower triangle of x is read, and of its diagonal the real part."""
    np_ = xp(x)

    def run(x: Any) -> Any:
        values, vectors = np_.linalg.eigh(hermitian(np_, x))
        return values, vectors * column_signs(np_, vectors)[..., None, :]

    outputs: tuple[Any, Any] = call_lapack(run, x)
    return outputs


def reciprocal_gaps(values: Any, *, squares: bool = False) -> Any:
    """1 / (v[j] - v[i]), or that of their squares; 0 for equal values, such as those on
    the diagonal.

    A difference of squares is computed as a product: contracted to a fused multiply-add
    it is not exactly 0 for equal values."""
    columns, rows = expand_dims(values, (-2,)), expand_dims(values, (-1,))
    gaps = columns - rows
    empty = equal(gaps, 0.0)
    if squares:
        gaps = gaps * (columns + rows)
        empty = logical_or(empty, equal(gaps, 0.0))
    return where(empty, 0.0, 1.0 / where(empty, 1.0, gaps))


@eigh.gradient
def _(g: Any, y: Any) -> Any:
    values, vectors = y
    to_values, to_vectors = g
    inner = None
    if to_values is not None:
        inner = astype(diagonal_matrix(to_values), dtype=vectors.dtype)
    if to_vectors is not None:
        if is_complex(vectors):
            to_vectors = without_turn(to_vectors, vectors)
        gaps = astype(reciprocal_gaps(values), dtype=vectors.dtype)
        part = gaps * matmul(_transpose(vectors), to_vectors)
        inner = _add_optional(inner, part)
    whole = matmul(matmul(conjugate(vectors), inner), _transpose(vectors))
    return [gradient_of_lower(whole)]


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
    vectors, _ = normalize_signs(unitary_matrix())
    values = array([-1.5, 0.25, 3.0])
    x = matrix_product(vectors * values, vectors.conj().T)
    for dtype, tolerance in (("complex128", 1e-9), ("complex64", 1e-4)):
        part = "float64" if dtype == "complex128" else "float32"
        parts = [values.astype(part), vectors.astype(dtype)]
        yield Sample((np.tril(x).astype(dtype),), parts, tolerance=tolerance)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), [empty[..., 0], empty], smooth=False)


# -- singular values -------------------------------------------------------------


def _svd_shapes(x: TensorType, full: bool) -> list[Shape]:
    batch, rows, columns, least, inner = _factor_dims(x, full)
    right = columns if full else least
    return [Shape([*batch, rows, inner]), Shape([*batch, least]),
            Shape([*batch, right, columns])]  # fmt: skip


@primitive(shape=_svd_shapes)
def svd(x: Floating, *, full: bool = False) -> tuple[Floating, RealOf, Floating]:
    """Singular value decomposition: U * s @ Vh is x, s in descending order

    `full`: square U and Vh."""
    np_ = xp(x)

    def run(x: Any) -> Any:
        u, s, vh = np_.linalg.svd(x, full_matrices=full)
        sign = column_signs(np_, u)
        least = s.shape[-1]
        ones = np_.ones((*sign.shape[:-1], vh.shape[-2] - least), dtype=x.dtype)
        down = np_.concat([sign[..., :least], ones], axis=-1)
        return u * sign[..., None, :], s, vh * np_.conj(down)[..., :, None]

    outputs: tuple[Any, Any, Any] = call_lapack(run, x)
    return outputs


@svd.gradient
def _(g: Any, y: Any, *, full: bool) -> Any:
    if full:
        raise InvalidTypeError("svd has no gradient with full=True", hint="full=False")
    u, s, vh = y
    to_u, to_s, to_vh = g
    if is_complex(u) and (to_u is not None or to_vh is not None):
        to_u = without_turn(to_u, u, _turn_of_both(to_u, u, to_vh, vh))
    gaps = astype(reciprocal_gaps(s, squares=True), dtype=u.dtype)
    wide = astype(expand_dims(s, (-2,)), dtype=u.dtype)
    down = _transpose(wide)
    inner = None if to_s is None else astype(diagonal_matrix(to_s), dtype=u.dtype)
    outer = None
    if to_u is not None:
        part = matmul(_transpose(u), to_u)
        inner = _add_optional(inner, gaps * (part - adjoint(part)) * wide)
        rest = to_u - matmul(conjugate(u), part)
        outer = matmul(rest / wide, conjugate(vh))
    if to_vh is not None:
        part = matmul(conjugate(vh), adjoint(to_vh))
        inner = _add_optional(inner, down * (gaps * (part - adjoint(part))))
        if is_complex(u):
            inner = inner - _imaginary_diagonal(imag(diagonal(part)) / s)
        rest = to_vh - matmul(adjoint(part), conjugate(vh))
        outer = _add_optional(outer, matmul(conjugate(u), rest / down))
    return [_add_optional(matmul(matmul(conjugate(u), inner), conjugate(vh)), outer)]


def _turn_of_both(to_u: Any, u: Any, to_vh: Any, vh: Any) -> Any:
    """The change of the loss with the phases of the columns of U and V."""
    turn = None if to_u is None else imag(sum_(to_u * u, (-2,)))
    other = None if to_vh is None else -imag(sum_(to_vh * vh, (-1,)))
    return _add_optional(turn, other)


def _imaginary_diagonal(x: Any) -> Any:
    return diagonal_matrix(complex_(zeros_like(x), x))


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
    small = np.array([[0.6, 0.8j], [0.8j, 0.6]])
    large, _ = normalize_signs(unitary_matrix())
    sides = [(large, large.T), (large[:, :2], small), (normalize_signs(small)[0],
             large.T[:2])]  # fmt: skip
    for left, right in sides:  # square, tall, wide
        values = array([4.0, 1.5, 0.5])[: len(right)]
        x = matrix_product(left * values, right)
        yield Sample((x,), [left, values, right], tolerance=1e-8)
    parts = [left.astype("complex64"), values.astype("float32"),
             right.astype("complex64")]  # fmt: skip
    yield Sample((x.astype("complex64"),), parts, tolerance=1e-4)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), [empty, empty[..., 0], empty], smooth=False)


# -- LU --------------------------------------------------------------------------


def _lu_shapes(x: TensorType) -> list[Shape]:
    batch, rows, columns = matrix_dims(x)
    return [Shape([*batch, rows, columns]), Shape([*batch, rows])]


@primitive(shape=_lu_shapes, numpy_only=True)
def lu(x: Floating) -> tuple[Floating, Index]:
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
    low = array([[1, 0], [0.5j, 1]], "complex128")
    up = array([[2 + 2j, 1j], [0, 3]], "complex128")
    packed = array([[2 + 2j, 1j], [0.5j, 3]], "complex128")
    for dtype in ("complex128", "complex64"):
        x = matrix_product(low, up)[::-1].astype(dtype)
        parts = [packed.astype(dtype), array([1, 0], "int64")]
        yield Sample((x,), parts)
    half = array([[1, 2], [2, 8]], "float16")
    parts = [array([[2, 8], [0.5, -2]], "float16"), array([1, 0], "int64")]
    yield Sample((half,), parts)
    none = np.zeros((0, 2, 2))
    yield Sample((none,), [none, np.zeros((0, 2), "int64")], smooth=False)
    for empty in (np.zeros((3, 0)), np.zeros((2, 3, 0))):
        rows = np.broadcast_to(array([0, 1, 2], "int64"), empty.shape[:-1])
        yield Sample((empty,), [empty, rows], smooth=False)
