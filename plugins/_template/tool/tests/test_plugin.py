"""What every plug-in must do, and what the tool does."""

from __future__ import annotations

import amanda
from amanda.graph import Graph
from amanda.testing import PluginSuite


class TestPlugin(PluginSuite):
    dist = "amanda-template"


def test_values_become_results() -> None:
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(name="x")
    first = graph.add("Relu", [x], name="first").output
    graph.result(graph.add("Neg", [first]).output, "y")
    watch = amanda.Host().get("tools", "template")
    assert watch(graph, "Relu") == ["first:0"]
    assert [port.name for port in graph.outputs] == ["y", "first:0"]
    assert watch(graph, "Relu") == ["first:0_"]
    assert graph.check() == []
