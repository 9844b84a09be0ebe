"""Ops that onnxruntime adds to ONNX: by way of the hub set, beside its own."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import amanda
from amanda_onnx.format import Format

onnxruntime = pytest.importorskip("onnxruntime")
R = np.random.default_rng(7)
HOUSE = "com.microsoft"
info = helper.make_tensor_value_info


def f(*shape):
    return (R.standard_normal(shape) * 0.5).astype("f")


def u8(*shape):
    return R.integers(0, 256, shape).astype("uint8")


def i8(*shape):
    return R.integers(-128, 128, shape).astype("int8")


S, Z8, ZI = np.float32(0.05), np.uint8(120), np.int8(3)


def table(rows, half):
    angle = np.outer(np.arange(rows), 1 / 100 ** (np.arange(half) / half))
    return np.cos(angle).astype("f"), np.sin(angle).astype("f")


COS, SIN = table(16, 4)
COS8, SIN8 = table(16, 8)
# An op: inputs (None is left out; a tuple is a weight), attributes, outputs
CASES = {
    "Gelu": ([f(2, 5)], {}, 1),
    "BiasGelu": ([f(2, 5), (f(5),)], {}, 1),
    "FastGelu": ([f(2, 5), (f(5),)], {}, 1),
    "FastGelu bare": ([f(2, 5)], {}, 1),
    "QuickGelu": ([f(2, 5)], {"alpha": 1.5}, 1),
    "FusedMatMul": ([f(2, 3, 4), f(2, 5, 4)], {"transB": 1, "alpha": 0.5}, 1),
    "FusedGemm": ([f(2, 3), (f(3, 4),), (f(4),)], {"activation": "Relu"}, 1),
    "FusedConv": (
        [f(1, 2, 5, 5), (f(3, 2, 3, 3),), (f(3),)],
        {"activation": "Relu", "pads": [1, 1, 1, 1]}, 1,
    ),
    "SkipLayerNormalization": (
        [f(2, 3, 8), f(2, 3, 8), (f(8),), (f(8),), (f(8),)], {"epsilon": 1e-5}, 1,
    ),
    "SkipLayerNormalization sum": (
        [f(2, 3, 8), f(2, 3, 8), (f(8),), None, None], {"epsilon": 1e-5}, (0, 3),
    ),
    "SkipSimplifiedLayerNormalization": (
        [f(2, 3, 8), f(2, 3, 8), (f(8),)], {"epsilon": 1e-5}, (0, 3),
    ),
    "EmbedLayerNormalization": (
        [R.integers(0, 9, (2, 4)).astype("i4"), np.zeros((2, 4), "i4"), (f(9, 8),),
         (f(4, 8),), (f(2, 8),), (f(8),), (f(8),)], {}, 2,
    ),
    "RotaryEmbedding": (
        [f(2, 3, 16), R.integers(0, 9, (2, 3)), (COS,), (SIN,)], {}, 1,
    ),
    "RotaryEmbedding first": ([f(2, 3, 16), np.array([2]), (COS,), (SIN,)], {}, 1),
    "RotaryEmbedding pairs": (
        [f(2, 2, 3, 8), np.array([1]), (COS,), (SIN,)], {"interleaved": 1}, 1,
    ),
    "MultiHeadAttention": (
        [f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), (f(24),)], {"num_heads": 2}, 1,
    ),
    "MultiHeadAttention masked": (
        [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8), None,
         np.array([[1, 1, 0], [1, 1, 1]], "i4")],
        {"num_heads": 2, "unidirectional": 1}, 1,
    ),
    "MultiHeadAttention past": (
        [f(1, 1, 8), f(1, 1, 8), f(1, 1, 8), None, None, f(1, 2, 1, 5),
         f(1, 2, 4, 4), f(1, 2, 4, 4)], {"num_heads": 2}, 3,
    ),
    "Attention": (
        [f(2, 3, 8), (f(8, 24),), (f(24),)], {"num_heads": 2, "unidirectional": 1}, 1,
    ),
    "Attention past": (
        [f(2, 3, 8), (f(8, 24),), (f(24),), None, f(2, 2, 2, 4, 4)],
        {"num_heads": 2, "unidirectional": 1}, 2,
    ),
    "GroupQueryAttention": (
        [f(1, 4, 32), f(1, 4, 16), f(1, 4, 16), None, None, np.array([3], "i4"),
         np.array([4], "i4")], {"num_heads": 4, "kv_num_heads": 2}, 3,
    ),
    "GroupQueryAttention rotary": (
        [f(1, 1, 64), f(1, 1, 32), f(1, 1, 32), f(1, 2, 6, 16), f(1, 2, 6, 16),
         np.array([6], "i4"), np.array([7], "i4"), (COS8,), (SIN8,)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, 3,
    ),
    "GroupQueryAttention window": (
        [f(1, 6, 32), f(1, 6, 16), f(1, 6, 16), None, None, np.array([5], "i4"),
         np.array([6], "i4")],
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3}, 3,
    ),
    "MatMulNBits": (
        [f(2, 64), (u8(8, 2, 16),), (abs(f(16)),)],
        {"K": 64, "N": 8, "bits": 4, "block_size": 32}, 1,
    ),
    "MatMulNBits zeros": (
        [f(2, 40), (u8(3, 3, 8),), (abs(f(9)),), (u8(6),)],
        {"K": 40, "N": 3, "bits": 4, "block_size": 16}, 1,
    ),
    "MatMulNBits bytes": (
        [f(2, 32), (u8(4, 1, 32),), (abs(f(4)),)],
        {"K": 32, "N": 4, "bits": 8, "block_size": 32}, 1,
    ),
    "QLinearAdd": ([u8(2, 3), S, Z8, u8(3), S, Z8, np.float32(0.1), Z8], {}, 1),
    "QLinearMul": ([i8(2, 3), S, ZI, i8(2, 3), S, ZI, np.float32(0.3), ZI], {}, 1),
    "QLinearSigmoid": (
        [u8(2, 9), (S,), (Z8,), (np.float32(1 / 256),), (np.uint8(0),)], {}, 1,
    ),
    "QLinearLeakyRelu": (
        [u8(2, 9), (S,), (Z8,), (S,), (Z8,)], {"alpha": 0.1}, 1,
    ),
    "QLinearGlobalAveragePool": ([u8(1, 2, 4, 4), (S,), (Z8,), (S,), (Z8,)], {}, 1),
    "QLinearAveragePool": (
        [u8(1, 2, 4, 4), (S,), (Z8,), (S,), (Z8,)], {"kernel_shape": [2, 2]}, 1,
    ),
    "QLinearConcat": (
        [(S,), (Z8,), u8(2, 3), (np.float32(0.1),), (Z8,), u8(2, 2), (S,), (Z8,)],
        {"axis": 1}, 1,
    ),
    "QLinearSoftmax": (
        [u8(2, 6), (S,), (Z8,), (np.float32(1 / 256),), (np.uint8(0),)],
        {"axis": -1, "opset": 13}, 1,
    ),
    "QGemm": (
        [u8(2, 4), S, Z8, (u8(4, 3),), (S,), (Z8,), (np.arange(3, dtype="i4"),),
         (np.float32(0.2),), (Z8,)], {}, 1,
    ),
    "MatMulIntegerToFloat": ([u8(2, 4), u8(4, 3), S, S, Z8, Z8], {}, 1),
    "DynamicQuantizeMatMul": ([f(2, 8), (u8(8, 3),), (S,), (Z8,)], {}, 1),
    "QuantizeLinear": ([f(2, 8), S, np.uint16(9)], {}, 1),
    "DequantizeLinear": ([u8(2, 8), S, Z8], {}, 1),
}  # fmt: skip


def model(name):
    """A model of one op, and what it is fed."""
    inputs, attrs, wanted = CASES[name]
    kept = range(wanted) if isinstance(wanted, int) else wanted
    ends, weights, words, feeds = [], [], [], {}
    for i, value in enumerate(inputs):
        words.append("" if value is None else f"i{i}")
        if isinstance(value, tuple):
            weights.append(numpy_helper.from_array(np.asarray(value[0]), f"i{i}"))
        elif value is not None:
            array = feeds[f"i{i}"] = np.asarray(value)
            code = helper.np_dtype_to_tensor_dtype(array.dtype)
            ends.append(info(f"i{i}", code, array.shape))
    names = [f"o{i}" if i in kept else "" for i in range(max(kept) + 1)]
    kind = name.split()[0]
    node = helper.make_node(kind, words, names, domain=HOUSE, **attrs)
    outs = [helper.make_empty_tensor_value_info(n) for n in names if n]
    graph = helper.make_graph([node], "g", ends, outs, weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(HOUSE, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def session(proto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name):
    proto, feeds = model(name)
    try:
        want = session(proto).run(None, feeds)
    except Exception as error:  # noqa: BLE001  its errors have no common base
        pytest.fail(f"onnxruntime refuses the case: {error}")
    graph = Format().read(proto)
    got = list(amanda.run(graph, feeds, backend="numpy").values())
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind in "iu":  # a half may be rounded to either side
            assert np.abs(ours.astype("i4") - theirs.astype("i4")).max() <= 1
        else:
            # its product of few bits rounds what it multiplies to 8 bits
            loose = "Bits" in name
            np.testing.assert_allclose(
                ours, theirs, rtol=2e-2 if loose else 2e-4, atol=5e-2 if loose else 2e-5
            )
