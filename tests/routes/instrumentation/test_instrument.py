"""Tools on graphs of the hub: observed values, gradients, bodies of control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.instrument import GradientSite, Site, Tool, on_gradient, on_op
from amanda_std import Value, ops, tracing

VECTOR = "float32[2]"
BACKENDS = ["numpy", "jax", "onnxruntime"]
WEIGHTS = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
X = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]], "float32")


def make_network() -> Graph:
    """relu(x @ w) summed over its rows."""
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[2, 3]", "x")
    w = graph.constant(WEIGHTS, "w").output
    with tracing(graph):
        hidden = ops.relu(ops.matmul(Value(x), Value(w)))
        graph.result(ops.sum(hidden, axes=(1,)), "y")
    return graph


class Statistics(Tool):
    """The sum of each activation, and of its squared gradient."""

    @on_op(type="relu")
    def total(self, site: Site) -> None:
        site.observe("total", ops.sum(site.output), combine="sum")

    @on_gradient(type="relu")
    def norm(self, site: GradientSite) -> None:
        site.observe("squares", ops.sum(ops.multiply(site.gradient, site.gradient)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_gradients(backend: str) -> None:
    """The gradient of the sum by relu(x @ w) is one everywhere: 8 squares of one."""
    instrumented = amanda.apply(make_network(), Statistics())
    compiled = instrumented.compile(backend)
    hidden = np.maximum(X @ WEIGHTS, 0)
    for _ in range(2):
        [y] = compiled([X]).values()
        np.testing.assert_allclose(y, hidden.sum(1), rtol=1e-6)
    [total], [squares] = (instrumented.report[key].values() for key in KEYS)
    np.testing.assert_allclose(total, 2 * hidden.sum(), rtol=1e-6)
    assert squares == 8.0


KEYS = ("total", "squares")


def test_unused_gradients_are_removed() -> None:
    """Only the gradient of relu is observed, so none of matmul is left."""
    instrumented = amanda.apply(make_network(), Statistics())
    made = [op for op in instrumented.graph if op.provenance]
    backward = [
        op.type for op in made if op.provenance and op.provenance.by == "gradient"
    ]
    assert backward
    assert "matmul" not in backward


def test_gradients_name_the_forward_op() -> None:
    class Weights(Tool):
        @on_gradient(type="relu")
        def keep(self, site: GradientSite) -> None:
            site.observe("gradient", site.gradient)

    graph = make_network()
    graph.rename(next(op for op in graph if op.type == "sum"), "total")
    found = amanda.apply(graph, Weights()).graph
    sources = {op.provenance for op in found if op.provenance}
    assert {(p.sources, p.by) for p in sources} == {(("total",), "gradient")}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_replaced_gradient_flows_on(backend: str) -> None:
    """Twice the gradient at relu is twice the gradient of the weights."""

    class Double(Tool):
        factor = 2.0

        @on_gradient(type="relu")
        def double(self, site: GradientSite) -> None:
            site.replace_gradient(ops.multiply(site.gradient, self.factor))

        @on_gradient(type="matmul")
        def keep(self, site: GradientSite) -> None:
            site.observe("gradient", site.gradient)

    instrumented = amanda.apply(make_network(), Double())
    instrumented.run([X], backend)
    [found] = instrumented.report["gradient"].values()
    np.testing.assert_array_equal(found, 2.0 * (X @ WEIGHTS > 0))


@pytest.mark.parametrize(
    ("loss", "factor"),
    [("y", 1.0), (lambda results: ops.multiply(results["y"], 3.0), 3.0)],
)
def test_losses(loss: Any, factor: float) -> None:
    instrumented = amanda.apply(make_network(), Statistics(), loss=loss, wrt=["w"])
    instrumented.run([X], "numpy")
    assert instrumented.report["squares"]["relu"] == 8 * factor**2


def test_a_loss_must_be_named_where_there_are_several() -> None:
    graph = make_network()
    graph.result(graph.parameters[0], "again")
    with pytest.raises(UsageError, match="not clear which result") as caught:
        amanda.apply(graph, Statistics())
    assert "y, again" in str(caught.value)


def test_unknown_names_of_weights() -> None:
    with pytest.raises(UsageError, match="no inputs or constants") as caught:
        amanda.apply(make_network(), Statistics(), wrt=["v"])
    assert caught.value.got == "v"


# -- bodies ----------------------------------------------------------------------------


class Doubling(Tool):
    """What the multiplications of a loop compute."""

    @on_op(type="multiply")
    def combine(self, site: Site) -> None:
        for how in ("last", "sum", "mean", "max", "min", "stack"):
            site.observe(how, ops.sum(site.output), combine=how)


@amanda.function
def nested_loops(x: Any) -> Any:
    """Doubles at most 4 times while the sum is below 30, then triples up to 500."""

    def double(_: Any, condition: Any, now: Any) -> Any:
        is_small = ops.less(ops.sum(now), 30.0)
        doubled = ops.if_(is_small, lambda: ops.multiply(now, 2.0), lambda: now)
        return condition, doubled[0]

    start = ops.loop(np.array(6), np.array(True), double, x)[0]
    return ops.while_(
        lambda now: ops.less(ops.sum(now), 500.0),
        lambda now: ops.multiply(now, 3.0),
        start,
    )[0]


@amanda.function
def calling(x: Any) -> Any:
    return nested_loops(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_of_bodies_are_carried_out(backend: str) -> None:
    """[1, 2]: sums 6, 12, 24, 48 in the loop; 144, 432, 1296 in the other one."""
    instrumented = amanda.apply(calling.graph(VECTOR), Doubling())
    [y] = instrumented.run([np.array([1, 2], "float32")], backend).values()
    np.testing.assert_allclose(y, [432, 864])
    report = instrumented.report
    doubles, triples = [6, 12, 24, 48], [144, 432, 1296]
    by_op = {row.op: row.executions for row in report.select("sum")}
    counts = dict(zip((4, 3), (doubles, triples), strict=True))
    assert sorted(by_op.values()) == [3, 4]
    for op, executions in by_op.items():
        values = counts[executions]
        found = {key: float(report[key][op]) for key in ("last", "sum", "max", "min")}
        assert found == {
            "last": values[-1], "sum": sum(values), "max": max(values),
            "min": min(values),
        }  # fmt: skip
        assert report["mean"][op] == pytest.approx(np.mean(values))
    assert {row.key for row in report.unobserved} == {"stack"}


def test_what_no_iteration_computed_is_not_reported() -> None:
    instrumented = amanda.apply(calling.graph(VECTOR), Doubling())
    instrumented.run([np.array([600, 2], "float32")], "numpy")
    assert instrumented.report.rows == []


def test_shapes_that_loops_cannot_carry_are_named() -> None:
    @amanda.function
    def network(x: Any) -> Any:
        return ops.if_(
            ops.less(ops.sum(x), 1.0), lambda: ops.exp(x), lambda: ops.multiply(x, 2.0)
        )[0]

    class Whole(Tool):
        @on_op(type="exp")
        def keep(self, site: Site) -> None:
            site.observe("value", site.output)

    report = amanda.apply(network.graph("float32[n, 2]"), Whole()).report
    [missing] = report.unobserved
    assert "its shape is not static" in missing.reason
    assert report.probes == []


# -- callbacks -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_python_functions_of_whole_values(backend: str) -> None:
    class Medians(Tool):
        @on_op(type="matmul")
        def median(self, site: Site) -> None:
            site.observe_on_host(
                "median",
                lambda x: np.asarray(np.median(x), "float32"),
                site.output,
                types=["float32[]"],
            )

    instrumented = amanda.apply(make_network(), Medians())
    instrumented.run([X], backend)
    [found] = instrumented.report["median"].values()
    assert found == pytest.approx(np.median(X @ WEIGHTS), rel=1e-6)
    [left] = instrumented.report.callbacks
    assert (left.tool, left.key) == ("Medians", "median")
    assert "left the device: 1 values" in str(instrumented.report)


def test_the_namespace_must_have_gradients() -> None:
    class Own(Statistics):
        namespace = None

    graph = Graph("amanda/onnx/18")
    x = graph.parameter("float32[2]", "x")
    relu = graph.add("relu", [x], name="relu").output
    relu.type = amanda.parse_type("float32[2]")
    graph.result(relu, "y")

    class OwnGradients(Tool):
        namespace = None

        @on_gradient(type="relu")
        def keep(self, site: GradientSite) -> None:
            site.observe("gradient", site.gradient)

    with pytest.raises(UsageError, match="has no gradients"):
        amanda.apply(graph, OwnGradients())
