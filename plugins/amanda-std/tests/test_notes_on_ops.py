"""Free notes, attributes named `x-...`, on ops of the hub."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph


def graph_with(key: str) -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    y = graph.add("softmax", [x], {"axes": (1,), key: "layer 3"}).output
    graph.result(graph.add("negative", [y], {key: [1, 2]}).output, "y")
    return graph


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_backends_and_passes_ignore_notes(backend: str) -> None:
    if backend == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    x = np.float32([[1, 2, 3], [0, 0, 0]])
    graph = graph_with("x-origin")
    amanda.improve(graph, "infer", "simplify", "share", "fold")
    found = amanda.run(graph, [x], backend=backend)["y"]
    e = np.exp(x.astype("float64"))
    np.testing.assert_allclose(found, -e / e.sum(1, keepdims=True), rtol=1e-5)


def test_other_attributes_are_refused() -> None:
    with pytest.raises(AmandaError, match="no attribute 'origin'"):
        amanda.run(graph_with("origin"), [np.ones((2, 3), "f")], backend="numpy")
