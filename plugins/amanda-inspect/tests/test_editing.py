"""Edits of models: results against onnxruntime, onnx and numpy, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, UsageError
from amanda.types import parse_type
from amanda_inspect import editing
from amanda_inspect.editing import EditError, check_edit
from amanda_std import ops, trace
from amanda_std.passes import infer

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((3, 4)).astype("float32")
WEIGHT = RANDOM.standard_normal((4, 4)).astype("float32")
HIDDEN = X @ WEIGHT
NAMESPACES = ["std", "onnx@18", "torch", "tensorflow"]


def network(namespace: str = "onnx@18") -> amanda.Graph:
    """tanh(x @ w) * 2, whose values have names."""
    graph = amanda.Graph("amanda/std/1", "network")
    x = graph.parameter("float32[3, 4]", "x")
    hidden = ops.matmul(x, WEIGHT)
    bent = ops.tanh(hidden)
    graph.result(ops.multiply(bent, np.float32(2)), "y")
    for value, name in ((hidden, "hidden"), (bent, "bent")):
        value.port.op.name = name
    if namespace == "std":
        return graph
    made = amanda.convert(graph, namespace)
    for op in made:
        if op.name in ("hidden", "bent") and namespace.startswith("onnx"):
            op.output.name = op.name
    return made


def run(graph: amanda.Graph, tmp_path: Path, **feeds: Any) -> list[Any]:
    """The results by onnxruntime for ONNX, checked by onnx; else by numpy."""
    if not str(graph.namespace).startswith("amanda/onnx/"):
        return list(amanda.run(graph, feeds, backend="numpy").values())
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    amanda.save(graph, path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    from onnx.reference import ReferenceEvaluator

    found = runtime.InferenceSession(path).run(None, feeds)
    for mine, theirs in zip(
        found, ReferenceEvaluator(model).run(None, feeds), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)
    return list(found)


def expect(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


def type_of(graph: amanda.Graph, op: str) -> str:
    """The type that an op of the hub has in a namespace."""
    return str(graph.ops[op].type)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_names_and_dims(namespace: str, tmp_path: Path) -> None:
    graph = network(namespace)
    before = graph.clone()
    output = str(graph.outputs[0].name)
    editing.rename_ports(graph, {"x": "features"}, {output: "scores"})
    editing.set_dims(graph, {"features:0": "batch"})
    check_edit(before, graph)
    assert str(graph.parameters[0].type) == "float32[batch, 4]"
    assert graph.results[0] is not None
    assert str(graph.results[0].type) == "float32[batch, 4]"
    (found,) = run(graph, tmp_path, features=X[:2])
    expect(found, np.tanh(HIDDEN[:2]) * 2)
    assert [port.name for port in graph.outputs] == ["scores"]
    editing.set_dims(graph, {"batch": 3})
    check_edit(before, graph)
    assert str(graph.results[0].type) == "float32[3, 4]"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_parts(namespace: str, tmp_path: Path) -> None:
    graph = network(namespace)
    part = editing.extract(graph, ["hidden"], ["bent"])
    check_edit(graph, part)
    assert [op.type for op in part] == [type_of(graph, "bent")]
    (name,) = [str(port.name or port.index) for port in part.parameters]
    given = {name if not name.isdecimal() else int(name): X}
    (found,) = amanda.run(part, given, backend="numpy").values()
    expect(found, np.tanh(X))
    editing.add_outputs(graph, ["hidden"])
    expect(run(graph, tmp_path, x=X)[1], HIDDEN)
    one = editing.keep_outputs(graph, [str(graph.outputs[1].name)])
    (found,) = run(one, tmp_path, x=X)
    expect(found, HIDDEN)
    assert "bent" not in one


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_ops_are_removed(namespace: str, tmp_path: Path) -> None:
    graph = network(namespace)
    before = graph.clone()
    assert editing.remove_ops(graph, "bent") == 1
    check_edit(before, graph)
    expect(run(graph, tmp_path, x=X)[0], HIDDEN * 2)


def test_the_op_of_an_output_is_removed(tmp_path: Path) -> None:
    graph = network()
    editing.remove_ops(graph, "type:Mul")
    check_edit(network(), graph)
    assert sum(op.is_constant for op in graph) == 1  # the weight
    expect(run(graph, tmp_path, x=X)[0], np.tanh(HIDDEN))


OTHERS = {
    "std": "relu",
    "onnx@18": "Relu",
    "torch": "aten.relu.default",
    "tensorflow": "Relu",
}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_ops_are_replaced(namespace: str, tmp_path: Path) -> None:
    graph = network(namespace)
    before = graph.clone()
    kind = f"type:{type_of(graph, 'bent')}"
    assert editing.replace_ops(graph, kind, OTHERS[namespace]) == 1
    check_edit(before, graph)
    expect(run(graph, tmp_path, x=X)[0], np.maximum(HIDDEN, 0) * 2)
    assert graph.ops["bent"].type == OTHERS[namespace]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_ops_are_inserted(namespace: str, tmp_path: Path) -> None:
    graph = network(namespace)
    before = graph.clone()
    editing.insert_after(graph, "hidden", OTHERS[namespace])
    check_edit(before, graph)
    expect(run(graph, tmp_path, x=X)[0], np.tanh(np.maximum(HIDDEN, 0)) * 2)


def test_an_inserted_op_reads_numbers_and_other_values(tmp_path: Path) -> None:
    graph = network()
    editing.insert_after(graph, "bent", "Clip", inputs=[None, -0.5, 0.25])
    editing.insert_after(graph, "y", "Add", inputs=[None, "x"])
    check_edit(network(), graph)
    wanted = np.clip(np.tanh(HIDDEN), -0.5, 0.25) * 2 + X
    assert [port.name for port in graph.outputs] == ["y"]
    expect(run(graph, tmp_path, x=X)[0], wanted)


def test_a_subgraph_is_replaced(tmp_path: Path) -> None:
    graph = network()
    editing.replace_subgraph(graph, ["hidden"], ["y"], "LeakyRelu", {"alpha": 0.5})
    check_edit(network(), graph)
    assert [op.type for op in graph if not op.is_constant] == ["MatMul", "LeakyRelu"]
    expect(run(graph, tmp_path, x=X)[0], np.where(HIDDEN > 0, HIDDEN, HIDDEN / 2))


def test_attributes(tmp_path: Path) -> None:
    graph = network()
    editing.replace_ops(graph, "bent", "LeakyRelu", {"alpha": 0.5})
    assert editing.set_attributes(graph, "type:LeakyRelu", alpha=1) == 1
    check_edit(network(), graph)
    assert graph.ops["bent"].attrs == {"alpha": 1.0}
    expect(run(graph, tmp_path, x=X)[0], HIDDEN * 2)
    editing.set_attributes(graph, "bent", alpha=None)
    expect(run(graph, tmp_path, x=X)[0], np.where(HIDDEN > 0, HIDDEN, HIDDEN / 100) * 2)
    with pytest.raises(UsageError, match="no attribute 'beta'"):
        editing.set_attributes(graph, "bent", beta=1.0)


def test_constants_are_folded(tmp_path: Path) -> None:
    graph = amanda.Graph("amanda/onnx/18")
    graph.imports[""] = 18
    x = graph.parameter("float32[3, 4]", "x")
    a, b = (graph.constant(WEIGHT[:1] * k).output for k in (1, 2))
    total = graph.add("Add", [a, b]).output
    noise = graph.add("RandomNormalLike", [a]).output
    zeros = graph.add(
        "Mul", [noise, graph.constant(np.zeros((1, 4), "float32")).output]
    )
    y = graph.add("Add", [graph.add("Add", [x, total]).output, zeros.output])
    graph.result(y.output, "y")
    assert editing.fold_constants(graph) == 1
    kinds = [op.type for op in graph if not op.is_constant]
    assert sorted(kinds) == ["Add", "Add", "Mul", "RandomNormalLike"]
    (found,) = amanda.run(graph, {"x": X}, backend="numpy").values()
    expect(found, X + WEIGHT[:1] * 3)


def test_inputs_become_constants(tmp_path: Path) -> None:
    graph = network()
    editing.fix_inputs(graph, {"x": X})
    assert graph.parameters == ()
    expect(run(graph, tmp_path)[0], np.tanh(HIDDEN) * 2)
    assert editing.fold_constants(graph) == 3
    expect(run(graph, tmp_path)[0], np.tanh(HIDDEN) * 2)


def test_docs_training_and_names_are_stripped(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "first", doc_string="why"),
        helper.make_node("Dropout", ["a"], ["b"], "drop"),
        helper.make_node("Exp", ["b"], ["y"], "last"),
    ]
    kinds = [helper.make_tensor_value_info(n, 1, [3, 4]) for n in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", kinds[:1], kinds[1:], doc_string="a graph"),
        doc_string="a model", opset_imports=[helper.make_opsetid("", 18)],
    )  # fmt: skip
    model.ir_version = 8
    onnx.helper.set_model_props(model, {"author": "someone"})
    model.training_info.add().initialization.name = "start"
    graph = amanda.load(model)
    before = graph.clone()
    assert editing.strip(graph, "docs") >= 4
    assert editing.strip(graph, "training") == 2
    assert editing.strip(graph, "names") == 2
    check_edit(before, graph)
    expect(run(graph, tmp_path, x=X)[0], np.exp(np.maximum(X, 0)))
    made = onnx.load(tmp_path / "model.onnx")
    assert [node.op_type for node in made.graph.node] == ["Relu", "Exp"]
    assert not made.doc_string + made.graph.doc_string
    assert not any(node.doc_string or node.name for node in made.graph.node)
    assert not made.training_info
    assert not made.metadata_props


REFUSED: list[tuple[Callable[[amanda.Graph], object], str]] = [
    (lambda g: editing.remove_ops(g, "nothing"), "no op 'nothing'"),
    (lambda g: editing.remove_ops(g, "type:Conv"), "no op of the type 'Conv'"),
    (lambda g: editing.rename_ports(g, {"z": "a"}), "no value 'z'"),
    (lambda g: editing.rename_ports(g, {"hidden": "a"}), "not an input"),
    (lambda g: editing.rename_ports(g, None, {"z": "a"}), "no output 'z'"),
    (lambda g: editing.set_dims(g, {"x:7": 1}), "no axis 7"),
    (lambda g: editing.set_dims(g, {"n": 1}), "no symbolic dim 'n'"),
    (lambda g: editing.extract(g, ["bent"], ["hidden"]), "do not need the input"),
    (lambda g: editing.extract(g, ["bent"], ["bent"]), "both an input and an output"),
    (lambda g: editing.add_outputs(g, ["y"]), "an output already"),
    (lambda g: editing.strip(g, "weights"), "what to strip"),
    (lambda g: editing.replace_ops(g, "bent", "Elu", {"beta": 1.0}), "no attribute"),
]


@pytest.mark.parametrize(("edit", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_edits_are_refused_with_names(
    edit: Callable[[amanda.Graph], object], why: str
) -> None:
    graph = network()
    before = graph.clone()
    with pytest.raises(AmandaError, match=why):
        edit(graph)
    assert graph.same_as(before)


INVALID: list[tuple[Callable[[amanda.Graph], object], str]] = [
    (lambda g: editing.replace_ops(g, "bent", "Tahn"), "Tahn"),
    (lambda g: editing.set_dims(g, {"x:1": 5}), "MatMul|matmul"),
]


@pytest.mark.parametrize(("edit", "why"), INVALID, ids=["unknown op", "shapes"])
def test_invalid_models_are_found(
    edit: Callable[[amanda.Graph], object], why: str
) -> None:
    graph = network()
    edit(graph)
    with pytest.raises(EditError, match=why):
        check_edit(network(), graph)


def test_a_dim_that_a_constant_shape_ends(tmp_path: Path) -> None:
    graph = network()
    shape = np.asarray([3, 2, 2], "int64")
    editing.insert_after(graph, "hidden", "Reshape", inputs=[None, shape])
    graph.ops.select("Reshape")[0].name = "fold"
    before = graph.clone()
    editing.set_dims(graph, {"x:0": "batch"})
    check_edit(before, graph)
    (text,) = editing.find_lost_dims(before, graph)
    assert text == (
        "the dim batch of the inputs ends at Reshape 'fold', whose output is "
        "float32[3, 2, 2]"
    )
    plain = network()
    editing.set_dims(plain, {"x:0": "batch"})
    check_edit(network(), plain)
    assert editing.find_lost_dims(network(), plain) == []


def test_ops_without_mapping_may_be_inserted() -> None:
    graph = network()
    op = editing.insert_after(graph, "hidden", "Wiggle")
    op.namespace = "amanda/onnx/com.example/1"
    graph.imports["com.example"] = 1
    check_edit(network(), graph)


def test_a_pattern_names_many_ops() -> None:
    graph = amanda.convert(networks.transformer(2, causal=False), "onnx@18")
    count = len(graph.ops.select("LayerNormalization"))
    found = editing.set_attributes(graph, "type:LayerNormalization", epsilon=1e-3)
    assert found == count == 4
    assert {op.attrs["epsilon"] for op in graph if op.type == "LayerNormalization"} == {
        1e-3
    }


def test_types_of_bodies_follow_dims():
    """Values in bodies of the hub have the new size, too; scalars stay scalars."""

    def model(x):
        return ops.loop(2, True, lambda i, c, s: (c, ops.tanh(s)), x)[0]

    graph = trace(model, [parse_type("float32[n, 3]")], names=["x"])
    infer(graph)
    editing.set_dims(graph, {"x:0": 5})
    assert editing.infer_types(graph) == []
    types = [str(port.type) for op in graph.walk() for port in op.outputs]
    assert "float32[5, 3]" in types
    assert not any("..." in each or "n" in each.split("[")[1] for each in types)
