"""Profiles on PyTorch: each op once, with its sources and the right results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda_std import ops, trace

pytest.importorskip("torch", reason="needs PyTorch, which is the backend")

X = np.linspace(-1, 1, 3 * 32 * 32, dtype="float32").reshape(1, 3, 32, 32)
KERNEL = np.linspace(-0.5, 0.5, 32 * 3 * 9, dtype="float32").reshape(32, 3, 3, 3)


@pytest.fixture
def graph() -> Graph:
    """A convolution with a sum and a ReLU, which a call computes as one step."""
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[1, 3, 32, 32]", "x")
    y = ops.conv(x, KERNEL, padding=((1, 1), (1, 1)))
    y = ops.relu(ops.add(y, y))
    graph.result(ops.softmax(ops.mean(y, axes=(2, 3)), axes=(1,)), "y")
    for op in graph:
        op.name = None if op.is_constant else f"my {op.type}"
    return graph


def test_profile_of_a_graph(graph: Graph) -> None:
    compiled = amanda.compile(graph, "torch", profile=True)
    found = compiled.profile({"x": X})
    (result,) = found.results
    np.testing.assert_array_equal(result, compiled({"x": X})["y"])
    plain = amanda.compile(graph, "torch")({"x": X})["y"]
    np.testing.assert_allclose(result, plain, 1e-5, 1e-6)
    names = [each.label.name for each in found.ops]
    assert names == [f"my {op.type}" for op in graph if not op.is_constant]
    assert sorted(found.by_source()) == sorted(names)
    starts = [each.start for each in found.ops]
    assert starts == sorted(starts)
    assert found.seconds == pytest.approx(sum(found.by_source().values()))
    assert found.call > 0


def test_profile_needs_its_option(graph: Graph) -> None:
    with pytest.raises(BackendError, match="option `profile`"):
        amanda.compile(graph, "torch").profile({"x": X})


def test_variables_change_once() -> None:
    def step(x: object) -> object:
        total = ops.variable(np.float32(0), key="total")
        return ops.assign(total, ops.add(ops.read(total), x))

    graph = trace(step, [amanda.parse_type("float32[]")], names=["x"])
    compiled = amanda.compile(graph, "torch", profile=True)
    assert compiled.profile({"x": np.float32(2)}).results[0] == 2
    assert compiled({"x": np.float32(3)})[0] == 5


def test_trace_of_a_converted_model(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("amanda_onnx", reason="amanda-onnx is not installed")
    model, file = tmp_path / "model.onnx", tmp_path / "trace.json"
    amanda.save(amanda.convert(graph, "onnx@18"), model)
    sources = {op.name for op in amanda.load(model) if not op.is_constant}
    given = ["--backend", "torch", "--random", "1", "--profile", "--trace", str(file)]
    assert run_command_line(["run", str(model), *given, "--json"]) == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    written = json.loads(file.read_text())
    assert profile["sources"] == written["sources"]
    assert set(profile["sources"]) <= sources
    assert "my conv" in profile["sources"]
    head, *events = written["traceEvents"]
    assert (head["ph"], len(events)) == ("M", len(profile["steps"]))
    assert all(each["ph"] == "X" and each["dur"] > 0 for each in events)
    assert all({"name", "cat", "ts", "pid", "tid"} <= each.keys() for each in events)
