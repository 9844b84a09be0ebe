"""Models that crash the runtime or never end in it are refused before it sees them."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

import amanda
from amanda.errors import AmandaError, LimitError

F = TensorProto.FLOAT
DOUBLINGS = 40


def loaded(tmp_path, nodes, inputs, functions=(), **more):
    infos = [helper.make_tensor_value_info(n, F, s) for n, s in inputs.items()]
    result = [helper.make_tensor_value_info("y", F, None)]
    graph = helper.make_graph(nodes, "g", infos, result)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    model = helper.make_model(
        graph, opset_imports=imports, functions=functions, ir_version=8
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return amanda.load(path)


OPS = {
    "DepthToSpace": ({"x": [1, 4, 2, 2]}, {"blocksize": 2**40}),
    "SpaceToDepth": ({"x": [1, 4, 2, 2]}, {"blocksize": 0}),
    "MaxPool": ({"x": [1, 1, 4, 4]}, {"kernel_shape": [2, 2], "strides": [0, 1]}),
    "AveragePool": ({"x": [1, 1, 4, 4]}, {"kernel_shape": [2**62, 2]}),
    "LRN": ({"x": [1, 4, 2, 2]}, {"size": -(2**62)}),
    "Conv": ({"x": [1, 4, 4, 4], "w": [4, 4, 2, 2]}, {"group": 0}),
    "LpPool": ({"x": [1, 1, 4, 4]}, {"kernel_shape": [2, 2], "pads": [2**40, 0, 0, 0]}),
}


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
def test_integers_out_of_range_are_refused(kind, backend, tmp_path):
    inputs, attrs = OPS[kind]
    node = helper.make_node(kind, list(inputs), ["y"], **attrs)
    graph = loaded(tmp_path, [node], inputs)
    with pytest.raises(AmandaError) as caught:
        amanda.compile(graph, backend)
    assert "expected" in str(caught.value)
    assert kind in str(caught.value)


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
def test_functions_that_double_each_other_are_refused(backend, tmp_path):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    functions = []
    for i in range(DOUBLINGS):
        kind, domain = ("Relu", "") if i == 0 else (f"f{i - 1}", "f")
        nodes = [
            helper.make_node(kind, ["a"], ["b"], domain=domain),
            helper.make_node(kind, ["b"], ["c"], domain=domain),
        ]
        functions.append(
            helper.make_function("f", f"f{i}", ["a"], ["c"], nodes, imports)
        )
    node = helper.make_node(f"f{DOUBLINGS - 1}", ["x"], ["y"], domain="f")
    graph = loaded(tmp_path, [node], {"x": [2]}, functions)
    with pytest.raises(LimitError, match="too many ops"):
        amanda.compile(graph, backend)
