"""Profiles on XLA: each op as a program of its own."""

from __future__ import annotations

import numpy as np

import amanda
from amanda_std import ops


def test_ops_are_timed_alone() -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[8, 8]", "x")
    graph.result(ops.exp(ops.tanh(ops.matmul(x, x))), "y")
    compiled = amanda.compile(graph, "jax", profile=True)
    feeds = {"x": np.eye(8, dtype="float32")}
    found = compiled.profile(feeds)
    assert [each.label.type for each in found.ops] == ["matmul", "tanh", "exp"]
    assert all(each.seconds > 0 for each in found.ops)
    wanted = np.exp(np.tanh(np.eye(8)))
    np.testing.assert_allclose(found.results[0], wanted, rtol=1e-6)
    np.testing.assert_array_equal(compiled(feeds)["y"], found.results[0])
