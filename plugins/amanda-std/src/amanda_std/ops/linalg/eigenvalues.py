"""Eigenvalues and eigenvectors of general matrices (eig), in a fixed order.

LAPACK leaves the order of the eigenvalues open, and the phases of the vectors. Here
eigenvalues are in ascending order of their real parts, those of equal real parts by
their imaginary parts; vectors have length 1 and the phase that `factorizations` has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType, Shape, TensorType
from amanda_std.engine.annotations import ComplexOf, Floating
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.inference.element_types import complex_type
from amanda_std.ops._oracles.matrices import (
    matrices,
    matrix_product,
    normalize_signs,
    solve_by_elimination,
    unitary_matrix,
)
from amanda_std.ops.linalg.factorizations import (
    column_signs,
    reciprocal_gaps,
    without_turn,
)
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.linalg.matrices import (
    conjugate,
    diagonal_matrix,
    is_complex,
    solve,
    square_dims,
)
from amanda_std.ops.math.complex_numbers import complex_, real
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.shape import astype, swap_last


def _eig_shapes(x: TensorType) -> list[Shape]:
    whole = square_dims(x)
    return [Shape(whole[:-1]), Shape(whole)]


@primitive(shape=_eig_shapes)
def eig(x: Floating) -> tuple[ComplexOf, ComplexOf]:
    """Eigenvalues and eigenvectors (columns) of square matrices, as complex numbers

    In ascending order of the real parts, those of equal ones by the imaginary parts."""
    np_ = xp(x)
    values, vectors = (
        v.astype(complex_type(DType.of(x.dtype)).numpy)
        for v in np_.linalg.eig(_as_lapack_has(x))
    )
    order = _ascending(np_, values)
    vectors = np_.take_along_axis(vectors, order[..., None, :], axis=-1)
    signs = column_signs(np_, vectors)
    return np_.take_along_axis(values, order, axis=-1), vectors * signs[..., None, :]


def _as_lapack_has(x: Any) -> Any:
    return x.astype("float32") if x.dtype.itemsize <= 2 else x


def _ascending(np_: Any, values: Any) -> Any:
    return np_.lexsort((np_.imag(values), np_.real(values)), axis=-1)


@eig.gradient
def gradient_of_eig(g: Any, y: Any, x: Any) -> Any:
    """A change of x turns and stretches the vectors, which the normalization undoes."""
    values, vectors = y
    to_values, to_vectors = g
    inner = None if to_values is None else diagonal_matrix(to_values)
    if to_vectors is not None:
        stretch = real(sum_(to_vectors * vectors, (-2,), keepdims=True))
        stretch = conjugate(vectors) * complex_(stretch, zeros_like(stretch))
        rest = without_turn(to_vectors, vectors) - stretch
        part = reciprocal_gaps(values) * matmul(swap_last(vectors), rest)
        inner = part if inner is None else inner + part
    rows = swap_last(vectors)
    whole = solve(rows, matmul(inner, rows))
    return [whole if is_complex(x) else astype(real(whole), dtype=x.dtype)]


@primitive(shape=lambda x: Shape(square_dims(x)[:-1]))
def eigvals(x: Floating) -> ComplexOf:
    """Eigenvalues of square matrices, as complex numbers in the order of `eig`"""
    np_ = xp(x)
    values = np_.linalg.eigvals(_as_lapack_has(x))
    values = values.astype(complex_type(DType.of(x.dtype)).numpy)
    return np_.take_along_axis(values, _ascending(np_, values), axis=-1)


eigvals.decomposition(lambda x: eig(x)[0])
eigvals.gradient(lambda g, x: gradient_of_eig((g, None), eig(x), x))


def _known_matrices() -> list[tuple[Any, Any, Any]]:
    """Matrices with their eigenvalues and normalized eigenvectors."""
    made: list[tuple[Any, Any, Any]] = []
    basis = matrices(3)[0]
    turned = np.array([[1, 1, 0], [-1j, 1j, 0], [0, 0, 1]])  # of [[a, -b], [b, a]]
    for vectors, values in (
        (matrix_product(basis, turned), [0.5 + 2j, 0.5 - 2j, 1.25]),
        (basis + 0j, [-2.0, 0.25, 3]),
        (basis + 1j * unitary_matrix(), [1 - 1j, 1.5 + 2j, 2.5j]),
    ):
        numbers = np.array(values, complex)
        vectors = vectors / np.linalg.norm(vectors, axis=0)
        left = vectors * numbers
        x = solve_by_elimination(vectors.T, left.T, complex).T
        order = sorted(range(3), key=lambda i: (values[i].real, values[i].imag))
        x = x.real if len(made) < 2 else x
        made.append((x, numbers[order], normalize_signs(vectors)[0][:, order]))
    return made


@eig.samples
def _() -> Samples:
    known = _known_matrices()
    for x, *parts in known:
        yield Sample((x,), parts)
        single = x.astype("complex64" if np.iscomplexobj(x) else "float32")
        rounded = [v.astype("complex64") for v in parts]
        yield Sample((single,), rounded, tolerance=1e-4)
    many = [np.stack([a, b]) for a, b in zip(known[0], known[1], strict=True)]
    yield Sample((many[0],), many[1:])
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), [empty[..., 0] + 0j, empty + 0j], smooth=False)


@eigvals.samples
def _() -> Samples:
    known = _known_matrices()
    for x, values, _ in known:
        yield Sample((x,), values)
    x, values = (np.stack(pair) for pair in list(zip(*known[:2], strict=True))[:2])
    yield Sample((x,), values)
    half = array([[2, 0], [8, 1]], "float16")
    yield Sample((half,), np.array([1, 2], "complex64"))
    yield Sample((np.zeros((0, 2, 2)),), np.zeros((0, 2), complex), smooth=False)
