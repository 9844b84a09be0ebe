"""Square roots and logarithms of matrices: kernels and definitions, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import amanda
from amanda.types import DType, TensorType
from amanda_std import ops, trace
from amanda_std.mappings import infer, lower
from amanda_std.passes import complex_as_pairs

RNG = np.random.default_rng(2)
REAL = RNG.normal(size=(2, 5, 5)) + 4 * np.eye(5)
WHOLE = RNG.normal(size=(2, 4, 4)) + 1j * RNG.normal(size=(2, 4, 4))
JORDAN = np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]])
FUNCTIONS = {"matrix_sqrt": scipy.linalg.sqrtm, "matrix_log": scipy.linalg.logm}


def by_definition(name, x, *, pairs):
    graph = trace(getattr(ops, name), [TensorType(DType.of(x), x.shape)])
    if not pairs:
        assert lower(graph, lambda op: op.type != name) == []
        return next(iter(amanda.run(graph, [x], backend="numpy").values()))
    infer(graph)
    assert complex_as_pairs(graph)
    infer(graph)
    kinds = {port.type.dtype.kind for op in graph for port in op.outputs}
    assert "complex" not in kinds
    is_complex = np.iscomplexobj(x)
    feed = np.stack([x.real, x.imag], -1) if is_complex else x
    y = next(iter(amanda.run(graph, [feed], backend="numpy").values()))
    return y[..., 0] + 1j * y[..., 1] if is_complex else y


@pytest.mark.parametrize("x", [REAL, WHOLE, JORDAN], ids=["real", "complex", "jordan"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_matrices(name, x):
    many = x.reshape(-1, *x.shape[-2:])
    wanted = np.stack([FUNCTIONS[name](m) for m in many]).reshape(x.shape)
    found = [
        getattr(ops, name)(x),
        by_definition(name, x, pairs=False),
        by_definition(name, x, pairs=True),
    ]
    for y in found:
        assert y.dtype == x.dtype
        np.testing.assert_allclose(y, wanted, rtol=1e-8, atol=1e-8)


def test_what_no_real_matrix_is():
    negative = np.diag([-1.0, 2.0])
    assert np.isnan(ops.matrix_sqrt(negative)).all()
    assert np.isnan(ops.matrix_log(negative)).all()
    assert np.isnan(ops.matrix_log(np.diag([0.0, 1.0]))).all()
    np.testing.assert_allclose(ops.matrix_sqrt(np.diag([0.0, 4.0])), np.diag([0, 2.0]))
