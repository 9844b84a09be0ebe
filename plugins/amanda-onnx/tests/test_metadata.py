"""Everything that a model holds beside its ops comes back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import amanda
from amanda.graph import CORE
from amanda.tensors import Tensor
from amanda.types import OpaqueType, VoidType
from amanda_onnx.domains import called_function
from amanda_onnx.format import Format
from amanda_onnx.format.model_metadata import MODEL_KEY, NOTES_KEY

CODEC = Format()
info = helper.make_tensor_value_info


def model(nodes, inputs=("x",), outputs=("y",), opset=18, **parts):
    """A model of float vectors; `parts` are those of make_graph or of the model."""
    of_graph = {
        key: parts.pop(key)
        for key in ("initializer", "value_info", "sparse_initializer", "doc_string")
        if key in parts
    }
    ends = [
        [info(each, 1, ["n"]) if isinstance(each, str) else each for each in side]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ends, **of_graph)
    imports = [helper.make_opsetid("", opset), *parts.pop("opset_imports", [])]
    return helper.make_model(graph, opset_imports=imports, **parts)


def relu(**parts):
    return helper.make_node("Relu", ["x"], ["y"], **parts)


def again(proto):
    """The model after a round; its graph."""
    graph = amanda.load(proto)
    assert graph.check() == []
    return onnx.load_model_from_string(CODEC.dumps(graph)), graph


@pytest.fixture
def kept(same_model):
    def check(proto):
        written, graph = again(proto)
        assert same_model(proto, written), f"{proto}\n--- became\n{written}"
        return graph

    return check


def test_facts_of_the_model(kept):
    proto = model(
        [relu(name="a")],
        producer_name="me",
        producer_version="1",
        domain="there",
        model_version=7,
        doc_string="all",
        ir_version=9,
    )
    helper.set_model_props(proto, {"b": "2", "a": "1"})
    proto.configuration.add(name="two", num_devices=2, device=["0", "1"])
    graph = kept(proto)
    told = graph.attrs[MODEL_KEY]
    assert told["ir_version"] == 9
    assert told["metadata_props"] == {"b": "2", "a": "1"}
    assert (graph.namespace, graph.imports) == ("amanda/onnx/18", {"": 18})


def test_every_ir_version(kept):
    for version in range(3, 15):
        kept(model([relu()], ir_version=version))


def test_docs_and_properties_everywhere(kept):
    node = relu(name="a", doc_string="why", alpha=1.0)
    node.metadata_props.add(key="k", value="v")
    node.attribute[0].doc_string = "of the attribute"
    proto = model([node], doc_string="of the graph")
    proto.graph.metadata_props.add(key="g", value="h")
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.doc_string = "a value"
        value.metadata_props.add(key="p", value="q")
        value.metadata_props.add(key="p", value="again")
    graph = kept(proto)
    assert graph["a"].attrs[NOTES_KEY]["doc_string"] == "why"


def test_names_that_are_missing_or_come_twice(kept):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Relu", ["a"], ["b"], name="same"),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = kept(model(nodes))
    assert [op.name for op in graph] == ["same", None, None]


def test_other_scripts_and_long_names(kept):
    long = "v" * 300
    nodes = [
        helper.make_node("Relu", ["x"], ["größe"], name="узел"),
        helper.make_node("Add", ["größe", "x"], [long], name="n" * 200),
        helper.make_node("LeakyRelu", [long], ["y"], alpha=-0.5, name="é"),
    ]
    kept(model(nodes))


def test_inputs_and_outputs_that_are_left_out(kept):
    nodes = [
        helper.make_node("Clip", ["x", "", "x"], ["c"]),
        helper.make_node("LSTM", ["x", "x", "x"], ["", "h", ""], hidden_size=3),
        helper.make_node("Add", ["c", "h"], ["y"]),
    ]
    graph = kept(model(nodes))
    clip, lstm, _ = graph
    assert clip.inputs[1] is None
    assert [port.type == VoidType() for port in lstm.outputs] == [True, False, True]


def test_every_kind_of_attribute(kept):
    tensor = numpy_helper.from_array(np.arange(3.0, dtype="f"), "named")
    type_ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n"]))
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", 1, [1], [2.0]),
        helper.make_tensor("i", 7, [1], [1]),
        [3],
    )
    values = {
        "int": -3, "float": 0.1, "text": "ä", "tensor": tensor, "sparse": sparse,
        "type": type_, "ints": [1, -(2**63)], "floats": [1.5, float("inf")],
        "texts": ["a", b"\xff"], "bytes": b"\xff\x00",
    }  # fmt: skip
    node = helper.make_node("Any", ["x"], ["y"], domain="acme", name="a", **values)
    for kind, name in ((6, "no_floats"), (7, "no_ints"), (8, "no_texts"), (9, "none")):
        node.attribute.add(name=name, type=kind)
    node.attribute.add(name="tensors", type=9, tensors=[tensor, tensor])
    node.attribute.add(name="types", type=14, type_protos=[type_, type_])
    node.attribute.add(name="sparses", type=12, sparse_tensors=[sparse, sparse])
    graph = kept(model([node], opset_imports=[helper.make_opsetid("acme", 2)]))
    attrs = graph["a"].attrs
    assert graph["a"].namespace == "onnx/acme/2"
    assert (attrs["int"], attrs["text"], attrs["bytes"]) == (-3, "ä", b"\xff\x00")
    assert str(attrs["type"]) == "sequence<float32[n]>"
    assert set(attrs["sparse"]) == {"values", "indices", "dims"}


def test_types_of_values(kept):
    tensor = helper.make_tensor_type_proto
    types = [
        tensor(1, ["batch", None, 3, "2*n + 1", "?"]),
        tensor(1, None),
        tensor(1, []),
        helper.make_sequence_type_proto(
            helper.make_optional_type_proto(tensor(7, [2]))
        ),
        helper.make_map_type_proto(8, tensor(1, [])),
        helper.make_sparse_tensor_type_proto(1, ["n", 3]),
        onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n")),
        onnx.TypeProto(denotation="IMAGE", tensor_type=tensor(1, ["n"]).tensor_type),
        onnx.TypeProto(),
    ]
    types[2].tensor_type.shape.dim.add(dim_value=-1)
    types[-2].tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    values = [helper.make_value_info(f"x{i}", type_) for i, type_ in enumerate(types)]
    nodes = [helper.make_node("Relu", ["x0"], ["y"])]
    graph = kept(model(nodes, inputs=values))
    told = [str(port.type) for port in graph.parameters]
    assert told[:4] == [
        "float32[batch, ?, 3, 2*n+1, ?]",
        "float32[...]",
        "float32[?]",
        "sequence<optional<int64[2]>>",
    ]
    dims = graph.parameters[0].type.shape.dims
    assert dims[1].key != dims[4].key
    assert isinstance(graph.parameters[6].type, OpaqueType)


def test_types_of_values_inside(kept):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    infos = [info(name, 1, [3]) for name in ("a", "y", "gone", "gone", "w")]
    weight = helper.make_tensor("w", 1, [3], [1, 2, 3])
    graph = kept(model(nodes, value_info=infos, initializer=[weight]))
    assert str(graph.ops[1].output.type) == "float32[3]"


def test_initializers_that_are_inputs(kept):
    weights = [helper.make_tensor(name, 1, [1], [1.0]) for name in "uvw"]
    inputs = ["w", "x", info("u", 1, [1])]
    nodes = [helper.make_node("Sum", ["x", "u", "v", "w"], ["y"], name="v")]
    graph = kept(model(nodes, inputs=inputs, initializer=weights))
    assert [port.name for port in graph.parameters] == ["x"]
    assert [op.name for op in graph] == ["u", None, "w", "v"]


def test_constants_are_constants_of_the_core(kept):
    kinds = {
        "value": helper.make_tensor("t", 1, [2], [1, 2]),
        "value_int": 3,
        "value_ints": [1, 2],
        "value_float": 0.5,
        "value_floats": [0.5, 1.5],
        "value_string": "a",
        "value_strings": ["a", "b"],
    }
    nodes = [
        helper.make_node("Constant", [], [key], name=f"n_{key}", **{key: value})
        for key, value in kinds.items()
    ]
    nodes.append(helper.make_node("Constant", [], ["e"], value_floats=[0.5]))
    nodes.append(relu())
    graph = kept(model(nodes))
    weights = [op for op in graph if op.namespace == CORE]
    assert len(weights) == 8
    assert all(isinstance(op.attrs["value"], Tensor) for op in weights)
    assert str(graph["n_value_ints"].output.type) == "int64[2]"


def test_sparse_initializers(kept):
    values = helper.make_tensor("w", 1, [1], [2.0])
    indices = helper.make_tensor("", 7, [1], [1])
    sparse = helper.make_sparse_tensor(values, indices, [3])
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    kept(model(nodes, sparse_initializer=[sparse]))


def test_quantization_annotations(kept):
    proto = model([relu()])
    for name in ("y", "gone"):
        note = proto.graph.quantization_annotation.add(tensor_name=name)
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    graph = kept(proto)
    told = graph.ops[0].output.attrs[NOTES_KEY]["quantization"]
    assert told == {"SCALE_TENSOR": "s"}


def test_training_info(kept):
    proto = model([relu()])
    weight = helper.make_tensor("w", 1, [1], [1.0])
    told = proto.training_info.add()
    told.algorithm.CopyFrom(helper.make_graph([relu()], "step", [], [], [weight]))
    told.update_binding.add(key="w", value="y")
    kept(proto)


def branch(*nodes, output="out"):
    return helper.make_graph(nodes, "branch", [], [info(output, 1, None)])


def choice(name, output, then_branch, else_branch):
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    return helper.make_node("If", ["c"], [output], name=name, **branches)


def test_bodies_capture_by_edges(kept):
    node = helper.make_node
    inner = choice(
        "inner",
        "i",
        branch(node("Add", ["a", "x"], ["out"])),
        branch(node("Neg", ["a"], ["out"])),
    )
    outer = choice(
        "outer",
        "y",
        branch(node("Relu", ["x"], ["a"]), inner, output="i"),
        branch(node("Identity", ["x"], ["y"]), output="y"),
    )
    proto = model([outer], inputs=["x", info("c", 9, [])])
    graph = kept(proto)
    x, c = graph.parameters
    body = graph["outer"].bodies["then_branch"]
    assert set(body.captures) == {x, c}
    assert body.ops[0].inputs == (x,)
    assert {port.op for port in x.users} >= {body.ops[0]}


def test_graphs_in_lists(kept):
    graphs = [branch(relu(), output="y") for _ in range(2)]
    node = helper.make_node(
        "Many", ["x"], ["y"], domain="acme", name="a", branches=graphs
    )
    node.attribute.add(name="empty", type=5 + 5)
    graph = kept(model([node], opset_imports=[helper.make_opsetid("acme", 1)]))
    assert list(graph["a"].bodies) == ["branches[0]", "branches[1]"]
    inner = graph["a"].bodies["branches[0]"].ops[0]
    assert inner.namespace == "amanda/onnx/18"


def test_local_functions(kept):
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", type=1, ref_attr_name="slope")
    twice = helper.make_function(
        "acme", "twice", ["a"], ["c"],
        [leaky, helper.make_node("once", ["b"], ["c"], domain="acme")],
        imports, ["slope"], [helper.make_attribute("gain", 2.0)], doc_string="f",
        value_info=[info("b", 1, ["n"])],
    )  # fmt: skip
    once = helper.make_function(
        "acme",
        "once",
        ["a"],
        ["a2"],
        [helper.make_node("Relu", ["a"], ["a2"])],
        imports,
    )
    other = helper.make_function(
        "acme", "once", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports,
        overload="negative",
    )  # fmt: skip
    call = helper.make_node(
        "twice", ["x"], ["y"], domain="acme", name="call", slope=0.1
    )
    proto = model(
        [call],
        functions=[twice, once, other],
        opset_imports=[helper.make_opsetid("acme", 1)],
    )
    graph = kept(proto)
    assert list(graph.functions) == [
        "acme::twice",
        "acme::once",
        "acme::once::negative",
    ]
    function = called_function(graph["call"])
    assert function is graph.functions["acme::twice"]
    assert function.namespace == "amanda/onnx/17"
    assert function.ops[0].attrs["alpha"] == {"onnx:ref": "slope", "kind": "FLOAT"}
    assert called_function(function.ops[1]) is graph.functions["acme::once"]
    assert called_function(function.ops[0]) is None


def test_domains_with_names_of_their_own(kept):
    domains = {
        "ai.onnx.ml": "amanda/onnx.ml/3",
        "ai.onnx.preview.training": "amanda/onnx.preview.training/1",
        "com.microsoft": "onnx/com.microsoft/1",
        "odd/domain of mine": "onnx/odd/domain of mine/1",
    }
    versions = [int(space.rpartition("/")[2]) for space in domains.values()]
    imports = [
        helper.make_opsetid(d, v) for d, v in zip(domains, versions, strict=True)
    ]
    nodes = [
        helper.make_node("Op", ["x"], [f"v{i}"], domain=domain)
        for i, domain in enumerate(domains)
    ]
    nodes += [helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")]
    graph = kept(model(nodes, opset_imports=imports))
    assert [op.namespace for op in graph] == [*domains.values(), "amanda/onnx/18"]


def test_fields_of_the_future(kept):
    proto = model([relu(name="a")])
    raw = proto.SerializeToString() + b"\xfa\x07\x03abc"
    graph = CODEC.read(raw)
    assert CODEC.dumps(graph).endswith(b"\xfa\x07\x03abc")


def test_nodes_in_any_order(same_model):
    """Not legal, and met: a graph is in order after reading."""
    nodes = [
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    written, graph = again(model(nodes))
    assert same_model(written, model(nodes[::-1]))
    assert graph.check() == []
