"""Linear algebra: matrices in the last two axes; the axes before are a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Dim, DType, Shape, TensorType, minimum
from amanda_std.engine.annotations import Array, Floating, RealOf
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.ops._oracles.matrices import (
    complex_matrices,
    identity_like,
    matrices,
    matrix_product,
    sample_matrix,
    solve_by_elimination,
)
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import maximum, where
from amanda_std.ops.math.arithmetic import minimum as minimum_
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.complex_numbers import complex_, conj, imag
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import arange, tril, triu, zeros_like
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import dim, expand_dims, squeeze, swap_last


def square_dims(x: TensorType) -> tuple[Dim, ...]:
    """Dims of square matrices."""
    result = x.shape.dims
    if len(result) < 2:
        raise InvalidTypeError("a matrix has at least two axes", got=x.shape)
    side = shapes.expect_same(result[-2], result[-1], "the matrix is not square")
    return (*result[:-2], side, side)


def matrix_dims(x: TensorType) -> tuple[tuple[Dim, ...], Dim, Dim]:
    result = x.shape.dims
    if len(result) < 2:
        raise InvalidTypeError("a matrix has at least two axes", got=x.shape)
    return result[:-2], result[-2], result[-1]


def call_lapack(function: Any, *xs: Any, first: bool = False) -> Any:
    """Call a LAPACK function, in float32 for half precision.

    `first`: only the first result has the element type of the arguments."""
    kept = xs[0].dtype
    if kept.itemsize > 2:
        return function(*xs)
    outputs = function(*(x.astype("float32") for x in xs))
    if isinstance(outputs, tuple):
        return tuple(
            m.astype(kept) if i == 0 or not first else m for i, m in enumerate(outputs)
        )
    return outputs.astype(kept)


def _transpose(x: Any) -> Any:
    return swap_last(x)


def is_complex(x: Any) -> bool:
    return DType.of(x.dtype).kind == "complex"


def conjugate(x: Any) -> Any:
    """The complex conjugate; a real tensor is returned as is."""
    return conj(x) if is_complex(x) else x


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return swap_last(conjugate(x))


def _half_triangle(x: Any) -> Any:
    """Strictly lower triangle, plus half of the diagonal."""
    return (tril(x) + tril(x, -1)) * 0.5


def _diagonal_length(rows: Dim, columns: Dim, offset: int) -> Dim:
    if offset >= 0:
        return minimum(rows, columns - offset)
    return minimum(rows + offset, columns)


def _diagonal_shape(x: TensorType, offset: int) -> Shape:
    batch, rows, columns = matrix_dims(x)
    return Shape([*batch, _diagonal_length(rows, columns, offset)])


@primitive(shape=_diagonal_shape)
def diagonal(x: Array, *, offset: int = 0) -> Array:
    """Diagonal of matrices; above the main one if `offset` > 0, below if negative"""
    return xp(x).linalg.diagonal(x, offset=offset)


diagonal.trait(Trait.PARTWISE)


@diagonal.gradient
def _(g: Any, x: Any, *, offset: int) -> Any:
    rows = arange(0, x.shape[-2])
    columns = arange(0, x.shape[-1])
    down = expand_dims(rows, (1,)) + offset
    hit = equal(down, expand_dims(columns, (0,)))
    positions = expand_dims(rows if offset >= 0 else rows + offset, (1,))
    last = dim(g, axis=-1) - 1
    positions = maximum(minimum_(positions, last), 0)
    spread = gather(g, squeeze(positions, (1,)), -1)
    return [where(hit, expand_dims(spread, (-1,)), 0.0)]


@diagonal.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bfloat16"):
        x = arange_of_shape(2, 3, 4, dtype=dtype, start=1)
        for offset in (0, 1, -1, 2):
            rows, columns = max(-offset, 0), max(offset, 0)
            length = min(3 - rows, 4 - columns)
            y = [[x[b, i + rows, i + columns].item() if dtype != "bfloat16"
                  else float(x[b, i + rows, i + columns]) for i in range(length)]
                 for b in range(2)]  # fmt: skip
            yield Sample((x,), array(y, dtype), {"offset": offset})
    yield Sample((np.zeros((0, 2, 2)),), np.zeros((0, 2)), smooth=False)


@composite
def diagonal_matrix(x: Array) -> Array:
    """Diagonal matrices with x on the diagonal"""
    length = x.shape[-1]
    row = arange(0, length)
    hit = equal(expand_dims(row, (1,)), row)
    wide = expand_dims(x, (-1,))
    return where(hit, wide, zeros_like(wide))


@diagonal_matrix.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bool"):
        x = array([[1, 2, 3], [4, 0, 6]], dtype)
        y = np.zeros((2, 3, 3), x.dtype)
        for b, i in np.ndindex(2, 3):
            y[b, i, i] = x[b, i]
        yield Sample((x,), y)
    pair = array([[5.0, 0.0], [0.0, 6.0]])
    yield Sample((array([5.0, 6.0]),), pair)
    x = array([[[5.0, 6.0], [10.0, 12.0]]])
    yield Sample((x,), np.array([[pair, 2 * pair]]))
    yield Sample((array([]),), np.zeros((0, 0)), smooth=False)


@composite
def trace(x: Floating, *, offset: int = 0) -> Floating:
    """Sum of the diagonal"""
    return sum_(diagonal(x, offset=offset), (-1,))


@trace.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = arange_of_shape(2, 3, 3, dtype=dtype, start=1)
        for offset in (0, 1, -2):
            y = [math.fsum(float(x[b, i, i + offset]) for i in range(3)
                           if 0 <= i + offset < 3) for b in range(2)]  # fmt: skip
            yield Sample((x,), array(y, dtype), {"offset": offset})
        yield Sample((x[0],), array(15.0, dtype))  # 1 + 5 + 9
    yield Sample((np.zeros((0, 2, 2)),), np.zeros(0), smooth=False)


@primitive(shape=lambda x: Shape(square_dims(x)))
def cholesky(x: Floating) -> Floating:
    """Cholesky factor: lower triangular L with L @ adjoint(L) = x, positive definite

    Only the lower triangle of x is read, and of its diagonal the real part."""
    np_ = xp(x)
    return call_lapack(lambda x: np_.linalg.cholesky(hermitian(np_, x)), x)


def hermitian(np_: Any, x: Any) -> Any:
    """Hermitian matrices of arrays, of which the lower triangle is given."""
    low = np_.tril(x, k=-1)
    line = np_.where(np_.eye(x.shape[-1], dtype=bool), np_.real(x), 0)
    return low + np_.conj(np_.swapaxes(low, -1, -2)) + line.astype(x.dtype)


def gradient_of_lower(g: Any) -> Any:
    """The gradient of the lower triangle that Hermitian matrices are read from, by
    the gradient of the matrices."""
    return _half_triangle(g + adjoint(g))


@cholesky.gradient
def _(g: Any, y: Any) -> Any:
    inner = _half_triangle(matmul(_transpose(y), tril(g)))
    left = triangular_solve(y, inner, transpose=True)
    right = triangular_solve(conjugate(y), _transpose(left), transpose=True)
    return [gradient_of_lower(_transpose(right))]


@cholesky.samples
def _() -> Samples:
    low = array([[2, 0, 0], [0.5, 1.5, 0], [-1, 0.25, 3]])
    for dtype in ("float64", "float32", "float16"):
        many = np.stack([low, low * 0.5 + np.eye(3)]).astype(dtype)
        x = matrix_product(many, np.swapaxes(many, -1, -2))
        tolerance = {"float32": 1e-5, "float16": 1e-2}.get(dtype)
        yield Sample((x,), many, tolerance=tolerance)
        yield Sample((x[0],), many[0], tolerance=tolerance)
    half = np.tril(matrix_product(low, low.T)) + np.triu(np.full((3, 3), 7.0), 1)
    yield Sample((half,), low)
    low = low + np.array([[0, 0, 0], [1, 0, 0], [-0.5, 2, 0]]) * 1j
    whole = matrix_product(low, low.conj().T)
    yield Sample((np.stack([whole, np.tril(whole)]),), np.stack([low, low]))
    single = whole.astype("complex64")
    yield Sample((single,), low.astype("complex64"), tolerance=1e-5)
    yield Sample((np.zeros((0, 2, 2)),), np.zeros((0, 2, 2)), smooth=False)


def _solve_shape(a: TensorType, b: TensorType) -> Shape:
    left = square_dims(a)
    batch, rows, columns = matrix_dims(b)
    shapes.expect_same(left[-1], rows, "the row counts of a and b differ")
    wide = shapes.broadcast(Shape(left[:-2]), Shape(batch))
    return Shape([*wide.dims, rows, columns])


@primitive(shape=lambda a, b: _solve_shape(a, b), numpy_only=True)
def triangular_solve(
    a: Floating, b: Floating, *, lower: bool = True, transpose: bool = False,
    unit: bool = False,
) -> Floating:  # fmt: skip
    """Solve a @ x = b for triangular a; `unit`: with a unit diagonal

    `transpose`: solve a.T @ x = b, without conjugates. The other triangle is not
    read."""
    from scipy.linalg import solve_triangular

    def run(a: Any, b: Any) -> Any:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = np.broadcast_to(a, batch + a.shape[-2:])
        b = np.broadcast_to(b, batch + b.shape[-2:])
        y = np.zeros_like(b)
        for at in np.ndindex(batch):
            if b[at].size:
                y[at] = solve_triangular(
                    a[at],
                    b[at],
                    trans=int(transpose),
                    lower=lower,
                    unit_diagonal=bool(unit),
                )  # fmt: skip
        return y

    return call_lapack(run, a, b)


@triangular_solve.broadcast_gradient
def _(
    g: Any, y: Any, a: Any, b: Any, *, lower: bool, transpose: bool, unit: bool
) -> Any:
    del b
    to_b = triangular_solve(a, g, lower=lower, transpose=not transpose, unit=unit)
    left, right = (y, to_b) if transpose else (to_b, y)
    to_a = -matmul(left, _transpose(right))
    part = tril if lower else triu
    edge = -1 if lower else 1
    return part(to_a, edge if unit else 0), to_b


@triangular_solve.samples
def _() -> Samples:
    full = matrices(3)
    for dtype in ("float64", "float32"):
        for lower in (True, False):
            for transpose in (False, True):
                for unit in (False, True):
                    a = full.astype(dtype)
                    side = np.tril(a) if lower else np.triu(a)
                    if unit:
                        for i in range(3):
                            side[..., i, i] = 1
                    used = np.swapaxes(side, -1, -2) if transpose else side
                    x = sample_matrix(2, 3, 2).astype(dtype)
                    attrs = {"lower": lower, "transpose": transpose, "unit": unit}
                    b = matrix_product(used, x)
                    tolerance = 1e-4 if dtype == "float32" else None
                    yield Sample((a, b), x, attrs, tolerance=tolerance)
    x = sample_matrix(2, 3, 1)
    yield Sample((full[0], matrix_product(np.tril(full[:1]), x)), x)
    sides = array([[[2, 0], [1, 1]], [[0.5, 0], [4, -4]]])  # a batch of matrices, one b
    requested = array([[[0.5], [1.0]], [[2.0], [1.625]]])
    yield Sample((sides, array([[1.0], [1.5]])), requested)
    empty = np.zeros((0, 3, 2))
    yield Sample((full[0], empty), empty, smooth=False)
    x = sample_matrix(2, 3, 2) * (1 - 0.5j)
    for dtype in ("complex128", "complex64"):
        tolerance = 1e-4 if dtype == "complex64" else None
        for transpose in (False, True):
            a = np.tril(complex_matrices(3)).astype(dtype)
            used = np.swapaxes(a, -1, -2) if transpose else a
            b = matrix_product(used, x.astype(dtype))
            attrs = {"transpose": transpose}
            yield Sample((a, b), x.astype(dtype), attrs, tolerance=tolerance)


@primitive(shape=lambda a, b: _solve_shape(a, b))
def solve(a: Floating, b: Floating) -> Floating:
    """Solve a @ x = b"""
    return call_lapack(xp(a, b).linalg.solve, a, b)


@solve.broadcast_gradient
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    del b
    to_b = solve(_transpose(a), g)
    return -matmul(to_b, _transpose(y)), to_b


@solve.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "float16"):
        a, x = matrices(3).astype(dtype), sample_matrix(2, 3, 2).astype(dtype)
        tolerance = {"float32": 1e-4, "float16": 5e-2}.get(dtype)
        b = matrix_product(a, x)
        yield Sample((a, b), x, tolerance=tolerance)
        yield Sample((a[0], b[0]), x[0], tolerance=tolerance)
    a, x = matrices(3)[:1], sample_matrix(2, 3, 1)
    yield Sample((a, matrix_product(a, x)), x)
    yield Sample((a[:0], x[:0]), x[:0], smooth=False)
    a, x = complex_matrices(3), sample_matrix(2, 3, 2) * (1 - 0.5j)
    yield Sample((a, matrix_product(a, x)), x)


@primitive(shape=lambda x: Shape(square_dims(x)))
def inverse(x: Floating) -> Floating:
    """Matrix inverse"""
    return call_lapack(xp(x).linalg.inv, x)


inverse.gradient(lambda g, y: [-matmul(_transpose(y), matmul(g, _transpose(y)))])


@inverse.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "float16"):
        x = matrices(3).astype(dtype)
        y = np.stack([solve_by_elimination(m, np.eye(3)) for m in x]).astype(dtype)
        tolerance = {"float32": 1e-4, "float16": 5e-2}.get(dtype)
        yield Sample((x,), y, tolerance=tolerance)
        yield Sample((x[1],), y[1], tolerance=tolerance)
    yield Sample((np.zeros((0, 2, 2)),), np.zeros((0, 2, 2)), smooth=False)
    x = complex_matrices(3)
    y = np.stack([solve_by_elimination(m, np.eye(3), complex) for m in x])
    yield Sample((x,), y)


def _batch_of_square(x: TensorType) -> Shape:
    return Shape(square_dims(x)[:-2])


@primitive(shape=_batch_of_square)
def det(x: Floating) -> Floating:
    """Determinant"""
    return call_lapack(xp(x).linalg.det, x)


@det.gradient
def _(g: Any, y: Any, x: Any) -> Any:
    # exact for invertible matrices
    return [expand_dims(g * y, (-2, -1)) * _transpose(inverse(x))]


@primitive(shape=lambda x: [_batch_of_square(x)] * 2)
def slogdet(x: Floating) -> tuple[Floating, RealOf]:
    """Sign of the determinant, and logarithm of its absolute value

    The sign of a complex determinant is a number of magnitude 1."""
    outputs: tuple[Any, Any] = call_lapack(lambda x: tuple(xp(x).linalg.slogdet(x)), x)
    return outputs


@slogdet.gradient
def _(g: Any, y: Any, x: Any) -> Any:
    to_sign, to_size = g
    if is_complex(x):
        turn = None if to_sign is None else imag(to_sign * y[0])
        turn = zeros_like(y[1]) if turn is None else turn
        to_size = complex_(zeros_like(turn) if to_size is None else to_size, turn)
    if to_size is None:
        return [zeros_like(x)]
    return [expand_dims(to_size, (-2, -1)) * _transpose(inverse(x))]


def _determinant_by_expansion(m: Any) -> Any:
    """Determinant by expansion along the first row."""
    if not len(m):
        return 1.0
    rest = [[*row[:i], *row[i + 1 :]] for i in range(len(m)) for row in m[1:]]
    count = len(m) - 1
    minors = [rest[i * count : (i + 1) * count] for i in range(len(m))]
    return sum(
        (-1) ** i * v * _determinant_by_expansion(n)
        for i, (v, n) in enumerate(zip(m[0], minors, strict=True))
    )


def _determinant_samples(apart: bool) -> Any:
    def make() -> Samples:
        for dtype in ("float64", "float32", "float16"):
            x = matrices(3).astype(dtype)
            y = [_determinant_by_expansion(m.tolist()) for m in x.astype("float64")]
            tolerance = {"float32": 1e-4, "float16": 2e-2}.get(dtype)
            parts: Any = array(y, dtype)
            if apart:
                parts = [array([math.copysign(1, v) for v in y], dtype),
                         array([math.log(abs(v)) for v in y], dtype)]  # fmt: skip
            yield Sample((x,), parts, tolerance=tolerance)
        x = complex_matrices(3)
        y = [_determinant_by_expansion(m.tolist()) for m in x]
        parts = np.array(y)
        if apart:
            parts = [parts / np.abs(parts), np.log(np.abs(parts))]
        yield Sample((x,), parts)
        empty = np.zeros((2, 0, 0))
        one, zero = np.ones(2), np.zeros(2)
        yield Sample((empty,), [one, zero] if apart else one, smooth=False)

    return make


det.samples(_determinant_samples(False))


slogdet.samples(_determinant_samples(True))


@composite
def matrix_power(x: Floating, *, power: int) -> Floating:
    """Integer power of square matrices; negative powers use the inverse"""
    if power < 0:
        x, power = inverse(x), -power
    result = None
    while power:
        if power & 1:
            result = x if result is None else matmul(result, x)
        power >>= 1
        if power:
            x = matmul(x, x)
    return identity_like(x) if result is None else result


@matrix_power.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = matrices(2).astype(dtype)
        for power in (0, 1, 3, 6, -2):
            side = (
                x
                if power >= 0
                else np.stack([solve_by_elimination(m, np.eye(2)) for m in x])
            )
            y = np.stack([np.eye(2)] * 2)
            for _ in range(abs(power)):
                y = matrix_product(y, side.astype("float64"))
            tolerance = 1e-3 if dtype == "float32" else 1e-8
            smooth = power > 0
            yield Sample((x,), y.astype(dtype), {"power": power}, tolerance, smooth)
    yield Sample((x[:0],), x[:0], {"power": 2}, smooth=False)
