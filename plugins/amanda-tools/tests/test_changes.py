"""Tools that change models: pruning, faults, adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tool_samples import BACKENDS, NAMESPACES, digits, images, samples

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.testing import ToolSuite
from amanda_std import Value, ops, tracing
from amanda_tools.adapters.lora import LowRankAdapters, merge_adapters
from amanda_tools.injection.campaign import Campaign, run_campaign, summarize
from amanda_tools.injection.inject import Inject
from amanda_tools.pruning.prune import Prune

X = images(20)


class ChangingSuite(ToolSuite):
    changes_results = True

    def samples(self) -> Any:
        return samples()


class TestPrune(ChangingSuite):
    tool = "prune"
    options: ClassVar[Any] = {"kind": "channels", "ratio": 0.25}
    backends = BACKENDS


class TestInject(ChangingSuite):
    tool = "inject"
    options: ClassVar[Any] = {"fault": "gaussian", "target": "activations"}
    backends = BACKENDS


class TestCampaign(ToolSuite):
    tool = "campaign"
    options: ClassVar[Any] = {"seeds": 1, "types": "conv"}
    backends = BACKENDS

    def samples(self) -> Any:
        return samples()


class TestLowRankAdapters(ToolSuite):
    tool = "lora"
    backends = BACKENDS

    def samples(self) -> Any:
        return samples()


def only_result(graph: Graph, x: Any, backend: str = "numpy") -> Any:
    [found] = amanda.run(graph, [x], backend=backend).values()
    return np.asarray(found)


# -- pruning ---------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_half_of_the_weights_are_zero(scope: str) -> None:
    instrumented = amanda.apply(digits(), Prune(ratio_of=scope))
    assert instrumented.report.summary["share of zeros"] == pytest.approx(0.5, abs=0.01)


def test_the_smallest_weights_go() -> None:
    graph = amanda.apply(digits(), Prune(ratio=0.3)).graph
    old = digits().ops["9.weight"].attrs["value"].numpy()
    new = next(
        op.attrs["value"].numpy()
        for op in graph
        if op.is_constant and set(op.attrs["value"].shape) == {10, 32}
    )
    new = new if new.shape == old.shape else new.T
    is_kept = new != 0
    assert np.abs(old[~is_kept]).max() <= np.abs(old[is_kept]).min()
    np.testing.assert_array_equal(new[is_kept], old[is_kept])


def test_two_of_four() -> None:
    """Of each four inputs in a row, the two largest weights of an output stay."""
    weight = np.arange(1, 17, dtype="float32").reshape(8, 2) * np.array(
        [1, -1], "float32"
    )
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[1, 8]", "x")
    with tracing(graph):
        held = Value(graph.constant(weight, "w").output)
        graph.result(ops.matmul(Value(x), held), "y")
    pruned = (
        amanda.apply(graph, Prune(kind="n:m")).graph.ops["w"].attrs["value"].numpy()
    )
    expected = weight.copy()
    expected[[0, 1, 4, 5]] = 0
    np.testing.assert_array_equal(pruned, expected)


def block_network() -> Graph:
    """A residual block, a depthwise convolution, a concatenation, and a classifier."""
    random = np.random.default_rng(0)
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[n, 3, 8, 8]", "x"))

    def weight(*shape: int) -> Value:
        array = random.normal(0, 0.3, shape).astype("float32")
        return Value(graph.constant(array, graph.fresh_name("w")).output)

    def norm(value: Any, size: int) -> Any:
        scale, shift, mean = (weight(size) for _ in range(3))
        variance = Value(graph.constant(np.ones(size, "float32")).output)
        return ops.batch_norm(value, scale, shift, mean, variance)

    pads = ((1, 1), (1, 1))
    with tracing(graph):
        stem = ops.relu(norm(ops.conv(x, weight(8, 3, 3, 3), padding=pads), 8))
        inner = ops.relu(ops.conv(stem, weight(12, 8, 3, 3), weight(12), padding=pads))
        outer = ops.conv(inner, weight(8, 12, 1, 1))
        added = ops.sigmoid(ops.add(stem, outer))
        deep = ops.conv(added, weight(8, 1, 3, 3), weight(8), padding=pads, groups=8)
        joined = ops.concat(deep, inner, axis=1)
        pooled = ops.max_pool(joined, window=(2, 2), strides=(2, 2))
        mixed = ops.relu(ops.conv(pooled, weight(10, 20, 1, 1)))
        flat = ops.mean(mixed, axes=(2, 3))
        hidden = ops.gelu(ops.add(ops.matmul(flat, weight(10, 16)), weight(16)))
        graph.result(ops.matmul(hidden, weight(16, 4)), "y")
    return graph


@pytest.mark.parametrize("backend", BACKENDS)
def test_removed_channels_equal_masked_ones(backend: str, tmp_path: Path) -> None:
    """Residuals, depthwise convolutions and concatenations have coupled channels."""
    graph = block_network()
    pruned = amanda.apply(graph, Prune(kind="channels", ratio=0.5))
    masked = amanda.apply(graph, Prune(kind="channels", ratio=0.5, mask=True))
    x = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype("float32")
    expected = only_result(masked.graph, x)
    np.testing.assert_allclose(
        only_result(pruned.graph, x, backend), expected, rtol=1e-4, atol=1e-5
    )
    assert pruned.report.summary["groups of channels"] == 4
    shapes = [
        op.attrs["value"].shape
        for op in pruned.graph
        if op.is_constant and len(op.attrs["value"].shape) == 4
    ]
    assert shapes == [(4, 3, 3, 3), (6, 4, 3, 3), (4, 6, 1, 1), (4, 1, 3, 3),
                      (5, 10, 1, 1)]  # fmt: skip
    path = tmp_path / "pruned.onnx"
    amanda.save(amanda.convert(pruned.graph, "onnx@18"), path)
    again = only_result(amanda.load(path), x, "onnxruntime")
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)


def test_channels_of_all_groups_are_compared() -> None:
    """A global ratio takes more from some groups; multiples are kept; names choose."""
    graph = block_network()
    tool = Prune(kind="channels", ratio=0.5, ratio_of="global")
    left = amanda.apply(graph, tool).report["channels"]
    counts = {tuple(map(int, each.split(" of "))) for each in left.values()}
    assert all(1 <= kept <= size for kept, size in counts)
    assert len({kept / size for kept, size in counts}) > 1
    tool = Prune(kind="channels", ratio=0.3, multiple=4)
    left = amanda.apply(graph, tool).report["channels"]
    assert set(left.values()) == {"8 of 8", "12 of 12", "8 of 10", "12 of 16"}
    tool = Prune(kind="channels", types="matmul")
    assert amanda.apply(graph, tool).report.summary["groups of channels"] == 1


def test_weights_of_linear_layers_are_inputs_by_outputs() -> None:
    """`linear(x, w, b)` is x @ w + b, so channels are the columns of w."""
    weight = np.array([[1, 9, 2], [1, 9, 2]], "float32")
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[n, 2]", "x"))
    with tracing(graph):
        bias = np.array([3, 4, 5], "float32")
        held = Value(graph.constant(weight, "w").output)
        inner = ops.linear(x, held, Value(graph.constant(bias, "b").output))
        graph.result(ops.linear(ops.relu(inner), np.ones((3, 2), "float32")), "y")
    pruned = amanda.apply(graph, Prune(kind="channels", ratio=0.4)).graph
    left = [pruned.ops[n].attrs["value"].numpy().tolist() for n in ("w", "b")]
    assert left == [[[9, 2], [9, 2]], [4, 5]]
    pruned = amanda.apply(graph, Prune(kind="n:m", n=1, m=2)).graph
    assert (pruned.ops["w"].attrs["value"].numpy() == 0).sum() == 3


def test_what_matters_least_to_a_loss_goes() -> None:
    """The channel that goes is the one without which the loss changes least."""
    weight = np.array([[3, 0.1], [2, 0.2]], "float32")
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[n, 2]", "x"))
    with tracing(graph):
        inner = ops.matmul(x, Value(graph.constant(weight, "w").output))
        outer = np.array([[0.01], [5]], "float32")
        graph.result(ops.matmul(inner, Value(graph.constant(outer, "v").output)), "y")
    data = [[np.ones((1, 2), "float32")]]
    for criterion, kept in (("magnitude", [[3], [2]]), ("gradient", [[0.1], [0.2]])):
        tool = Prune(kind="channels", criterion=criterion)
        pruned = amanda.apply(graph, tool, data=data).graph
        np.testing.assert_array_equal(
            pruned.ops["w"].attrs["value"].numpy(), np.array(kept, "float32")
        )
    with pytest.raises(UsageError, match="needs example inputs"):
        amanda.apply(graph, Prune(kind="channels", criterion="gradient"))


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_pruned_digits_of_all_frameworks(namespace: str) -> None:
    graph = digits(namespace)
    pruned = amanda.apply(graph, Prune(kind="channels", ratio=0.25))
    masked = amanda.apply(graph, Prune(kind="channels", ratio=0.25, mask=True))
    np.testing.assert_allclose(
        only_result(pruned.graph, X), only_result(masked.graph, X), atol=1e-5
    )
    summary = pruned.report.summary
    assert summary["weights after"] < summary["weights before"]


# -- faults ----------------------------------------------------------------------------


def test_a_flipped_bit_of_a_weight() -> None:
    tool = Inject(names="/3/Conv", bit=31, count=2)
    instrumented = amanda.apply(digits(), tool)
    places = instrumented.report["flipped"]["/3/Conv"]
    conv = next(op for op in instrumented.graph if op.name == "/3/Conv")
    weight = conv.inputs[1]
    assert weight is not None
    new = weight.op.attrs["value"].numpy().ravel()
    old = digits().ops["3.weight"].attrs["value"].numpy().ravel()
    changed = np.flatnonzero(new != old)
    assert sorted(changed) == sorted(element for element, _ in places)
    np.testing.assert_array_equal(new[changed], -old[changed])  # bit 31 is the sign


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_flipped_bit_of_an_activation(backend: str) -> None:
    """The sign of one element of the result of the last layer, for all examples."""
    graph = digits()
    target = graph.ops["/9/Gemm"].output
    before = np.asarray(amanda.run(graph, [X], [target], backend="numpy")[target])
    tool = Inject(target="activations", names="/9/Gemm", types="add", bit=31)
    instrumented = amanda.apply(graph, tool)
    [[element, _]] = next(iter(instrumented.report["flipped"].values()))
    before[:, element] *= -1
    exact = np.exp(before - before.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    [found] = instrumented.run([X], backend).values()
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("target", ["weights", "activations"])
def test_noise_is_that_of_the_seed(target: str) -> None:
    def result(seed: int) -> Any:
        tool = Inject(target=target, fault="gaussian", seed=seed, scale=0.5)
        return only_result(amanda.apply(digits(), tool).graph, X)

    np.testing.assert_array_equal(result(1), result(1))
    assert not np.array_equal(result(1), result(2))


def test_a_campaign_continues(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    options: dict[str, Any] = {"bit": 30, "types": "conv"}
    first = run_campaign(digits(), [X], file=file, seeds=[0], **options)
    file.write_text(file.read_text() + '{"op": "/3/Co')  # interrupted while writing
    lines = file.read_text()
    every = run_campaign(digits(), [X], file=file, seeds=[0, 1], **options)
    assert file.read_text().startswith(lines)
    assert [t for t in every if t.seed == 0] == first
    assert [(t.op, t.seed) for t in every] == [
        ("/0/Conv", 0), ("/0/Conv", 1), ("/3/Conv", 0), ("/3/Conv", 1),
    ]  # fmt: skip
    assert run_campaign(digits(), [X], file=file, seeds=[0, 1], **options) == every
    assert any(trial.error > 0.1 for trial in every)
    with pytest.raises(UsageError, match="trials of other options") as caught:
        run_campaign(digits(), [X], file=file, types="conv", bit=29)
    assert caught.value.where == str(file)


def test_a_share_of_the_weights_is_flipped() -> None:
    tool = Inject(names="/3/Conv", rate=0.25, bit=31)
    instrumented = amanda.apply(digits(), tool)
    size = digits().ops["3.weight"].attrs["value"].size
    assert len(instrumented.report["flipped"]["/3/Conv"]) == round(0.25 * size)


@pytest.mark.parametrize("backend", BACKENDS)
def test_noise_of_activations_is_relative(backend: str) -> None:
    """Its standard deviation is a share of the activation's."""
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[1, 4000]", "x"))
    with tracing(graph):
        graph.result(ops.relu(x), "y")
    tool = Inject(target="activations", fault="gaussian", types="relu", scale=0.2)
    value = np.random.default_rng(0).uniform(0, 30, (1, 4000)).astype("float32")
    found = only_result(amanda.apply(graph, tool).graph, value, backend)
    assert (found - value).std() == pytest.approx(0.2 * value.std(), rel=0.05)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_accuracy_that_faults_cost(namespace: str, tmp_path: Path) -> None:
    """Against labels; by op, the mean over seeds, as numpy computes it."""
    labels = only_result(digits(), X).argmax(1)
    file = tmp_path / "labels.npy"
    np.save(file, labels)
    options: dict[str, Any] = {"bit": 30, "count": 8}
    tool = Campaign(seeds=2, labels=str(file), **options)
    report = amanda.apply(digits(namespace), tool, data=[[X]]).report
    assert report.summary["accuracy without faults"] == 1.0
    assert report.summary["trials"] == 8
    trials = run_campaign(digits(), [X], seeds=[0, 1], labels=labels, **options)
    rows = {row.op: row for row in summarize(trials, 1.0)}
    for op, row in rows.items():
        own = [trial.accuracy for trial in trials if trial.op == op]
        assert row.accuracy_drop == pytest.approx(1 - np.mean(own))
        if namespace == "onnx":
            assert report["accuracy drop"][op] == row.accuracy_drop
    assert any(row.accuracy_drop > 0 for row in rows.values())
    assert "<svg" in report.to_html()


