"""From the hub set to every opset from 7 on: the richest op it has, or its parts.

What comes out is judged by onnx's checker and by its reference evaluator.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import amanda
from amanda_onnx.format import Format
from amanda_onnx.mapping import MAPPING
from amanda_std import ops, trace

OPSETS = range(7, 29)
RNG = np.random.default_rng(7)
X = RNG.normal(size=(2, 4, 6, 6)).astype("float32")
ROWS = RNG.normal(size=(3, 5, 8)).astype("float32")
WEIGHTS = RNG.normal(size=(6, 4, 3, 3)).astype("float32")
SCALE = RNG.normal(size=8).astype("float32")
PLACES = np.array([2, 0, 1], "int64")
BYTES = RNG.integers(0, 255, (3, 4)).astype("uint8")
ZERO, STEP = np.uint8(7), np.float32(0.25)


def convolved(x):
    y = ops.conv(x, WEIGHTS, None, strides=(2, 2), padding=((1, 1), (1, 1)))
    return ops.max_pool(ops.relu(y), window=(2, 2))


def normed(x):
    y = ops.layer_norm(x, SCALE, SCALE, axis=-1)
    return ops.gelu(ops.rms_norm(y, SCALE, axis=-1))


def attended(x):
    heads = ops.reshape(x, [3, 5, 2, 4])
    q = ops.transpose(heads, perm=(0, 2, 1, 3))
    return ops.attention(q, q, q, causal=True)


def summed(x):
    y = ops.logsumexp(ops.abs(x) + 1.0, (1,), keepdims=True)
    whole = ops.prod(x, (1,), keepdims=True)
    return ops.concat(y, ops.mean(x, (1,), keepdims=True), whole, axis=1)


def picked(x):
    top, at = ops.topk(x, 3, axis=-1)
    top, _ = ops.topk(top, [3], axis=-1)  # a number, or a list of one
    found = ops.gather(top, PLACES, -1)
    return found * ops.astype(ops.gather_elements(at, at * 0, axis=-1), dtype="float32")


def activated(x):
    parts = [ops.mish(x), ops.hardswish(x), ops.softplus(x), ops.celu(x, alpha=0.5),
             ops.elu(x), ops.silu(x), ops.leaky_relu(x, slope=0.1)]  # fmt: skip
    return ops.concat(*parts, axis=0)


def padded(x):
    y = ops.pad(x, [[1, 0], [0, 2]], None, (2, 3), mode="reflect")
    return ops.slice_(y, [5], [0], [3], [-2])


def resized(x):
    return ops.resize(x, (12, 12), axes=(2, 3))


def chosen(x):
    found = ops.where(ops.greater(x, 0.0), ops.clip(x, 0.1, 0.9), ops.round(x))
    return ops.softmax(found, axes=(-1,))


def quantised(x):
    y = ops.quantize(x, STEP, ZERO)
    return ops.dequantize(y, STEP, ZERO)


def repeated(x):
    return ops.tile(ops.expand_dims(x, (0,)), [2, 1, 1, 1])


def logic(x):
    a, b = ops.greater(x, 0.5), ops.less_equal(x, 0.75)
    both = ops.logical_and(ops.logical_or(a, b), ops.logical_not(ops.logical_xor(a, b)))
    return ops.astype(both, dtype="float32") + ops.sign(x) * ops.cumulative_sum(x, 1)


def reinterpreted(x):
    signed = ops.astype(x * 100.0, dtype="int32")
    return ops.astype(ops.bitcast(signed, dtype="uint32"), dtype="float32")


def multiplied(x):
    return ops.cumulative_prod(x, 0, exclusive=True)


MODELS = {
    "convolved": (convolved, X), "normed": (normed, ROWS), "attended": (attended, ROWS),
    "summed": (summed, ROWS), "picked": (picked, ROWS), "activated": (activated, ROWS),
    "padded": (padded, X), "resized": (resized, X), "chosen": (chosen, ROWS),
    "quantised": (quantised, ROWS), "repeated": (repeated, ROWS),
    "logic": (logic, ROWS), "reinterpreted": (reinterpreted, ROWS),
    "multiplied": (multiplied, ROWS),
}  # fmt: skip

# What an opset cannot say at all, and the first that can.
SINCE = {"padded": 10, "logic": 11, "multiplied": 9}

RICHEST = {
    "normed": {"LayerNormalization": 17, "Gelu": 20, "RMSNormalization": 23},
    "attended": {"Attention": 23},
    "activated": {"Mish": 18, "HardSwish": 14, "Celu": 12, "Swish": 24},
    "quantised": {"QuantizeLinear": 10, "DequantizeLinear": 10},
    "reinterpreted": {"BitCast": 26},
    "multiplied": {"CumProd": 26},
}


def built(name):
    function, x = MODELS[name]
    graph = trace(function, [amanda.parse_type(f"float32{list(x.shape)}")], names=["x"])
    return graph, {"x": x}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", MODELS)
def test_to_every_opset(name, opset):
    graph, inputs = built(name)
    if opset < SINCE.get(name, 7):
        with pytest.raises(amanda.errors.ConversionError):
            amanda.convert(graph, f"onnx@{opset}")
        return
    (want,) = amanda.run(graph, inputs, backend="numpy").values()
    back = amanda.convert(graph, f"onnx@{opset}")
    again = onnx.load_from_string(Format().dumps(back))
    onnx.checker.check_model(again, full_check=True)
    assert again.opset_import[0].version == opset
    types = {node.op_type for node in again.graph.node}
    for type, since in RICHEST.get(name, {}).items():
        assert (type in types) == (opset >= since), type
    (found,) = amanda.run(amanda.load(again), inputs, backend="numpy").values()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    if opset >= (19 if name == "quantised" else 13):  # the reference lacks older ones
        (judged,) = ReferenceEvaluator(again).run(None, inputs)
        np.testing.assert_allclose(judged, want, rtol=1e-4, atol=1e-5)


def test_every_version_of_every_op_has_a_rule():
    """A version of an op whose meaning did not change maps like its neighbour."""
    from onnx import defs

    from amanda_onnx.mapping import MAPPING

    lacks = []
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            opset = f"amanda/onnx/{schema.since_version}"
            choice = MAPPING.program(opset, "amanda/std/1").candidates(schema.name)
            if not choice.rules:
                lacks.append((schema.name, schema.since_version))
    assert lacks == []


def test_every_op_of_the_other_domains_has_a_rule():
    from onnx import defs

    rules = MAPPING.rules
    names = {f"{s.domain}.{s.name}" for s in defs.get_all_schemas() if s.domain}
    assert {n for n in names if not rules.of_type(n, forward=True)} == set()
