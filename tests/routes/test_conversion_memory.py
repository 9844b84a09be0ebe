"""The memory of a conversion: weights are computed one by one, as they are written."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda.tensors import Tensor

pytest.importorskip("amanda_onnx")
std = pytest.importorskip("amanda_std")

LAYERS, CHANNELS = 12, 256
SIZE = 4 * CHANNELS * CHANNELS  # bytes of the weights of one layer


def network() -> Graph:
    """Pointwise convolutions with norms, in channels-last layout, of lazy weights."""
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type(f"float32[n, 8, 8, {CHANNELS}]"), name="x")
    shape = (1, 1, CHANNELS, CHANNELS)
    factor = np.full(CHANNELS, 0.5, "float32")
    with std.tracing(graph):
        y = std.Value(x)
        for _ in range(LAYERS):
            w = Tensor.lazy(lambda: np.ones(shape, "float32"), "float32", shape)
            y = std.ops.conv(y, w, layout="N*C", kernel_layout="*IO") * factor
    graph.result(y.port, name="y")
    return graph


def test_no_more_than_a_few_weights_are_in_memory(tmp_path: Path) -> None:
    graph, target = network(), tmp_path / "model.onnx"
    chosen = ["optimize_for_inference"]
    amanda.save(amanda.convert(graph, "onnx@18", passes=chosen), target)  # imports
    tracemalloc.start()
    try:
        made = amanda.convert(graph, "onnx@18", passes=chosen)
        amanda.save(made, target)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [op.type for op in made if not op.is_constant].count("Mul") == 0
    assert target.stat().st_size > LAYERS * SIZE
    assert peak < 6 * SIZE
