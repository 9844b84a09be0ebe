"""The dictionary of contrib ops beside onnxruntime, and on a model with such ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

import amanda
from amanda.graph import Graph

NAMESPACE = "onnx/com.microsoft/1"


def schemas(domain: str) -> dict[str, Any]:
    found = state.get_all_operator_schema()
    return {schema.name: schema for schema in found if schema.domain == domain}


@pytest.mark.parametrize(
    ("domain", "count"), [("com.microsoft", 150), ("com.microsoft.nchwc", 8)]
)
def test_ops_are_those_of_the_library(domain: str, count: int) -> None:
    """And so are how many inputs and outputs each has at least and at most."""
    found, held = schemas(domain), amanda.namespace(f"onnx/{domain}@1")
    assert len(found) == count
    assert set(held) == found.keys()
    for name, schema in found.items():
        entry = held[name]
        assert entry.attrs_by_name.keys() >= schema.attributes.keys()
        for ports, least, most in (
            (entry.inputs, schema.min_input, schema.max_input),
            (entry.outputs, schema.min_output, schema.max_output),
        ):
            needed = [
                i + (port.least if port.repeats else 1)
                for i, port in enumerate(ports)
                if port.form != "optional"
            ]
            assert max(needed, default=0) == least, entry
            assert any(port.repeats for port in ports) or len(ports) == most, entry


def model(op: str = "FusedMatMul", **attrs: Any) -> onnx.ModelProto:
    """Half of a product with the transposed: an op of com.microsoft."""
    a, b, y = (oh.make_tensor_value_info(name, 1, [2, 2]) for name in "aby")
    given = {"alpha": 0.5, "transB": 1, **attrs}
    nodes = [
        oh.make_node(op, ["a", "b"], ["p"], domain="com.microsoft", **given),
        oh.make_node("Relu", ["p"], ["y"]),
    ]
    return oh.make_model(
        oh.make_graph(nodes, "g", [a, b], [y]),
        opset_imports=[oh.make_opsetid("", 18), oh.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )


def problems(graph: Graph) -> list[Any]:
    from amanda.dictionary import validate

    return validate(graph, amanda.namespace)


def test_a_model_that_runs_has_no_fault() -> None:
    session = onnxruntime.InferenceSession(
        model().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = np.array([[1, 2], [3, 4]], "float32")
    (result,) = session.run(None, {"a": x, "b": x})
    assert np.array_equal(result, 0.5 * (x @ x.T))
    graph = amanda.load(model())
    assert next(op.namespace for op in graph) == NAMESPACE
    assert problems(graph) == []


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (model(beta=1.0), "unknown attribute", "has no attribute 'beta'"),
        (model(alpha="x"), "attribute kind", "attribute alpha is 'x'"),
        (model("FusedMatMull"), "unknown op", "is not in onnx/com.microsoft@1"),
    ],
)
def test_faults_are_found(changed: Any, kind: str, message: str) -> None:
    found = problems(amanda.load(changed))
    assert [problem.kind for problem in found] == [kind]
    assert message in str(found[0])


def test_the_command_line_looks_it_up(tmp_path: Any) -> None:
    """`amanda validate` finds the dictionary of the domain by itself."""
    from amanda.cli import run_command_line

    file = tmp_path / "model.onnx"
    onnx.save(model(beta=1.0), file)
    assert run_command_line(["validate", str(file)]) == 1
    onnx.save(model(), file)
    assert run_command_line(["validate", str(file)]) == 0
