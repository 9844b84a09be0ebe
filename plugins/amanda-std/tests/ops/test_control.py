"""Control flow: captures of bodies, carried types, loops and scans."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace, tracing
from amanda_std.passes import infer

X = parse_type("float32[n]")


def test_bodies_capture_values(run):
    def function(c, x):
        double = x + x
        return ops.if_(c, lambda: double, lambda: double * x)[0]

    graph = trace(function, [parse_type("bool[]"), X])
    for flag, want in ((True, [4.0, 6.0]), (False, [8.0, 18.0])):
        got = run(graph, np.bool_(flag), np.float32([2, 3]))[0]
        assert got.tolist() == want


def test_branch_types_are_joined():
    def function(c, x):
        return ops.if_(c, lambda: x, lambda: ops.concat(x, x))[0]

    graph = trace(function, [parse_type("bool[]"), X])
    assert str(graph.results[0].type) == "float32[?]"


def test_branches_must_return_as_many_values():
    with pytest.raises(InvalidTypeError, match="different numbers of values"):
        trace(
            lambda c, x: ops.if_(c, lambda: x, lambda: (x, x)),
            [parse_type("bool[]"), X],
        )


def test_a_loop_carries_and_scans(run):
    def function(n, x):
        def body(i, go, total):
            new = total + ops.astype(i, dtype="float32")
            return go, new, ops.sum(new)

        return ops.loop(n, None, body, x)

    graph = trace(function, [parse_type("int64[]"), X])
    assert [str(v.type) for v in graph.results] == ["float32[n]", "float32[?]"]
    total, sums = run(graph, np.int64(3), np.float32([1, 2]))
    assert (total.tolist(), sums.tolist()) == ([4.0, 5.0], [3.0, 5.0, 9.0])
    total, sums = run(graph, np.int64(0), np.float32([1, 2]))
    assert (total.tolist(), sums.shape, sums.dtype) == ([1.0, 2.0], (0,), np.float32)


def test_scan_length_is_static_for_static_trips():
    def function(x):
        def body(i, go, v):
            return go, v, v

        return ops.loop(ops.dim(x, axis=0), None, body, x)[1]

    graph = trace(function, [parse_type("float32[n, 4]")])
    assert str(graph.results[0].type) == "float32[n, n, 4]"


def test_growing_dims_of_carried_values_are_unknown():
    def function(n, x):
        return ops.loop(n, None, lambda i, go, v: (go, ops.concat(v, v)), x)[0]

    graph = trace(function, [parse_type("int64[]"), parse_type("float32[2]")])
    assert str(graph.results[0].type) == "float32[?]"


def test_inferring_a_body_keeps_its_captures():
    def function(n, x):
        return ops.loop(n, None, lambda i, go, v: (go, v + x), x)[0]

    graph = trace(function, [parse_type("int64[]"), X])
    readers = {user.op.graph for user in graph.parameters[1].users}
    assert readers == {graph, graph[0].bodies["body"]}


def test_nested_bodies(run):
    def function(n, x):
        def body(i, go, v):
            odd = ops.equal(ops.remainder(i, np.int64(2)), np.int64(1))
            return go, ops.if_(odd, lambda: v + x, lambda: v * x)[0]

        return ops.loop(n, None, body, x)[0]

    graph = trace(function, [parse_type("int64[]"), X])
    assert run(graph, np.int64(3), np.float32([2]))[0].tolist() == [12.0]  # *2 +2 *2


def test_infer_covers_bodies():
    def function(c, x):
        return ops.if_(c, lambda: x + x, lambda: x * x)[0]

    graph = trace(function, [parse_type("bool[]"), X])
    graph.parameters[1].type = parse_type("float32[7]")
    infer(graph, [graph.parameters[1]])
    assert str(graph.results[0].type) == "float32[7]"


def test_a_graph_is_an_op():
    inner = trace(lambda x: (ops.exp(x), ops.relu(x)), [X], "inner")
    inner.namespace = None
    graph = Graph("amanda/std/1")
    x = graph.parameter(X, "x")
    part = graph.add_graph(inner, [x])
    with tracing(graph):
        graph.result(ops.add(*part.outputs).port, "y")
    got = amanda.run(graph, [np.float32([0, 1])], backend="numpy")["y"]
    np.testing.assert_allclose(got, [1.0, np.e + 1], rtol=1e-6)
