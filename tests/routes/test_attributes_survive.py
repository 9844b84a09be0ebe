"""Attributes of every entity of a graph, through every installed mapping.

What does not arrive is named in the report of the conversion.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import amanda
from amanda.graph import Graph, Op, held_attributes
from amanda.host import default_host
from amanda.mapping import Report

X = np.float32([[1, -2, 3], [0, 4, -5]])
F = "float32[2, 3]"


class Vocabulary(NamedTuple):
    """The ops of a test graph in one namespace."""

    namespace: str
    unary: str = "Relu"
    binary: str = "Add"
    unary_attrs: Mapping[str, Any] = MappingProxyType({})
    binary_attrs: Mapping[str, Any] = MappingProxyType({})


STD = Vocabulary("amanda/std/1", "relu", "add")
ONNX = Vocabulary("amanda/onnx/18")
JAX = Vocabulary("amanda/jax/0.10.2", "neg", "add")
TF = Vocabulary(
    "amanda/tensorflow/2.21.0", "Relu", "AddV2", {"T": "float32"}, {"T": "float32"}
)
KERAS = Vocabulary("amanda/keras/3.15.0", "ReLU")
TORCH = Vocabulary("amanda/torch/2.13.0", "aten.relu.default", "aten.add.Tensor")
ND4J = Vocabulary(
    "amanda/nd4j/1", "relu", "add", {"inPlace": False, "cutoff": 0.0},
    {"inPlace": False},
)  # fmt: skip

ROUTES = {
    "onnx-std": [(ONNX, "std@1"), (STD, "onnx@18")],
    "onnx-opset": [(ONNX, "onnx@12"), (ONNX, "onnx@5"), (ONNX, "onnx@22")],
    "jax-std": [(JAX, "std@1")],
    "std-jax": [(STD, "jax")],
    "std-stablehlo": [(STD, "stablehlo")],
    "nd4j-onnx": [(ONNX._replace(namespace="amanda/onnx/13"), ND4J.namespace),
                  (ND4J, "onnx@13")],
    "nd4j-std": [(ND4J, "std@1"), (STD, ND4J.namespace)],
    "nd4j-tensorflow": [(TF, ND4J.namespace), (ND4J, "tensorflow")],
    "keras-std": [(KERAS, "std@1")],
    "lark-std": [(STD, "example/lark@1")],
    "tensorflow-std": [(TF, "std@1"), (STD, "tensorflow")],
    "tensorflow-versions": [(TF, "tensorflow@1.15.5")],
    "torch-std": [(TORCH, "std@1"), (STD, "torch@2.13.0")],
    "template-std": [],
}  # fmt: skip
"""The conversions by each mapping of the project; None of another project's."""
RETRACED = ("std-jax", "std-stablehlo")
"""Mappings that trace the graph again: what is inside has no counterpart."""


def build(words: Vocabulary) -> Graph:
    """Two ops, each entity with an attribute of its own."""
    graph = Graph(words.namespace, "main")
    if words.namespace.startswith("amanda/onnx/"):
        graph.imports[""] = int(words.namespace.rpartition("/")[2])
    graph.attrs["author"] = "me"
    x = graph.parameter(amanda.parse_type(F), "x")
    a = graph.add(words.unary, [x], {"x-op": "first", **words.unary_attrs}, name="a")
    b = graph.add(words.binary, [a.output, x], {"x-op": "second",
                  **words.binary_attrs}, name="b")  # fmt: skip
    for op in (a, b):
        op.output.type = amanda.parse_type(F)
        op.output.name = f"{op.name}.out"
    graph.result(b.output, "y")
    x.attrs["parameter"] = 1
    a.output.attrs["value"] = [0.5]
    a.input_ports[0].attrs["input"] = "left"
    b.input_ports[0].edge_attrs["edge"] = 3
    b.input_ports[1].edge_attrs["edge"] = 4
    graph.outputs[0].attrs["result"] = True
    graph.result_ports[0].edge_attrs["result edge"] = None
    return graph


