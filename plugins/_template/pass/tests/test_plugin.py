"""What every plug-in must do, and what the pass does."""

from __future__ import annotations

import amanda
from amanda.graph import Graph
from amanda.testing import PluginSuite


class TestPlugin(PluginSuite):
    dist = "amanda-template"


def make_negation(times: int) -> Graph:
    graph = Graph("amanda/std/1")
    value = graph.parameter(name="x")
    for _ in range(times):
        value = graph.add("negative", [value]).output
    graph.result(value, "y")
    return graph


def test_two_negations_cancel() -> None:
    graph = make_negation(2)
    report = amanda.improve(graph, "template")
    assert report.changes == {"template": 1}
    assert graph.results == (graph.parameters[0],)


def test_one_of_three_is_left() -> None:
    graph = make_negation(3)
    amanda.improve(graph, "template")
    [result] = graph.results
    assert result is not None
    assert result.op.inputs == (graph.parameters[0],)


def test_nothing_to_do() -> None:
    assert not amanda.improve(make_negation(1), "template")
