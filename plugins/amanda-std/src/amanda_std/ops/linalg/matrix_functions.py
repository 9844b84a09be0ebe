"""Square root and logarithm of matrices, by their complex Schur form.

Björck and Hammarling, 1983, for the square root; inverse scaling and squaring for the
logarithm: Higham, Functions of Matrices, 11.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.types import DType, Shape
from amanda_std.engine.annotations import Floating
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples
from amanda_std.engine.traits import Trait
from amanda_std.inference.element_types import complex_type
from amanda_std.ops._late import late as ops
from amanda_std.ops._oracles.matrices import (
    complex_matrices,
    matrix_product,
    solve_by_elimination,
)
from amanda_std.ops.linalg.elimination import (
    column_of,
    identity_of,
    iterate,
    magnitude,
    numbers,
)
from amanda_std.ops.linalg.factorizations import machine_epsilon
from amanda_std.ops.linalg.matrices import (
    adjoint,
    is_complex,
    square_dims,
    triangular_solve,
)
from amanda_std.ops.linalg.qr_algorithm import schur_form

_NODES = 7
"""Of Gaussian quadrature, which is a Padé approximation of the logarithm here."""
_RADIUS = 0.25
"""The distance to the identity up to which its error is that of rounding."""
_ROOTS = 100
"""The most square roots until a matrix is as close to the identity."""


def _schur_of_arrays(x: Any) -> tuple[Any, Any]:
    from scipy.linalg import schur

    whole = x.astype(complex_type(DType.of(x.dtype)).numpy)
    triangle, basis = np.zeros_like(whole), np.zeros_like(whole)
    for at in np.ndindex(x.shape[:-2]):
        if x[at].size:
            triangle[at], basis[at] = schur(whole[at], output="complex")
    return triangle, basis


def _schur_of_values(x: Any) -> tuple[Any, Any]:
    whole = ops.astype(x, dtype=complex_type(x.dtype))
    found = schur_form(whole)
    return found.triangle, found.basis


def _function_of_matrix(
    function: Callable[[Any], Any], form: Callable[[Any], tuple[Any, Any]], x: Any
) -> Any:
    """A function of matrices, by that of triangular ones; NaN if it is not real."""
    triangle, basis = form(x)
    y = ops.matmul(ops.matmul(basis, function(triangle)), adjoint(basis))
    if is_complex(x):
        return y
    real, imag = ops.real(y), ops.abs(ops.imag(y))
    limit = ops.sum(magnitude(y), (-2, -1), keepdims=True)
    limit = limit * machine_epsilon(x.dtype) ** 0.5
    wrong = ops.sum(imag, (-2, -1), keepdims=True)
    found = ops.where(ops.greater(wrong, limit), float("nan"), real)
    return ops.astype(found, dtype=x.dtype)


def _sqrt_of_triangle(t: Any) -> Any:
    """One column after the other, each by the columns before."""
    places, one = numbers(t, -1), identity_of(t)
    roots = ops.sqrt(ops.sum(t * one, (-2,)))

    def step(j: Any, found: Any) -> Any:
        before = ops.less(places, j)
        rows, columns = (ops.expand_dims(before, (i,)) for i in (-1, -2))
        own = ops.expand_dims(column_of(roots, j), (-1, -2))
        sums = ops.where(ops.logical_and(rows, columns), found + one * own, one)
        zero = ops.logical_and(ops.equal(sums, 0.0), ops.equal(one, 1.0))
        column = ops.expand_dims(column_of(t, j), (-1,))
        right = ops.where(rows, column, ops.zeros_like(column))
        solved = triangular_solve(ops.where(zero, one, sums), right, lower=False)
        here = ops.logical_and(rows, ops.equal(places, j))
        return ops.where(here, solved, found)

    start = one * ops.expand_dims(roots, (-2,))
    return iterate(ops.dim(t, axis=-1), step, start)


def _log_of_triangle(t: Any) -> Any:
    """Of a root that is close to the identity, times the degree of the root."""
    one = identity_of(t)

    def distance(t: Any) -> Any:
        return ops.sum(magnitude(t - one), (-2, -1), keepdims=True)

    def goes_on(step: Any, t: Any, degree: Any) -> Any:
        del degree
        far = ops.astype(ops.greater(distance(t), _RADIUS), dtype="int64")
        return ops.logical_and(ops.greater(ops.sum(far), 0), ops.less(step, _ROOTS))

    def take_root(step: Any, t: Any, degree: Any) -> Any:
        far = ops.greater(distance(t), _RADIUS)
        root = ops.where(far, _sqrt_of_triangle(t), t)
        return step + 1, root, degree * ops.where(far, 2.0, ops.ones_like(degree))

    start = ops.ones_like(distance(t))
    count = ops.sum(numbers(t, -1)) * 0
    _, root, degree = ops.while_(goes_on, take_root, count, t, start)
    rest = root - one
    rule = zip(*np.polynomial.legendre.leggauss(_NODES), strict=True)
    terms = [
        triangular_solve(one + rest * float(node / 2 + 0.5), rest, lower=False)
        * float(weight / 2)
        for node, weight in rule
    ]
    total = sum(terms[1:], start=terms[0])
    singular = ops.sum(
        ops.astype(ops.equal(ops.sum(t * one, (-2,)), 0.0), dtype="int64"), (-1,)
    )
    missing = ops.greater(ops.expand_dims(singular, (-1, -2)), 0)
    factor = ops.astype(ops.where(missing, float("nan"), degree), dtype=t.dtype)
    return total * factor


def _same_shape(x: Any) -> Shape:
    return Shape(square_dims(x))


def _single(x: Any) -> Any:
    return x.astype("float32") if x.dtype.itemsize <= 2 else x


@primitive(shape=_same_shape, numpy_only=True)
def matrix_sqrt(x: Floating) -> Floating:
    """Principal square root of matrices; NaN where that of real ones is complex"""
    wide = _single(x)
    return _function_of_matrix(_sqrt_of_triangle, _schur_of_arrays, wide).astype(
        x.dtype
    )


@primitive(shape=_same_shape, numpy_only=True)
def matrix_log(x: Floating) -> Floating:
    """Principal logarithm of matrices; NaN where that of real ones is complex"""
    wide = _single(x)
    return _function_of_matrix(_log_of_triangle, _schur_of_arrays, wide).astype(x.dtype)


@matrix_sqrt.decomposition
def matrix_sqrt_by_schur_form(x: Any) -> Any:
    return _function_of_matrix(_sqrt_of_triangle, _schur_of_values, x)


@matrix_log.decomposition
def matrix_log_by_schur_form(x: Any) -> Any:
    return _function_of_matrix(_log_of_triangle, _schur_of_values, x)


matrix_sqrt.trait(Trait.COMPLEX_INSIDE)
matrix_log.trait(Trait.COMPLEX_INSIDE)
matrix_sqrt.not_differentiable("it is the solution of a Sylvester equation")
matrix_log.not_differentiable("it is that of the exponential of a block matrix")


def _squares() -> list[tuple[Any, Any]]:
    """Matrices with eigenvalues in the right half-plane, and their squares."""
    roots = [complex_matrices(3) + 4 * np.eye(3), np.array([[[1.0, 2], [0, 1]]]),
             np.array([[[2.0, 1], [-1, 2]]])]  # fmt: skip
    return [(matrix_product(y, y), y) for y in roots]


@matrix_sqrt.samples
def _() -> Samples:
    for x, y in _squares():
        yield Sample((x,), y, tolerance=1e-7, smooth=False)
        single = "complex64" if np.iscomplexobj(x) else "float32"
        yield Sample(
            (x.astype(single),), y.astype(single), tolerance=1e-3, smooth=False
        )
    turned = np.diag([-4.0, 1])
    yield Sample((turned,), turned * np.nan, smooth=False)
    yield Sample((turned + 0j,), np.diag([2j, 1]), smooth=False)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), empty, smooth=False)


@matrix_log.samples
def _() -> Samples:
    basis = complex_matrices(3)[0]
    values = np.array([0.5, -1 + 1j, 2.5j])
    back = solve_by_elimination(basis, np.eye(3), complex)
    x, y = (matrix_product(basis * v, back) for v in (np.exp(values), values))
    yield Sample((x,), y, tolerance=1e-8, smooth=False)
    single = x.astype("complex64")
    yield Sample((single,), y.astype("complex64"), tolerance=1e-3, smooth=False)
    jordan, wanted = np.array([[1.0, 2], [0, 1]]), np.array([[0.0, 2], [0, 0]])
    yield Sample((jordan,), wanted, tolerance=1e-7, smooth=False)
    turn = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    both = np.stack([turn, jordan])
    wanted = np.stack([np.array([[0.0, -1], [1, 0]]), wanted])
    yield Sample((both,), wanted, tolerance=1e-7, smooth=False)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), empty, smooth=False)
