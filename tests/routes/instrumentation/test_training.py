"""Training of hub graphs: against gradient descent by hand; checkpoints; faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError, UsageError
from amanda.graph import Graph
from amanda_std import Value, ops, tracing

WEIGHTS = np.array([[0.5], [-1.0]], "float32")
X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]], "float32")
TARGET = np.array([[1.0], [0.0], [2.0]], "float32")
BATCHES = [{"x": X, "target": TARGET}]


def make_regression() -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[n, 2]", "x")
    w = graph.constant(WEIGHTS, "w").output
    with tracing(graph):
        graph.result(ops.matmul(Value(x), Value(w)), "y")
    return graph


def squared_error(results: dict[str, Any], target: Any) -> Any:
    difference = ops.subtract(results["y"], target)
    return ops.mean(ops.multiply(difference, difference))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_gradient_descent(backend: str) -> None:
    """The mean squared error has the gradient 2 x^T (x w - t) / n."""
    trained = amanda.train(
        make_regression(), squared_error, BATCHES, optimizer="sgd",
        learning_rate=lambda step: 0.1 / (1 + step), epochs=5, backend=backend,
    )  # fmt: skip
    w = WEIGHTS.astype("float64")
    losses = []
    for step in range(5):
        error = X @ w - TARGET
        losses.append(float(np.mean(error**2)))
        w -= 0.1 / (1 + step) * 2 * X.T @ error / error.size
    np.testing.assert_allclose(trained.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(trained.weights["w"], w, rtol=1e-5)
    [y] = amanda.run(trained.graph, [X], backend=backend).values()
    np.testing.assert_allclose(y, X @ w, rtol=1e-5, atol=1e-6)


def test_the_model_is_not_changed() -> None:
    graph = make_regression()
    copy = graph.clone()
    amanda.train(graph, squared_error, BATCHES, optimizer="sgd", backend="numpy")
    assert graph.difference(copy) is None


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Two times 4 steps from a file are the 8 steps of one run, to the last bit."""
    common: dict[str, Any] = {
        "optimizer": "adam", "learning_rate": 0.05, "backend": "numpy",
    }  # fmt: skip
    whole = amanda.train(make_regression(), squared_error, BATCHES, epochs=8, **common)
    file = tmp_path / "run.safetensors"
    common["checkpoint"] = file
    first = amanda.train(make_regression(), squared_error, BATCHES, epochs=4, **common)
    again = amanda.train(make_regression(), squared_error, BATCHES, epochs=8, **common)
    assert first.losses == whole.losses[:4]
    assert again.losses == whole.losses
    np.testing.assert_array_equal(again.weights["w"], whole.weights["w"])


