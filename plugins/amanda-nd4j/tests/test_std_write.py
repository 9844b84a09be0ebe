"""Hub ops that nd4j has only as compositions: converted there and back, then run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.graph import Graph

OPS = Path(os.environ.get("AMANDA_TEST_DATA", ""), "dl4j/2025/nd4j-op-def.pbtxt")
pytestmark = pytest.mark.skipif(not OPS.is_file(), reason="no op descriptors of nd4j")


def run_through_nd4j(type, x, **attrs):
    graph = Graph("amanda/std/1")
    value = graph.parameter(f"float32[{', '.join(map(str, x.shape))}]", "x")
    graph.result(graph.add(type, [value], attrs).output, "y")
    there = amanda.convert(graph, "nd4j")
    assert type not in {op.type for op in there}
    return amanda.compile(there, backend="numpy")({"x": x})["y"]


@pytest.fixture(autouse=True)
def descriptors(monkeypatch):
    monkeypatch.setenv("AMANDA_ND4J_OPS", str(OPS))


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
def test_lower_triangles_equal_those_of_numpy(k):
    x = np.arange(1, 25, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(run_through_nd4j("tril", x, k=k), np.tril(x, k))


def test_truncated_numbers_equal_those_of_numpy():
    x = np.array([-2.5, -0.5, 0.0, 0.5, 2.0, 7.9, np.inf, -np.inf, np.nan], "float32")
    np.testing.assert_array_equal(run_through_nd4j("trunc", x), np.trunc(x))
