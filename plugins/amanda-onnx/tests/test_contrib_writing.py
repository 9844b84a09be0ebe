"""Cases in which ops of com.microsoft are not written, since its kernels differ.

Expected results are formulas in numpy, in float64; onnxruntime runs what is written.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import amanda
from amanda.types import TensorType
from amanda_onnx.format import Format
from amanda_std import ops, trace
from amanda_std.mappings import array_type

onnxruntime = pytest.importorskip("onnxruntime")
R = np.random.default_rng(29)
HOUSE = "com.microsoft"
S, Z8 = np.float32(0.05), np.uint8(120)


def f(*shape):
    return np.asarray(R.standard_normal(shape) * 0.5, "f")


def u8(*shape):
    return np.asarray(R.integers(0, 256, shape), "uint8")


def outward(call, *arrays, opset=17):
    """A graph of the hub set that imports the domain: its ops as a model, and what
    onnxruntime makes of it. Without its passes, some of which have the same faults."""
    types = [TensorType(array_type(a).dtype, a.shape) for a in arrays]
    graph = trace(call, types, names=[f"i{n}" for n in range(len(arrays))])
    graph.imports[HOUSE] = 1
    back = amanda.convert(graph, f"amanda/onnx/{opset}")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(0)
    made = onnxruntime.InferenceSession(Format().dumps(back), options)
    feeds = {f"i{n}": a for n, a in enumerate(arrays)}
    return {op.type for op in back.walk()}, made.run(None, feeds)[0]


@pytest.mark.parametrize("factor", [None, 0.5])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_no_matrix_that_is_turned_is_fused_with_a_vector(rank, factor):
    turn = [*range(rank - 2), rank - 1, rank - 2]
    a, b = f(*(2, 2)[: rank - 2], 3, 4), f(3)

    def call(x, y):
        z = ops.matmul(ops.transpose(x, perm=turn), y)
        return z if factor is None else ops.multiply(z, np.float32(factor))

    kinds, got = outward(call, a, b)
    assert "Transpose" in kinds
    want = a.transpose(turn).astype("f8") @ b * (factor or 1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize(("wide", "long"), [(4, 1), (1, 4), (4, 4)])
def test_a_bias_that_is_repeated_is_added_apart(wide, long, approximate):
    x, b = f(2, wide), f(long)
    kinds, got = outward(
        lambda v, w: ops.bias_gelu(v, w, approximate=approximate), x, b
    )
    assert ("Add" in kinds) == (wide != long)
    y = (x + b).astype("f8")
    inner = np.vectorize(math.erf)(y / math.sqrt(2))
    if approximate:
        inner = np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))
    np.testing.assert_allclose(got, y * (1 + inner) / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [(3,), (3, 3), (2, 3, 3), (1, 2, 3, 3), (2, 1, 1, 3), (2, 1, 3, 3)],
)
def test_scores_are_added_by_its_attention_if_they_are_all_there(shape):
    def call(q, added):
        return ops.multi_head_attention(q, q, q, None, None, added, heads=2)[0]

    q, added = f(2, 3, 8), f(*shape)
    kinds, got = outward(call, q, added)
    assert ("MultiHeadAttention" in kinds) == (len(shape) == 4 and 1 not in shape[2:])
    heads = q.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3).astype("f8")
    scores = heads @ heads.transpose(0, 1, 3, 2) / 2 + added
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    want = (shares @ heads).transpose(0, 2, 1, 3).reshape(2, 3, 8)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


COLUMNS, ZEROS = np.float32([0.05, 0.25, 1]), np.uint8([120, 3, 77])
ONE_SCALE = {
    "QLinearAdd": (2, lambda a, b: ops.add(a, b), np.add),
    "QLinearMul": (2, lambda a, b: ops.multiply(a, b), np.multiply),
    "QLinearWhere": (
        2, lambda a, b: ops.where(np.array([True, False, True]), a, b),
        lambda a, b: np.where([True, False, True], a, b),
    ),
    "QLinearSigmoid": (1, lambda a: ops.sigmoid(a), lambda a: 1 / (1 + np.exp(-a))),
    "QLinearLeakyRelu": (
        1, lambda a: ops.leaky_relu(a, slope=0.5), lambda a: np.where(a < 0, a / 2, a),
    ),
    "QLinearSoftmax": (
        1, lambda a: ops.softmax(a, axes=(-1,)),
        lambda a: np.exp(a) / np.exp(a).sum(-1, keepdims=True),
    ),
    "QLinearGlobalAveragePool": (
        1, lambda a: ops.mean(a, [2, 3], keepdims=True),
        lambda a: a.mean((2, 3), keepdims=True),
    ),
    "QLinearAveragePool": (
        1, lambda a: ops.avg_pool(a, window=(1, 1)), lambda a: a,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("scale", "zero"), [(COLUMNS, ZEROS), (S, ZEROS), (COLUMNS, Z8), (S, Z8)]
)
@pytest.mark.parametrize("name", ONE_SCALE)
def test_ops_of_one_scale_are_not_made_of_several(name, scale, zero):
    count, call, rule = ONE_SCALE[name]
    data = [u8(1, 2, 4, 3) for _ in range(count)]

    def whole(*xs):
        y = call(*(ops.dequantize(x, scale, zero) for x in xs))
        return ops.quantize(y, np.float32(0.5), np.uint8(9))

    kinds, got = outward(whole, *data)
    assert (name in kinds) == (np.ndim(scale) == np.ndim(zero) == 0)
    floats = [(x.astype("f8") - zero) * scale for x in data]
    want = np.clip(np.rint(rule(*floats) / 0.5) + 9, 0, 255)
    assert got.dtype == np.uint8
    assert np.abs(got - want).max() <= 1  # a half may be rounded to either side


def test_choices_between_bytes_have_scales_that_are_constant():
    """From which the kernel makes its tables; of others it makes an end of all."""
    choice, data = np.array([True, False, True]), [u8(2, 3), u8(2, 3)]

    def call(p, a, b):
        y = ops.where(choice, ops.dequantize(a, p, Z8), ops.dequantize(b, S, Z8))
        return ops.quantize(y, S, Z8)

    kinds, got = outward(call, np.asarray(2 * S), *data)
    assert "QLinearWhere" not in kinds
    want = np.where(choice, np.clip(data[0] * 2.0 - 120, 0, 255), data[1])
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize(
    ("left", "right", "zeros", "fused"),
    [
        ((), (), (), True),
        ((), (3,), (3,), True),
        ((), (3,), (), False),
        ((), (), (3,), False),
        ((3,), (), (), False),
        ((2, 1), (), (), False),
    ],
)
def test_a_product_of_bytes_has_one_scale_on_its_left(left, right, zeros, fused, shift):
    a, b, c = u8(2, 4), u8(4, 3), np.arange(3, dtype="i4")
    p, q = (abs(f(*shape)) * np.float32(0.01) for shape in (left, right))
    j = np.asarray(u8(*zeros))

    def call(a, b, p, q, j, c):
        y = ops.matmul_integer(a, b, np.uint8(7), j)
        y = ops.astype(y + c if shift else y, dtype="float32")
        return ops.quantize(ops.multiply(y, ops.multiply(p, q)), S, Z8)

    kinds, got = outward(call, a, b, np.asarray(p), np.asarray(q), j, c)
    assert ("QGemm" in kinds) == fused
    y = (a.astype("i8") - 7) @ (b.astype("i8") - j) + (c if shift else 0)
    want = np.clip(np.rint(y * (p.astype("f8") * q) / S) + Z8, 0, 255)
    assert np.abs(got - want).max() <= 1
