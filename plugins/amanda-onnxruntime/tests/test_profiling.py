"""Profiles of sessions: nodes with the ops of the source graph."""

from __future__ import annotations

import numpy as np

import amanda


def test_nodes_are_those_of_the_graph() -> None:
    graph = amanda.Graph("amanda/onnx/18")
    x = graph.parameter(amanda.parse_type("float32[8, 8]"), "x")
    scores = graph.add("MatMul", [x, x], name="scores").output
    graph.result(graph.add("Softmax", [scores], name="weights").output, "y")
    compiled = amanda.compile(graph, "onnxruntime", profile=True)
    feeds = {"x": np.eye(8, dtype="float32")}
    found = compiled.profile(feeds)
    assert [each.label[:3] for each in found.ops] == [
        ("scores", "MatMul", ("scores",)), ("weights", "Softmax", ("weights",)),
    ]  # fmt: skip
    np.testing.assert_allclose(found.results[0].sum(-1), 1, rtol=1e-6)
    assert all(each.start >= 0 for each in found.ops)
    assert sorted(found.by_source()) == ["scores", "weights"]
