"""Gradients of factorizations of matrices, against those of PyTorch's own autograd.

The losses do not change with the phases of vectors, nor with the order of eigenvalues:
these the hub fixes, and PyTorch leaves open.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amanda
from amanda.types import DType, TensorType
from amanda_std import grad, ops, trace

torch = pytest.importorskip("torch")
linalg = torch.linalg

_RNG = np.random.default_rng(5)
REAL = _RNG.normal(size=(2, 4, 4))
COMPLEX = _RNG.normal(size=(2, 4, 4)) + 1j * _RNG.normal(size=(2, 4, 4))
ROWS = np.linspace(0.5, 2, 4)[:, None]


def positive(x):
    return x @ x.conj().swapaxes(-1, -2) + np.eye(4)


def hub_sizes(x: Any) -> Any:
    """The sum of the fourth powers of the magnitudes, weighted by rows."""
    size = ops.square(ops.real(x)) if x.dtype.kind == "complex" else ops.square(x)
    if x.dtype.kind == "complex":
        size = size + ops.square(ops.imag(x))
    return ops.sum(ops.square(size) * ROWS)


def torch_sizes(x: Any) -> Any:
    return (x.abs() ** 4 * torch.tensor(ROWS)).sum()


def hub_sum(x: Any) -> Any:
    return ops.sum(ops.real(x) if x.dtype.kind == "complex" else x)


def torch_sum(x: Any) -> Any:
    return x.real.sum() if x.is_complex() else x.sum()


CASES = {
    "eig": (ops.eig, linalg.eig, [REAL, COMPLEX], "cubes sizes"),
    "eigvals": (lambda x: [ops.eigvals(x)], lambda x: [linalg.eigvals(x)],
                [REAL, COMPLEX], "cubes"),
    "eigh": (ops.eigh, linalg.eigh, [positive(REAL), positive(COMPLEX)],
             "cubes sizes"),
    "svd": (ops.svd, linalg.svd, [REAL, COMPLEX], "sizes cubes sizes"),
    "qr": (ops.qr, linalg.qr, [REAL, COMPLEX], "sizes sizes"),
    "cholesky": (lambda x: [ops.cholesky(x)], lambda x: [linalg.cholesky(x)],
                 [positive(REAL), positive(COMPLEX)], "cubes"),
    "slogdet": (ops.slogdet, linalg.slogdet, [REAL, COMPLEX], "cubes cubes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name, kind):
    hub, own, matrices, terms = CASES[name]
    x = matrices[kind]

    def loss(x: Any) -> Any:
        total = None
        for y, term in zip(hub(x), terms.split(), strict=True):
            part = hub_sizes(y) if term == "sizes" else hub_sum(y * y * y)
            total = part if total is None else total + part
        return total

    graph = trace(loss, [TensorType(DType.of(x), x.shape)])
    graph.result(grad(graph, graph.results[0], graph.parameters)[0])
    value, got = amanda.run(graph, [x], backend="numpy").values()
    leaf = torch.tensor(x, requires_grad=True)
    parts = zip(own(leaf), terms.split(), strict=True)
    total = sum(torch_sizes(y) if t == "sizes" else torch_sum(y**3) for y, t in parts)
    total.backward()
    np.testing.assert_allclose(value, total.item(), rtol=1e-9)
    # PyTorch's gradients are the conjugates of those of the hub
    wanted = leaf.grad.numpy().conj()
    if name in ("eigh", "cholesky"):  # of which the hub reads the lower triangle
        low = np.tril(wanted) + np.tril(wanted.conj().swapaxes(-1, -2), -1)
        wanted = np.where(np.eye(4, dtype=bool), low.real, low)
    np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8)
