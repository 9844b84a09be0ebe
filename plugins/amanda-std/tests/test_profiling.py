"""Profiles on numpy: each op once, with its sources, memory and the right results."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda_std import ops, trace


@pytest.fixture
def graph() -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[64, 64]", "x")
    graph.result(ops.softmax(ops.tanh(x) @ np.ones((64, 64), "float32")), "y")
    next(iter(graph)).name = "squash"
    return graph


def test_profile_of_a_graph(graph: Graph) -> None:
    x = np.linspace(-1, 1, 64 * 64, dtype="float32").reshape(64, 64)
    compiled = amanda.compile(graph, "numpy", profile=True)
    found = compiled.profile({"x": x})
    np.testing.assert_array_equal(found.results[0], compiled({"x": x})["y"])
    labels = [each.label for each in found.ops]
    assert [label.type for label in labels[:2]] == ["tanh", "matmul"]
    assert (labels[0].name, labels[0].sources) == ("squash", ("squash",))
    assert (
        len(labels)
        == len({label.name for label in labels})
        == len(compiled.executable.program.steps)
    )
    starts = [each.start for each in found.ops]
    assert starts == sorted(starts)
    assert found.seconds == pytest.approx(sum(found.by_source().values()))
    size = x.nbytes
    assert all(size <= each.memory < 2 * size for each in found.ops[:1])


def test_profile_needs_its_option(graph: Graph) -> None:
    feeds = {"x": np.zeros((64, 64), "float32")}
    with pytest.raises(amanda.errors.BackendError, match="option `profile`"):
        amanda.compile(graph, "numpy").profile(feeds)


def test_variables_change_once() -> None:
    def step(x: object) -> object:
        total = ops.variable(np.float32(0), key="total")
        return ops.assign(total, ops.add(ops.read(total), x))

    graph = trace(step, [amanda.parse_type("float32[]")], names=["x"])
    compiled = amanda.compile(graph, "numpy", profile=True)
    assert compiled.profile({"x": np.float32(2)}).results[0] == 2
    assert compiled({"x": np.float32(3)})[0] == 5


def test_errors_name_what_times_no_ops(graph: Graph) -> None:
    class Plain:
        name, namespace = "plain", "amanda/std/1"

        def devices(self) -> list[str]:
            return ["cpu"]

        def takes(self, op: object) -> bool:
            return True

        def compile(self, graph: object, device: object, options: object) -> object:
            return lambda feeds, out=None: [np.zeros(1)]

    host = amanda.Host()
    host.register_backend("plain", Plain())
    with pytest.raises(UsageError, match="measures no ops"):
        amanda.compile(graph, "plain", host=host).profile(
            {"x": np.zeros((64, 64), "float32")}
        )
