"""The inherited suites, and one model on two runtimes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.testing import FormatSuite, MappingSample, MappingSuite, PluginSuite


def network() -> amanda.Graph:
    graph, random = amanda.Graph("example/lark/1"), np.random.default_rng(0)
    y: amanda.OutputPort = graph.parameter("float32[2, 8, 8, 3]", name="x")
    for name, op, attrs, *shapes in (
        ("conv", "Conv2D", {"strides": [2, 2], "padding": "same"}, (4, 3, 3, 3), (4,)),
        ("pool", "MaxPool2D", {"size": [2, 2], "strides": [2, 2]}),
        ("rows", "Reshape", {"shape": [2, 16]}),
        ("dense", "Dense", {"activation": "gelu"}, (16, 5), (5,)),
        ("y", "Softmax", {"axis": 1}),
    ):
        weights = [random.standard_normal(s).astype("float32") for s in shapes]
        inputs = [graph.constant(w, f"{name}.{i}") for i, w in enumerate(weights)]
        y = graph.add(op, [y, *(i.output for i in inputs)], attrs, name=name).output
    graph.result(y, "y")
    return graph


class TestPlugin(PluginSuite):
    dist = "amanda-example-lark"


class TestFormat(FormatSuite):
    format = "lark"
    samples = staticmethod(lambda: {"network": network})


class TestMapping(MappingSuite):
    mapping = "lark-std"

    def samples(self):  # type: ignore[no-untyped-def]
        read = MappingSample(network(), "amanda/std/1")
        write = MappingSample(amanda.convert(network(), "std"), "example/lark/1")
        return {"read": lambda: read, "write": lambda: write}


def results_by_algebra(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The results of the network, in float64, without Amanda."""
    graph = network()
    names = ("conv.0", "conv.1", "dense.0", "dense.1")
    tensors = [graph.ops[name].attrs["value"].numpy() for name in names]
    kernel, bias, w, b = (tensor.astype("float64") for tensor in tensors)
    padded = np.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)])  # 8 rows: one more, below
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    y = np.einsum("nhwcij,ocij->nhwo", windows[:, ::2, ::2], kernel) + bias
    y = y.reshape(2, 2, 2, 2, 2, 4).max((2, 4)).reshape(2, 16) @ w + b
    y = y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) / 2
    powers = np.exp(y - y.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def test_the_ops_compute_what_they_are_defined_to() -> None:
    x = np.linspace(-1, 1, 384, dtype="float32").reshape(2, 8, 8, 3)
    found = amanda.run(network(), {"x": x}, backend="numpy")["y"]
    np.testing.assert_allclose(found, results_by_algebra(x), rtol=1e-4)


def test_a_model_in_another_layout_and_framework(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    amanda.save(network(), tmp_path / "model.lark")
    feeds = {"x": np.linspace(-1, 1, 384, dtype="float32").reshape(2, 8, 8, 3)}
    expected = results_by_algebra(feeds["x"])
    hub = amanda.convert(amanda.load(tmp_path / "model.lark"), "std")
    amanda.improve(hub, "channels_first")
    for other, backend in ("onnx@18", "onnxruntime"), ("example/lark/1", "numpy"):
        found = amanda.run(amanda.convert(hub, other), feeds, backend=backend)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4)
