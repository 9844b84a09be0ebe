"""Gradients through choices, loops, scans and calls, against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.errors import UsageError
from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.autodiff.function_gradients import gradient_of
from amanda_std.engine.values import Value, tracing
from amanda_std.passes import infer

X = parse_type("float64[n]")
SCALAR = parse_type("float64[]")


def slopes(function, types, of=0):
    """The function as a graph that returns its result, and the gradients by all."""
    graph = trace(function, types)
    floats = [p for p in graph.parameters if p.type.dtype.kind == "float"]
    for port in grad(graph, graph.results[of], floats):
        graph.result(port)
    return graph


def check(run, graph, *arrays):
    """The gradients that a graph returns, against central differences of its result."""
    total, *got = run(graph, *arrays)
    places = [i for i, a in enumerate(arrays) if np.asarray(a).dtype == np.float64]
    assert len(got) == len(places)
    for slope, i in zip(got, places, strict=True):
        want = np.zeros(np.shape(arrays[i]))
        for at in np.ndindex(want.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [np.array(a) for a in arrays]
                moved[i][at] += step
                ends.append(float(np.sum(run(graph, *moved)[0])))
            want[at] = (ends[0] - ends[1]) / 2e-6
        assert slope.shape == want.shape
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-7)
    return total


def test_a_choice_has_the_gradient_of_the_branch_that_was_taken(run):
    def function(c, x, w):
        y = ops.exp(x)
        made = ops.if_(c, lambda v: v * w * y, lambda v: ops.sin(v), x)[0]
        return ops.sum(made * y)

    graph = slopes(function, [parse_type("bool[]"), X, X])
    for flag in (True, False):
        x, w = np.array([0.5, -1.0]), np.array([2.0, 3.0])
        check(run, graph, np.array(flag), x, w)


def test_a_case_captures_values_in_one_branch_only(run):
    def function(i, x, w):
        branches = [lambda v: v * v, lambda v: v * w, lambda _: ops.stop_gradient(w)]
        return ops.sum(ops.case(i, branches, x)[0])

    graph = slopes(function, [parse_type("int32[]"), X, X])
    x, w = np.array([0.5, -1.0]), np.array([2.0, 3.0])
    for i in (0, 1):
        check(run, graph, np.int32(i), x, w)
    assert not np.any(run(graph, np.int32(2), x, w)[1:])


def loop_until(n, x, w):
    """Rounds as many as the trips tell, or until the sum is large."""

    def body(i, _, v, total):
        new = v * w + ops.astype(i, dtype="float64")
        return ops.less(ops.sum(new), 50.0), new, total + ops.sum(new), ops.sin(new)

    last, total, rows = ops.loop(n, None, body, x, ops.sum(x))
    return ops.sum(last) + total + ops.sum(rows)


@pytest.mark.parametrize("trips", [0, 1, 3, 9])
def test_a_loop_that_a_condition_ends(run, trips):
    graph = slopes(loop_until, [parse_type("int64[]"), X, X])
    x, w = np.array([0.5, 1.0]), np.array([2.0, 1.5])
    check(run, graph, np.int64(trips), x, w)


def test_rows_are_remembered_once():
    """A second gradient of the same loop adds no second stack of what is carried."""
    graph = trace(loop_until, [parse_type("int64[]"), X, X])
    loop = next(op for op in graph if op.type == "loop")
    _, x, w = graph.parameters
    grad(graph, graph.results[0], [x])
    kept = len(loop.outputs)
    assert kept == 3 + 3  # the round and both carried values
    grad(graph, graph.results[0], [w])
    assert len(loop.outputs) == kept


def walk(x, w, rows):
    """A small recurrent network, with rows and weights that are captured."""

    def body(state, row):
        new = ops.tanh(ops.matmul(w, state) + row)
        return new, new * row

    last, outs = ops.scan(body, None, x, rows, carried=1)
    return ops.sum(ops.square(last)) + ops.sum(ops.sin(outs))


WALK = [X, parse_type("float64[n, n]"), parse_type("float64[t, n]")]


def test_a_scan_with_captured_weights(run):
    rng = np.random.default_rng(3)
    args = [rng.normal(size=s) for s in ((3,), (3, 3), (4, 3))]
    graph = slopes(walk, WALK)
    infer(graph)
    assert [str(v.type) for v in graph.results[1:]] == [
        "float64[n]",
        "float64[n, n]",
        "float64[t, n]",
    ]
    check(run, graph, *args)


def test_second_gradients_through_a_scan(run):
    def function(x, w, rows):
        with tracing(current_graph(x)):
            y = walk(x, w, rows)
            first = grad(x.port.graph, y.port, [w.port])[0]
            return ops.sum(ops.square(Value(first)))

    rng = np.random.default_rng(3)
    args = [rng.normal(size=s) for s in ((2,), (2, 2), (3, 2))]
    check(run, slopes(function, WALK), *args)


def current_graph(value):
    return value.port.graph


def test_nested_bodies(run):
    def function(x, w):
        def body(i, go, v):
            odd = ops.equal(ops.remainder(i, np.int64(2)), np.int64(1))
            inner = ops.if_(odd, lambda: v * w, lambda: v + ops.sin(w))[0]

            def step(a, b):
                return (a * b,)

            return go, ops.scan(step, None, inner, ops.stack(w, v), carried=1)[0]

        return ops.sum(ops.loop(np.int64(3), None, body, x)[0])

    check(run, slopes(function, [X, X]), np.array([0.5, 0.9]), np.array([1.2, 0.7]))


def test_gradients_in_a_body_that_only_some_carried_values_need(run):
    """A whole number that counts along has no gradient and is in no one's way."""

    def function(x):
        def body(_, go, count, v, other):
            return go, count + np.int64(1), v * 2.0, ops.floor_divide(other, other)

        start = np.int64(0)
        return ops.sum(ops.loop(np.int64(4), None, body, start, x, np.ones(2))[1])

    check(run, slopes(function, [X]), np.array([1.0, 2.0]))