def attributes(graph: Graph) -> Counter[tuple[str, str]]:
    """Places and names of attributes, without the records of formats."""
    return Counter(
        (where, key)
        for op in (graph, *graph.walk())
        for where, attrs in held_attributes(op)
        for key in attrs
        if ":" not in key
    )


def convert(graph: Graph, to: str) -> tuple[Graph, list[str]]:
    reports: list[Report] = []
    made = amanda.convert(graph, to, reports=reports)
    return made, [loss for report in reports for loss in report.losses]


def test_every_installed_mapping_is_tested() -> None:
    own = {e.name for e in default_host().entries("mappings") if e.dist}
    ours = {name for name in own if name.partition("-")[0] != "sample"}
    assert ours <= ROUTES.keys()


@pytest.fixture
def nd4j(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.environ.get("AMANDA_TEST_DATA", "")) / "dl4j" / "2025"
    if not folder.is_dir():
        pytest.skip("needs dl4j in AMANDA_TEST_DATA")
    rules = [folder / f"{n}-mapping-ruleset.pbtxt" for n in ("tensorflow", "onnx")]
    monkeypatch.setenv("AMANDA_ND4J_OPS", str(folder / "nd4j-op-def.pbtxt"))
    monkeypatch.setenv("AMANDA_ND4J_RULES", os.pathsep.join(map(str, rules)))


def cases() -> Iterator[Any]:
    for mapping, routes in ROUTES.items():
        for words, to in routes:
            yield pytest.param(mapping, words, to, id=f"{mapping}: {words[0]} to {to}")


@pytest.mark.parametrize(("mapping", "words", "to"), list(cases()))
def test_attributes_arrive_or_are_reported(
    mapping: str, words: Vocabulary, to: str, request: pytest.FixtureRequest
) -> None:
    if "nd4j" in mapping:
        request.getfixturevalue("nd4j")
    if not default_host().has("mappings", mapping):
        pytest.skip(f"needs {mapping}")
    graph = build(words)
    made, lost = convert(graph, to)
    before, after = attributes(graph), attributes(made)
    assert sum(before.values()) == 10
    if mapping not in RETRACED:
        assert after == before
        assert lost == []
    else:
        missing = before - after
        assert set(missing) == {
            ("", "x-op"), ("input 0", "input"), ("output 0", "value"),
            ("the edge to input 0", "edge"), ("the edge to input 1", "edge"),
        }  # fmt: skip
        assert len(lost) == sum(missing.values())
        for where, key in missing:
            place = f" of {where}" if where else ""
            assert any(f"the attribute {key!r}{place}" in line for line in lost)
    assert attributes(graph) == before


# -- structure --------------------------------------------------


def with_control_edge() -> Graph:
    graph = build(ONNX)
    c = graph.add("Neg", [graph.parameters[0]], name="c")
    graph.control(graph.ops["a"], c, {"why": "order"})
    graph.result(c.output, "z")
    return graph


def with_subgraph() -> Graph:
    inner = Graph(None, "inner")
    value = inner.parameter(amanda.parse_type(F), "i")
    value.attrs["inside"] = 1
    op = inner.add("Neg", [value], {"x-op": "within"}, name="n")
    op.input_ports[0].edge_attrs["edge"] = 1
    op.output.type = amanda.parse_type(F)
    inner.result(op.output, "o")
    inner.attrs["x-kind"] = "block"
    graph = build(ONNX)
    graph.add_graph(inner, [graph.ops["a"].output])
    inner.input_ports[0].edge_attrs["edge"] = 5
    inner.outputs[0].type = amanda.parse_type(F)
    graph.result(inner.outputs[0], "z")
    return graph


