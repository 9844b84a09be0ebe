"""examples/twin.py, the readable twin: it is held against finite differences."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILE = Path(__file__).resolve().parent.parent / "examples" / "twin.py"
FEED = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])


@pytest.fixture(scope="module")
def twin() -> Any:
    spec = importlib.util.spec_from_file_location("twin", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def hub(twin: Any) -> Any:
    return twin.convert(twin.read(twin.MODEL), "std")


def expected(x: Any, w: Any, b: Any) -> Any:
    """The model of the twin, by numpy alone."""
    e = np.exp(np.maximum(x @ w + b, 0.0))
    return e / e.sum(axis=1, keepdims=True)


def weights(hub: Any) -> list[Any]:
    return [hub.ops[name].attrs["value"] for name in "wb"]


def test_it_is_short_and_imports_numpy_alone() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import)]
    assert [alias.name for node in nodes for alias in node.names] == ["numpy"]
    assert not any(isinstance(n, ast.ImportFrom) for n in ast.walk(ast.parse(text)))


def test_the_format_is_lossless(twin: Any) -> None:
    assert twin.write(twin.read(twin.MODEL)) == twin.MODEL.strip()


def test_it_maps_there_and_back(twin: Any, hub: Any) -> None:
    types = [op.type for op in hub if op.type not in twin.SOURCES]
    assert types == ["matmul", "add", "relu", "softmax"]
    assert twin.write(twin.convert(hub, "tiny")) == twin.MODEL.strip()


def test_it_computes(twin: Any, hub: Any) -> None:
    (y,) = twin.compile_numpy(hub)(x=FEED)
    np.testing.assert_allclose(y, expected(FEED, *weights(hub)), rtol=1e-12)


def test_one_definition_computes_infers_and_traces(twin: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert twin.softmax(twin.Shape((2, 3)), axes=[1]) == (2, 3)
    graph = twin.Graph("std")
    traced = twin.softmax(graph.parameter("x", (2, 3)), axes=[1])
    graph.results = [traced]
    assert (traced.type, traced.shape) == ("softmax", (2, 3))
    np.testing.assert_allclose(
        twin.compile_numpy(graph)(x=x)[0], twin.softmax(x, axes=[1])
    )


def test_gradients_are_those_of_finite_differences(twin: Any, hub: Any) -> None:
    """Of sum(y * y), as the sum of a softmax is constant."""
    y = hub.results[0]
    hub.results = [twin.multiply(y, y)]
    found = twin.compile_numpy(twin.grad(hub, ["x", "w", "b"]))(x=FEED)
    values = [FEED, *weights(hub)]
    for place, gradient in enumerate(found):
        for index in np.ndindex(*gradient.shape):
            sums = []
            for step in (1e-6, -1e-6):
                moved = [np.array(value) for value in values]
                moved[place][index] += step
                sums.append((expected(*moved) ** 2).sum())
            slope = (sums[0] - sums[1]) / 2e-6
            assert gradient[index] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_gaps_are_reported_together(twin: Any) -> None:
    graph = twin.read("input x 2\na = Sin x\nb = Cos a\noutput b")
    with pytest.raises(ValueError, match=r"no rule for Sin(?s:.)*no rule for Cos"):
        twin.convert(graph, "std")


def test_a_lens_declines_with_the_reason(twin: Any) -> None:
    graph = twin.Graph("std")
    graph.results = [twin.softmax(graph.parameter("x", (2, 3)), axes=[0, 1])]
    with pytest.raises(ValueError, match=r"one axis expected, got \[0, 1\]"):
        twin.convert(graph, "tiny")


def test_a_pattern_leaves_what_others_need(twin: Any, hub: Any) -> None:
    """matmul has another user, so that matmul and add are not one Dense."""
    product = hub.ops["h"].inputs[0]
    hub.results.append(twin.relu(product))
    types = [op.type for op in twin.convert(hub, "tiny")]
    assert "Dense" not in types
    assert types.count("MatMul") == types.count("Add") == 1


def test_what_a_target_does_not_support_is_named(twin: Any, hub: Any) -> None:
    kernels = {name: k for name, k in twin.KERNELS.items() if name != "exp"}
    with pytest.raises(ValueError, match=r"exp\(.*a primitive that the target does"):
        twin.lower(hub, kernels)


def test_mistakes_leave_the_graph_unchanged(twin: Any, hub: Any) -> None:
    other = twin.Graph("std").parameter("x", (2, 3))
    before = list(hub)
    for name, inputs in ("x", []), ("fresh", [other]):
        with pytest.raises(ValueError, match="exists already, or has inputs of anoth"):
            hub.add("relu", inputs, name=name)
    assert list(hub) == before


def test_feeds_are_checked(twin: Any, hub: Any) -> None:
    with pytest.raises(ValueError, match=r"expected feeds of shapes .*\(2, 3\)"):
        twin.compile_numpy(hub)(x=FEED[:1])
