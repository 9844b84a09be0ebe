"""Attributes of another kind in a graph, as a file may have them: our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import amanda
from amanda.errors import AmandaError, InvalidTypeError
from amanda.graph import Graph
from amanda.tensors import FunctionRef
from amanda_std.hub.op_samples import op_samples
from amanda_std.inference.shape_arguments import normalize_axis, to_integers
from amanda_std.passes import infer

WRONG = {
    "a text as axes": ("softmax", {"axes": "last"}),
    "a number as axes": ("sum", {"axes": 1.5}),
    "a function as axes": ("transpose", {"perm": FunctionRef("f")}),
    "a text among sizes": ("split", {"sizes": [1, "all"], "outputs": 2}),
    "bytes as an axis": ("concat", {"axis": b"0"}),
    "a text as a flag": ("sum", {"axes": [0], "keepdims": "yes"}),
    "a list as an element type": ("astype", {"dtype": [("a",)]}),
    "another number of results": ("split", {"outputs": 1 << 50}),
}


def graph_of(op: str, attrs: dict) -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    made = graph.add(op, [x], attrs, outputs=2 if op == "split" else 1)
    graph.result(made.outputs[0])
    return graph


@pytest.mark.parametrize("name", WRONG)
def test_inference_and_compilation_refuse_them(name: str) -> None:
    with pytest.raises(AmandaError):
        infer(graph_of(*WRONG[name]))
    with pytest.raises(AmandaError) as caught:
        amanda.compile(graph_of(*WRONG[name]), "numpy")
    assert " failed while " not in caught.value.message


@pytest.mark.parametrize("value", ["a", b"a", 1.5, [1, "a"]])
def test_shape_arguments_hold_integers(value: object) -> None:
    with pytest.raises(InvalidTypeError, match="holds integers"):
        to_integers(value)


def test_an_axis_is_an_integer() -> None:
    with pytest.raises(InvalidTypeError, match="axis is an integer"):
        normalize_axis("last", 2)


def with_integers(value: int) -> Iterator[tuple[str, Graph, Any]]:
    """The first sample of each op, with one of its integer attributes set."""
    for name, make in first_samples():
        attrs = {a.name: a.default for a in amanda.namespace("std")[name].attrs}
        attrs.update(find_op(make().graph, name).attrs)
        for key, old in attrs.items():
            is_list = isinstance(old, list | tuple) and {*map(type, old)} == {int}
            if is_list or type(old) is int:
                sample = make()
                new = [value] * len(old) if is_list else value
                find_op(sample.graph, name).attrs[key] = new
                yield f"{name}, {key}", sample.graph, sample.feeds


def first_samples() -> Iterator[tuple[str, Any]]:
    """The ops whose first sample is a graph with that op, with its maker."""
    for name in amanda.namespace("std"):
        for make in op_samples([name], 1).values():
            with suppress(AmandaError):  # a sample with a variable of a state
                if find_op(make().graph, name):
                    yield name, make


def find_op(graph: Graph, name: str) -> Any:
    return next((op for op in graph if op.type == name), None)


@pytest.mark.most_cases(1)
@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("value", "runs"), [(2**70, True), (2**33, False), (-1, False)]
)
def test_integers_out_of_range_are_refused_soon(value: int, runs: bool) -> None:
    """Or the op has a result; none is computed without end, and no foreign error."""
    count, faults = 0, []
    for label, graph, feeds in with_integers(value):
        count += 1
        try:
            executable = amanda.compile(graph, "numpy")
            if runs:
                executable(feeds)
        except AmandaError as error:
            if " failed while " in error.message:
                faults.append(f"{label}: {error}")
        except BaseException as error:
            error.add_note(label)
            raise
    assert not faults, "\n".join(faults)
    assert count > 60


def test_a_graph_as_an_op_may_lack_a_result() -> None:
    graph = Graph("amanda/std/1")
    inner = Graph("amanda/std/1", outer=graph)
    inner.result(None)
    inner.result(inner.parameter(amanda.parse_type("float32[2]")))
    x = graph.parameter(amanda.parse_type("float32[2]"))
    op = graph.add_graph(inner, [x])
    infer(graph)
    assert [str(port.type) for port in op.outputs] == ["?[...]", "float32[2]"]