def test_a_shift_register_is_typed_to_a_fixpoint():
    """Each round hands a dim on by one: it takes as many rounds as there are values."""

    def function(x):
        def body(_, go, *held):
            return go, ops.concat(held[0], held[0]), *held[:-1]

        return ops.loop(None, np.array(True), body, *[x] * 7)

    graph = trace(function, [parse_type("float32[n, 2]")])
    assert {str(v.type) for v in graph.results} == {"float32[?, 2]"}


@pytest.mark.parametrize("most", [0, 1, 2, 50])
def test_a_while_of_so_many_rounds_at_most_has_a_gradient(run, most):
    """Ended by its condition or by its rounds: squared and scaled."""

    def function(x, w):
        made = ops.while_(
            lambda v, _: ops.all(ops.less(v, 9.0)),
            lambda v, u: (v * v * u, u),
            x, w, max_trips=most,
        )  # fmt: skip
        return ops.sum(made[0])

    graph = slopes(function, [X, X])
    x, w = np.array([1.2, 1.25]), np.array([1.25, 1.125])
    rounds, want = 0, x
    while rounds < most and (want < 9.0).all():
        rounds, want = rounds + 1, want * want * w
    assert rounds == min(most, 3)
    np.testing.assert_allclose(check(run, graph, x, w), want.sum(), rtol=1e-12)


def test_a_while_says_why_it_has_no_gradient():
    def function(x):
        return ops.sum(
            ops.while_(lambda v: ops.all(ops.less(v, 9.0)), ops.square, x)[0]
        )

    with pytest.raises(UsageError, match="no gradient") as caught:
        slopes(function, [X])
    assert "set max_trips=" in caught.value.got


# -- functions ---------------------------------------------------------------------


def called(name):
    graph = trace(lambda x, w: ops.sum(x * 1.0) + ops.sum(w), [X, X])
    cube = trace(lambda v: (v * v * v, ops.sin(v)), [None])
    graph.add_function(name, cube)
    graph.remove_result(0)
    x, w = map(Value, graph.parameters)
    with tracing(graph):
        a, _ = ops.call(name, x)
        _, b = ops.call(name, w)
        graph.result((ops.sum(a) + ops.sum(b * x)).port)
    return graph