def test_an_interrupted_run_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"

    def broken(_: int) -> Any:
        yield from BATCHES * 5
        raise KeyboardInterrupt

    common: dict[str, Any] = {"optimizer": "momentum", "backend": "numpy"}
    with pytest.raises(KeyboardInterrupt):
        amanda.train(
            make_regression(), squared_error, broken,
            checkpoint=file, checkpoint_every=2, **common,
        )  # fmt: skip
    resumed = amanda.train(
        make_regression(), squared_error, BATCHES * 6, checkpoint=file, **common
    )
    whole = amanda.train(make_regression(), squared_error, BATCHES * 6, **common)
    assert resumed.losses == whole.losses
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_a_checkpoint_of_another_optimizer(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    common: dict[str, Any] = {"backend": "numpy", "checkpoint": file}
    amanda.train(make_regression(), squared_error, BATCHES, optimizer="sgd", **common)
    with pytest.raises(FormatError, match="of another model or optimizer") as caught:
        amanda.train(
            make_regression(), squared_error, BATCHES, optimizer="adam", **common
        )
    assert "w:m" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adm"}, "no optimizer 'adm'"),
        ({"beta": 0.5}, "adam has no setting 'beta'"),
        ({"weights": ["v*"]}, "no constant of floats is named 'v\\*'"),
        ({"data": []}, "no batch"),
        ({"data": [{"x": X}]}, "parameters that no batch feeds"),
        ({"loss": "z"}, "no result 'z'"),
        ({"data": iter(BATCHES), "epochs": 2}, "iterated only once"),
        ({"epochs": -1}, "number of epochs is negative"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"loss": squared_error, "data": BATCHES, "backend": "numpy"}
    with pytest.raises(UsageError, match=message):
        amanda.train(make_regression(), **{**given, **changes})


def test_a_loss_is_one_number() -> None:
    with pytest.raises(amanda.AmandaError, match="no single number"):
        amanda.train(make_regression(), "y", [{"x": X}], backend="numpy")


def test_the_plot_has_a_point_for_each_step() -> None:
    trained = amanda.train(
        make_regression(), squared_error, BATCHES * 3, optimizer="sgd", backend="numpy"
    )
    line = trained.plot().partition('points="')[2].partition('"')[0]
    assert len(line.split()) == 3


def test_no_epochs_leave_the_model_as_it_is(tmp_path: Path) -> None:
    """As of Keras; there is nothing to write to a checkpoint either."""
    file = tmp_path / "run.safetensors"
    for backend in ("numpy", "jax"):
        trained = amanda.train(
            make_regression(), squared_error, BATCHES, epochs=0, backend=backend,
            checkpoint=file,
        )  # fmt: skip
        assert trained.losses == []
        np.testing.assert_array_equal(trained.weights["w"], WEIGHTS)
        assert trained.graph.difference(make_regression()) is None
    assert not file.exists()


def test_no_epochs_with_a_checkpoint_have_its_weights(tmp_path: Path) -> None:
    common: dict[str, Any] = {
        "backend": "numpy", "checkpoint": tmp_path / "run.safetensors",
    }  # fmt: skip
    first = amanda.train(make_regression(), squared_error, BATCHES, **common)
    again = amanda.train(make_regression(), squared_error, BATCHES, epochs=0, **common)
    assert again.losses == first.losses
    np.testing.assert_array_equal(again.weights["w"], first.weights["w"])


def test_batches_of_an_iterator_are_all_used() -> None:
    """Also the first one, which the types of the inputs of the loss come from."""
    common: dict[str, Any] = {"optimizer": "sgd", "backend": "numpy"}
    batches = [{"x": k * X, "target": TARGET} for k in (1.0, 0.5)]
    batches = [{k: v.astype("float32") for k, v in b.items()} for b in batches]
    listed = amanda.train(make_regression(), squared_error, batches, **common)
    once = amanda.train(make_regression(), squared_error, iter(batches), **common)
    assert len(once.losses) == 2
    assert once.losses == listed.losses


def test_a_graph_without_types() -> None:
    """Types are inferred before the loss is checked."""
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[n, 2]", "x")
    w = graph.constant(WEIGHTS, "w").output
    graph.result(graph.add("matmul", [x, w]).output, "y")
    common: dict[str, Any] = {"optimizer": "sgd", "backend": "numpy"}
    trained = amanda.train(graph, squared_error, BATCHES, **common)
    typed = amanda.train(make_regression(), squared_error, BATCHES, **common)
    np.testing.assert_array_equal(trained.weights["w"], typed.weights["w"])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_an_input_of_unknown_rank(backend: str) -> None:
    """A mean over all axes is a number whatever the rank, and has a gradient."""
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[...]", "x")
    w = graph.constant(np.float32([0.5, 2.0]), "w").output
    graph.result(graph.add("multiply", [x, w]).output, "y")
    trained = amanda.train(
        graph, lambda results: (results["y"] ** 2).mean(), [{"x": X}],
        optimizer="sgd", learning_rate=0.1, backend=backend,
    )  # fmt: skip
    w0 = np.array([0.5, 2.0])
    want = w0 - 0.1 * 2 * w0 * (X**2).sum(axis=0) / X.size
    np.testing.assert_allclose(trained.weights["w"], want, rtol=1e-5)


@amanda.function
def scaled(x):
    """Twice its argument, at the start."""
    scale = x.port.graph.constant(np.array([2.0, 2.0], "float32"), "scale")
    return x * Value(scale.output)


@pytest.mark.parametrize("place", ["twice", "in a branch", "in the branch first"])
def test_a_weight_of_a_function_that_is_called_twice_is_one(place: str) -> None:
    """The mean of x s^2 has the gradient 2 s mean(x) by each element of s."""
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[n, 2]", "x")
    flag = graph.parameter("bool[]", "flag")
    with tracing(graph):
        y = Value(x)
        for call in (1, 2):
            if place == {1: "in the branch first", 2: "in a branch"}[call]:
                [y] = ops.if_(Value(flag), lambda v: scaled(v), lambda v: v, y)
            else:
                y = scaled(y)
        graph.result(ops.mean(y).port, "loss")
    feeds = {"x": X, "flag": np.array(True)}
    trained = amanda.train(
        graph, "loss", [feeds], optimizer="sgd", learning_rate=0.1, epochs=2,
        backend="numpy",
    )  # fmt: skip
    assert list(trained.weights) == ["scale"]
    s, means = np.array([2.0, 2.0]), X.astype("float64").mean(axis=0)
    losses = []
    for _ in range(2):
        losses.append(float((means * s**2).mean()))
        s = s - 0.1 * 2 * s * means / 2
    np.testing.assert_allclose(trained.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(trained.weights["scale"], s, rtol=1e-5)
    [y] = amanda.run(trained.graph, feeds, backend="numpy").values()
    np.testing.assert_allclose(y, (means * s**2).mean(), rtol=1e-5)


@pytest.mark.parametrize("loss", [lambda _: None, lambda _: 1.0, lambda r: (r["y"],)])
def test_a_loss_that_is_no_value(loss: Any) -> None:
    with pytest.raises(UsageError, match="returns no value of the graph"):
        amanda.train(make_regression(), loss, [{"x": X}], backend="numpy")


@pytest.mark.parametrize("rate", [None, "x"])
def test_a_learning_rate_that_is_no_number(rate: Any) -> None:
    with pytest.raises(UsageError, match="learning rate of step 0"):
        amanda.train(
            make_regression(), squared_error, BATCHES,
            learning_rate=lambda _: rate, backend="numpy",
        )  # fmt: skip


def test_a_weight_may_be_named_as_the_number_of_steps() -> None:
    named, usual = make_regression(), make_regression()
    named.rename(named.ops["w"], "step")
    options: dict[str, Any] = {"optimizer": "adam", "epochs": 3, "backend": "numpy"}
    got = amanda.train(named, squared_error, BATCHES, **options)
    expected = amanda.train(usual, squared_error, BATCHES, **options)
    assert got.losses == expected.losses
    np.testing.assert_array_equal(got.weights["step"], expected.weights["w"])


def test_statistics_and_fixed_constants_are_not_trained() -> None:
    """Those of batch normalization, as an op or named as Keras does, and notes."""
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[n, 2]", "x"))
    row = np.ones(2, "float32")
    names = ("scale", "bias", "mean", "var", "bn/moving_variance", "fixed", "w")
    held = {name: graph.constant(row, name).output for name in names}
    held["fixed"].op.attrs["x-trainable"] = False
    with tracing(graph):
        values = [Value(held[name]) for name in names]
        y = ops.batch_norm(x, *values[:4], axis=1) / ops.sqrt(values[4])
        graph.result(y * values[5] * values[6], "y")
    trained = amanda.train(
        graph, squared_error, [{"x": X, "target": TARGET}], backend="numpy"
    )
    assert trained.weights.keys() == {"scale", "bias", "w"}
    everything = amanda.train(
        graph,
        squared_error,
        [{"x": X, "target": TARGET}],
        weights=["*"],
        backend="numpy",
    )
    assert everything.weights.keys() == set(names)
