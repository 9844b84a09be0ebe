"""Modules and source lines of programs: from PyTorch and ONNX to nodes of ONNX."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.graph import SCOPES_RECORD, Scope, ScopeTable

onnx = pytest.importorskip("onnx")

NAMES = "pkg.torch.onnx.name_scopes"
CLASSES = "pkg.torch.onnx.class_hierarchy"
LINE = "pkg.torch.onnx.stack_trace"


def props_of(node):
    return {entry.key: entry.value for entry in node.metadata_props}


def program():
    """A program of PyTorch as its file has it: two modules, one op each."""
    graph = amanda.Graph("amanda/torch/2.13.0")
    x = graph.parameter("float32[2, 3]", "x")
    stack = "L__self__,,net.Net;L__self___act,act,torch.nn.modules.GELU"
    trace = (
        'File "a.py", line 1, in forward\n  y\n  File "net.py", line 7, in act\n    z'
    )
    gelu = graph.add("aten.gelu.default", [x], {"approximate": "tanh"}, name="gelu")
    gelu.attrs["torch:node"] = {
        "metadata": {"nn_module_stack": stack, "stack_trace": trace}
    }
    relu = graph.add("aten.relu.default", [gelu.output], name="relu")
    relu.attrs["torch:node"] = {"metadata": {"nn_module_stack": "L__self__,,net.Net"}}
    for op in (gelu, relu):
        op.output.type = amanda.parse_type("float32[2, 3]")
    graph.result(relu.output, "y")
    return graph


def test_nodes_have_the_properties_that_torch_onnx_writes(tmp_path):
    graph = amanda.convert(program(), "onnx@18")  # Gelu is of opset 20
    amanda.save(graph, tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model)
    *parts, relu = model.graph.node
    assert len(parts) > 1
    for node in parts:
        assert node.name.startswith("gelu")
        assert props_of(node) == {
            "namespace": ": net.Net/act: torch.nn.modules.GELU/gelu: aten.gelu.default",
            NAMES: "['', 'act', 'gelu']",
            CLASSES: "['net.Net', 'torch.nn.modules.GELU', 'aten.gelu.default']",
            LINE: 'File "net.py", line 7, in act\n    z',
        }
    assert len({node.name for node in parts}) == len(parts)
    assert props_of(relu)[NAMES] == "['', 'relu']"
    assert LINE not in props_of(relu)


def test_scopes_of_nodes_survive_the_hub(tmp_path):
    amanda.save(amanda.convert(program(), "onnx@20"), tmp_path / "first.onnx")
    first = amanda.load(tmp_path / "first.onnx")
    hub = amanda.convert(first, "amanda/std/1")
    table = ScopeTable.of(hub)
    assert SCOPES_RECORD not in first.attrs
    assert table.scope_of(hub["gelu"]) == Scope(
        "gelu", "aten.gelu.default", ("", "act"), ("net.Net", "torch.nn.modules.GELU"),
        'File "net.py", line 7, in act\n    z',
    )  # fmt: skip
    amanda.save(amanda.convert(hub, "onnx@20"), tmp_path / "second.onnx")
    rows = [
        [props_of(node) for node in onnx.load(tmp_path / name).graph.node]
        for name in ("first.onnx", "second.onnx")
    ]
    assert rows[0] == rows[1]
    assert all(rows[0])


def test_scopes_are_no_structure():
    """The same model of another folder finds the same compiled program."""
    first, second = (amanda.convert(program(), "amanda/std/1") for _ in "ab")
    second.attrs[SCOPES_RECORD]["lines"] = ["elsewhere"]
    assert first.digest() == second.digest()


def test_the_table_of_a_file_may_be_damaged():
    row = {"stacks": [[["a"], ["A"]]], "lines": [""], "ops": {"x": ["Relu", 0, 0]}}
    assert len(ScopeTable(row)) == 1
    for damage in (
        {"stacks": 3}, {"ops": {"x": ["Relu", 9, 0]}}, {"ops": {"x": 1}}, {"lines": []},
        {"ops": {"x": ["Relu", "a", 0]}}, {"ops": None}, {"stacks": [[["a"], []]]},
    ):  # fmt: skip
        assert len(ScopeTable({**row, **damage})) == 0
    assert len(ScopeTable("text")) == 0


def test_names_of_nodes_without_one_are_those_of_their_source():
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[2, 3]", "x")
    op = graph.add("log1p", [x], name="scope/layer/log1p")
    graph.result(op.output)
    nodes = [each for each in amanda.convert(graph, "onnx@18") if not each.is_constant]
    assert [node.name for node in nodes] == [
        "scope/layer/log1p/Add", "scope/layer/log1p"
    ]  # fmt: skip
    (found,) = amanda.run(graph, [np.ones((2, 3), "f")], backend="numpy").values()
    np.testing.assert_allclose(found, np.log(2.0), rtol=1e-6)


def test_the_page_of_an_op_has_its_module(tmp_path):
    from amanda.cli.output.op_page import op_text

    hub = amanda.convert(program(), "amanda/std/1")
    page = op_text(hub["gelu"], ScopeTable.of(hub))
    lines = [each for each in page if isinstance(each, str)]
    assert "module     act" in lines
    assert "class      torch.nn.modules.GELU" in lines
    assert 'line       File "net.py", line 7, in act\n    z' in lines


def test_an_op_that_writes_in_place_has_its_scope():
    graph = program()
    stack = graph["gelu"].attrs["torch:node"]["metadata"]["nn_module_stack"]
    graph.result(graph.add("aten.relu_.default", [graph["relu"].output]).output, "z")
    written = graph.result_ports[-1].source.op
    written.output.type = graph["relu"].output.type
    graph.rename(written, "relu_")
    written.attrs["torch:node"] = {"metadata": {"nn_module_stack": stack}}
    hub = amanda.convert(graph, "amanda/std/1")
    scope = ScopeTable.of(hub).scope_of(hub.result_ports[-1].source.op)
    assert (scope.op, scope.modules) == ("relu_", ("", "act"))