def test_wrong_campaigns() -> None:
    with pytest.raises(UsageError, match="example inputs"):
        amanda.apply(digits(), Campaign())
    with pytest.raises(UsageError, match="label for each row"):
        run_campaign(digits(), [X], labels=[1])


def test_a_campaign_of_ops_without_names() -> None:
    """Each product has faults of its own: the weights that reach one output only."""
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[n, 2]", "x"))
    with tracing(graph):
        held = Value(graph.constant(np.ones((2, 2), "float32")).output)
        other = Value(graph.constant(np.ones((2, 2), "float32")).output)
        graph.result(ops.add(ops.matmul(x, held), ops.matmul(x, other)), "y")
    assert all(op.name is None for op in graph if op.type == "matmul")
    trials = run_campaign(graph, [np.ones((1, 2), "float32")], bit=31)
    assert len({trial.op for trial in trials}) == 2
    # One weight of 1 is -1: of 4 = 1 + 1 + 1 + 1, 2 is left.
    assert [trial.error for trial in trials] == [0.5, 0.5]


# -- adapters --------------------------------------------------------------------------


def test_adapters_change_nothing_before_training() -> None:
    for namespace in NAMESPACES:
        graph = amanda.apply(digits(namespace), LowRankAdapters(rank=2)).graph
        exact = only_result(digits(namespace), X)
        np.testing.assert_allclose(only_result(graph, X), exact, atol=1e-6)


