"""Attributes of another kind in a graph, as a file may have them: our errors."""

from __future__ import annotations

import pytest

import amanda
from amanda.errors import AmandaError, InvalidTypeError
from amanda.graph import Graph
from amanda.tensors import FunctionRef
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


def test_a_graph_as_an_op_may_lack_a_result() -> None:
    graph = Graph("amanda/std/1")
    inner = Graph("amanda/std/1", outer=graph)
    inner.result(None)
    inner.result(inner.parameter(amanda.parse_type("float32[2]")))
    x = graph.parameter(amanda.parse_type("float32[2]"))
    op = graph.add_graph(inner, [x])
    infer(graph)
    assert [str(port.type) for port in op.outputs] == ["?[...]", "float32[2]"]
