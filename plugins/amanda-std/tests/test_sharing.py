"""Equal values are one while a graph is built, where that is chosen."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import Value, ops, tracing


@pytest.fixture
def graph():
    made = Graph("amanda/std/1")
    made.parameter(parse_type("float32[n, 3]"), "x")
    return made


def built(graph, function, *, share=True):
    (x,) = graph.parameters
    with tracing(graph, share=share):
        found = function(Value(x))
    assert graph.check() == []
    return found


def test_what_is_called_twice_is_there_once(graph, run):
    def function(x):
        a = ops.tanh(x) * 2.0 + ops.tanh(x) * 2.0
        return a - (2.0 * ops.tanh(x)).sum(axis=0)

    result = built(graph, function)
    assert sorted(op.type for op in graph) == [
        "add", "constant", "multiply", "subtract", "sum", "tanh",
    ]  # fmt: skip
    graph.result(result.port)
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    want = 4 * np.tanh(x) - (2 * np.tanh(x)).sum(0)
    np.testing.assert_allclose(run(graph, x)[0], want, rtol=1e-6)


def test_it_is_not_chosen_by_itself(graph):
    built(graph, lambda x: ops.tanh(x) + ops.tanh(x), share=False)
    assert [op.type for op in graph].count("tanh") == 2


def test_other_attributes_and_names_keep_apart(graph):
    def function(x):
        ops.sum(x, 0), ops.sum(x, 1), ops.sum(x, 0, keepdims=True)
        ops.sum(x, 0, name="mine")
        return x + 1, x + 1.0, x + 1

    first, second, third = built(graph, function)
    assert [op.type for op in graph].count("sum") == 4
    assert graph["mine"].output is not graph.ops[0].output
    assert first.port is third.port  # both are the float32 1
    assert first.port is second.port


def test_effects_and_state_stay_apart(graph):
    def function(x):
        ops.print(x, text="a"), ops.print(x, text="a")
        v = ops.variable(x, key="v")
        before = ops.read(v)
        ops.assign(v, x + x)
        return before, ops.read(v), ops.variable(x, key="v")

    before, after, _ = built(graph, function)
    assert before.port is not after.port
    kinds = [op.type for op in graph]
    assert [kinds.count(k) for k in ("print", "read", "variable")] == [2, 2, 2]


def test_bodies_and_functions_share_within_themselves(graph):
    square = amanda.function(lambda x: ops.tanh(x) * ops.tanh(x), name="square")

    def function(x):
        flag = ops.greater(x.sum(), 0.0)
        chosen = ops.if_(flag, lambda x: (ops.exp(x) + ops.exp(x),), lambda x: (x,), x)
        return square(x), square(x), chosen

    one, two, _ = built(graph, function)
    assert one.port is two.port
    (inner,) = graph.functions.values()
    assert [op.type for op in inner] == ["tanh", "multiply"]
    (choice,) = [op for op in graph if op.type == "if"]
    assert [op.type for op in choice.bodies["then"]] == ["exp", "add"]


def test_what_failed_is_not_found_again(graph):
    def function(x):
        with pytest.raises(InvalidTypeError):
            ops.matmul(x, [1.0, 2.0])
        return x * [1.0, 2.0, 3.0] + [1.0, 2.0, 3.0]

    built(graph, function)
    assert [op.type for op in graph] == ["constant", "multiply", "add"]


def test_calls_of_what_has_effects_stay_apart(graph):
    """In the graph that is built, and by the passes."""
    told = amanda.function(lambda x: ops.print(x, text="told"), name="told")
    outer = amanda.function(lambda x: told(x) * 2.0, name="outer")

    def function(x):
        outer(x)
        return outer(x)

    graph.result(built(graph, function).port)
    assert [op.type for op in graph] == ["call", "call"]
    amanda.improve(graph, "share", "drop")
    assert [op.type for op in graph] == ["call", "call"]