def test_adapters_are_trained_alone_and_merged() -> None:
    graph = amanda.apply(digits(), LowRankAdapters(rank=2)).graph
    [source], [result] = graph.parameters, graph.outputs
    labels = np.arange(20) % 10

    def loss(results: dict[str, Any], labels: Any) -> Any:
        scores = ops.log(ops.add(results[str(result.name)], 1e-6))
        return ops.mean(ops.nll_loss(scores, labels))

    trained = amanda.train(
        graph, loss, [{str(source.name): X, "labels": labels}], epochs=10,
        learning_rate=1e-2, weights=["*.lora_down", "*.lora_up"], backend="numpy",
    )  # fmt: skip
    assert trained.losses[-1] < trained.losses[0]
    frozen = trained.graph.ops["3.weight"].attrs["value"].numpy()
    np.testing.assert_array_equal(
        frozen, digits().ops["3.weight"].attrs["value"].numpy()
    )
    before = only_result(trained.graph, X)
    merged = trained.graph
    assert merge_adapters(merged) == 4
    assert not any("lora" in (op.name or "") for op in merged)
    np.testing.assert_allclose(only_result(merged, X), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        (Prune, {"kind": "rows"}),
        (Prune, {"ratio": 1.0}),
        (Prune, {"n": 5}),
        (Prune, {"ratio_of": "model"}),
        (Prune, {"criterion": "hessian"}),
        (Prune, {"multiple": 0}),
        (Inject, {"fault": "melt"}),
        (Inject, {"bit": 32}),
        (Inject, {"rate": 0}),
        (LowRankAdapters, {"rank": 0}),
    ],
)
def test_wrong_options(tool: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        tool(**options)


@pytest.mark.parametrize("tool", [Prune, Inject, LowRankAdapters])
def test_a_choice_of_nothing(tool: Any) -> None:
    with pytest.raises(UsageError, match="chosen"):
        amanda.apply(digits(), tool(names="nothing*"))
