"""Graphs that come back from the hub as fewer or other ops, by opset."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.errors import ConversionError
from amanda.types import Sym, TensorType
from amanda_onnx.format import Format
from amanda_onnx_conformance import cases, data_sets, load_model
from amanda_std import ops, trace
from amanda_std.mappings import array_type

RNG = np.random.default_rng(11)


def written(call, arrays, opset):
    """A graph of the hub set as a model of this opset, and the types of its ops."""
    types = [TensorType(array_type(a).dtype, a.shape) for a in arrays]
    graph = trace(call, types, names=[f"in{i}" for i in range(len(arrays))])
    graph.outputs[0].name = "out"
    found = amanda.convert(graph, f"amanda/onnx/{opset}")
    kinds = [op.type for op in found.walk() if op.type != "constant"]
    return onnx.load_from_string(Format().dumps(found)), kinds


def ran(proto, arrays):
    feeds = {f"in{i}": a for i, a in enumerate(arrays)}
    return ReferenceEvaluator(proto).run(None, feeds)[0]


def expect(call, arrays, opset, want):
    proto, kinds = written(call, arrays, opset)
    got = ran(proto, arrays)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tolist() == want.tolist()
    return kinds


# -- integers --------------------------------------------------------------------------


def python(rule, a, b):
    """By Python's numbers of any size, cut to the bits that there are."""
    bits, signed = a.dtype.itemsize * 8, a.dtype.kind == "i"
    found = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        value = rule(x, y) % (1 << bits)
        found.append(value - (1 << bits) if signed and value >> (bits - 1) else value)
    return np.array(found, a.dtype)


SHIFTS = {
    "LEFT": (ops.bitwise_left_shift, lambda x, n: x << n),
    "RIGHT": (ops.bitwise_right_shift, lambda x, n: x >> n),
}
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("opset", [8, 10, 11, 21, 27])
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("direction", SHIFTS)
def test_shifts_of_all_integers_in_all_opsets(direction, dtype, opset):
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, info.max // 3, 5, 0, 1, 77, info.min // 3], dtype)
    b = np.array([1, 1, 2, 3, 4, info.bits - 1, 0, info.bits - 2], dtype)
    op, rule = SHIFTS[direction]
    kinds = expect(lambda x, n: op(x, n), (a, b), opset, python(rule, a, b))
    if dtype.startswith("u") and opset >= 11:
        assert kinds == ["BitShift"]


@pytest.mark.parametrize("direction", SHIFTS)
def test_the_newest_opset_shifts_by_its_own_op(direction):
    a = np.array([-8, 7], "int32")
    _, kinds = written(lambda x: SHIFTS[direction][0](x, x), (a,), 28)
    assert kinds == ["BitShift"]


@pytest.mark.parametrize("opset", [8, 9, 13])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_quotients_and_rests_of_integers(dtype, opset):
    low = 0 if dtype.startswith("u") else -7
    a, b = (x.reshape(-1).astype(dtype) for x in np.meshgrid(range(low, 8), [2, 3, 5]))
    if low:
        a, b = np.concatenate([a, a]), np.concatenate([b, -b])
    want = python(lambda x, y: x // y, a, b)
    expect(lambda x, y: ops.floor_divide(x, y), (a, b), opset, want)
    if opset > 9 or a.dtype.itemsize > 2:
        want = python(lambda x, y: x % y, a, b)
        expect(lambda x, y: ops.remainder(x, y), (a, b), opset, want)


# -- places ----------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [8, 10, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_at_places_that_may_count_from_the_end(axis, opset):
    x = RNG.standard_normal((3, 4, 2)).astype("f")
    shape = [3, 4, 2]
    shape[axis] = 2
    at = RNG.integers(-x.shape[axis], x.shape[axis], shape)
    want = np.take_along_axis(x, at % x.shape[axis], axis)
    expect(lambda v, i: ops.gather_elements(v, i, axis=axis), (x, at), opset, want)


def test_places_that_are_counted_at_run_time():
    x = RNG.standard_normal((5, 2)).astype("f")

    def call(v):
        return ops.arange(0, ops.reshape(ops.gather(ops.shape_of(v), np.array(0)), []))

    graph = trace(call, [TensorType("float32", [Sym.named("n"), 2])], names=["in0"])
    graph.outputs[0].name = "out"
    found = amanda.convert(graph, "amanda/onnx/9")
    proto = onnx.load_from_string(Format().dumps(found))
    assert ran(proto, [x]).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ConversionError, match="no Range with computed bounds"):
        amanda.convert(graph, "amanda/onnx/8")


