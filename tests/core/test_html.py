"""What a notebook shows of graphs, ops, tensors, reports and compiled graphs."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.backend import Compiled
from amanda.graph import Graph
from amanda.html_tables import html_table
from amanda.mapping import Gap, Report
from amanda.tensors import Tensor

HOSTILE = "</td><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;"


class Elements(HTMLParser):
    """The tags, attributes and texts that a browser sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.open.append(tag)
        self.attributes += [key for key, _ in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def html_of(shown: Any) -> Elements:
    """The elements of an object in a notebook, of which only tables are allowed."""
    found = Elements(shown._repr_html_())
    assert set(found.tags) <= {"div", "b", "table", "tr", "th", "td", "p"}
    assert found.attributes == []
    return found


def small(name: str = "g") -> Graph:
    graph = Graph("amanda/onnx/18", name=name)
    x = graph.parameter("float32[2]", "x")
    y = graph.add("Relu", [x], {"alpha": 0.5, "note": name}, name=name).output
    y.type = "float32[2]"
    graph.result(y, "y")
    return graph


def test_a_graph_shows_its_ports_and_types_of_ops() -> None:
    texts = html_of(small()).texts
    assert texts == [
        *("graph 'g'", "namespace", "amanda/onnx/18", "ops", "1"),
        *("input", "type", "x", "float32[2]", "result", "type", "y", "float32[2]"),
        *("op", "count", "Relu", "1"),
    ]


def test_an_op_shows_its_ports_and_attributes() -> None:
    texts = html_of(small().ops["g"]).texts
    assert texts[:3] == ["Relu 'g'", "type", "Relu"]
    assert texts[5:] == [
        *("input", "from", "type", "0", "g:x", "float32[2]"),
        *("output", "type", "0", "float32[2]"),
        *("attribute", "value", "alpha", "0.5", "note", "'g'"),
    ]


def test_a_tensor_shows_few_elements() -> None:
    assert "[1.0, 2.0]" in html_of(Tensor.of(np.array([1, 2], "float32"))).texts
    assert "elements" not in html_of(Tensor.of(np.zeros(17))).texts

    def fail() -> Any:
        raise AssertionError("a lazy tensor was computed")

    assert "elements" not in html_of(Tensor.lazy(fail, "float32", [2])).texts


def test_a_report_shows_gaps_and_rules() -> None:
    report = Report("a/1", "b/1", Counter({"nn.rules:3": 2}))
    report.gaps = (Gap("Foo", "op 'a'", ("no rule",)),)
    texts = html_of(report).texts
    assert texts[0] == "a/1 -> b/1: 2 mapped, 1 without a mapping"
    assert texts[-4:] == ["rule", "ops", "nn.rules:3", "2"]
    assert [*texts[4:7]] == ["Foo", "op 'a'", "no rule"]


def test_a_compiled_graph_shows_its_ports() -> None:
    compiled = Compiled(
        small(), lambda feeds, out=None: [], backend="mine", device="cpu"
    )
    texts = html_of(compiled).texts
    assert texts[:5] == ["compiled graph", "backend", "mine", "device", "cpu"]
    assert texts[5:] == [
        *("input", "type", "x", "float32[2]", "result", "type", "y", "float32[2]")
    ]


def test_names_are_text() -> None:
    graph = small(HOSTILE)
    graph.parameters[0].name = HOSTILE
    for shown in (graph, graph.ops[HOSTILE]):
        assert any("<script>" in text for text in html_of(shown).texts)
    report = Report(HOSTILE, "b", Counter({HOSTILE: 1}), losses=(HOSTILE,))
    assert HOSTILE in html_of(report).texts
    html_of(Tensor.strings([HOSTILE]))


@pytest.mark.parametrize("count", [21, 5000])
def test_tables_are_bounded(count: int) -> None:
    graph = Graph("amanda/onnx/18")
    for i in range(count):
        x = graph.parameter("float32[2]", f"x{i}")
        graph.result(graph.add(f"Type{i}", [x], {f"a{i}": "b" * 9999}).output, f"y{i}")
    wide = graph.add(
        "Wide", graph.parameters, {f"a{i}": [1] * 9999 for i in range(count)}
    )
    for shown in (graph, wide):
        assert len(shown._repr_html_()) < 8000
        assert f"and {count - 20:,} more" in html_of(shown).texts


def test_a_table_without_rows_is_nothing() -> None:
    assert html_table(("a",), []) == ""
    assert amanda.Graph("amanda/onnx/18")._repr_html_().count("<table>") == 1
