"""The definition of eig by the QR algorithm, against LAPACK."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import DType, TensorType
from amanda_std import ops, trace
from amanda_std.mappings import infer, lower
from amanda_std.passes import complex_as_pairs

RNG = np.random.default_rng(11)


def normal(*shape):
    return RNG.normal(size=shape)


CASES = {
    "real": normal(3, 6, 6),
    "complex": normal(2, 5, 5) + 1j * normal(2, 5, 5),
    "large": normal(20, 20) * 1e150,
    "permutation": np.roll(np.eye(5), 1, axis=0),
    "single": normal(6, 6).astype("float32"),
    "triangular": np.triu(normal(4, 4)),
    "one element": normal(2, 1, 1),
    "diagonal": np.diag([3.0, 1, 1, -2]),
    "sizes between": np.stack([np.eye(4) * 1e-8, np.diag([1e-6, 1, 2, 3.0]) + 0.1]),
    "zero": np.zeros((3, 3)),
}


def by_definition(x):
    graph = trace(ops.eig, [TensorType(DType.of(x), x.shape)])
    assert lower(graph, lambda op: op.type != "eig") == []
    return list(amanda.run(graph, [x], backend="numpy").values())


@pytest.mark.parametrize("name", CASES)
def test_values_and_vectors(name):
    x = CASES[name]
    values, vectors = by_definition(x)
    limit = 1e-4 if x.dtype == "float32" else 1e-11
    scale = max(np.abs(x).max(), np.finfo(x.dtype).tiny)
    residual = x @ vectors - vectors * values[..., None, :]
    assert np.abs(residual).max() <= limit * scale
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), 1, rtol=limit)
    wanted = ops.eigvals(x)
    np.testing.assert_allclose(values / scale, wanted / scale, rtol=limit, atol=limit)


def test_eigenvalues_of_a_matrix_without_a_basis_of_eigenvectors():
    """Of a Jordan block, whose eigenvalues depend on the square root of an error."""
    values, vectors = by_definition(np.array([[2.0, 1.0], [0.0, 2.0]]))
    np.testing.assert_allclose(values, [2, 2], rtol=1e-7)
    np.testing.assert_allclose(np.abs(vectors), [[1, 1], [0, 0]], atol=1e-7)


def test_of_parts():
    """With real numbers only."""
    x = CASES["complex"]
    graph = trace(ops.eig, [TensorType("complex128", x.shape)])
    infer(graph)
    complex_as_pairs(graph)
    infer(graph)
    feed = np.stack([x.real, x.imag], -1)
    found = amanda.run(graph, [feed], backend="numpy").values()
    for got, wanted in zip(found, ops.eig(x), strict=True):
        pairs = np.stack([wanted.real, wanted.imag], -1)
        np.testing.assert_allclose(got, pairs, rtol=1e-10, atol=1e-10)
