"""Flexible attention against PyTorch, with the same function as a mask."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import grad, ops, trace

RNG = np.random.default_rng(3)
Q, K, V = (RNG.normal(size=(2, 3, n, 8)).astype("float32") for n in (6, 9, 9))


def relative(score, b, h, i, j):
    far = ops.astype(ops.abs(i - j) * (h + 1) + b, dtype="float32")
    return ops.where(j <= i + 2, score - far * 0.125, -np.inf)


def test_matches_torch_with_gradients():
    torch = pytest.importorskip("torch")

    def score(s, b, h, i, j):
        far = ((i - j).abs() * (h + 1) + b) * 0.125
        return torch.where(j <= i + 2, s - far, -float("inf"))

    given = [torch.from_numpy(x) for x in (Q, K, V)]
    b, h, i, j = torch.meshgrid(*map(torch.arange, (2, 3, 6, 9)), indexing="ij")
    leaves = [x.clone().requires_grad_() for x in given]
    more = score(torch.zeros(2, 3, 6, 9), b, h, i, j)
    known = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=more)
    known.square().sum().backward()

    def function(q, k, v):
        y = ops.flex_attention(q, k, v, relative)
        return {"loss": ops.sum(y * y), "y": y}

    types = [parse_type(f"float32[b, h, {n}, 8]") for n in "ijj"]
    graph = trace(function, types)
    assert str(graph.results[1].type) == "float32[b, h, i, 8]"
    for slope in grad(graph, graph.results[0], list(graph.parameters)):
        graph.result(slope)
    _, y, *slopes = amanda.run(graph, [Q, K, V], backend="numpy").values()
    np.testing.assert_allclose(y, known.detach().numpy(), rtol=1e-5, atol=1e-6)
    for slope, leaf in zip(slopes, leaves, strict=True):
        np.testing.assert_allclose(slope, leaf.grad.numpy(), rtol=2e-4, atol=1e-5)


def test_fully_masked_queries_get_zeros():
    made = ops.flex_attention(Q, K, V, lambda s, *_: ops.where(s == s, -np.inf, s))
    np.testing.assert_array_equal(made, np.zeros_like(Q))
