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
    value = graph.parameter(f"{x.dtype}[{', '.join(map(str, x.shape))}]", "x")
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


def test_binary_logarithms_equal_those_of_numpy():
    x = np.array([0.25, 1, 8, 10, np.inf, 0], "float32")
    with np.errstate(divide="ignore"):
        wanted = np.log2(x)
    np.testing.assert_allclose(run_through_nd4j("log2", x), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_coordinates_that_are_not_zero_equal_those_of_numpy(dtype):
    x = np.array([[0, 3, 0], [1, 0, 2]], dtype)
    found = run_through_nd4j("nonzero", x)
    np.testing.assert_array_equal(found, np.stack(np.nonzero(x)))
    assert found.dtype == np.int64


@pytest.mark.parametrize("sizes", [(3,), (2, 4)])
def test_identity_matrices_equal_those_of_numpy(sizes):
    graph = Graph("amanda/std/1")
    given = [graph.constant(np.int64(size)).output for size in sizes]
    graph.result(graph.add("eye", given, {"dtype": "float32"}).output, "y")
    there = amanda.convert(graph, "nd4j")
    assert "eye" in {op.type for op in there}
    found = amanda.compile(there, backend="numpy")({})["y"]
    np.testing.assert_array_equal(found, np.eye(*sizes))
