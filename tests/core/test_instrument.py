"""Tools without any plug-in: selection, order, changes and reports."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError, UsageError
from amanda.graph import SCOPES_RECORD, Graph, ScopeTable
from amanda.instrument import Report, Site, Tool, on_op
from amanda.instrument._report import ObservedOp, Probe

F32 = amanda.parse_type("float32[3]")


class OwnTool(Tool):
    """Works on graphs of any namespace."""

    namespace = None


def make_graph() -> Graph:
    """x -> first (Conv) -> second (Relu) -> third (Conv) -> y, all float32[3]."""
    graph = Graph("test/framework/1")
    value: Any = graph.parameter(F32, "x")
    for name, kind in (("first", "Conv"), ("second", "Relu"), ("third", "Conv")):
        op = graph.add(kind, [value], name=name)
        op.output.type = F32
        value = op.output
    graph.result(value, "y")
    return graph


def selected(**conditions: Any) -> list[str]:
    """The ops that a selector matches, in a graph with scopes."""
    found: list[str] = []

    class Collector(OwnTool):
        @on_op(**conditions)
        def collect(self, site: Site) -> None:
            found.append(site.label)

    graph = make_graph()
    table = ScopeTable()
    table.add("second", "relu", ("", "block.act"), ("Net", "ReLU"), "net.py:3")
    graph.attrs[SCOPES_RECORD] = table.as_attribute()
    amanda.apply(graph, Collector())
    return found


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, ["first", "second", "third"]),
        ({"type": "Conv"}, ["first", "third"]),
        ({"type": "C*"}, ["first", "third"]),
        ({"type": ["Conv", "Relu"], "name": "*d"}, ["second", "third"]),
        ({"name": re.compile("first|third")}, ["first", "third"]),
        ({"scope": "block.*"}, ["second"]),
        ({"dtype": "float32"}, ["first", "second", "third"]),
        ({"dtype": ["float"], "type": "Relu"}, ["second"]),
        ({"dtype": "int"}, []),
        ({"source_type": "Relu"}, ["second"]),
        ({"where": lambda op: op.inputs[0].op.type == "Conv"}, ["second"]),
    ],
)
def test_selectors(conditions: Any, expected: list[str]) -> None:
    assert selected(**conditions) == expected


class Insert(OwnTool):
    """Inserts ops around the Relu."""

    name = "insert"

    @on_op(type="Relu")
    def insert(self, site: Site) -> None:
        def add(kind: str) -> Any:
            def around(port: Any) -> Any:
                made = site.graph.add(kind, [port], name=kind)
                made.output.type = F32
                return made.output

            return around

        site.insert_before(add("Before"))
        site.insert_after(add("After"))


def test_insertion_around_an_op() -> None:
    graph = make_graph()
    copy = amanda.apply(graph, Insert()).graph
    assert [op.type for op in copy] == ["Conv", "Before", "Relu", "After", "Conv"]
    assert copy.check() == []
    third = copy.ops["third"].inputs[0]
    assert third is not None
    assert third.op.name == "After"
    assert [op.type for op in graph] == ["Conv", "Relu", "Conv"], "the graph is copied"


def test_results_read_what_is_inserted_after() -> None:
    class AfterLast(OwnTool):
        @on_op(name="third")
        def insert(self, site: Site) -> None:
            site.insert_after(lambda port: site.graph.add("After", [port]).output)

    copy = amanda.apply(make_graph(), AfterLast()).graph
    result = copy.results[0]
    assert result is not None
    assert result.op.type == "After"


def test_replacement_and_removal() -> None:
    class Change(OwnTool):
        @on_op(type="Relu")
        def drop(self, site: Site) -> None:
            site.remove()

        @on_op(name="third")
        def swap(self, site: Site) -> None:
            site.replace(lambda x: site.graph.add("Other", [x]).output)

    copy = amanda.apply(make_graph(), Change()).graph
    assert [op.type for op in copy] == ["Conv", "Other"]


def test_a_change_of_a_type_is_an_error() -> None:
    class Widen(OwnTool):
        name = "widen"

        @on_op(type="Relu")
        def widen(self, site: Site) -> None:
            def cast(port: Any) -> Any:
                made = site.graph.add("Cast", [port]).output
                made.type = amanda.parse_type("float64[3]")
                return made

            site.insert_after(cast)

    with pytest.raises(InvalidTypeError, match="widen changes the type") as caught:
        amanda.apply(make_graph(), Widen())
    assert "second" in str(caught.value)


# -- several tools ---------------------------------------------------------------------


def new_tool(label: str, **fields: Any) -> Tool:
    """A tool that notes its name in the summary of the report."""

    class Noting(OwnTool):
        name: ClassVar[str] = label

        def instrument(self, instrumentation: Any) -> None:
            order = instrumentation.report.summary.setdefault("order", [])
            order.append(label)

    for key, value in fields.items():
        setattr(Noting, key, value)
    return Noting()


def test_tools_run_after_those_they_depend_on() -> None:
    tools = new_tool("a", depends_on=("c",)), new_tool("b"), new_tool("c")
    report = amanda.apply(make_graph(), *tools).report
    assert report.summary["order"] == ["c", "a", "b"]


def test_tools_applied_before_count() -> None:
    first = amanda.apply(make_graph(), new_tool("c")).graph
    again = amanda.apply(first, new_tool("a", depends_on=("c",)))
    assert again.report.summary["order"] == ["a"]


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([new_tool("a", depends_on=("b",))], "a depends on b"),
        (
            [new_tool("a", conflicts=("b",)), new_tool("b")],
            "a and b do not go together",
        ),
        ([new_tool("a"), new_tool("a")], "one tool is given twice"),
        ([], "no tool is given"),
        (
            [new_tool("a", depends_on=("b",)), new_tool("b", depends_on=("a",))],
            "a -> b -> a",
        ),
    ],
)
def test_tools_that_do_not_compose(tools: list[Tool], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        amanda.apply(make_graph(), *tools)


def test_a_conflict_with_a_tool_applied_before() -> None:
    first = amanda.apply(make_graph(), new_tool("b")).graph
    with pytest.raises(UsageError, match="a and b do not go together"):
        amanda.apply(first, new_tool("a", conflicts=("b",)))


# -- reports ---------------------------------------------------------------------------


def new_report(combine: str = "last", count: str | None = None) -> Report:
    """A report of one value, which results of runs have as `r`."""
    op = ObservedOp("t", "op", "f", "", ())
    return Report(probes=[Probe(op, "k", combine, "r", count)])


VALUES = [np.array([1.0, 5.0]), np.array([4.0, 2.0]), np.array([-2.0, 2.0])]


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        ("last", [-2, 2]),
        ("sum", [3, 9]),
        ("mean", [1, 3]),
        ("max", [4, 5]),
        ("min", [-2, 2]),
    ],
)
def test_values_of_runs_are_combined(combine: str, expected: list[float]) -> None:
    report = Report(
        probes=[Probe(ObservedOp("t", "op", "f", "", ()), "k", combine, "r")]
    )
    for value in VALUES:
        report.add_run({"r": value})
    np.testing.assert_allclose(report["k"]["op"], expected)
    assert report.rows[0].executions == report.runs == 3
    report.reset()
    assert report.rows == []
    assert report.runs == 0


def test_stacked_values() -> None:
    report = Report(
        probes=[Probe(ObservedOp("t", "op", "f", "", ()), "k", "stack", "r")]
    )
    for value in VALUES:
        report.add_run({"r": value})
    np.testing.assert_array_equal(np.stack(report["k"]["op"]), np.stack(VALUES))


def test_a_mean_weighs_executions() -> None:
    """Runs whose loops had 1 and 3 iterations: the mean is over all 4."""
    report = new_report("mean", "n")
    for mean, count in ((8.0, 1), (100.0, 0), (4.0, 3)):
        report.add_run({"r": np.float32(mean), "n": np.int64(count)})
    assert report["k"]["op"] == pytest.approx((8 + 3 * 4) / 4)
    assert report.rows[0].executions == 4


def test_an_unknown_key_names_the_known_ones() -> None:
    report = Report(
        probes=[Probe(ObservedOp("t", "op", "f", "", ()), "k", "last", "r")]
    )
    report.add_run({"r": np.float32(1)})
    with pytest.raises(UsageError, match="no rows of 'other'") as caught:
        report["other"]
    assert caught.value.expected == "k"


def test_numbers_that_json_lacks() -> None:
    report = Report(
        probes=[Probe(ObservedOp("t", "op", "f", "", ()), "k", "last", "r")]
    )
    report.add_run({"r": np.array([np.nan, np.inf, 1.5])})
    assert report.to_dict()["rows"][0]["value"] == ["nan", "inf", 1.5]
