"""Results without a value, in frameworks that have none."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.graph import Graph

X = np.array([1, -2], "float32")


@pytest.fixture
def graph() -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[2]", "x")
    graph.result(None, "missing")
    graph.result(graph.add("negative", [x]).output, "y")
    graph.result(None)
    return graph


@pytest.mark.parametrize("target", ["amanda/onnx/22", "amanda/tensorflow/2.21.0"])
def test_they_are_dropped_and_named(graph: Graph, target: str) -> None:
    reports: list[amanda.mapping.Report] = []
    found = amanda.convert(graph, target, reports=reports)
    assert [port.name for port in found.outputs] == ["y"]
    assert [loss for report in reports for loss in report.losses] == [
        "the result missing, which has no value",
        "the result 2, which has no value",
    ]
    assert len(graph.results) == 3


def test_backends_compute_the_others(graph: Graph) -> None:
    pytest.importorskip("onnxruntime")
    for backend in ("numpy", "onnxruntime"):
        np.testing.assert_array_equal(
            amanda.run(graph, {"x": X}, backend=backend)["y"], -X
        )
        session = amanda.Session(graph, backend)
        np.testing.assert_array_equal(session.run(["y"], {"x": X})["y"], -X)