def test_functions_are_called_by_their_names(run):
    graph = called("cube")
    assert [op.type for op in graph].count("call") == 2
    x, w = np.array([2.0, 3.0]), np.array([0.5, 0.25])
    assert run(graph, x, w)[0] == pytest.approx(np.sum(x**3) + np.sum(np.sin(w) * x))
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    check(run, graph, x, w)


def test_a_function_has_calls_with_several_types(run):
    graph = trace(lambda x, _: x, [X, parse_type("int32[1, 1]")])
    graph.add_function("twice", trace(lambda v: ops.concat(v, v), [None]))
    graph.remove_result(0)
    with tracing(graph):
        x, i = map(Value, graph.parameters)
        once = ops.call("twice", x)[0]
        graph.result(ops.call("twice", once)[0].port)
        graph.result(ops.call("twice", i)[0].port)
    assert [str(v.type) for v in graph.results] == ["float64[4*n]", "int32[2, 1]"]
    made = run(graph, np.array([1.0]), np.array([[7]], "int32"))
    assert [v.tolist() for v in made] == [[1.0] * 4, [[7], [7]]]


def test_a_function_that_calls_itself_is_refused():
    graph = trace(lambda x: x, [X])
    inner = trace(lambda v: v, [X])
    graph.add_function("round", inner)
    with tracing(inner), pytest.raises(UsageError, match="calls itself"):
        made = ops.call("round", Value(inner.parameters[0]))[0]
        inner.remove_result(0)
        inner.result(made.port)
        infer(inner)


def test_a_custom_gradient_wins(run):
    """A straight-through estimator: rounding, with the slope of the identity."""

    def function(x):
        rounded = ops.custom_gradient(ops.round, lambda _x, _y, g: g, x)[0]
        return ops.sum(rounded * rounded)

    graph = slopes(function, [X])
    x = np.array([1.3, 2.6])
    total, slope = run(graph, x)
    assert total == 10.0
    assert slope.tolist() == [2.0, 6.0]


def test_a_custom_gradient_by_what_it_captures_is_refused():
    def function(x):
        made = ops.custom_gradient(lambda: x * 2.0, lambda _y, _g: ())
        return ops.sum(made[0])

    with pytest.raises(UsageError, match="covers its arguments only"):
        slopes(function, [X])


def test_gradients_go_through_a_graph_that_stands_as_an_op(run):
    inner = trace(lambda x: ops.exp(x) * x, [X], "inner")
    inner.namespace = None
    graph = trace(lambda x: x, [X])
    graph.remove_result(0)
    part = graph.add_graph(inner, [graph.parameters[0]])
    part.output.type = X
    with tracing(graph):
        graph.result(ops.sum(part.output).port)
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    check(run, graph, np.array([0.5, 1.0]))


def test_gradients_in_a_branch_from_one_outside(run):
    """As of gradient ops of frameworks: the branch captures the gradient."""

    def function(x, g):
        is_positive = ops.less(0.0, ops.sum(x))
        return ops.if_(is_positive, lambda: gradient_of(ops.square, x, g), lambda: g)[0]

    graph = trace(function, [X, X])
    x, g = np.array([0.5, 2.0]), np.array([3.0, -1.0])
    np.testing.assert_allclose(run(graph, x, g)[0], 2 * x * g)
    np.testing.assert_allclose(run(graph, -x, g)[0], g)


def test_second_gradients_through_loops_and_choices(run):
    def inner(x, w):
        def body(_, go, v):
            return ops.less(ops.sum(v), 40.0), v * w + ops.sin(v)

        y = ops.loop(np.int64(5), np.array(True), body, x)[0]
        large = ops.less(1.0, ops.sum(x))
        return ops.sum(ops.if_(large, lambda: y * y * w, lambda: ops.exp(y))[0])

    def function(x, w):
        y = inner(x, w)
        with tracing(y.port.graph):
            first = grad(y.port.graph, y.port, [w.port])[0]
            return ops.sum(ops.square(Value(first)))

    graph = slopes(function, [X, X])
    check(run, graph, np.array([0.5, 0.9]), np.array([1.2, 0.7]))
    check(run, graph, np.array([0.2, 0.3]), np.array([0.4, 0.7]))
