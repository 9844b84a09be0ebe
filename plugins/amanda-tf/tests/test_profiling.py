"""Profiles on TensorFlow: the ops that ran, with their sources, and a trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda_std import ops

pytest.importorskip("tensorflow", reason="needs TensorFlow, which is the backend")

X = np.linspace(-1, 1, 64 * 64, dtype="float32").reshape(64, 64)
WEIGHT = np.linspace(-0.1, 0.1, 64 * 64, dtype="float32").reshape(64, 64)


def network() -> Graph:
    """A product, and a conditional with an op that has the name of one around it."""
    graph = Graph("amanda/std/1", "network")
    x, flag = graph.parameter("float32[64, 64]", "x"), graph.parameter("bool[]", "flag")
    squashed = ops.tanh(x).port
    squashed.op.name = "squash"
    product = ops.matmul(squashed, WEIGHT).port
    product.op.name = "product"
    bodies = {}
    for key, kind in (("then", "exp"), ("otherwise", "sin")):
        bodies[key] = Graph(outer=graph)
        inner = bodies[key].add(
            kind, [product], name="squash" if key == "then" else key
        )
        inner.output.type = product.type
        bodies[key].result(inner.output)
    choice = graph.add("if", [flag], bodies=bodies, name="choice")
    choice.output.type = product.type
    graph.result(choice.output, "y")
    return graph


FEEDS = {"x": X, "flag": np.array(True)}


def test_profile_of_a_graph() -> None:
    compiled = amanda.compile(network(), "tensorflow", profile=True)
    found = compiled.profile(FEEDS)
    np.testing.assert_array_equal(found.results[0], compiled(FEEDS)["y"])
    np.testing.assert_allclose(found.results[0], np.exp(np.tanh(X) @ WEIGHT), 1e-4)
    rows = {each.label.name: each for each in found.ops}
    assert list(rows) == ["squash", "product", "choice"]
    assert "Tanh" in rows["squash"].label.type  # not Exp, which the branch has
    assert rows["squash"].label.sources == ("squash",)
    assert sorted(found.by_source()) == ["choice", "product", "squash"]
    starts = [each.start for each in found.ops]
    assert starts == sorted(starts)
    assert rows["product"].memory == X.nbytes


def test_nodes_that_are_fused_have_all_sources() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[64, 64]", "x")
    y = ops.add(ops.matmul(x, WEIGHT), WEIGHT[0])
    graph.result(ops.relu(y), "y")
    for op in graph:
        op.name = None if op.is_constant else f"my_{op.type}"
    found = amanda.compile(graph, "tensorflow", profile=True).profile({"x": X})
    assert sorted(found.by_source()) == ["my_add", "my_matmul", "my_relu"]
    np.testing.assert_allclose(
        found.results[0], np.maximum(X @ WEIGHT + WEIGHT[0], 0), 1e-4, 1e-5
    )


def test_a_graph_with_variables_is_not_timed(tmp_path: Path) -> None:
    """The error says what to do instead."""
    import tensorflow as tf

    class Counter(tf.Module):
        def __init__(self) -> None:
            self.total = tf.Variable(2.0)

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="x")])
        def __call__(self, x):
            return {"y": x * self.total}

    tf.saved_model.save(Counter(), str(tmp_path / "saved"))
    graph = amanda.load(tmp_path / "saved")
    compiled = amanda.compile(graph, "tensorflow", profile=True)
    feeds = {key: np.float32(3) for key in ("x",)}
    with pytest.raises(
        BackendError, match="variables or tables are not timed"
    ) as error:
        compiled.profile(feeds)
    assert "variables=freeze" in str(error.value)


def test_unknown_options() -> None:
    with pytest.raises(BackendError, match="no option 'profiles'"):
        amanda.compile(network(), "tensorflow", profiles=True)


def test_trace_of_a_converted_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = tmp_path / "model.amanda", tmp_path / "trace.json"
    amanda.save(network(), model)
    given = ["--backend", "tensorflow", "--random", "1", "--trace", str(file)]
    assert run_command_line(["run", str(model), *given, "--profile", "--json"]) == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    written = json.loads(file.read_text())
    assert profile["sources"] == written["sources"]
    assert sorted(profile["sources"]) == ["choice", "product", "squash"]
    head, *events = written["traceEvents"]
    assert (head["ph"], len(events)) == ("M", len(profile["steps"]))
    assert all(each["ph"] == "X" and each["dur"] > 0 for each in events)
    assert all({"name", "cat", "ts", "pid", "tid"} <= each.keys() for each in events)
