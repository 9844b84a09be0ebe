"""Ops that are no valid ONNX: a gap with the reason, never a foreign exception."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import amanda
from amanda.errors import ConversionError, NamespaceError
from amanda.tensors import Tensor
from amanda.types import SequenceType, TensorType
from amanda_onnx.format import Format

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741


def graph_of(type, inputs, constants=(), outputs=1, opset=18, domain="", **attrs):
    """The graph of one node; `inputs` are shapes, None for an omitted one."""
    infos = [
        helper.make_tensor_value_info(f"x{i}", F, shape)
        for i, shape in enumerate(inputs)
        if shape is not None
    ]
    names = ["" if shape is None else f"x{i}" for i, shape in enumerate(inputs)]
    weights = [
        numpy_helper.from_array(np.asarray(c), f"c{i}") for i, c in enumerate(constants)
    ]
    names += [weight.name for weight in weights]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(type, names, made, domain=domain, **attrs)
    results = [helper.make_tensor_value_info(name, F, None) for name in made]
    graph = helper.make_graph([node], "g", infos, results, weights)
    imports = [helper.make_opsetid("", opset)]
    version = 1 if domain == "ai.onnx.preview" else 3
    imports += [helper.make_opsetid(domain, version)] if domain else []
    return Format().read(helper.make_model(graph, opset_imports=imports))


TREE = {
    "n_targets": 1, "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_featureids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
    "nodes_values": [0.0, 0.0, 0.0], "target_treeids": [0, 0], "target_nodeids": [1, 2],
    "target_ids": [0, 0], "target_weights": [1.0, 2.0],
}  # fmt: skip
X = [1, 3, 8, 8]
CASES = {
    "no input": (("ReduceMax", []), "expected 1"),
    "an omitted input": (("CastLike", [[2], None]), "target_type is missing"),
    "too many inputs": (("Relu", [[2], [2]]), "expected 1"),
    "too many outputs": (("Relu", [[2]], (), 2), "expected 1"),
    "no outputs": (("Unique", [[2]], (), 0), "expected"),
    "an attribute that became an input": (
        ("ReduceSum", [[2, 3]]), "axes", {"axes": [0]},
    ),
    "a list for a number": (("Cast", [[2]]), "to is", {"to": [1, 2]}),
    "a number for a list": (("Transpose", [[2]]), "perm is", {"perm": 1}),
    "a tensor for a number": (
        ("Cast", [[2]]), "to is", {"to": helper.make_tensor("t", 1, [1], [1.0])},
    ),
    "no UTF-8": (("StringNormalizer", [[2]]), "not UTF-8", {"locale": b"\xff"}),
    "rank of EyeLike": (("EyeLike", [[2]]), "rank 1, expected 2"),
    "several depths": (("OneHot", [[2]], ([1, 2], [0, 1])), "one element expected"),
    "several k": (("TopK", [[3]], ([1, 2],), 2), "one element expected"),
    "value of several elements": (
        ("ConstantOfShape", [], ([2],)), "one",
        {"value": helper.make_tensor("t", 1, [2], [1.0, 2.0])},
    ),
    "scales without axes": (
        ("Resize", [X, None], (np.float32(2),)), "a scale for each",
    ),
    "nested scales": (
        ("Resize", [X, None], (np.ones((4, 1), "float32"),)), "a scale for each",
    ),
    "infinite scales": (
        ("Resize", [X, None], (np.float32([1, 1, np.inf, 1]),)), "positive expected",
    ),
    "a negative scale": (
        ("Resize", [X, None], (np.float32([1, 1, -2, 1]),)), "positive expected",
    ),
    "axes that there are not": (
        ("Resize", [X, None, None], ([2],)), "axis=9", {"axes": [9]},
    ),
    "rank of weights": (("LSTM", [[5, 1, 2], [3], [1, 12, 3]]), "no axis 1"),
    "kernels of another rank": (
        ("ConvTranspose", [X, [3, 3, 3]]), "spatial", {"auto_pad": "SAME_UPPER"},
    ),
    "pads of a number": (("Pad", [[2]], (np.int64(1),)), "pads is no list"),
    "k that is no integer": (("TopK", [[3]], ([np.nan],), 2), "no whole number"),
    "DFT of a number": (("DFT", [[]], (), 1, 17), "axis"),
    "heads of a number": (("Attention", [[], [], []], (), 1, 23), "axes"),
    "an attribute that there is not": (
        ("RoiAlign", [X, [2, 4], [2]], (), 1, 13), "the attribute to=6", {"to": 6},
    ),
    "a tensor for a body": (
        ("FlexAttention", [X, X, X], (), 1, 26, "ai.onnx.preview"), "score_mod is",
        {"score_mod": helper.make_tensor("t", 1, [1], [1.0])},
    ),
    "a text for a body": (
        ("FlexAttention", [X, X, X], (), 1, 26, "ai.onnx.preview"), "score_mod is",
        {"score_mod": "f"},
    ),
    "more heads than an index has": (
        ("FlexAttention", [[1, 1 << 31, 4, 2], [1, 1, 4, 2], [1, 1, 4, 2]], (), 1, 26,
         "ai.onnx.preview"),
        "2,147,483,648 elements",
    ),
    "nested sizes": (
        ("MaxUnpool", [[1, 1, 2, 2]],
         (np.zeros((1, 1, 2, 2), "int64"), np.ones((4, 1), "int64"))),
        "a size for each axis", {"kernel_shape": [2, 2]},
    ),
}  # fmt: skip
TREES = {
    "a leaf that is not there": {"target_nodeids": [1, 7]},
    "a child that is not there": {"nodes_truenodeids": [9, 0, 0]},
    "fewer weights": {"target_weights": [1.0]},
    "fewer modes": {"nodes_modes": ["LEAF"]},
    "an unknown mode": {"nodes_modes": ["BRANCH", "LEAF", "LEAF"]},
    "a cycle": {"nodes_truenodeids": [0, 0, 0]},
    "a negative feature": {"nodes_featureids": [-5, 0, 0]},
    "a negative number of targets": {"n_targets": -1},
}


def conversion_error(graph):
    """The message with which the conversion to the hub is refused."""
    with pytest.raises(ConversionError) as caught:
        amanda.convert(graph, "amanda/std/1")
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_an_invalid_op_is_a_gap_with_the_reason(name):
    (args, reason, *attrs) = CASES[name]
    assert reason in conversion_error(graph_of(*args, **(attrs[0] if attrs else {})))


@pytest.mark.parametrize("change", TREES.values(), ids=TREES)
def test_an_invalid_tree_is_a_gap(change):
    attrs = {**TREE, **change}
    graph = graph_of("TreeEnsembleRegressor", [[1, 2]], domain="ai.onnx.ml", **attrs)
    assert "TreeEnsembleRegressor" in conversion_error(graph)


def test_the_tree_itself_is_valid():
    """Up to its threshold, 0, the first leaf; beyond it, the second."""
    graph = graph_of("TreeEnsembleRegressor", [[3, 2]], domain="ai.onnx.ml", **TREE)
    x = np.array([[-1, 9], [0, 9], [1, -9]], "float32")
    [y] = amanda.run(graph, [x], backend="numpy").values()
    assert y.tolist() == [[1], [1], [2]]


def test_an_op_without_a_type_is_a_gap():
    graph = amanda.Graph("amanda/onnx/18")
    graph.result(graph.add(None, [graph.parameter(name="x")]).output)
    assert "it has no op type" in conversion_error(graph)


def test_a_sequence_is_no_tensor():
    graph = graph_of("Resize", [X, None], (np.float32([1, 1, 2, 2]),))
    graph.parameters[0].type = SequenceType(TensorType("float32", [2]))
    assert "a tensor is expected" in conversion_error(graph)


def test_a_zero_point_that_is_a_sequence_is_no_tensor():
    graph = amanda.Graph("amanda/onnx/13")
    x = graph.parameter(amanda.parse_type("int64[]"))
    scale = graph.constant(Tensor.of([2.0], "float32")).output
    zero = graph.parameter(SequenceType(TensorType("float32", [])))
    graph.result(graph.add("DequantizeLinear", [x, scale, zero]).output)
    assert "a tensor is expected" in conversion_error(graph)


def test_axes_that_are_a_sequence_are_no_tensor():
    graph = amanda.Graph("amanda/onnx/18")
    x = graph.parameter(amanda.parse_type("float32[2]"))
    axes = graph.parameter(SequenceType(TensorType("int64", [1])))
    attrs = {"noop_with_empty_axes": 1}
    graph.result(graph.add("ReduceSum", [x, axes], attrs).output)
    assert "a tensor is expected" in conversion_error(graph)


def test_the_rank_of_an_unpooled_constant():
    graph = amanda.Graph("amanda/onnx/22")
    x = graph.constant(Tensor.of(1, "int32")).output
    indices = graph.parameter(amanda.parse_type("int64[1, 1, 2, 2]"))
    op = graph.add("MaxUnpool", [x, indices], {"kernel_shape": [2, 2]})
    graph.result(op.output)
    assert "2 spatial axes" in conversion_error(graph)


def test_a_value_without_a_type_can_be_written():
    graph = amanda.Graph("amanda/std/1")
    x = graph.add("mine", namespace="amanda/mine/1").output
    scale = graph.constant(Tensor.of(1.0, "float32")).output
    graph.result(graph.add("dequantize", [x, scale]).output)
    made = amanda.convert(graph, "amanda/onnx/21", keep_foreign=True)
    assert [op.type for op in made] == ["mine", "Cast", "constant", "Mul"]


def test_numbers_of_constants_raise_no_warnings():
    """The square root of a negative scale, computed while types are inferred."""
    graph = graph_of("Attention", [[1, 1, 2, 2]] * 3, (), 1, 23, scale=-1.0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        amanda.compile(graph, "numpy")
    assert not found


def test_shapes_with_a_common_shape_beyond_memory_are_a_gap():
    graph = amanda.Graph("amanda/std/1")
    a, b = (
        graph.parameter(f"float32[{s}]")
        for s in ("1, 1099511627776", "549755813888, 1")
    )
    flag = graph.parameter("bool[]")
    graph.result(graph.add("where", [flag, a, b]).output)
    with pytest.raises(ConversionError, match="no common shape"):
        amanda.convert(graph, "amanda/onnx/8")


def test_a_body_that_an_op_does_not_have_is_a_gap():
    """Also where the mapping function takes all attributes by keyword."""
    graph = graph_of("TreeEnsembleClassifier", [[1, 2]], (), 2, domain="ai.onnx.ml")
    graph[0].set_body("body", amanda.Graph())
    assert "the body body is not covered" in conversion_error(graph)


def test_a_weight_of_billions_of_gates_is_a_gap():
    graph = graph_of("LSTM", [[1, 1, 1], [1, 1 << 33, 1], [1, 1 << 33, 1]])
    assert "the gates of a layer" in conversion_error(graph)


def test_a_threshold_beyond_the_integers_of_the_data_is_a_gap():
    graph = graph_of("Binarizer", [[2]], domain="ai.onnx.ml", threshold=float("nan"))
    graph.parameters[0].type = amanda.parse_type("int32[2]")
    assert "out of the range of int32" in conversion_error(graph)


@pytest.mark.parametrize("op", ["Bernoulli", "RandomNormalLike"])
def test_a_seed_beyond_float32_raises_no_warnings(op):
    graph = graph_of(op, [[2]], (), 1, 15)
    graph[0].attrs["seed"] = 1e300  # as text forms may have it
    [y] = amanda.run(graph, [np.zeros(2, "float32")], backend="numpy").values()
    assert y.shape == (2,)


@pytest.mark.parametrize(("op", "inputs", "attrs"), [
    ("arange", [0, 1 << 40, 1], {}),
    ("gather_elements", ["float32[2, 70000]", "int64[2, 16777216]"], {"axis": 1}),
    ("where", ["bool[1]", "float32[1, 1]", "float32[99999, 99999]"], {}),
    ("maximum", ["float32[1, 1]", "float32[99999, 99999]"], {}),
])  # fmt: skip
def test_constants_that_old_opsets_need_are_bounded(op, inputs, attrs):
    graph = amanda.Graph("amanda/std/1")
    values = [
        graph.constant(Tensor.of(each, "int64")).output
        if isinstance(each, int)
        else graph.parameter(amanda.parse_type(each))
        for each in inputs
    ]
    graph.result(graph.add(op, values, attrs).output)
    with pytest.raises(ConversionError, match="elements; at most"):
        amanda.convert(graph, "amanda/onnx/7")


@pytest.mark.parametrize("version", ["1.5", "1rc1"])
def test_versions_are_whole_numbers(version):
    graph = amanda.Graph(f"amanda/onnx/{version}")
    graph.result(graph.add("Relu", [graph.parameter(name="x")]).output)
    with pytest.raises(NamespaceError, match="whole numbers"):
        amanda.convert(graph, "amanda/std/1")
