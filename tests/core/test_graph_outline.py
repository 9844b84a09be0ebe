"""Ops taken into a graph that stands as one op, and put back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amanda.errors import GoneError, GraphError
from amanda.graph import Graph


def chain(*types):
    graph = Graph("acme/toys/1")
    value = graph.parameter(name="x")
    for type in types:
        value = graph.add(type, [value], name=type).output
    graph.result(value, name="y")
    return graph


def test_what_is_read_and_needed_become_ports():
    graph = chain("a", "b", "c")
    inner = graph.outline([graph["a"], graph["b"]], name="ab", type="Block")
    assert [op.short for op in graph] == ["ab", "c"]
    assert [op.type for op in inner] == ["a", "b"]
    assert (inner.type, len(inner.parameters), len(inner.results)) == ("Block", 1, 1)
    assert graph["c"].inputs == inner.outputs
    assert graph.check() == []


def test_handles_find_their_values_there_and_back():
    graph = chain("a", "b", "c")
    first, second = graph["a"].output, graph["b"].output
    inner = graph.outline([graph["a"], graph["b"]])
    assert first.resolve().graph is inner  # inside, as nobody else reads it
    assert second.resolve() is inner.outputs[0]
    graph.inline(inner)
    assert first.resolve() is graph["a"].output
    assert second.resolve() is graph["b"].output
    assert graph.same_as(chain("a", "b", "c"))


def test_what_stands_between_is_named():
    graph = chain("a", "b", "c")
    before = graph.clone()
    with pytest.raises(GraphError, match="b 'b' is between") as caught:
        graph.outline([graph["a"], graph["c"]])
    assert "outline it too" in str(caught.value)
    assert graph.difference(before) is None


def test_a_control_edge_that_would_be_cut_is_named():
    graph = chain("a", "b")
    other = graph.add("other")
    graph.control(other, graph["b"])
    with pytest.raises(GraphError, match=r"b 'b' cannot be outlined"):
        graph.outline([graph["b"]])
    graph.outline([graph["b"], other], name="both")
    assert [op.type for op in graph["both"]["b"].control_inputs] == ["other"]


def test_only_ops_of_the_graph():
    graph = chain("a")
    for wrong in ([], [Graph().add("z")]):
        with pytest.raises(GraphError, match="ops of"):
            graph.outline(wrong)
    with pytest.raises(GraphError, match="is not a nested graph"):
        graph.inline(Graph())


def test_a_value_inside_that_bodies_outside_read_is_a_result():
    graph = chain("a", "b")
    body = Graph(outer=graph)
    body.result(graph["a"].output)
    graph.add("if", bodies={"then": body}, name="if")
    inner = graph.outline([graph["a"]])
    assert body.results == (inner.outputs[0],)
    assert graph.check() == []


def test_what_its_bodies_capture_inside_stays_inside():
    graph = chain("a")
    body = Graph(outer=graph)
    body.result(graph["a"].output)
    held = graph.add("if", bodies={"then": body}, name="if")
    graph.result(held.output)
    inner = graph.outline([graph["a"], held])
    assert inner["if"].bodies["then"].results == (inner["a"].output,)
    assert graph.check() == []


def test_a_value_dropped_with_the_graph_is_gone():
    graph = chain("a", "b")
    held = graph["a"].output
    inner = graph.outline([graph["a"], graph["b"]])
    graph.inline(inner)
    graph.replace(graph["b"], [graph.parameters[0]])
    graph.remove(graph["a"])
    with pytest.raises(GoneError, match="gone"):
        held.resolve()


@st.composite
def graphs(draw):
    graph = Graph("acme/toys/1")
    values = [graph.parameter(name=f"x{i}") for i in range(draw(st.integers(1, 3)))]
    for i in range(draw(st.integers(1, 12))):
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        values += graph.add(f"t{i}", inputs, name=f"op{i}", outputs=i % 2 + 1).outputs
    needed = draw(st.lists(st.sampled_from(values), max_size=3))
    for value in [*needed, *(v for v in values if not v.users)]:
        graph.result(value)  # of what nobody needs the order is all that is known
    return graph


@given(graph=graphs(), data=st.data())
def test_outline_and_inline_leave_the_graph_as_it_was(graph, data):
    before = graph.clone()
    ops = list(graph)
    first, last = (data.draw(st.sampled_from(ops)) for _ in range(2))
    chosen = graph.between([first], [last]) or [first]
    inner = graph.outline(chosen)
    assert graph.check() == inner.check() == []
    assert len(inner) == len(chosen)
    graph.inline(inner)
    assert graph.check() == []
    assert graph.difference(before) is None
