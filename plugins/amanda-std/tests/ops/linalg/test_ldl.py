"""LDL factorizations of random matrices: the definition, and the kernel of LAPACK."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import DType, TensorType
from amanda_std import ops, trace
from amanda_std.mappings import lower

KINDS = [("float64", False), ("complex128", False), ("complex128", True),
         ("float32", True)]  # fmt: skip


def random_matrices(seed, size, dtype, hermitian):
    """Symmetric or Hermitian matrices with small diagonals, whose pivots move."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, size, size))
    if dtype.startswith("c"):
        x = x + 1j * rng.normal(size=x.shape)
    x = x + (x.conj() if hermitian else x).swapaxes(-1, -2)
    scale = np.where(np.eye(size), 0.1, 1.0)
    return (x * scale).astype(dtype)


def without_ldl(op):
    return op.type != "ldl_factor"


@pytest.mark.parametrize(("dtype", "hermitian"), KINDS)
def test_the_definition_has_the_blocks_and_exchanges_of_lapack(dtype, hermitian):
    seen = set()
    for size in (1, 2, 5, 9):
        x = random_matrices(size, size, dtype, hermitian)
        graph = trace(
            lambda x: ops.ldl_factor(x, hermitian=hermitian),
            [TensorType(DType.of(x), x.shape)],
        )
        assert lower(graph, without_ldl) == []
        packed, pivots = amanda.run(graph, [x], backend="numpy").values()
        wanted, exchanges = ops.ldl_factor(x, hermitian=hermitian)
        assert (pivots == exchanges).all()
        tolerance = 2e-3 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(packed, wanted, rtol=tolerance, atol=tolerance)
        seen |= set(np.sign(exchanges).ravel().tolist())
    assert seen == {-1, 1}


@pytest.mark.parametrize(("dtype", "hermitian"), KINDS)
def test_solutions(dtype, hermitian):
    for size in (1, 2, 5, 9):
        a = random_matrices(size, size, dtype, hermitian)
        wanted = random_matrices(size + 1, size, dtype, hermitian)[..., :2]
        factors = ops.ldl_factor(a, hermitian=hermitian)
        found = ops.ldl_solve(*factors, a @ wanted, hermitian=hermitian)
        assert found.dtype == wanted.dtype
        tolerance = 5e-2 if dtype == "float32" else 1e-8
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_a_singular_matrix_has_factors():
    x = np.zeros((2, 3, 3))
    x[1, 2, 2] = 4.0
    packed, pivots = ops.ldl_factor(x)
    graph = trace(ops.ldl_factor, [TensorType("float64", [2, 3, 3])])
    lower(graph, without_ldl)
    found = list(amanda.run(graph, [x], backend="numpy").values())
    assert (found[0] == packed).all()
    assert found[1].tolist() == [[1, 2, 3]] * 2 == pivots.tolist()
