"""Ops of com.microsoft through the hub, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import amanda
from amanda.graph import CORE
from amanda_onnx.format import Format
from amanda_onnx.mapping import MAPPING

onnxruntime = pytest.importorskip("onnxruntime")
R, HOUSE = np.random.default_rng(7), "com.microsoft"
info = helper.make_tensor_value_info


def f(*shape):
    return (R.standard_normal(shape) * 0.5).astype("f")


def u8(*shape):
    return R.integers(0, 256, shape).astype("uint8")


def i8(*shape):
    return R.integers(-128, 128, shape).astype("int8")


def i7(*shape):  # without VNNI, onnxruntime's products of 8 bits saturate
    return i8(*shape) // 2


S, Z8, ZI = np.float32(0.05), np.uint8(120), np.int8(3)


def table(rows, half):
    angle = np.outer(np.arange(rows), 1 / 100 ** (np.arange(half) / half))
    return np.cos(angle).astype("f"), np.sin(angle).astype("f")


def held(*counts):
    """A cache of eight places, so many of which hold something."""
    found = f(len(counts), 2, 8, 16)
    for row, count in zip(found, counts, strict=True):
        row[:, count:] = 0  # what is behind, onnxruntime clears
    return found


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
    "GroupQueryAttention packed": (
        [f(2, 3, 128), None, None, None, None, np.array([2, 2], "i4"),
         np.array([3], "i4"), (COS8,), (SIN8,)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "scale": 0.2}, 3,
    ),
    "GroupQueryAttention room": (
        [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), held(6, 3), held(6, 3),
         np.array([6, 3], "i4"), np.array([7], "i4"), (COS8,), (SIN8,)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "softcap": 2.0}, 3,
    ),
    "QAttention": (
        [u8(2, 3, 8), (i7(8, 24),), (f(24),), S, (np.float32(0.02),), None, Z8,
         (np.int8(0),)], {"num_heads": 2, "unidirectional": 1}, 1,
    ),
    "QAttention masked": (
        [u8(2, 3, 8), (i7(8, 24),), (f(24),), S, (np.float32(0.02),),
         np.array([[1, 1, 0], [1, 1, 1]], "i4"), Z8, (np.int8(0),)],
        {"num_heads": 2}, 1,
    ),
    "Inverse": ([f(2, 3, 3) + 3 * np.eye(3, dtype="f")], {}, 1),
    "Trilu": ([f(3, 4), np.array(1)], {"upper": 0}, 1),
    "GatherND": ([f(3, 4), np.array([[0, 1], [2, 3]])], {}, 1),
    "QLinearWhere": (
        [np.array([[True], [False]]), (u8(2, 3),), (S,), (Z8,), u8(3), (S,), (Z8,),
         (np.float32(0.1),), (Z8,)], {}, 1,
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
    "MatMulBnb4 FP4": (
        [f(2, 24), (u8(96),), (abs(f(12)),)],
        {"K": 24, "N": 8, "block_size": 16, "quant_type": 0}, 1,
    ),
    "MatMulBnb4 NF4": (
        [f(2, 3, 32), (u8(64),), (abs(f(4)),)],
        {"K": 32, "N": 4, "block_size": 32, "quant_type": 1}, 1,
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


def _products():
    """Every way in which FusedMatMul turns and scales what it multiplies."""
    for rank in (2, 3, 4):
        outer = (2, 2)[: rank - 2]
        for turn in ("A", "B"):
            for alpha in (1.0, 0.5):
                a, b = (*outer, 3, 4), (*outer, 4, 5)
                a = (*outer, 4, 3) if turn == "A" else a
                b = (*outer, 5, 4) if turn == "B" else b
                if rank == 2 and turn == "B":
                    a = (2, 3, 4)  # without such a batch it is Gemm
                attrs = {f"trans{turn}": 1, "alpha": alpha}
                yield f"FusedMatMul {rank} {turn} {alpha}", ([f(*a), f(*b)], attrs, 1)


CASES |= dict(_products()) | {
    "FusedMatMul scaled": ([f(2, 3), f(3, 4)], {"alpha": 0.25}, 1),
    "EmbedLayerNormalization placed": (
        [R.integers(0, 9, (2, 4)).astype("i4"), np.zeros((2, 4), "i4"), (f(9, 8),),
         (f(4, 8),), (f(2, 8),), (f(8),), (f(8),), None,
         np.array([[0, 1, 2, 3], [3, 2, 1, 0]], "i4")], {"epsilon": 1e-5}, 2,
    ),
    "GatherBlockQuantized": (
        [(u8(9, 16),), np.array([[0, 3], [8, 1]]), (abs(f(9, 2)),)],
        {"bits": 4, "block_size": 16, "quantize_axis": 1}, 1,
    ),
    "GatherBlockQuantized zeros": (
        [(u8(9, 16),), np.array([2, 2, 5]), (abs(f(9, 2)),), (u8(9, 1),)],
        {"bits": 4, "block_size": 16, "quantize_axis": 1}, 1,
    ),
    "MatMulIntegerToFloat bias": (
        [u8(2, 4), u8(4, 3), S, S, Z8, Z8, (f(3),)], {}, 1,
    ),
    "ExpandDims": ([f(2, 3), (np.array(1, "i4"),)], {}, 1),
    "Trilu upper": ([f(3, 4), np.array(1)], {"upper": 1}, 1),
    "QGemm bare": (
        [u8(2, 4), S, Z8, (u8(4, 3),), (S,), (Z8,), None, (np.float32(0.2),), (Z8,)],
        {}, 1,
    ),
    "SimplifiedLayerNormalization": ([f(2, 3, 8), (f(8),)], {"axis": -1}, 1),
}  # fmt: skip


def quantized_lstm(dtype, directions, optional, *, per_column=False, **attrs):
    """The inputs of a DynamicQuantizeLSTM: 4 steps, batch 3, 5 inputs, 6 units."""
    make, zero = (u8, Z8) if dtype == "uint8" else (i7, np.int8(0))
    columns = (24,) if per_column else ()
    scales = [(abs(f(directions, *columns)) * 0.05 + 0.01,) for _ in range(2)]
    zeros = (np.full((directions, *columns), zero),)
    more = {
        "b": (f(directions, 48),), "lengths": np.array([4, 4, 2], "i4"),
        "h": f(directions, 3, 6), "c": f(directions, 3, 6), "p": (f(directions, 18),),
    }  # fmt: skip
    given = [more[name] if name in optional else None for name in more]
    inputs = [f(4, 3, 5), (make(directions, 5, 24),), (make(directions, 6, 24),),
              *given, scales[0], zeros, scales[1], zeros]  # fmt: skip
    return inputs, {"hidden_size": 6, **attrs}, 3


CASES |= {
    "DynamicQuantizeLSTM": quantized_lstm("int8", 1, "b"),
    "DynamicQuantizeLSTM unsigned": quantized_lstm("uint8", 1, ""),
    "DynamicQuantizeLSTM states": quantized_lstm(
        "uint8", 2, "bhcp", direction="bidirectional"
    ),
    "DynamicQuantizeLSTM columns": quantized_lstm(
        "int8", 1, "bh", per_column=True, direction="reverse"
    ),
    "DynamicQuantizeLSTM lengths": quantized_lstm(
        "int8", 1, ("b", "lengths"), clip=0.75, input_forget=1,
        activations=["HardSigmoid", "Softsign", "Tanh"],
    ),
    "MatMulInteger16": (
        [R.integers(-3000, 3000, (2, 4)).astype("i2"),
         R.integers(-3000, 3000, (4, 3)).astype("i2")], {}, 1,
    ),
    "NhwcMaxPool": (
        [u8(1, 7, 6, 2)],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, 1,
    ),
    "QLinearConv": (
        [u8(1, 2, 5, 5), S, Z8, (i7(3, 2, 3, 3),), (S,), (np.int8(0),), S, Z8,
         (np.arange(3, dtype="i4"),)], {"pads": [1, 1, 1, 1]}, 1,
    ),
    "QLinearConv last": (
        [u8(1, 5, 4, 2), S, Z8, (i7(4, 1, 3, 2),), (np.full(4, S),),
         (np.zeros(4, "i1"),), S, Z8], {"channels_last": 1, "group": 2}, 1,
    ),
    "QEmbedLayerNormalization": (
        [R.integers(0, 9, (2, 4)).astype("i4"), np.zeros((2, 4), "i4"), (u8(9, 8),),
         (u8(4, 8),), (u8(2, 8),), (u8(8),), (u8(8),), None,
         *[(np.float32(v),) for v in (0.01, 0.02, 0.03, 0.01, 0.02)],
         *[(np.uint8(v),) for v in (128, 100, 90, 3, 130)]],
        {"epsilon": 1e-5}, 2,
    ),
}  # fmt: skip


def experts(*, bits=None, block=0, zeros=False, bias=True, shares=False, batch=False,
            distinct=True, **attrs):  # fmt: skip
    """The inputs of a MoE, or a QMoE: 5 tokens, 4 experts, 32 features, 64 units."""
    swiglu = attrs.get("activation_type") == "swiglu"
    layers = [(4, 128 if swiglu else 64, 32), (4, 32, 64)]
    parts, points = [], []
    for count, rows, size in layers:
        b = (f(count, rows),) if bias else None
        if bits is None:
            parts += [(f(count, rows, size) / 4,), b]
            continue
        blocks = (size // block,) if block else ()
        parts += [(u8(count, rows, size * bits // 8),),
                  (abs(f(count, rows, *blocks)) / 2**bits,), b]  # fmt: skip
        packed = (rows, blocks[0] * bits // 8) if block else (rows * bits // 8,)
        points.append((u8(count, *packed),) if zeros else None)
    logits = 4 * f(5, 4) if distinct else np.zeros((5, 4), "f")
    inputs = [
        f(1, 5, 32) if batch else f(5, 32),
        logits,
        *parts,
        *([None] * 3 if points else []),
        *points,
    ]
    if shares:
        inputs += [None, abs(f(5, 4))]
    if bits is not None:
        attrs = {"expert_weight_bits": bits, "weights_prepacked": 0, **attrs}
    return inputs, {"k": 2, **attrs, **({"block_size": block} if block else {})}, 1


GATED = {
    "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7,
    "activation_beta": 1.0,
}  # fmt: skip
CASES |= {
    "MoE": experts(),
    "MoE one": experts(k=1, activation_type="silu", bias=False),
    "MoE gelu": experts(activation_type="gelu", normalize_routing_weights=1),
    "MoE gated": experts(**GATED, swiglu_limit=0.25),
    "MoE batch": experts(batch=True),
    "MoE of equal logits": experts(distinct=False),
    "QMoE": experts(bits=4),
    "QMoE of equal logits": experts(bits=4, distinct=False),
    "QMoE bytes": experts(bits=8, bias=False, activation_type="gelu"),
    "QMoE blocks": experts(bits=4, block=16, zeros=True, **GATED, swiglu_limit=0.25),
    "QMoE zeros": experts(bits=4, zeros=True, activation_type="silu"),
    "QMoE shares": experts(bits=8, shares=True, weights_prepacked=-1),
    "QMoE normalized": experts(bits=8, shares=True, normalize_routing_weights=1),
}
BY_HAND = {
    "BiasAdd": (
        [f(2, 3, 4), (f(4),), f(2, 3, 4)], {}, 1, lambda x, b, s: x + b + s,
    ),
    "MulInteger": (
        [u8(2, 3), Z8, u8(3), np.uint8(7)], {}, 1,
        lambda a, n, b, m: (a.astype("i4") - int(n)) * (b.astype("i4") - int(m)),
    ),
}  # fmt: skip
"""What onnxruntime has no kernel for on processors, with what it says it is."""
PLAIN = {"SimplifiedLayerNormalization"}
"""Ops that onnxruntime has in the domain of ONNX itself."""


def model(name):
    """A model of one op, and what it is fed."""
    inputs, attrs, wanted = (CASES | BY_HAND)[name][:3]
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
    domain = "" if kind in PLAIN else HOUSE
    node = helper.make_node(kind, words, names, domain=domain, **attrs)
    outs = [helper.make_empty_tensor_value_info(n) for n in names if n]
    graph = helper.make_graph([node], "g", ends, outs, weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(HOUSE, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


def session(proto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # DynamicQuantizeLSTM quantizes the states of a step for each thread's rows apart
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def is_loose(name):
    """Whether onnxruntime rounds to 8 bits what the hub does not, or in other groups.

    Its products of few bits round what they multiply; an LSTM quantizes the steps of
    sequences that have ended as zeros, and x without the steps after the longest one.
    """
    return "Bits" in name or "lengths" in name


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
            loose = is_loose(name)
            np.testing.assert_allclose(
                ours, theirs, rtol=2e-2 if loose else 2e-4, atol=5e-2 if loose else 2e-5
            )


# What comes back as other ops, all of them standard or of the same domain, and why.
OTHERWISE = {
    "Attention": "its projection is a product, its rest MultiHeadAttention",
    "DequantizeLinear": "the opset has it",
    "DynamicQuantizeLSTM": "as Loop over its steps",
    "DynamicQuantizeMatMul": "as DynamicQuantizeLinear and MatMulIntegerToFloat",
    "EmbedLayerNormalization": "as Gather and LayerNormalization",
    "ExpandDims": "the opset has it as Unsqueeze",
    "FusedConv": "as Conv and Relu, which runtimes fuse",
    "FusedGemm": "as Gemm and Relu, which runtimes fuse",
    "GatherBlockQuantized": "as DequantizeLinear of what Gather takes",
    "GatherND": "the opset has it",
    "MatMulInteger16": "as MatMul of int32",
    "MoE": "as MatMul with all experts, of which Where takes the chosen ones",
    "QMoE": "as MoE, of weights by DequantizeLinear",
    "NhwcMaxPool": "as MaxPool between Transposes",
    "QAttention": "as MatMulIntegerToFloat and MultiHeadAttention",
    "QEmbedLayerNormalization": "as Gather and LayerNormalization",
    "QLinearConv": "the opset has it",
    "MatMulBnb4": "as Gather from the levels of the codes, and MatMul",
    "QLinearConcat": "as Concat between DequantizeLinear and QuantizeLinear",
    "QuantizeLinear": "an op of few bits: the opset has it",
    "Trilu": "the opset has it",
}


def there_and_back(proto, opset, *, imported=True):
    graph = amanda.convert(Format().read(proto), "amanda/std/1")
    if not imported:
        del graph.imports[HOUSE]
    return amanda.convert(graph, f"amanda/onnx/{opset}")


def kinds_of(graph):
    return {op.type for op in graph.walk() if op.type != "constant"}


SAME = [n for n in CASES if n.split()[0] not in OTHERWISE]


@pytest.mark.parametrize("name", SAME)
def test_an_op_comes_back_as_what_it_was(name):
    proto, feeds = model(name)
    back = there_and_back(proto, 17)
    (found,) = [op for op in back.walk() if op.type == name.split()[0]]
    home = None if found.type in PLAIN else f"onnx/{HOUSE}/1"
    assert found.own_namespace == home
    expect_same(proto, back, feeds)


def test_every_row_of_the_domain_is_taken_in_its_directions():
    fired = set()
    for name in [*CASES, *BY_HAND]:
        proto, _ = model(name)
        there = MAPPING.conversion(Format().read(proto), "amanda/std/1")
        back = MAPPING.conversion(there.graph, "amanda/onnx/17")
        fired |= {(r, True) for r in there.report.rules}
        fired |= {(r, False) for r in back.report.rules}
    rows = [
        row
        for row in MAPPING.rules.rows
        if row.left.type.startswith(HOUSE) or row.left.type in PLAIN
    ]
    wanted = {(row.id, way) for row in rows for way in (True, False) if row.runs(way)}
    assert len(rows) > 40
    assert wanted - fired == set()


@pytest.mark.parametrize("name", [n for n in CASES if n.split()[0] in OTHERWISE])
def test_others_come_back_as_what_means_the_same(name):
    proto, feeds = model(name)
    tolerance = {"atol": 5e-2} if is_loose(name) else {}
    expect_same(proto, there_and_back(proto, 21), feeds, **tolerance)


def expect_same(proto, back, feeds, atol=1e-6):
    want = session(proto).run(None, feeds)
    got = session(onnx.load_from_string(Format().dumps(back))).run(None, feeds)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=atol)


WITHOUT_HOUSE = {"Inverse": "ONNX has no inverse of matrices"}


@pytest.mark.parametrize("name", [n for n in CASES if n not in WITHOUT_HOUSE])
def test_no_op_of_the_domain_is_made_for_a_graph_that_does_not_import_it(name):
    proto, feeds = model(name)
    back = there_and_back(proto, 21, imported=False)
    assert {op.own_namespace for op in back.walk()} <= {None, CORE}
    want = session(proto).run(None, feeds)
    got = session(onnx.load_from_string(Format().dumps(back))).run(None, feeds)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        loose = is_loose(name)
        wide = 1 if theirs.dtype.kind in "iu" else 5e-2 if loose else 2e-5
        np.testing.assert_allclose(
            ours.astype("f8"), theirs.astype("f8"), rtol=2e-4, atol=wide
        )


def test_a_matrix_is_inverted_by_loops_where_the_domain_is_not_imported():
    proto, feeds = model("Inverse")
    back = there_and_back(proto, 21, imported=False)
    assert "Inverse" not in kinds_of(back)
    expect_same(proto, back, feeds)


def test_what_the_opset_has_is_taken_before_what_the_domain_has():
    proto, _ = model("Gelu")
    assert kinds_of(there_and_back(proto, 21)) == {"Gelu"}
    ours = [op.own_namespace for op in there_and_back(proto, 21).walk()]
    assert set(ours) <= {None, CORE}


def test_who_imports_the_domain_gets_its_ops():
    """The user asks for them by the imports of the graph in the hub set."""
    x = helper.make_tensor_value_info("x", 1, [2, 8])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Mul", ["y", "half"], ["z"]),
    ]
    weights = [
        numpy_helper.from_array(f(8, 3), "w"),
        numpy_helper.from_array(np.array(0.5, "f"), "half"),
    ]
    out = helper.make_tensor_value_info("z", 1, [2, 3])
    made = helper.make_graph(nodes, "g", [x], [out], weights)
    imports = [helper.make_opsetid("", 17)]
    proto = helper.make_model(made, opset_imports=imports, ir_version=8)
    graph = amanda.convert(Format().read(proto), "amanda/std/1")
    assert kinds_of(amanda.convert(graph, "onnx@17")) == {"MatMul", "Mul"}
    graph.imports[HOUSE] = 1
    back = amanda.convert(graph, "onnx@17")
    assert kinds_of(back) == {"FusedMatMul"}
    feeds = {"x": f(2, 8)}
    expect_same(proto, back, feeds)


# -- what onnxruntime has no kernel for on processors ----------------------------------


@pytest.mark.parametrize("name", BY_HAND)
def test_results_are_those_that_its_words_tell(name):
    proto, feeds = model(name)
    inputs, _, _, rule = BY_HAND[name]
    want = rule(*(v[0] if isinstance(v, tuple) else v for v in inputs))
    (got,) = amanda.run(Format().read(proto), feeds, backend="numpy").values()
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_packed_inputs_are_as_those_side_by_side(whole):
    """[batch, places, heads, 3, depth], or 2 for keys and values: its kernels for
    processors refuse them, so the same numbers apart are what is expected."""
    q, k, v = f(2, 3, 8), f(2, 3, 8), f(2, 3, 8)
    parts = [x.reshape(2, 3, 2, 4) for x in (q, k, v)]
    packed = [np.stack(parts, 3)] if whole else [q, np.stack(parts[1:], 3)]
    found = []
    for inputs in ([q, k, v], packed):
        ends = [info(f"i{i}", 1, x.shape) for i, x in enumerate(inputs)]
        names = [end.name for end in ends]
        node = helper.make_node(
            "MultiHeadAttention", names, ["y"], domain=HOUSE, num_heads=2
        )
        outs = [helper.make_empty_tensor_value_info("y")]
        made = helper.make_graph([node], "g", ends, outs)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(HOUSE, 1)]
        proto = helper.make_model(made, opset_imports=imports, ir_version=10)
        feeds = dict(zip(names, inputs, strict=True))
        if len(inputs) == 3:
            found.append(session(proto).run(None, feeds)[0])
        else:
            run = amanda.run(Format().read(proto), feeds, backend="numpy")
            found.append(next(iter(run.values())))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