def with_body() -> Graph:
    graph = build(ONNX)
    condition = graph.parameter(amanda.parse_type("bool[]"), "c")
    op = graph.add("If", [condition], {"x-op": "branch"}, name="if")
    for key in ("then_branch", "else_branch"):
        body = Graph(outer=graph)
        inside = body.add("Neg", [graph.ops["a"].output], {"x-op": key}, name="n")
        inside.input_ports[0].edge_attrs["edge"] = key
        inside.output.type = amanda.parse_type(F)
        body.result(inside.output, "r")
        body.attrs["x-kind"] = key
        op.set_body(key, body)
    op.output.type = amanda.parse_type(F)
    graph.result(op.output, "z")
    return graph


@pytest.mark.parametrize("make", [with_control_edge, with_subgraph, with_body])
def test_structures_there_and_back(make: Callable[[], Graph]) -> None:
    graph = make()
    hub, lost = convert(graph, "std@1")
    back, lost_back = convert(hub, "onnx@18")
    assert lost + lost_back == []
    assert attributes(hub) == attributes(back) == attributes(graph)


def test_attributes_of_a_lowered_op() -> None:
    """One op becomes several: the last has its notes, its readers those of the edge."""
    graph = Graph("amanda/onnx/20")
    x = graph.parameter(amanda.parse_type(F), "x")
    y = graph.add("Gelu", [x], {"x-op": 1}, name="gelu")
    y.input_ports[0].edge_attrs["delay"] = 2
    y.output.attrs["value"] = 3
    graph.result(y.output, "y")
    onnx, lost = convert(graph, "onnx@15")
    assert len([op for op in onnx if not op.is_constant]) > 2
    assert lost == []
    found = attributes(onnx)
    assert found["", "x-op"] == found["output 0", "value"] == 1
    assert sum(n for (_, key), n in found.items() if key == "delay") >= 1


def test_attributes_inside_a_pattern_are_reported() -> None:
    """Several ops become one: what is between them has no counterpart."""
    graph = Graph("amanda/std/1")
    shapes = {"a": F, "b": "float32[4, 3]", "c": "float32[4]"}
    a, b, c = (graph.parameter(amanda.parse_type(t), n) for n, t in shapes.items())
    turned = graph.add("transpose", [b], {"perm": (1, 0), "x-a": 1}, name="turned")
    product = graph.add("matmul", [a, turned.output], {"x-b": 1}, name="product")
    total = graph.add("add", [product.output, c], {"x-c": 1}, name="total")
    turned.input_ports[0].edge_attrs["outside"] = 1
    turned.output.attrs["between"] = 1
    product.input_ports[1].edge_attrs["between"] = 1
    graph.result(total.output, "y")
    onnx, lost = convert(graph, "onnx@18")
    (gemm,) = onnx
    assert gemm.type == "Gemm"
    assert {k for k in gemm.attrs if k[0] == "x"} == {"x-a", "x-b", "x-c"}
    assert gemm.input_ports[1].edge_attrs == {"outside": 1}
    assert lost == [
        "transpose, op 'turned': the attribute 'between' of output 0",
        "matmul, op 'product': the attribute 'between' of the edge to input 1",
    ]


# -- runs and files ---------------------------------------------


@pytest.mark.parametrize("words", [ONNX, STD])
@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime"])
def test_backends_run_graphs_with_attributes(words: Vocabulary, backend: str) -> None:
    for graph in (build(words), *([with_subgraph()] if words is ONNX else ())):
        found = amanda.run(graph, [X], backend=backend)
        np.testing.assert_array_equal(found["y"], np.maximum(X, 0) + X)


def test_stablehlo_runs_ops_with_notes(tmp_path: Path) -> None:
    graph = amanda.convert(build(STD), "stablehlo")
    for op in graph:
        op.attrs["x-op"] = ["note", 1, {"a": None}]
    amanda.save(graph, tmp_path / "program.mlir")
    again = amanda.load(tmp_path / "program.mlir")
    notes = [op.attrs["x-op"] for op in again if not op.is_constant]
    assert notes == [["note", 1, {"a": None}]] * len(notes)
    assert notes
    found = amanda.run(graph, [X], backend="stablehlo")
    np.testing.assert_array_equal(found["y"], np.maximum(X, 0) + X)


