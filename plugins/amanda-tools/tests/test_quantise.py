"""Quantization: against numpy, onnxruntime's tools, and by algebra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tool_samples import BACKENDS, DIGITS, NAMESPACES, digits, images, samples

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.testing import ToolSuite
from amanda_std import Value, ops, tracing
from amanda_tools.quantization.quantise import Quantise, signal_to_noise
from amanda_tools.quantization.ranges import weight_levels

X = images(20)


class TestQuantise(ToolSuite):
    tool = "quantise"
    backends = BACKENDS
    changes_results = True

    def samples(self) -> Any:
        return samples()


def classes(result: dict[str, Any]) -> list[int]:
    return [int(row.argmax()) for row in next(iter(result.values()))]


@pytest.fixture(scope="module")
def labels() -> list[int]:
    return classes(amanda.run(digits(), [X], backend="numpy"))


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("calibration", ["minmax", "percentile", "entropy", "mse"])
def test_static(namespace: str, calibration: str, labels: list[int]) -> None:
    if namespace != "onnx" and calibration != "minmax":
        pytest.skip("the calibration does not depend on the framework")
    tool = Quantise(calibration=calibration)
    instrumented = amanda.apply(digits(namespace), tool, data=[[X]])
    assert classes(instrumented.run([X], "numpy")) == labels
    report = instrumented.report
    assert len(report["weight SNR (dB)"]) == 4
    assert all(value > 35 for value in report["weight SNR (dB)"].values())
    assert all(value > 10 for value in report["output SNR (dB)"].values())


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "dynamic"},
        {"mode": "weights"},
        {"mode": "weights", "bits": 4, "block": 32},
        {"symmetric": True},
        {"per_channel": False},
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_other_modes(options: dict[str, Any], backend: str, labels: list[int]) -> None:
    instrumented = amanda.apply(digits(), Quantise(**options), data=[[X]])
    assert classes(instrumented.run([X], backend)) == labels


def test_written_files_run_on_integers(tmp_path: Path) -> None:
    """onnxruntime fuses the pairs to integer kernels, and nothing stays in floats."""
    from onnx import load

    instrumented = amanda.apply(digits(), Quantise(bits=7), data=[[X]])
    path, optimized = tmp_path / "q.onnx", tmp_path / "optimized.onnx"
    amanda.save(amanda.convert(instrumented.graph, "onnx@19"), path)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(optimized)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    kinds = [node.op_type for node in load(optimized).graph.node]
    assert kinds.count("QLinearConv") == 2
    assert kinds.count("QGemm") == 2
    assert not {"Conv", "Gemm", "MatMul"} & set(kinds)
    [found] = session.run(None, {session.get_inputs()[0].name: X})
    [ours] = instrumented.run([X], "numpy").values()
    np.testing.assert_allclose(found, ours, atol=0.02)


def test_errors_are_those_of_onnxruntime(tmp_path: Path) -> None:
    """With the same options and inputs, at most 1 dB worse than quantize_static."""
    quantization = pytest.importorskip("onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.rows = iter([{"images": X}])

        def get_next(self) -> Any:
            return next(self.rows, None)

    theirs = tmp_path / "theirs.onnx"
    quantization.quantize_static(
        str(DIGITS), str(theirs), Reader(), per_channel=True, reduce_range=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )  # fmt: skip
    instrumented = amanda.apply(digits(), Quantise(bits=7), data=[[X]])
    [exact] = amanda.run(digits(), [X], backend="numpy").values()
    [ours] = instrumented.run([X], "numpy").values()
    [other] = amanda.run(amanda.load(theirs), [X], backend="numpy").values()
    assert signal_to_noise(exact, ours) >= signal_to_noise(exact, other) - 1


def test_packed_weights_are_matmulnbits() -> None:
    """The product is that of the dequantized weight, by numpy."""
    random = np.random.default_rng(0)
    weight = random.normal(size=(64, 8)).astype("float32")
    x = random.normal(size=(5, 64)).astype("float32")
    graph = Graph("amanda/std/1")
    source = graph.parameter("float32[5, 64]", "x")
    with tracing(graph):
        held = Value(graph.constant(weight, "w").output)
        graph.result(ops.matmul(Value(source), held), "y")
    tool = Quantise(mode="weights", bits=4, block=32)
    instrumented = amanda.apply(graph, tool)
    scale = np.abs(weight.reshape(2, 32, 8)).max(1) / 7
    steps = np.clip(np.round(weight.reshape(2, 32, 8) / scale[:, None]), -7, 7)
    expected = x @ (steps * scale[:, None]).reshape(64, 8)
    for backend in BACKENDS:
        [y] = instrumented.run([x], backend).values()
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)
    plan = amanda.plan(instrumented.graph, "onnxruntime", prefer_backend=True)
    assert "MatMulNBits" in {op.type for op in plan.result.walk()}


@pytest.mark.parametrize(("axis", "block"), [(0, 0), (1, 0), (None, 0), (1, 4)])
def test_levels_cover_the_weight(axis: int | None, block: int) -> None:
    weight = np.random.default_rng(1).normal(size=(6, 10)).astype("float32")
    levels = weight_levels(weight, axis, 8, block)
    shape = {(0, 0): (6,), (1, 0): (10,), (None, 0): (), (1, 4): (6, 3)}[axis, block]
    assert levels.scale.shape == shape
    assert np.max(levels.scale) == pytest.approx(np.abs(weight).max() / 127)


def uneven_network() -> tuple[Graph, Any]:
    """Convolutions, one depthwise, with channels of very different ranges."""
    random = np.random.default_rng(3)
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter("float32[4, 3, 8, 8]", "x"))

    def weight(*shape: int) -> Any:
        spread = 10 ** random.uniform(-2, 0, (shape[0], *[1] * (len(shape) - 1)))
        array = (random.normal(size=shape) * spread).astype("float32")
        return Value(graph.constant(array).output)

    with tracing(graph):
        y = ops.relu(ops.conv(x, weight(8, 3, 3, 3), weight(8)))
        y = ops.relu(ops.conv(y, weight(8, 1, 3, 3), weight(8), groups=8))
        y = ops.relu(ops.conv(y, weight(6, 8, 1, 1), weight(6)))
        y = ops.mean(y, axes=(2, 3))
        graph.result(ops.add(ops.matmul(y, weight(6, 5)), weight(5)), "y")
    return graph, random.normal(size=(4, 3, 8, 8)).astype("float32")


def test_equalized_layers_compute_the_same() -> None:
    from amanda_tools.quantization.equalization import equalize

    graph, x = uneven_network()
    [before] = amanda.run(graph, [x], backend="numpy").values()
    weights = [op.attrs["value"].numpy() for op in graph if op.is_constant]
    assert equalize(graph) == 2
    [after] = amanda.run(graph, [x], backend="numpy").values()
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-6)
    first, _, second, *_ = [op.attrs["value"].numpy() for op in graph if op.is_constant]
    ranges = [np.abs(w).max((1, 2, 3)) for w in (first, second)]
    spread = [np.abs(w).max((1, 2, 3)) for w in (weights[0], weights[2])]
    assert np.ptp(np.log(ranges[0])) < np.ptp(np.log(spread[0]))


@pytest.mark.parametrize("option", ["equalize", "correct_bias"])
def test_equalization_and_correction_lower_the_error(option: str) -> None:
    """With one scale for each weight of 4 bits."""
    graph, x = uneven_network()
    options: dict[str, Any] = {"mode": "weights", "bits": 4, "per_channel": False}
    ratios = []
    for extra in ({"correct_bias": False}, {"correct_bias": False, option: True}):
        tool = Quantise(**options, **extra)
        report = amanda.apply(graph, tool, data=[[x]]).report
        ratios.append(report.summary["SNR of y (dB)"])
    assert ratios[1] > ratios[0] + 1


def test_corrected_means_are_those_of_the_float_model() -> None:
    """By algebra: the mean of each channel of the first layer does not move."""
    graph, x = uneven_network()
    tool = Quantise(mode="weights", bits=3, correct_bias=True, skip=())
    quantized = amanda.apply(graph, tool, data=[[x]]).graph
    means = []
    for each in (graph, quantized):
        first = next(op for op in each if op.type == "conv").output
        value = np.asarray(amanda.run(each, [x], [first], backend="numpy")[first])
        means.append(value.mean((0, 2, 3)))
    np.testing.assert_allclose(means[1], means[0], rtol=1e-4, atol=1e-5)


def test_training_graphs_have_gradients() -> None:
    """Fake quantization passes gradients, so training lowers the loss."""
    graph = amanda.apply(digits(), Quantise(mode="training"), data=[[X]]).graph
    targets = np.asarray(classes(amanda.run(digits(), [X], backend="numpy")), "int64")
    [result] = graph.outputs

    def loss(results: dict[str, Any], targets: Any) -> Any:
        scores = ops.log(ops.add(results[str(result.name)], 1e-6))
        return ops.mean(ops.nll_loss(scores, targets))

    batches = [{str(graph.parameters[0].name): X, "targets": targets}]
    trained = amanda.train(
        graph, loss, batches, optimizer="sgd", learning_rate=1e-2, epochs=5,
        weights=["9.*"], backend="numpy",
    )  # fmt: skip
    assert trained.losses[-1] < trained.losses[0]


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"mode": "static"}, [], "needs example inputs"),
        ({"mode": "other"}, [[X]], "no mode 'other'"),
        ({"bits": 9}, [[X]], "2 to 8 bits"),
        ({"calibration": "best"}, [[X]], "no calibration 'best'"),
    ],
)
def test_wrong_options(options: dict[str, Any], data: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        amanda.apply(digits(), Quantise(**options), data=data)
