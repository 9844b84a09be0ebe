"""Local functions are inlined on the way to the hub."""

from __future__ import annotations

import time

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.errors import AmandaError, LimitError
from amanda_onnx.format import Format
from amanda_onnx.mapping.inlining import inline_local_functions

CODEC = Format()
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
X = np.array([[-1, 2, 3], [4, -5, 6]], "f")


def call(kind, inputs, outputs, **attrs):
    return helper.make_node(kind, inputs, outputs, domain="acme", **attrs)


def function(name, nodes, inputs=("a",), outputs=("b",), attributes=(), **more):
    return helper.make_function(
        "acme", name, list(inputs), list(outputs), nodes, IMPORTS, list(attributes),
        **more,
    )  # fmt: skip


def model(functions, nodes=None):
    nodes = nodes or [call(functions[0].name, ["x"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, ["p", "q"]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(
        graph, functions=functions, opset_imports=IMPORTS, ir_version=8
    )


def ran(proto):
    graph = CODEC.read(proto)
    return amanda.run(graph, [X], backend="numpy")["y"]


def checked(proto):
    want = ReferenceEvaluator(proto).run(None, {"x": X})[0]
    np.testing.assert_allclose(ran(proto), want, rtol=1e-6)


def test_functions_that_call_functions():
    inner = function("inner", [helper.make_node("Relu", ["a"], ["b"])])
    outer = function("outer", [
        call("inner", ["a"], ["t"]), helper.make_node("Neg", ["a"], ["n"]),
        call("inner", ["n"], ["u"]), helper.make_node("Sub", ["t", "u"], ["b"]),
    ])  # fmt: skip
    checked(model([inner, outer], [call("outer", ["x"], ["y"])]))


def reference(kind, name, attribute, **more):
    made = helper.make_node(kind, ["a"], ["b"], **more)
    made.attribute.add(name=attribute, type=1, ref_attr_name=name)
    return made


def test_attributes_are_those_of_the_call():
    body = [reference("LeakyRelu", "slope", "alpha")]
    leaky = function("leaky", body, attributes=["slope"])
    nodes = [call("leaky", ["x"], ["t"], slope=0.25), call("leaky", ["t"], ["y"])]
    nodes[1].attribute.add(name="slope", type=1, f=0.5)
    want = np.where(X < 0, X * 0.25 * 0.5, X)
    assert ran(model([leaky], nodes)).tolist() == want.tolist()
    default = [helper.make_attribute("slope", 0.125)]
    leaky = function("leaky", body, attribute_protos=default)
    proto = model([leaky])
    assert ran(proto).min() == -5 * 0.125


def test_inputs_and_outputs_that_are_left_out():
    body = [helper.make_node("Clip", ["a", "low", "high"], ["b"]),
            helper.make_node("Neg", ["a"], ["c"])]  # fmt: skip
    both = function("both", body, ("a", "low", "high"), ("b", "c"))
    proto = model([both], [call("both", ["x"], ["y"])])
    assert ran(proto).tolist() == X.tolist()


def test_bodies_call_too():
    relu = function("relu", [helper.make_node("Relu", ["a"], ["b"])])
    ends = [helper.make_tensor_value_info("o", 1, ["p", "q"])]
    branches = [
        helper.make_graph([node], name, [], ends)
        for name, node in (
            ("t", call("relu", ["x"], ["o"])),
            ("e", helper.make_node("Neg", ["x"], ["o"])),
        )
    ]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=9),
        helper.make_node("If", ["c"], ["y"], then_branch=branches[0],
                         else_branch=branches[1]),
    ]  # fmt: skip
    checked(model([relu], nodes))


def test_functions_of_another_opset():
    body = [helper.make_node("Squeeze", ["a"], ["s"], axes=[0]),
            helper.make_node("Unsqueeze", ["s"], ["b"], axes=[0])]  # fmt: skip
    old = helper.make_function(
        "acme", "old", ["a"], ["b"], body, [helper.make_opsetid("", 12)]
    )
    nodes = [
        helper.make_node("Unsqueeze", ["x", "zero"], ["u"]),
        call("old", ["u"], ["v"]),
        helper.make_node("Squeeze", ["v", "zero"], ["y"]),
    ]
    proto = model([old], nodes)
    proto.graph.initializer.append(helper.make_tensor("zero", 7, [1], [0]))
    try:
        assert ran(proto).tolist() == X.tolist()
    except AmandaError as error:  # without types, what changed cannot be brought over
        assert "Squeeze" in str(error)  # noqa: PT017


def test_a_model_without_functions_is_not_copied():
    graph = amanda.Graph("amanda/onnx/18")
    assert inline_local_functions(graph) is graph


@pytest.mark.parametrize("kinds", [["f"], ["f", "g"]])
def test_functions_without_end(kinds):
    functions = [
        function(kind, [call(kinds[(i + 1) % len(kinds)], ["a"], ["b"])])
        for i, kind in enumerate(kinds)
    ]
    with pytest.raises(LimitError, match="calls itself"):
        ran(model(functions))


def test_functions_that_stand_for_absurdly_many_ops():
    functions = [
        function(f"f{i}", [call(f"f{i + 1}", ["a"], ["t"]),
                           call(f"f{i + 1}", ["t"], ["b"])])
        for i in range(60)
    ]  # fmt: skip
    functions.append(function("f60", [helper.make_node("Relu", ["a"], ["b"])]))
    begin = time.process_time()
    with pytest.raises(LimitError, match="too many ops"):
        ran(model(functions))
    assert time.process_time() - begin < 5