@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("stop", [4, 0, -2])
def test_places_up_to_numbers_of_any_kind(stop, dtype, opset):
    end = np.array(stop, dtype)
    graph = trace(lambda n: ops.arange(0, n), [TensorType(dtype, ())], names=["in0"])
    found = amanda.convert(graph, f"amanda/onnx/{opset}")
    proto = onnx.load_from_string(Format().dumps(found))
    onnx.checker.check_model(proto, full_check=True)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(proto.SerializeToString())
    (got,) = session.run(None, {"in0": end})
    assert (got.dtype, got.tolist()) == (np.dtype("int64"), list(range(stop)))


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_one_op_chooses_where_the_opset_has_it(dtype):
    c = np.array([True, False, True])
    a, b = np.array([1, 0, 3]).astype(dtype), np.array([0, 5, 0]).astype(dtype)
    want = np.where(c, a, b)
    kinds = expect(lambda *xs: ops.where(*xs), (c, a, b), 9, want)
    if dtype != "bool":  # of which onnxruntime's Where knows nothing
        assert kinds == ["Where"]
    expect(lambda *xs: ops.where(*xs), (c, a, b), 8, want)


# -- spectra and n-grams ---------------------------------------------------------------


def again(proto, opset):
    graph = amanda.convert(amanda.load(proto), "amanda/std/1")
    found = amanda.convert(graph, f"amanda/onnx/{opset}")
    kinds = [op.type for op in found.walk() if op.type != "constant"]
    return onnx.load_from_string(Format().dumps(found)), kinds


def model(kind, inputs, constants, opset=18, **attrs):
    ends = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in inputs.items()
    ]
    kept = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    node = helper.make_node(kind, [*inputs, *constants], ["y"], **attrs)
    out = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([node], "g", ends, out, kept)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def agree(proto, other, inputs):
    want, got = (ReferenceEvaluator(p).run(None, inputs)[0] for p in (proto, other))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("window", [True, False])
@pytest.mark.parametrize(("parts", "onesided"), [(1, 0), (1, 1), (2, 0)])
def test_spectra_of_frames_come_back(parts, onesided, window):
    signal = {"signal": RNG.standard_normal((2, 32, parts)).astype("f")}
    weights = {"step": np.array(4)}
    if window:
        weights["window"] = np.hanning(8).astype("f")
        weights["length"] = np.array(8)
    else:
        weights[""] = weights["length"] = np.array(8)
    proto = model("STFT", signal, {k: v for k, v in weights.items() if k}, 17,
                  onesided=onesided)  # fmt: skip
    if not window:
        del proto.graph.node[0].input[:]
        proto.graph.node[0].input.extend(["signal", "step", "", "length"])
    other, kinds = again(proto, 17)
    assert kinds.count("STFT") == parts
    onnx.checker.check_model(other, full_check=True)
    agree(proto, other, signal)


def test_a_matrix_of_mels_comes_back():
    weights = {"bins": np.array(8), "length": np.array(64), "rate": np.array(8192),
               "low": np.array(0, "f"), "high": np.array(4096, "f")}  # fmt: skip
    proto = model("MelWeightMatrix", {}, weights)
    other, kinds = again(proto, 18)
    assert kinds == ["MelWeightMatrix"]
    agree(proto, other, {})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_counted_n_grams_come_back(mode):
    inputs = {"x": np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], "int32")}
    proto = model(
        "TfIdfVectorizer", inputs, {}, mode=mode, min_gram_length=1, max_gram_length=2,
        max_skip_count=0, ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    )  # fmt: skip
    other, kinds = again(proto, 18)
    assert kinds.count("TfIdfVectorizer") == 2
    agree(proto, other, inputs)


# -- one op for several ----------------------------------------------------------------


def suite(*types):
    """Cases of onnx of one op, by name."""
    for name, case in cases(["node"]):
        proto = load_model(case)
        if len(proto.graph.node) == 1 and proto.graph.node[0].op_type in types:
            yield f"{name}/{case.name}", case, proto


def by_reference_again(case, proto, opset):
    other, kinds = again(proto, opset)
    fed, want = next(iter(data_sets(case)))
    names = [i.name for i in other.graph.input]
    feeds = {n: np.asarray(v) for n, v in zip(names, fed, strict=True)}
    got = ReferenceEvaluator(other).run(None, feeds)
    for one, wish in zip(got, want, strict=True):
        np.testing.assert_allclose(
            np.asarray(one), np.asarray(wish), rtol=1e-4, atol=1e-5
        )
    return kinds


def test_heads_side_by_side_come_back_as_one_op():
    """Attention and RotaryEmbedding of three axes, where no past comes out."""
    seen = 0
    for name, case, proto in suite("Attention", "RotaryEmbedding"):
        node = proto.graph.node[0]
        if not ("_3d" in name or node.op_type == "RotaryEmbedding"):
            continue
        if "past" in name or "bf16" in name or "fp16" in name or "4d" in name:
            continue
        kinds = by_reference_again(case, proto, 28)
        assert kinds == [node.op_type], name
        seen += 1
    assert seen > 20


def test_steps_of_optimisers_come_back():
    seen = []
    for _, case, proto in suite("Adam", "Adagrad", "Momentum"):
        kinds = by_reference_again(case, proto, 18)
        assert proto.graph.node[0].op_type in kinds
        seen.append(proto.graph.node[0].op_type)
    assert set(seen) == {"Adam", "Adagrad", "Momentum"}
