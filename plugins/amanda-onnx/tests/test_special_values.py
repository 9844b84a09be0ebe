"""NaN, infinities, largest numbers and empty axes, as in onnx's reference evaluator."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.types import Sym, TensorType
from amanda_std import ops, trace

NAN, INF = np.nan, np.inf
X = np.array([[NAN, INF, -INF, 3.4e38, -0.0, 0.25]], "float32")
ONE = np.ones((1, 1), "float32")

CASES = {
    "Shrink": ([X], {"lambd": 0.5, "bias": 0.0}),
    "ThresholdedRelu": ([X], {"alpha": 1.0}),
    "Gelu": ([np.delete(X, 2, 1)], {}),  # the reference gives NaN for -inf
    "PRelu": ([X, np.full((1, 1), -2, "float32")], {}),
    "Gemm": ([ONE, ONE * 2, ONE * NAN], {"beta": 0.0}),
    "Hardmax": ([np.zeros((3, 0), "float32")], {}),
}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", CASES)
def test_special_values(name, backend):
    if backend == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    inputs, attrs = CASES[name]
    ends = [
        helper.make_tensor_value_info(f"i{i}", TensorProto.FLOAT, v.shape)
        for i, v in enumerate(inputs)
    ]
    node = helper.make_node(name, [e.name for e in ends], ["y"], **attrs)
    result = onnx.ValueInfoProto(name="y")
    model = helper.make_model(
        helper.make_graph([node], "g", ends, [result]),
        opset_imports=[helper.make_opsetid("", 20)], ir_version=9,
    )  # fmt: skip
    feeds = {e.name: v for e, v in zip(ends, inputs, strict=True)}
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, feeds)[0]
    found = next(iter(amanda.run(amanda.load(model), feeds, backend=backend).values()))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("axes", "keepdims"), [(None, False), ([0], True), ([1], True)]
)
def test_means_of_nothing(axes, keepdims):
    """NaN, as of numpy, also in onnxruntime, whose ReduceMean gives 0."""
    pytest.importorskip("amanda_onnxruntime", reason="needs onnxruntime")
    x = np.zeros((0, 2), "float32")
    graph = trace(
        lambda x: ops.mean(x, axes, keepdims=keepdims), [TensorType("float32", [0, 2])]
    )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = x.mean(None if axes is None else tuple(axes), keepdims=keepdims)
    (found,) = amanda.run(graph, [x], backend="onnxruntime").values()
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("function", [ops.sum, ops.prod])
def test_sums_of_narrow_integers_wrap_around(function, dtype):
    pytest.importorskip("amanda_onnxruntime", reason="needs onnxruntime")
    x = np.array([[100, 120, 3], [7, 90, 5]]).astype(dtype)
    graph = trace(lambda x: function(x, [1]), [TensorType(dtype, [2, 3])])
    found, expected = (
        amanda.run(graph, [x], backend=b)[0] for b in ("onnxruntime", "numpy")
    )
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("padding", ["same_upper", "same_lower"])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)])
@pytest.mark.parametrize("batch", [2, Sym.named("n")])
def test_convolutions_that_keep_the_size(padding, dilations, batch):
    """onnxruntime refuses `auto_pad` with dilations."""
    pytest.importorskip("amanda_onnxruntime", reason="needs onnxruntime")
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s).astype("f") for s in ((2, 4, 6, 7), (6, 2, 3, 2)))

    def function(x):
        return ops.conv(x, w, padding=padding, dilations=dilations, groups=2)

    graph = trace(function, [TensorType("float32", [batch, 4, 6, 7])])
    onnx_graph = amanda.convert(graph, "onnx")
    assert sum(op.type == "Conv" for op in onnx_graph) == 1
    found, expected = (
        amanda.run(graph, [x], backend=b)[0] for b in ("onnxruntime", "numpy")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def ml_model(op, value_type, **attrs):
    """A model of one op of ai.onnx.ml, with one input."""
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    ends = [helper.make_value_info("x", value_type)], [onnx.ValueInfoProto(name="y")]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "g", *ends)
    return amanda.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_nan_is_no_category(backend):
    if backend == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    floats = helper.make_tensor_type_proto(TensorProto.FLOAT, [3])
    graph = ml_model("OneHotEncoder", floats, cats_int64s=[0, 1])
    x = np.array([NAN, 0, 1], "float32")
    (found,) = amanda.run(graph, [x], backend=backend).values()
    np.testing.assert_array_equal(found, [[0, 0], [1, 0], [0, 1]])


def test_numbers_in_maps_have_the_declared_dtype():
    scalar = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    floats = helper.make_map_type_proto(TensorProto.STRING, scalar)
    graph = ml_model("DictVectorizer", floats, string_vocabulary=["b", "a"])
    (found,) = amanda.run(graph, [{"a": 1.5, "b": NAN}], backend="numpy").values()
    np.testing.assert_array_equal(found, np.array([[NAN, 1.5]], "f"), strict=True)
