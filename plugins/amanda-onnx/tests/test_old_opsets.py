"""Old opsets; signal processing, random numbers, training, Gradient."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import amanda
from amanda.types import DType, Sym, TensorType
from amanda_std import ops, trace

KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64,
         "bool": TensorProto.BOOL, "float64": TensorProto.DOUBLE}  # fmt: skip
X = np.linspace(-2, 3, 24, dtype="float32").reshape(2, 3, 4)


def model(type, inputs, outputs="y", opset=6, domain="", **attrs):
    infos = [
        helper.make_tensor_value_info(k, KINDS[str(v.dtype)], v.shape)
        for k, v in inputs.items()
    ]
    node = helper.make_node(type, list(inputs), list(outputs), domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", infos, [onnx.ValueInfoProto(name=n) for n in outputs]
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def run(type, inputs, *, of=0, **more):
    made = model(type, inputs, **more)
    return list(amanda.run(amanda.load(made), inputs, backend="numpy").values())[of]


COLUMN = np.float32([1, -2, 3])


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("type", "rule"),
    [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)],
)
def test_the_second_lies_along_an_axis(type, rule, opset):
    inputs = {"a": X, "b": COLUMN}
    found = run(type, inputs, opset=opset, broadcast=1, axis=1)
    np.testing.assert_array_equal(found, rule(X, COLUMN[:, None]))
    found = run(type, {"a": X, "b": X[0, 0]}, opset=opset, broadcast=1)
    np.testing.assert_array_equal(found, rule(X, X[0, 0]))


HINTS = {"consumed_inputs": [0]}
FIRST = {
    "Abs": (np.abs, {}), "Neg": (np.negative, {}), "Exp": (np.exp, {}),
    "Floor": (np.floor, {}), "Ceil": (np.ceil, {}), "Tanh": (np.tanh, {}),
    "Relu": (lambda x: np.maximum(x, 0), {}),
    "Reciprocal": (lambda x: 1 / x, {}),
    "LeakyRelu": (lambda x: np.where(x < 0, x * np.float32(0.25), x), {"alpha": 0.25}),
    "Elu": (lambda x: np.where(x < 0, np.expm1(x) * 2, x), {"alpha": 2.0}),
    "Selu": (lambda x: np.where(x <= 0, 1.5 * (2 * np.exp(x) - 2), 1.5 * x),
             {"alpha": 2.0, "gamma": 1.5}),
    "HardSigmoid": (lambda x: np.clip(x * 0.5 + 0.25, 0, 1),
                    {"alpha": 0.5, "beta": 0.25}),
    "Clip": (lambda x: np.clip(x, -0.5, 0.75), {"min": -0.5, "max": 0.75}),
    "Reshape": (lambda x: x.reshape(2, 12), {"shape": [0, -1]}),
}  # fmt: skip


@pytest.mark.parametrize("type", FIRST)
def test_hints_of_the_first_opset_mean_nothing(type):
    rule, attrs = FIRST[type]
    found = run(type, {"x": X}, opset=1, **HINTS, **attrs)
    np.testing.assert_allclose(found, rule(X), rtol=1e-5)


def test_pads_and_concatenates_as_the_first_opset():
    found = run("Pad", {"x": X}, opset=1, paddings=[0, 1, 0, 0, 0, 2], value=0.5)
    want = np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=0.5)
    np.testing.assert_array_equal(found, want)
    found = run("Concat", {"a": X, "b": X}, opset=1)
    np.testing.assert_array_equal(found, np.concatenate([X, X], 1))
    found = run("Cast", {"x": X}, opset=1, to="INT64")
    np.testing.assert_array_equal(found, X.astype("int64"))


def test_a_batch_norm_that_tests():
    numbers = {"s": COLUMN, "b": COLUMN * 2, "m": COLUMN + 1, "v": np.abs(COLUMN)}
    found = run("BatchNormalization", {"x": X, **numbers}, is_test=1, epsilon=1e-3)
    s, b, m, v = (n[:, None] for n in numbers.values())
    want = (X - m) / np.sqrt(v + 1e-3) * s + b
    np.testing.assert_allclose(found, want, rtol=1e-4)


# -- drawn -------------------------------------------------------------------------


def drawn(seed=None, **more):
    attrs = {} if seed is None else {"seed": seed}
    return run("RandomNormal", {}, opset=22, shape=[1000], **attrs, **more)


def test_a_seed_tells_all_numbers():
    one, two = drawn(7.0), drawn(8.0)
    np.testing.assert_array_equal(one, drawn(7.0))
    assert not np.array_equal(one, two)
    moved = drawn(7.0, mean=5.0, scale=2.0)
    np.testing.assert_allclose(moved, one * 2 + 5, rtol=1e-5)
    assert abs(one.mean()) < 0.15
    assert 0.9 < one.std() < 1.1


def test_ops_without_a_seed_draw_different_numbers():
    nodes = [helper.make_node("RandomUniform", [], [n], shape=[50]) for n in "ab"]
    infos = [onnx.ValueInfoProto(name=n) for n in "ab"]
    graph = helper.make_graph(nodes, "g", [], infos)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=8
    )
    a, b = amanda.run(amanda.load(made), {}, backend="numpy").values()
    assert not np.array_equal(a, b)
    assert 0 <= min(a.min(), b.min()) < max(a.max(), b.max()) < 1


def test_classes_are_as_likely_as_they_are_said_to_be():
    shares = np.float32([[0.7, 0.2, 0.1]])
    found = run("Multinomial", {"x": np.log(shares)}, opset=22, sample_size=4000,
                seed=1.0)  # fmt: skip
    counts = np.bincount(found[0], minlength=3) / 4000
    np.testing.assert_allclose(counts, shares[0], atol=0.03)
    assert found.dtype == np.int32


def test_dropout_trains_where_it_is_told_at_run_time():
    inputs = {"x": np.ones((50, 50), "float32"), "r": np.float32(0.25),
              "t": np.array(True)}  # fmt: skip
    made = model("Dropout", inputs, "ym", opset=13, seed=3)
    compiled = amanda.compile(amanda.load(made), "numpy")
    y, kept = compiled(inputs).values()
    np.testing.assert_allclose(y, kept / np.float32(0.75), rtol=1e-6)
    assert 0.7 < kept.mean() < 0.8
    y, kept = compiled(inputs | {"t": np.array(False)}).values()
    np.testing.assert_array_equal(y, inputs["x"])
    assert kept.all()


# -- training ----------------------------------------------------------------------


def test_a_gradient_goes_through_the_graph_before_it():
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["p"]),
        helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0),
        helper.make_node("Gradient", ["x", "w"], ["gx", "gw"], xs=["x", "w"], y="y",
                         domain="ai.onnx.preview.training"),
    ]  # fmt: skip
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3, 4]) for n in "xw"
    ]
    outs = [onnx.ValueInfoProto(name=n) for n in ("gx", "gw")]
    imports = [helper.make_opsetid("", 13),
               helper.make_opsetid("ai.onnx.preview.training", 1)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", infos, outs)
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    gx, gw = amanda.run(
        amanda.load(made), {"x": X, "w": X + 1}, backend="numpy"
    ).values()
    np.testing.assert_array_equal(gx, X + 1)
    np.testing.assert_array_equal(gw, X)


# -- matrices whose sizes come at run time -----------------------------------------


def test_mel_weights_follow_the_numbers_of_each_run():
    from onnx.reference import ReferenceEvaluator

    def scalars(bins, length, rate, low, high):
        return {
            "a": np.int64(bins), "b": np.int64(length), "c": np.int64(rate),
            "d": np.float32(low), "e": np.float32(high),
        }  # fmt: skip

    told = [scalars(8, 16, 8192, 0, 4096), scalars(5, 32, 16000, 100, 7000)]
    made = model("MelWeightMatrix", {k: np.asarray(v) for k, v in told[0].items()},
                 opset=17)  # fmt: skip
    compiled = amanda.compile(amanda.load(made), "numpy")
    for inputs in told:
        arrays = {k: np.asarray(v) for k, v in inputs.items()}
        (want,) = ReferenceEvaluator(made).run(None, inputs)
        (found,) = compiled(arrays).values()
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, atol=1e-6)


@pytest.mark.parametrize("name", ["Hann", "Hamming", "Blackman"])
def test_windows_come_back_as_they_were(name):
    made = model(f"{name}Window", {"n": np.asarray(10, "int64")}, opset=17)
    graph = amanda.load(made)
    back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
    assert [op.type for op in back if op.type != "constant"] == [f"{name}Window"]


def test_quantised_products_come_back_as_they_were():
    from onnx.backend.test import loader

    names = {"test_qlinearconv", "test_convinteger_with_padding", "test_det_2d",
             "test_dft", "test_matmulinteger", "test_cumprod_1d",
             "test_dynamicquantizelinear", "test_quantizelinear_axis",
             "test_dequantizelinear_blocked",
             "test_qlinearmatmul_2D_int8_float32"}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while onnx makes its test data
        found = [c for c in loader.load_model_tests(kind="node") if c.name in names]
    assert len(found) == len(names)
    for case in found:
        graph = amanda.load(case.model)
        back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
        types = {op.type for op in back}
        assert case.model.graph.node[0].op_type in types, case.name


# -- Fourier transforms, which ONNX has since opset 17 ---------------------------------

WAVES = np.random.default_rng(3).normal(size=(2, 3, 4))
WHOLE = WAVES[0] + 1j * WAVES[1]
TRANSFORMS = {
    "fft": (lambda z: ops.fft(z, None, (0, 1)), WHOLE, np.fft.fft2(WHOLE)),
    "fft of a size": (
        lambda z: ops.fft(z, (2,), (0,), norm="ortho"), WHOLE,
        np.fft.fft(WHOLE, 2, 0, "ortho"),
    ),
    "ifft of a size": (
        lambda z: ops.ifft(z, (5,), (-1,)), WHOLE, np.fft.ifft(WHOLE, 5),
    ),
    "rfft": (ops.rfft, WAVES[0], np.fft.rfft(WAVES[0])),
    "irfft": (ops.irfft, WHOLE, np.fft.irfft(WHOLE)),
    "irfft of a size": (
        lambda z: ops.irfft(z, (7,), (-1,)), WHOLE, np.fft.irfft(WHOLE, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dims", [(3, 4), (Sym.named("a"), Sym.named("b"))])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_fourier_transforms_are_products_of_matrices(name, dims):
    function, x, wanted = TRANSFORMS[name]
    graph = trace(function, [TensorType(DType.of(x), dims)])
    made = amanda.convert(graph, "onnx@16")
    assert not any(op.type == "DFT" for op in made.walk())
    feed, wanted = (
        np.stack([v.real, v.imag], -1) if np.iscomplexobj(v) else v for v in (x, wanted)
    )
    (got,) = amanda.run(made, [feed], backend="numpy").values()
    np.testing.assert_allclose(got, wanted, atol=1e-12)
