"""Layouts moved through a network of real size: ResNet-50, of the package onnx."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.tensors import Tensor
from amanda.types import TensorType


def resnet():
    """In the hub's ops. Its weights are all alike, so that nothing would be seen of
    elements in wrong places: others are drawn."""
    onnx = pytest.importorskip("onnx")
    light = "backend/test/data/light/light_resnet50.onnx"
    path = Path(onnx.__file__).parent / light
    if not path.is_file():
        pytest.skip("this release of onnx has no light models")
    graph = amanda.convert(amanda.load(path), "amanda/std/1")
    rng = np.random.default_rng(7)
    for op in graph.ops.select("constant"):
        kept = op.attrs["value"]
        if kept.dtype.kind == "float":
            fan = max(1, int(np.prod(kept.shape[1:])))
            drawn = rng.standard_normal(kept.shape) * np.sqrt(2 / fan)
            if len(kept.shape) == 1:
                drawn = 1 + 0.1 * rng.random(kept.shape)
            op.attrs["value"] = Tensor.of(drawn.astype("float32"))
    return graph


def moves(graph):
    """Transposes of what is computed: those of weights are folded, or are small."""
    return [
        op
        for op in graph.ops.select("transpose")
        if isinstance(op.inputs[0].type, TensorType)
        and op.inputs[0].op.type != "constant"
    ]


def test_a_resnet_with_channels_last_has_a_transpose_at_each_end():
    graph = resnet()
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype("float32")
    before = amanda.run(graph, [x], backend="numpy")
    amanda.improve(graph, "canonical", "simplify", "fold", "share", "drop")
    assert len(moves(graph)) == 0
    amanda.improve(graph, "channels_last", "sink", "simplify", "fold", "share", "drop")
    assert len([*graph.ops.select("conv")]) == 53
    layouts = {op.attrs.get("layout") for op in graph.ops.select("conv")}
    assert layouts == {"N*C"}
    assert len(moves(graph)) <= 2
    after = amanda.run(graph, [x], backend="numpy")
    for a, b in zip(before.values(), after.values(), strict=True):
        assert a.std() > 0
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)
