"""Training of weights in bodies, against finite differences of a model in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph, Op
from amanda_std import Value, ops, tracing

RATE = 0.1
X = np.array([[1.0, 2.0], [0.5, -1.0], [0.25, 0.75]], "float32")
KERNEL = np.array([[0.5, -0.25], [0.75, 1.0]], "float32")
SCALE = np.array([1.5, -0.5], "float32")
Arrays = dict[str, np.ndarray[Any, Any]]


def named(graph: Graph | None, array: Any, name: str) -> Value:
    assert graph is not None
    return Value(graph.constant(array, name).output)


def make_model(build: Callable[[Value, Value], Any], outer: bool = False) -> Graph:
    """A model with a flag; with `outer`, a weight around the body scales its input."""
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[n, 2]", "x"))
    flag = Value(graph.parameter("bool[]", "flag"))
    with tracing(graph):
        given = x * named(graph, SCALE, "scale") if outer else x
        graph.result(build(given, flag).port, "y")
    return graph


def kernel_of(x: Value, name: str = "kernel", array: Any = KERNEL) -> Value:
    return named(x.port.graph, array, name)


def in_loop(x: Value, _: Value) -> Any:
    return ops.loop(2, True, lambda i, go, s: (go, s @ kernel_of(s)), x)[0]


def in_while(x: Value, _: Value) -> Any:
    def body(count: Value, s: Value) -> Any:
        return count + 1, s @ kernel_of(s)

    start = np.zeros((), "int64")
    return ops.while_(lambda count, _: count < 2, body, start, x, max_trips=5)[1]


def in_branch(x: Value, flag: Value) -> Any:
    return ops.if_(flag, lambda v: v @ kernel_of(v), lambda v: v + 1.0, x)[0]


def in_case(x: Value, flag: Value) -> Any:
    branches = [lambda v: v + 1.0, lambda v: v @ kernel_of(v)]
    return ops.case(ops.astype(flag, dtype="int32"), branches, x)[0]


def in_scan(x: Value, _: Value) -> Any:
    """A recurrent network over the rows."""

    def body(state: Value, row: Value) -> Any:
        new = ops.tanh(state @ kernel_of(state) + row)
        return new, new

    return ops.scan(body, None, 0.0 * x[0], x, carried=1)[1]


def in_branch_in_loop(x: Value, flag: Value) -> Any:
    def body(_: Value, go: Value, s: Value) -> Any:
        return go, in_branch(s, flag)

    return ops.loop(2, True, body, x)[0]


def as_result_of_branch(x: Value, flag: Value) -> Any:
    def taken(v: Value) -> Any:
        return kernel_of(v)

    return x @ ops.if_(flag, taken, lambda _: np.ones((2, 2), "float32"), x)[0]


def power(x: Any, kernel: Any) -> Any:
    return x @ kernel @ kernel


def recur(x: Any, kernel: Any) -> Any:
    rows = [np.zeros(2)]
    for row in x:
        rows.append(np.tanh(rows[-1] @ kernel + row))
    return np.stack(rows[1:])


MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "loop": (in_loop, power),
    "while": (in_while, power),
    "if": (in_branch, np.matmul),
    "case": (in_case, np.matmul),
    "scan": (in_scan, recur),
    "if in loop": (in_branch_in_loop, power),
    "result of if": (as_result_of_branch, np.matmul),
}


def mean_square(results: dict[str, Any]) -> Any:
    return (results["y"] ** 2).mean()


def slopes_of(function: Callable[[Arrays], Any], weights: Arrays) -> Arrays:
    """Central differences of a function of weights."""
    found = {name: np.zeros(w.shape) for name, w in weights.items()}
    for name, slopes in found.items():
        for at in np.ndindex(slopes.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {n: w.astype("float64") for n, w in weights.items()}
                moved[name][at] += step
                ends.append(float(function(moved)))
            slopes[at] = (ends[0] - ends[1]) / 2e-6
    return found


def train(graph: Graph, flag: bool = True, **settings: Any) -> amanda.TrainedModel:
    given: dict[str, Any] = {"optimizer": "sgd", "learning_rate": RATE, **settings}
    batch = {"x": X, "flag": np.array(flag)}
    return amanda.train(graph, mean_square, [batch], backend="numpy", **given)


def inner_op(graph: Graph, name: str) -> Op:
    [op] = graph.ops.select(name=name, deep=True)
    return op


@pytest.mark.most_cases(14)
@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_follows_the_slope(name: str, backend: str) -> None:
    """Weights in a body and around it; the trained graph has them in their places."""
    build, compute = MODELS[name]
    graph = make_model(build, outer=True)
    batch = {"x": X, "flag": np.array(True)}
    trained = amanda.train(
        graph, mean_square, [batch], optimizer="sgd", learning_rate=RATE, epochs=2,
        backend=backend,
    )  # fmt: skip

    def loss(weights: Arrays) -> Any:
        return np.mean(compute(X * weights["scale"], weights["kernel"]) ** 2)

    weights: Arrays = {"scale": SCALE, "kernel": KERNEL}
    losses = []
    for _ in range(2):
        losses.append(loss(weights))
        slopes = slopes_of(loss, weights)
        weights = {n: w - RATE * slopes[n] for n, w in weights.items()}
    np.testing.assert_allclose(trained.losses, losses, rtol=1e-4)
    made = trained.graph
    for each, want in weights.items():
        np.testing.assert_allclose(trained.weights[each], want, rtol=1e-3, atol=1e-5)
        constant = inner_op(made, each)
        np.testing.assert_array_equal(
            constant.attrs["value"].numpy(), trained.weights[each]
        )
        inner_op(graph, each).attrs["value"] = constant.attrs["value"]
    assert made.difference(without_names(graph, made)) is None


def without_names(graph: Graph, like: Graph) -> Graph:
    """A copy with the names that training gives to constants without one."""
    copy = graph.clone()
    for part, other in zip(copy.graphs(), like.graphs(), strict=True):
        for op, named_op in zip(part, other, strict=True):
            if op.name is None:
                part.rename(op, named_op.name)
    return copy


def test_only_the_branch_that_is_taken_learns() -> None:
    def both(x: Value, flag: Value) -> Any:
        def other(v: Value) -> Any:
            return v @ kernel_of(v, array=2.0 * KERNEL)

        return ops.if_(flag, lambda v: v @ kernel_of(v), other, x)[0]

    trained = train(make_model(both), flag=False)
    assert list(trained.weights) == ["kernel", "kernel_1"]  # one name in two bodies
    np.testing.assert_array_equal(trained.weights["kernel"], KERNEL)
    error = X @ (2.0 * KERNEL)
    slope = 2.0 * X.T @ error / error.size
    want = 2.0 * KERNEL - RATE * slope
    np.testing.assert_allclose(trained.weights["kernel_1"], want, rtol=1e-5)
    branch = next(op for op in trained.graph if op.type == "if")
    held = [body.ops["kernel"].attrs["value"] for body in branch.bodies.values()]
    for tensor, each in zip(held, trained.weights.values(), strict=True):
        np.testing.assert_array_equal(tensor.numpy(), each)


@pytest.mark.parametrize("pattern", ["kernel", "ker*"])
def test_weights_in_bodies_are_chosen_by_name(pattern: str) -> None:
    trained = train(make_model(in_loop, outer=True), weights=[pattern])
    assert list(trained.weights) == ["kernel"]
    assert not np.array_equal(trained.weights["kernel"], KERNEL)
    scale = inner_op(trained.graph, "scale").attrs["value"].numpy()
    np.testing.assert_array_equal(scale, SCALE)


def test_a_weight_in_a_body_without_a_name() -> None:
    def build(x: Value, _: Value) -> Any:
        return ops.loop(2, True, lambda i, go, s: (go, s @ np.asarray(KERNEL)), x)[0]

    trained = train(make_model(build))
    assert list(trained.weights) == ["weight"]
    assert "weight" in inner_op(trained.graph, "weight").graph.ops


def test_a_checkpoint_has_the_weights_in_bodies(tmp_path: Any) -> None:
    file = tmp_path / "run.safetensors"
    whole = train(make_model(in_loop), epochs=4)
    train(make_model(in_loop), epochs=2, checkpoint=file)
    again = train(make_model(in_loop), epochs=4, checkpoint=file)
    assert again.losses == whole.losses
    np.testing.assert_array_equal(again.weights["kernel"], whole.weights["kernel"])


def test_a_gradient_of_its_own_is_of_arguments_only() -> None:
    """What such a body captures has no gradient, so its constants are no weights."""

    def build(x: Value, _: Value) -> Any:
        def forward(v: Value) -> Any:
            return v * kernel_of(v, "inside", SCALE)

        return ops.custom_gradient(forward, lambda v, y, g: g, x)[0]

    trained = train(make_model(build, outer=True))
    assert list(trained.weights) == ["scale"]
    with pytest.raises(UsageError, match="there is no weight to train") as caught:
        train(make_model(build))
    assert "inside" in str(caught.value)
    assert "weights=[...]" in str(caught.value)


def test_a_loss_that_depends_on_no_constant() -> None:
    with pytest.raises(UsageError, match="there is no weight to train") as caught:
        train(make_model(lambda x, flag: ops.tanh(x)))
    assert "constants of the graph, not inputs" in str(caught.value)
