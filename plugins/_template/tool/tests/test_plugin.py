"""What every plug-in must do, and what the tool does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import amanda
from amanda.graph import Graph
from amanda.testing import PluginSuite, ToolSample, ToolSuite


class TestPlugin(PluginSuite):
    dist = "amanda-template"


def make_sample() -> ToolSample:
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[3]", "x")
    graph.result(graph.add("relu", [x], name="first").output, "y")
    return ToolSample(graph, [np.array([-3, 1, 2], "float32")])


class TestTool(ToolSuite):
    tool = "template"

    def samples(self) -> Mapping[str, Callable[[], ToolSample]]:
        return {"relu": make_sample}


def test_ranges_are_reported() -> None:
    sample = make_sample()
    tool = amanda.Host().get("tools", "template")
    instrumented = amanda.apply(sample.graph, tool())
    instrumented.run(sample.feeds, "numpy")
    instrumented.run([np.array([7, 0.5, 1], "float32")], "numpy")
    assert instrumented.report["smallest"] == {"first": 0.0}
    assert instrumented.report["largest"] == {"first": 7.0}
