"""Conventions of gradients: ties, kinks, complex numbers; what is not known yet."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, GraphError, InvalidTypeError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.engine.values import Value, tracing


def slopes(run, function, *arrays):
    """The gradients of the sum of what a function makes, by all arguments."""
    types = [parse_type(f"{a.dtype}[{', '.join(map(str, a.shape))}]") for a in arrays]
    graph = trace(function, types)
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    return [value.tolist() for value in run(graph, *arrays)[1:]]


X = np.array([1.0, 3.0, 3.0])


@pytest.mark.parametrize("fold", [ops.max_, ops.min_])
def test_an_extreme_that_several_have_is_shared_by_them(run, fold):
    sign = 1.0 if fold is ops.max_ else -1.0
    assert slopes(run, fold, X * sign) == [[0.0, 0.5, 0.5]]


def test_the_larger_of_equals_has_half_the_gradient(run):
    assert slopes(run, ops.maximum, X, X) == [[0.5] * 3, [0.5] * 3]
    assert slopes(run, ops.minimum, X, X) == [[0.5] * 3, [0.5] * 3]


def test_a_window_gives_its_gradient_to_the_first_of_its_largest(run):
    x = X.reshape(1, 1, 3)
    assert slopes(run, lambda v: ops.max_pool(v, window=(2,)), x) == [
        [[[0.0, 2.0, 0.0]]]
    ]


def test_scattered_extremes_are_shared_by_all_that_are_equal(run):
    def function(x, u):
        return ops.scatter_nd(x, np.array([[0], [0]]), u, reduction="max")

    x, u = np.array([2.0, 1.0]), np.array([2.0, 2.0])
    got = slopes(run, function, x, u)
    np.testing.assert_allclose(got[0], [1 / 3, 1.0])
    np.testing.assert_allclose(got[1], [1 / 3, 1 / 3])


def test_of_updates_for_one_place_the_one_that_stays_has_the_gradient(run):
    def function(x, u):
        return ops.scatter_nd(x, np.array([[0], [0]]), u)

    assert slopes(run, function, X, np.array([5.0, 6.0])) == [[0.0, 1, 1], [0.0, 1.0]]


def test_at_zero_the_absolute_value_and_relu_are_flat(run):
    zero = np.zeros(2)
    assert slopes(run, ops.abs, zero) == [[0.0, 0.0]]
    assert slopes(run, ops.relu, zero) == [[0.0, 0.0]]


def test_products_of_zeros_have_second_gradients(run):
    """d2(abc) / da db is c, also where all of them are zero but one."""

    def function(x):
        total = ops.prod(x)
        graph = total.port.graph
        with tracing(graph):
            first = Value(grad(graph, total.port, [x.port])[0])
            return ops.sum(first * np.array([1.0, 10.0, 100.0]))

    x = np.array([0.0, 0.0, 7.0])
    # of 1 * bc + 10 * ac + 100 * ab
    assert slopes(run, function, x) == [[70.0, 7.0, 0.0]]


def test_padding_that_is_computed_has_a_gradient(run):
    graph = trace(
        lambda x, pads: ops.pad(x, pads, mode="reflect"),
        [parse_type("float64[n]"), parse_type("int64[1, 2]")],
    )
    x, _ = graph.parameters
    graph.result(grad(graph, graph.results[0], [x])[0])
    got = run(graph, np.array([1.0, 2.0, 4.0]), np.array([[2, 1]]))
    assert got[0].tolist() == [4.0, 2, 1, 2, 4, 2]
    assert got[1].tolist() == [1.0, 3.0, 2.0]


def test_equations_of_unknown_sizes(run):
    graph = trace(
        lambda a, b: ops.einsum(a, b, equation="...ii,...i->..."),
        [parse_type("float64[m, n, n]"), parse_type("float64[n]")],
    )
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    a, b = np.arange(8.0).reshape(2, 2, 2), np.array([2.0, 5.0])
    _, to_a, to_b = run(graph, a, b)
    assert to_a.tolist() == [[[2.0, 0.0], [0.0, 5.0]]] * 2
    assert to_b.tolist() == [0.0 + 4.0, 3.0 + 7.0]


# -- complex numbers ------------------------------------------------------------------


COMPLEX = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "exp": lambda a, b: ops.exp(a) * b,
    "log": lambda a, b: ops.log(a) + b,
    "sin": lambda a, b: ops.sin(a) * ops.cos(b),
    "tanh": lambda a, b: ops.tanh(a) + ops.sinh(b),
    "sqrt": lambda a, b: ops.sqrt(a) * b,
    "matmul": lambda a, b: ops.matmul(a, b),
    "einsum": lambda a, b: ops.einsum(a, b, equation="i,j->ij"),
    "mean": lambda a, b: ops.mean(a * a) * ops.sum(b),
    "prod": lambda a, b: ops.prod(a) + ops.prod(b),
    "cumulative": lambda a, b: ops.cumulative_sum(a, 0) * b,
    "moved": lambda a, b: ops.concat(
        ops.flip(a, (0,)), ops.gather(b, np.array([1, 1]))
    ),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_the_gradient_of_a_complex_number_is_that_of_jax(run, name):
    """dL/da - i dL/db, of z = a + ib and a real L: the real part of what is made."""

    def function(a, b):
        made = ops.sum(COMPLEX[name](a, b) * np.array(0.7 - 0.4j))
        return ops.astype(made, dtype="float64")

    rng = np.random.default_rng(4)
    z = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    graph = trace(function, [parse_type("complex128[3]")] * 2)
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    got = run(graph, *z)[1:]
    for i, at in np.ndindex(2, 3):
        ends = []
        for step in (1e-6, -1e-6, 1e-6j, -1e-6j):
            moved = z.copy()
            moved[i, at] += step
            ends.append(float(run(graph, *moved)[0]))
        want = (ends[0] - ends[1]) / 2e-6 - 1j * (ends[2] - ends[3]) / 2e-6
        np.testing.assert_allclose(got[i][at], want, rtol=1e-6, atol=1e-8)


def test_complex_results_have_no_gradient():
    graph = trace(lambda x: x * x, [parse_type("complex128[3]")])
    with pytest.raises(InvalidTypeError, match="gradients are of real numbers"):
        grad(graph, graph.results[0], graph.parameters)


def feedback_loop():
    """A product with its own last value, as dataflow loops have it."""
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[]", "x")
    last = graph.add("identity", [None], name="last", feedback=True)
    last.output.type = x.type
    product = graph.add("multiply", [x, last.output], name="product")
    product.output.type = x.type
    last.input_ports[0].connect(product.output)
    graph.result(product.output, "y")
    return graph


def test_feedback_edges_have_no_gradient_and_do_not_run():
    graph = feedback_loop()
    with pytest.raises(GraphError, match="feedback edges has no gradient"):
        grad(graph, graph.results[0], graph.parameters)
    (refusal,) = amanda.plan(graph, "numpy").refusals
    assert (refusal.op, "feedback" in refusal.why) == ("identity", True)
    with pytest.raises(BackendError, match="does not take 1 op"):
        amanda.run(feedback_loop(), [np.float32(1)], backend="numpy")
