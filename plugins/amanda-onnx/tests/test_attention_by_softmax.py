"""Attention for opsets without it: by Softmax, guarded where a mask hides all keys."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnxruntime
import pytest

import amanda
from amanda.types import TensorType
from amanda_onnx.format import Format
from amanda_std import ops, trace

SHAPE = (2, 3, 5, 4)
UNMASKED = {"Mul", "Transpose", "MatMul", "Softmax"}
MASKED = UNMASKED | {"ReduceMax", "Equal", "Where"}


def expected_attention(q, k, v, mask=None, causal=False):
    """By numpy in float64; 0 for queries without a key."""
    scores = q.astype("float64") @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        hidden = np.where(mask, scores, -np.inf)
        scores = hidden if mask.dtype == bool else scores + mask
    seen = np.isfinite(scores).any(-1, keepdims=True)
    e = np.exp(scores - np.where(seen, scores.max(-1, keepdims=True), 0))
    return (e / np.where(seen, e.sum(-1, keepdims=True), 1)) @ v


def onnx_model(masked: str | None, causal: bool):
    """The model at opset 18, as bytes, and the numbers of its nodes by type."""
    types = [TensorType("float32", SHAPE)] * 3
    types += [TensorType(masked, (5, 5))] if masked else []
    graph = trace(lambda *xs: ops.attention(*xs, causal=causal), types)
    made = amanda.convert(graph, "onnx@18")
    data = Format().dumps(made)
    return data, Counter(op.type for op in made if not op.is_constant)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [None, "bool", "float32"])
def test_masks(masked, causal):
    random = np.random.default_rng(0)
    feeds = [random.standard_normal(SHAPE).astype("float32") for _ in range(3)]
    if masked is not None:
        mask = random.random((5, 5)) > 0.4
        mask[1], mask[0] = False, True  # a query without a key, and one with all
        hidden = np.where(mask, 0, -np.inf).astype("float32")
        feeds.append(mask if masked == "bool" else hidden)
    data, counts = onnx_model(masked, causal)
    assert counts["Softmax"] == 1
    assert not counts["Exp"]
    allowed = UNMASKED if masked is None and not causal else MASKED | {"Add"}
    assert {*counts} <= allowed | ({"Range"} if causal else set())
    session = onnxruntime.InferenceSession(data)
    named = {p.name: x for p, x in zip(session.get_inputs(), feeds, strict=True)}
    [found] = session.run(None, named)
    mask = feeds[3] if masked else None
    expected = expected_attention(*feeds[:3], mask, causal)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_keys_are_transposed_once():
    def heads(q, k, v):
        split = [
            ops.transpose(ops.reshape(x, [2, 5, 3, 4]), perm=[0, 2, 1, 3])
            for x in (q, k, v)
        ]
        return ops.attention(*split)

    types = [TensorType("float32", (2, 5, 12))] * 3
    made = amanda.convert(trace(heads, types), "onnx@18")
    assert Counter(op.type for op in made)["Transpose"] == 3


@pytest.mark.parametrize("opset", [18, 23])
def test_a_graph_is_converted_once(opset, monkeypatch):
    """That no rule of an old opset builds attention is known before."""
    from amanda.mapping import HubMapping

    lowered = []
    own = HubMapping._lower
    monkeypatch.setattr(
        HubMapping, "_lower", lambda *args: lowered.append(args) or own(*args)
    )
    types = [TensorType("float32", SHAPE)] * 3
    made = amanda.convert(trace(ops.attention, types), f"onnx@{opset}")
    assert len(lowered) == 1
    assert any(op.type == "Attention" for op in made) == (opset == 23)


def test_an_op_for_gradients_only_is_no_node():
    def middle(x):
        return ops.relu(ops.stop_gradient(ops.exp(x)))

    made = amanda.convert(trace(middle, [TensorType("float32", (3,))]), "onnx@18")
    assert [op.type for op in made] == ["Exp", "Relu"]
