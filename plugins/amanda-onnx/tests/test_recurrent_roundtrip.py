"""Recurrent layers come back unchanged: no more nodes, and the same weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import amanda
from amanda_onnx.format import Format

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, WIDE, SIZE = 5, 2, 3, 4


def model(kind, direction, *, bias=True, peepholes=False):
    rng = np.random.default_rng(0)
    both = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * SIZE
    shapes = {"w": (both, rows, WIDE), "r": (both, rows, SIZE)}
    if bias:
        shapes["b"] = (both, 2 * rows)
    if peepholes:
        shapes["p"] = (both, 3 * SIZE)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f"), name)
        for name, shape in shapes.items()
    ]
    names = ["x", "w", "r", "b" if bias else ""]
    if peepholes:
        names += ["", "", "", "p"]
    last = ["h", "c"] if kind == "LSTM" else ["h"]
    node = helper.make_node(kind, names, ["y", *last], hidden_size=SIZE,
                            direction=direction)  # fmt: skip
    x = helper.make_tensor_value_info("x", 1, [STEPS, BATCH, WIDE])
    ends = [helper.make_tensor_value_info(name, 1, None) for name in ("y", *last)]
    graph = helper.make_graph([node], "g", [x], ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                             ir_version=8)  # fmt: skip


def fed():
    values = np.random.default_rng(1).standard_normal((STEPS, BATCH, WIDE))
    return {"x": values.astype("f")}


def of_onnxruntime(raw):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    providers = ["CPUExecutionProvider"]
    return runtime.InferenceSession(raw, providers=providers).run(None, fed())


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("kind", "more"),
    [*((kind, {"bias": bias}) for kind in GATES for bias in (True, False)),
     ("LSTM", {"peepholes": True})],
    ids=str,
)  # fmt: skip
def test_a_layer_there_and_back(kind, direction, more):
    made = model(kind, direction, **more)
    graph = amanda.load(made)
    expected = of_onnxruntime(made.SerializeToString())
    raw = Format().dumps(amanda.convert(amanda.convert(graph, "std"), "onnx@17"))
    back = onnx.load_model_from_string(raw)
    assert [node.op_type for node in back.graph.node] == [kind]
    weights = {tensor.raw_data for tensor in back.graph.initializer}
    assert {tensor.raw_data for tensor in made.graph.initializer} <= weights
    for found in (
        of_onnxruntime(raw),
        [*amanda.run(graph, fed(), backend="numpy").values()],
    ):
        for have, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bias", ["both", "one"])
def test_a_layer_that_never_was_in_onnx(bias):
    """Its gates are in the order of std, and its biases are two, or one."""
    from amanda.types import parse_type
    from amanda_std import ops, trace

    rng = np.random.default_rng(2)
    shapes = [(1, 4 * SIZE, WIDE), (1, 4 * SIZE, SIZE), (1, 4 * SIZE), (1, 4 * SIZE)]
    weights = [rng.standard_normal(shape).astype("f") for shape in shapes]
    if bias == "one":
        weights.pop()
    type_ = parse_type(f"float32[{STEPS}, {BATCH}, {WIDE}]")
    graph = trace(lambda x: ops.lstm(x, *weights), [type_], names=["x"])
    found = of_onnxruntime(Format().dumps(amanda.convert(graph, "onnx@17")))
    for have, want in zip(
        found, amanda.run(graph, fed(), backend="numpy").values(), strict=True
    ):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-6)