@pytest.mark.parametrize("make", [lambda: build(ONNX), with_subgraph, with_body])
def test_onnx_files_hold_attributes(make: Callable[[], Graph], tmp_path: Path) -> None:
    import onnx

    graph = make()
    weight = graph.constant(amanda.Tensor.of(X), "w")
    weight.attrs["x-op"] = "weight"
    weight.output.attrs["value"] = 1
    weight.output.name = "w"
    graph.result(weight.output, "weight")
    path = tmp_path / "model.onnx"
    amanda.save(graph, path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    again = amanda.load(path)
    assert attributes(again) == attributes(graph)
    amanda.save(again, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_attributes_that_are_not_json_are_refused(tmp_path: Path) -> None:
    graph = build(ONNX)
    graph.ops["a"].attrs["x-op"] = amanda.Tensor.of(X)
    with pytest.raises(amanda.errors.AmandaError, match="written to ONNX as JSON"):
        amanda.save(graph, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"edge 7": {"a": 1}}', '{"": {"axis": 1}}', "[" * 100_000,
             '{"in 0": {"onnx:notes": 3}}', '{"out": {}}', '{"in 0": 3}']
)  # fmt: skip
def test_entries_of_others_stay_as_they_are(text: str, tmp_path: Path) -> None:
    import onnx

    amanda.save(build(ONNX), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    for node in model.graph.node:
        (entry,) = node.metadata_props
        entry.value = text
    onnx.save(model, tmp_path / "changed.onnx")
    graph = amanda.load(tmp_path / "changed.onnx")
    assert ("", "x-op") not in attributes(graph)
    amanda.save(graph, tmp_path / "again.onnx")
    nodes = onnx.load(tmp_path / "again.onnx").graph.node
    assert [n.metadata_props[0].value for n in nodes] == [text, text]


# -- passes -----------------------------------------------------


def std_passes() -> list[str]:
    entries = default_host().entries("passes")
    return [entry.name for entry in entries if entry.name != "sample"]


@pytest.mark.parametrize("name", std_passes())
def test_passes_keep_attributes(name: str) -> None:
    graph = build(STD)
    before = attributes(graph)
    amanda.improve(graph, name)
    assert attributes(graph) == before
    found = amanda.run(graph, [X], backend="numpy")
    np.testing.assert_array_equal(found["y"], np.maximum(X, 0) + X)


def test_ops_that_replace_others_keep_their_notes() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type(F), "x")
    old: Op = graph.add("softmax", [x], {"axes": (1,), "x-op": 7}, name="s")
    old.output.attrs["value"] = 8
    graph.result(old.output, "y")
    new = graph.add("relu", [x]).output
    graph.replace(old, [new])
    assert (new.op.attrs, new.attrs) == ({"x-op": 7}, {"value": 8})


# -- results without a value -----------------------------------------------------------


def graph_with_empty_results() -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter(F, "x")
    graph.result(None, "missing")
    graph.result(graph.add("negative", [x]).output, "y")
    graph.result(None)
    return graph


@pytest.mark.parametrize(
    ("plugin", "target"),
    [("amanda_onnx", "amanda/onnx/22"), ("amanda_tf", "amanda/tensorflow/2.21.0")],
)
def test_empty_results_are_dropped_and_named(plugin: str, target: str) -> None:
    pytest.importorskip(plugin)
    reports: list[Report] = []
    found = amanda.convert(graph_with_empty_results(), target, reports=reports)
    assert [port.name for port in found.outputs] == ["y"]
    assert [loss for report in reports for loss in report.losses] == [
        "the result missing, which has no value",
        "the result 2, which has no value",
    ]


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_backends_compute_the_other_results(backend: str) -> None:
    pytest.importorskip(backend)
    graph = graph_with_empty_results()
    found = amanda.run(graph, {"x": X}, backend=backend)
    np.testing.assert_array_equal(found["y"], -X)
    again = amanda.Session(graph, backend).run(["y"], {"x": X})
    np.testing.assert_array_equal(again["y"], -X)
