"""Every text form is lossless, and writes the same text for the same graph."""

from __future__ import annotations

import copy
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from strategies import examples, graphs
from text.graphs import everything

from amanda.files.text import json_form, readable, yaml_form
from amanda.graph import Graph
from amanda.types import Sym, TensorType

FORMS = [yaml_form, json_form, readable]
forms = pytest.mark.parametrize("form", FORMS, ids=["yaml", "json", "readable"])


def check(form: ModuleType, graph: Graph) -> str:
    text = form.dumps(graph)
    again = form.loads(text)
    assert again.difference(graph) is None
    assert again.check() == []
    assert form.dumps(again) == text
    return text


@forms
@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_random_graphs(form: ModuleType, graph: Graph) -> None:
    check(form, graph)


@forms
def test_one_of_everything(form: ModuleType) -> None:
    check(form, everything())


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_one_form_to_the_next(graph: Graph) -> None:
    text = yaml_form.dumps(graph)
    there = readable.loads(readable.dumps(json_form.loads(json_form.dumps(graph))))
    assert yaml_form.dumps(there) == text


@forms
def test_equal_graphs_write_equal_texts(form: ModuleType) -> None:
    graph = everything()
    assert form.dumps(copy.deepcopy(graph)) == form.dumps(graph)


@forms
def test_dims_without_a_name_keep_their_identity(form: ModuleType) -> None:
    graph, n = Graph(), Sym.unknown()
    for dims in ([n, 3], [n * 2], [Sym.unknown()]):
        graph.parameter(TensorType("float32", dims))
    a, b, c = form.loads(check(form, graph)).parameters
    assert b.type.shape[0] == a.type.shape[0] * 2
    assert c.type.shape[0].key != a.type.shape[0].key


@forms
def test_edges_that_run_backwards_keep_the_order_of_ops(form: ModuleType) -> None:
    graph = Graph()
    first = graph.add("Merge", [None], name="first")
    last = graph.add("NextIteration", [first.output], name="last", feedback=True)
    first.input_ports[0].connect(last.output)
    again = form.loads(check(form, graph))
    assert [op.name for op in again] == ["first", "last"]


@forms
@pytest.mark.parametrize("as_body", [False, True])
def test_graphs_nest_without_limit(form: ModuleType, as_body: bool) -> None:
    depth = 1500
    root = graph = Graph()
    x = root.parameter(name="x")
    for i in range(depth):
        inner = Graph(name=f"g{i}", outer=graph)
        if as_body:
            graph.add("If", [x], bodies={"then": inner})
        else:
            graph.add_graph(inner)
        if i % 100 == 0:
            inner.add("use", [x])  # a value from far outside
        graph = inner
    check(form, root)


@forms
def test_the_order_of_control_edges(form: ModuleType) -> None:
    graph = Graph()
    a, b, c = (graph.add("op", name=name) for name in "abc")
    graph.control(graph, c)
    graph.control(b, c)
    graph.control(a, c)
    graph.control(graph, a)
    again = form.loads(check(form, graph))
    assert [op.name for op in again["c"].control_inputs] == ["b", "a"]
    assert {op.name for op in again.inner_control_sources} == {"a", "c"}
