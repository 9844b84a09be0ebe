"""The ONNX project's own test runner, on backends of ours."""

from __future__ import annotations

import unittest

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

from amanda_onnx_conformance import onnx_backend

info = helper.make_tensor_value_info


@pytest.mark.filterwarnings("ignore")  # of numpy, while onnx makes its test data
def test_onnx_test_runner_passes():
    """Node, simple and converted models; what is left out is left out by name only."""
    runner = BackendTest(onnx_backend, "amanda")
    runner.include(
        r"test_(relu|softmax|conv|lstm|resize_up|if|sequence_map|cast).*_cpu"
    )
    runner.include(r"test_(Linear|MaxPool2d|gradient_of_add|single_relu_model).*_cpu")
    suite = unittest.TestSuite()
    for case in runner.test_cases.values():
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TestResult()
    suite.run(result)
    ran = result.testsRun - len(result.skipped)
    assert [str(case) for case, _ in (*result.failures, *result.errors)] == []
    assert ran > 150


def model(count=1):
    nodes = [helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(count)]
    ends = [info(f"y{i}", 1, ["n"]) for i in range(count)]
    graph = helper.make_graph(nodes, "g", [info("x", 1, ["n"])], ends)
    imports = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_backend_interface():
    assert issubclass(onnx_backend.AmandaBackend, Backend)
    rep = onnx_backend.prepare(model(2))
    assert isinstance(rep, BackendRep)
    x = np.array([-1, 2], "f")
    for fed in ([x], x, {"x": x}):
        found = rep.run(fed)
        assert found.y0.tolist() == found["y1"].tolist() == found[0].tolist() == [0, 2]
    assert onnx_backend.run_model(model(), [x])[0].tolist() == [0, 2]


def test_run_node():
    node = helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2)
    a, b = onnx_backend.run_node(node, [np.arange(4.0)])
    assert (a.tolist(), b.tolist()) == ([0, 1], [2, 3])
    node = helper.make_node("Softmax", ["x"], ["y"])
    told = [(np.dtype("f"), (1, 2))]
    for opset in (11, 21):
        found = onnx_backend.run_node(
            node, [np.zeros((1, 2), "f")], outputs_info=told, opset_version=opset
        )
        assert found[0].tolist() == [[0.5, 0.5]]


def test_devices():
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("numpy")
    assert not onnx_backend.supports_device("CUDA")  # numpy has none
    assert not onnx_backend.supports_device("abacus")
    assert onnx_backend.is_compatible(model())
    strange = model()
    strange.graph.node[0].op_type = "Strange"
    assert not onnx_backend.is_compatible(strange)
    with pytest.raises(onnx.checker.ValidationError):
        onnx_backend.prepare(strange)


def test_backend_by_name():
    pytest.importorskip("onnxruntime")
    made = onnx_backend.backend_for("onnxruntime")
    x = np.array([-1, 2], "f")
    for rep in (
        made.prepare(model()),
        onnx_backend.prepare(model(), "onnxruntime:cpu"),
    ):
        assert rep.compiled.backend == "onnxruntime"
        assert rep.run([x])[0].tolist() == [0, 2]
