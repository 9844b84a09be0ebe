"""What graphs have in common, so that one program does for both: told without names.

Graphs that give other numbers must never be told alike; `amanda.run` by numpy says
which do.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_jax.compile.structure_hash import body_digest, structure_digest
from amanda_std import ops, trace
from amanda_std.backends import Value, tracing

TYPES = [parse_type("bool[]"), parse_type("float32[3]"), parse_type("float32[3]")]
FEEDS = [np.bool_(True), np.float32([0.1, 0.2, 0.3]), np.float32([1, 2, 3])]


def graph_of(function, names=("c", "x", "y")) -> Graph:
    return trace(function, TYPES, names=names)


def choice(then):
    """A graph whose branch reads the exponentials of both inputs; of another one, its
    values have the same types and no names."""

    def function(c, x, y):
        u, v = ops.exp(x), ops.exp(y)
        return ops.if_(c, lambda: then(u, v), lambda: ops.add(u, v))[0]

    return function


def first_sine(u, v):
    p = ops.sin(u)
    q = ops.cos(v)
    return ops.subtract(p, q)


def cosine_of_first(u, v):
    """The same ops on the other values, written in another order."""
    q = ops.cos(u)
    p = ops.sin(v)
    return ops.subtract(p, q)


def nested(then):
    return lambda u, v: ops.if_(
        ops.all(ops.less(u, 9.0)), lambda: then(u, v), lambda: v
    )[0]


def results_of(graph: Graph) -> np.ndarray:
    return amanda.run(graph, FEEDS, backend="numpy")[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (first_sine, cosine_of_first),
        (first_sine, lambda u, v: first_sine(v, u)),
        (nested(first_sine), nested(cosine_of_first)),
        (lambda u, v: ops.sin(u), lambda u, v: ops.sin(v)),
        (lambda u, v: u, lambda u, v: v),
        (lambda u, v: u * 2.0, lambda u, v: u * 3.0),
    ],
)
def test_bodies_that_read_other_values(one, other):
    a, b = (graph_of(choice(each)) for each in (one, other))
    assert abs(results_of(a) - results_of(b)).max() > 0.1
    assert structure_digest(a, ()) != structure_digest(b, ())
    assert structure_digest(a, ()) == structure_digest(graph_of(choice(one)), ())


def test_names_do_not_count_in_bodies():
    def function(c, x, y):
        return ops.if_(c, lambda: ops.sin(x), lambda: ops.cos(y))[0]

    named = graph_of(function, ("flag", "data", "other"))
    assert structure_digest(graph_of(function), ()) == structure_digest(named, ())


def test_what_bodies_give_and_their_places():
    def loop(swapped):
        def body(_i, _go, a, b):
            return (True, b, a) if swapped else (True, a, b)

        return graph_of(lambda c, x, y: ops.loop(3, c, body, x, y)[0])

    a, b = loop(False), loop(True)
    assert (results_of(a) != results_of(b)).any()
    assert structure_digest(a, ()) != structure_digest(b, ())


def with_function(function, name="told") -> Graph:
    graph = graph_of(lambda c, x, y: x)
    graph.add_function(name, trace(function, [None]))
    graph.remove_result(0)
    with tracing(graph):
        x, y = (Value(port) for port in graph.parameters[1:])
        once = ops.call(name, x)[0]
        graph.result((ops.call(name, once)[0] + y).port)
    return graph


def test_functions_are_what_they_do():
    sines, cosines = with_function(ops.sin), with_function(ops.cos)
    assert abs(results_of(sines) - results_of(cosines)).max() > 0.1
    assert structure_digest(sines, ()) != structure_digest(cosines, ())
    assert structure_digest(sines, ()) == structure_digest(with_function(ops.sin), ())


def test_graphs_that_stand_as_ops():
    def with_graph(op: str, place: int) -> Graph:
        graph = graph_of(lambda c, x, y: x)
        inner = Graph("amanda/std/1")
        inner.result(inner.add(op, [inner.parameter(TYPES[1])]).output)
        graph.add_graph(inner, [graph.parameters[place]])
        graph.remove_result(0)
        graph.result(inner.outputs[0])
        return graph

    told = [
        structure_digest(with_graph(*each), ())
        for each in (("sin", 1), ("cos", 1), ("sin", 2))
    ]
    assert None not in told
    assert len({*told}) == 3
    assert told[0] == structure_digest(with_graph("sin", 1), ())


def test_what_reads_from_another_graph_is_not_told():
    graph = graph_of(choice(first_sine))
    [choosing] = [op for op in graph if op.bodies]
    assert structure_digest(choosing.bodies["then"], ()) is None


def test_a_body_alone_does_not_say_what_is_around_it():
    """Layers differ in what the values are called that their bodies read."""

    def bodies(name: str):
        def function(c, x, y):
            u, v = ops.exp(x), ops.exp(y)
            u.port.name = name
            return ops.if_(c, lambda: first_sine(u, v), lambda: first_sine(v, u))[0]

        [choosing] = [op for op in graph_of(function) if op.bodies]
        return [body_digest(choosing.bodies[key]) for key in ("then", "otherwise")]

    then, otherwise = bodies("h1")
    assert then == otherwise  # the ops around say which value is which
    assert [then, otherwise] == bodies("h2")
    [other] = [op for op in graph_of(choice(cosine_of_first)) if op.bodies]
    assert body_digest(other.bodies["then"]) != then
