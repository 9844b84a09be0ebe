"""Dictionaries in which an argument may be an input or an attribute, as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import amanda
from amanda.dictionary import CallLayout
from amanda.errors import GraphError
from amanda.graph import Graph, Op

TORCH: Any = amanda.namespace("torch@2.13.0")


@pytest.fixture
def graph() -> Graph:
    graph = Graph(TORCH.name)
    graph.parameter("float32[n, 6]", "x")
    graph.parameter("int64[]", "n")
    return graph


def faults(graph: Graph) -> list[str]:
    return [str(problem) for problem in TORCH.validate(graph)]


def test_values_in_lists_are_inputs_of_their_names(graph: Graph) -> None:
    x, n = graph.parameters
    op = TORCH.build(graph)["aten.view.default"](x, [n, 2, 3]).op
    assert op.attrs == {"size": [None, 2, 3]}
    assert [port.name for port in op.input_ports] == [None, "size.0"]
    assert CallLayout(op.definition).arguments(op) == {"self": x, "size": [n, 2, 3]}
    assert faults(graph) == []


def test_numbers_for_ports_are_attributes(graph: Graph) -> None:
    x, n = graph.parameters
    ops = TORCH.build(graph)
    op = ops["aten.add.Tensor"](x, 1.5).op
    assert (op.attrs, op.inputs) == ({"other": 1.5}, (x,))
    scaled = ops["_operator.sub"](3, n).op
    assert (scaled.attrs, scaled.inputs) == ({"a": 3}, (None, n))
    assert CallLayout(scaled.definition).arguments(scaled) == {"a": 3, "b": n}
    assert faults(graph) == []


def test_two_lists_of_inputs_have_names(graph: Graph) -> None:
    x, _ = graph.parameters
    op = TORCH.build(graph)["aten.lstm.input"](
        x, [x, x], [x, x, x], True, 1, 0.0, False, False, True
    )[0].op
    names = [port.name for port in op.input_ports]
    assert names == [None, "hx.0", "hx.1", "params.0", "params.1", "params.2"]
    assert CallLayout(op.definition).arguments(op)["params"] == [x, x, x]
    assert faults(graph) == []


@pytest.mark.parametrize(
    ("inputs", "names", "attrs", "fault"),
    [
        ([0], {}, {"size": [None, 2]}, "attribute size is"),
        ([0, 1], {}, {"size": [2]}, "expected 1 (self), got 2"),
        ([0, 1], {1: "shape.0"}, {"size": [2]}, "has no attribute 'shape'"),
        ([], {}, {"self": "x", "size": [2]}, "has no attribute 'self'"),
        ([], {}, {"size": [2]}, "expected 1 (self), got 0"),
    ],
)
def test_faults(
    graph: Graph, inputs: list[int], names: dict[int, str], attrs: Any, fault: str
) -> None:
    values = [graph.parameters[i] for i in inputs]
    op = graph.add("aten.view.default", values, attrs)
    for place, name in names.items():
        op.input_ports[place].set_name(name)
    assert fault in " ".join(faults(graph))


def test_an_input_of_no_place_is_an_error(graph: Graph) -> None:
    x, n = graph.parameters
    op: Op = graph.add("aten.view.default", [x, n], {"size": [2]}, name="y")
    op.input_ports[1].set_name("size.7")
    with pytest.raises(GraphError, match="no place of an argument"):
        CallLayout(op.definition).arguments(op)


def test_lists_of_a_fixed_length_may_be_of_any(graph: Graph) -> None:
    """`int[1]` of PyTorch is a list; the length is for one number in its place."""
    graph.add("aten.sum.dim_IntList", [graph.parameters[0]], {"dim": [0, 1]})
    assert faults(graph) == []
    graph.add("aten.sum.dim_IntList", [graph.parameters[0]], {"dim": ["0"]})
    assert len(faults(graph)) == 1


def test_an_optional_input_after_a_list(graph: Graph) -> None:
    """It is null where it is omitted, since the length of the list is not known."""
    x, _ = graph.parameters
    ops = TORCH.build(graph)["aten.histogramdd.TensorList_bins"]
    op = ops(x, [x, x], outputs=3)[0].op
    assert op.inputs == (x, x, x, None)
    assert CallLayout(op.definition).arguments(op) == {"self": x, "bins": [x, x]}
    weighted = ops(x, [x, x], weight=x, outputs=3)[0].op
    assert CallLayout(op.definition).arguments(weighted)["weight"] is x
    assert faults(graph) == []
