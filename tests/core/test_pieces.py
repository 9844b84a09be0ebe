"""Graphs cut into pieces: who runs what, in which order, and as few as it takes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amanda.backend import extract_graph, partition
from amanda.graph import CONSTANT, Graph
from amanda.tensors import Tensor


def chain(parties: str) -> Graph:
    """An op after the other, each of the type that says who runs it."""
    graph = Graph("amanda/test/1")
    value = graph.parameter(name="x")
    for party in parties:
        value = graph.add(party, [value]).output
    graph.result(value, "y")
    return graph


def cut(graph: Graph, **options):
    options.setdefault("copied", lambda op: op.type == CONSTANT)
    return partition(graph, lambda op: op.type, **options)


@pytest.mark.parametrize(
    ("parties", "wanted"),
    [("a", "a"), ("aaa", "a"), ("aabb", "ab"), ("abba", "aba"), ("babab", "babab")],
)
def test_a_chain_is_cut_where_the_party_changes(parties, wanted):
    found = cut(chain(parties))
    assert "".join(piece.who for piece in found) == wanted
    assert sum(len(piece.ops) for piece in found) == len(parties)


def test_branches_of_one_party_run_together():
    graph = Graph("amanda/test/1")
    x = graph.parameter(name="x")
    for _ in range(3):
        inside = graph.add("b", [graph.add("a", [x]).output]).output
        graph.result(graph.add("a", [inside]).output)
    assert [(p.who, len(p.ops)) for p in cut(graph)] == [("a", 3), ("b", 3), ("a", 3)]


def test_it_begins_with_the_party_that_makes_fewer_pieces():
    graph = Graph("amanda/test/1")
    x = graph.parameter(name="x")
    graph.add("a", [x])  # first in the order, and the party of nothing before it
    last = graph.add("a", [graph.add("b", [x]).output])
    graph.result(last.output)
    assert [piece.who for piece in cut(graph)] == ["b", "a"]


def test_constants_stand_where_they_are_read():
    graph = Graph("amanda/test/1")
    x = graph.parameter(name="x")
    weight = graph.constant(Tensor.of(np.ones(3, "f")), "w").output
    first = graph.add("a", [x, weight]).output
    graph.result(graph.add("b", [first, weight]).output)
    found = cut(graph)
    assert [[op.type for op in piece.graph] for piece in found] == [
        [CONSTANT, "a"],
        [CONSTANT, "b"],
    ]
    assert [piece.reads for piece in found] == [(x,), (first,)]


def test_a_value_may_have_to_be_there_before():
    graph = chain("aa")
    first, second = graph
    found = cut(graph, later={second: [first.output]})
    assert [piece.who for piece in found] == ["a", "a"]
    assert found[0].gives == found[1].reads == (first.output,)


def test_bodies_are_fed_what_they_capture():
    graph = Graph("amanda/test/1")
    x = graph.parameter(name="x")
    outer = graph.add("a", [x]).output
    body = Graph(outer=graph)
    body.result(body.add("b", [outer]).output)
    held = graph.add("b", [], bodies={"then": body}, outputs=1)
    graph.result(held.output)
    second = cut(graph)[1]
    assert second.reads == (outer,)
    [inner] = [op for op in second.graph if op.type == "b"]
    [captured] = inner.bodies["then"].captures
    assert captured is second.graph.parameters[0]
    assert second.graph.check() == []


def test_an_extracted_part_may_give_what_it_is_fed():
    graph = chain("a")
    [op] = graph
    [x] = graph.parameters
    made, reads = extract_graph(graph, [op], [x, op.output, None])
    assert reads == [x]
    assert made.results[0] is made.parameters[0]
    assert made.results[2] is None


@given(st.data())
def test_pieces_run_in_order_and_hold_every_op_once(data):
    """Any graph: what a piece reads was given before, by a piece or as an input."""
    graph = Graph("amanda/test/1")
    values = [graph.parameter(), graph.parameter()]
    for _ in range(data.draw(st.integers(1, 14))):
        inputs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        op = graph.add(data.draw(st.sampled_from("ab")), inputs)
        values.append(op.output)
    graph.result(data.draw(st.sampled_from(values)))
    there = set(graph.parameters)
    seen = []
    for piece in cut(graph):
        assert {op.type for op in piece.ops} == {piece.who}
        assert there.issuperset(piece.reads)
        there.update(piece.gives)
        seen += piece.ops
        assert piece.graph.check() == []
    assert len(seen) == len(set(seen)) == len(graph)
    assert there.issuperset(graph.results)
    starts = [piece.who for piece in cut(graph)]
    assert all(a != b for a, b in pairwise(starts))
