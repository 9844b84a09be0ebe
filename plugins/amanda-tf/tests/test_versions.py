"""Graphs at other versions of TensorFlow; TensorFlow's own results are stored."""

from __future__ import annotations

import pytest

import amanda
from amanda.errors import ConversionError
from amanda_tf.versions import MAPPING_OF_VERSIONS, READ, WRITE

NEW = "amanda/tensorflow/2.21.0"
EVERY = 20
F = amanda.DType("float32")


def graph_of(type, version, inputs, attrs, outputs=1):
    """One op of a version; inputs are types, or integers for constants."""
    graph = amanda.Graph(f"amanda/tensorflow/{version}")
    values = [
        graph.constant(amanda.Tensor.of(each, "int32")).output
        if isinstance(each, list | int)
        else graph.parameter(amanda.parse_type(each), f"x{i}")
        for i, each in enumerate(inputs)
    ]
    op = graph.add(type, values, attrs, outputs=outputs, name="op")
    graph.result(op.outputs[0], "y")
    return graph


def types_at(graph, version):
    found = amanda.convert(graph, f"tensorflow@{version}")
    assert found.namespace == f"amanda/tensorflow/{version}"
    assert amanda.namespace(found.namespace).validate(found) == []
    return [op.type for op in found if op.type != "constant"]


@pytest.mark.xdist_group("frozen_graphs")
@pytest.mark.parametrize("version", ["1.15.5", "2.4.0"])
def test_frozen_graphs_go_down_and_up(frozen_graphs, version):
    """Every graph of the set exists in 1.15.5: no op changes."""
    for case in frozen_graphs[::EVERY]:
        graph = amanda.load(case.model, format="tensorflow")
        down = amanda.convert(graph, f"tensorflow@{version}")
        assert amanda.namespace(down.namespace).validate(down) == [], case.name
        up = amanda.convert(down, NEW)
        assert [op.type for op in up] == [op.type for op in graph], case.name


@pytest.mark.xdist_group("frozen_graphs")
@pytest.mark.scale
def test_all_frozen_graphs_go_to_1_15_and_back(frozen_graphs):
    for case in frozen_graphs:
        graph = amanda.load(case.model, format="tensorflow")
        down = amanda.convert(graph, "tensorflow@1.15.5")
        assert amanda.namespace(down.namespace).validate(down) == [], case.name
        assert [op.type for op in amanda.convert(down, NEW)] == [
            op.type for op in graph
        ]


def test_the_route_is_direct():
    graph = graph_of("Relu", "2.21.0", ["float32[2]"], {"T": F})
    [step] = amanda.plan(graph, "tensorflow@1.4.0").steps
    assert step.mapping == "tensorflow-versions"


DOWN = [
    ("AddV2", ["float32[2]", "float32[2]"], {"T": F}, ["Add"]),
    ("GatherV2", ["float32[4, 2]", [1, 2], 0], {"Tparams": F}, ["Gather"]),
    ("BatchMatMulV2", ["float32[2, 3, 4]", "float32[2, 4, 5]"], {"T": F},
     ["BatchMatMul"]),
]  # fmt: skip


@pytest.mark.parametrize(("type", "inputs", "attrs", "expected"), DOWN)
def test_ops_that_1_0_lacks(type, inputs, attrs, expected):
    graph = graph_of(type, "2.21.0", inputs, attrs)
    assert types_at(graph, "1.0.0") == expected


UP = [
    ("BatchMatrixInverse", ["float32[2, 3, 3]"], {"T": F}, 1, ["MatrixInverse"]),
    ("BatchMatrixDiag", ["float32[2, 3]"], {"T": F}, 1, ["MatrixDiag"]),
    ("TensorArrayV2", [3], {"dtype": F}, 1, ["TensorArrayV3"]),
    ("TopK", ["float32[5]"], {"T": F, "k": 2, "sorted": True}, 2, ["TopKV2"]),
]


@pytest.mark.parametrize(("type", "inputs", "attrs", "outputs", "expected"), UP)
def test_deprecated_ops_are_replaced(type, inputs, attrs, outputs, expected):
    graph = graph_of(type, "1.4.0", inputs, attrs, outputs)
    assert types_at(graph, "2.21.0") == expected


def test_type_attributes_that_a_version_lacks():
    attrs = {"T": F, "index_type": amanda.DType("int32")}
    graph = graph_of("Fill", "2.21.0", ["int32[2]", "float32[]"], attrs)
    down = amanda.convert(graph, "tensorflow@1.4.0")
    assert dict(down.ops["op"].attrs) == {"T": F}


def test_hints_that_a_version_lacks():
    attrs = {"dtype": F, "shape": amanda.Shape([]), "shared_name": "w"}
    graph = graph_of("VarHandleOp", "2.21.0", [], attrs | {"debug_name": "w/"})
    graph.ops["op"].output.type = amanda.parse_type("resource[]")
    down = amanda.convert(graph, "tensorflow@1.15.5")
    assert dict(down.ops["op"].attrs) == attrs


def test_what_a_version_cannot_express_is_a_gap():
    attrs = {"T": amanda.DType("float16"), "type": amanda.DType("uint64")}
    graph = graph_of("Bitcast", "2.21.0", ["float16[4]"], attrs)
    with pytest.raises(ConversionError, match=r"Bitcast.*u64"):
        amanda.convert(graph, "tensorflow@1.4.0")


def test_every_function_is_of_an_op():
    known = [amanda.namespace(f"tensorflow@{v}") for v in ("1.0.0", "2.21.0")]
    assert all(any(type in each for each in known) for type in (*READ, *WRITE))
    assert MAPPING_OF_VERSIONS.old_types >= {"TopK", "BatchSvd"}
