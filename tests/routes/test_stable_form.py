"""A hub graph computes the same stable forms on every backend."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import grad, ops, trace

PACKAGES = {"numpy": "numpy", "jax": "amanda_jax", "onnxruntime": "amanda_onnxruntime"}
LOGITS = np.float32([1000.0, 0.0, -1000.0])
TARGET = np.float32([0.0, 0.25, 0.75])


@pytest.fixture(params=PACKAGES)
def backend(request):
    if importlib.util.find_spec(PACKAGES[request.param]) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def cross_entropy(x, t):
    powers = ops.exp(x)
    shares = powers / ops.sum(powers, (0,), keepdims=True)
    return ops.negative(ops.sum(t * ops.log(shares))), shares


def noted(x, t):
    powers = ops.exp(x * 1.0 + 0.0)
    shares = powers / ops.einsum(powers, equation="i->")
    shares = ops.schema_note(shares, x, schema="softmax", attrs={"axes": (0,)})
    return ops.negative(ops.sum(t * ops.log(shares))), shares


@pytest.mark.parametrize("function", [cross_entropy, noted])
def test_a_written_out_cross_entropy(function, backend):
    graph = trace(function, [parse_type("float32[3]")] * 2)
    for _ in range(2):  # compiled as it is, then after `grad`
        got = list(amanda.run(graph, [LOGITS, TARGET], backend=backend).values())
        assert got[0] == 0.25 * 1000 + 0.75 * 2000
        assert got[1].tolist() == [1.0, 0.0, 0.0]
        for each in got[2:]:
            np.testing.assert_allclose(each, [1.0, -0.25, -0.75], atol=1e-6)
        graph.result(grad(graph, graph.results[0], graph.parameters[:1])[0])
