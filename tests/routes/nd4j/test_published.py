"""Deeplearning4j's own rule sets, on its own graphs, there and back."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from routes.nd4j.account import (
    ND4J,
    Outcome,
    Verdict,
    frozen,
    outcome,
    settings,
    verdicts,
)
from routes.nd4j.interpreter import Absent, arguments

import amanda
from amanda.dictionary import Dictionary
from amanda.graph import Graph, Op
from amanda.mapping.lenses.lens import equivalent_values
from amanda.tensors import Tensor
from amanda.types import parse_type
from amanda_nd4j.mapping import ONNX, TENSORFLOW, Nd4jMapping
from amanda_nd4j.namespace import Descriptor, descriptors
from amanda_nd4j.rulesets import read_declarations


@pytest.fixture(scope="module")
def tensorflow() -> Dictionary:
    found: Any = amanda.namespace("tensorflow")
    return found  # type: ignore[no-any-return]


@cache
def graphs(data: Path) -> dict[str, Graph]:
    newest: Any = amanda.namespace("tensorflow")
    return dict(frozen(data, newest))


@pytest.fixture(scope="module")
def outcomes(frozen_data: Path) -> dict[str, Outcome]:
    return {name: outcome(TENSORFLOW, g) for name, g in graphs(frozen_data).items()}


def test_every_declared_graph_with_its_values_maps_fully(
    outcomes: dict[str, Outcome], capsys: pytest.CaptureFixture[str]
) -> None:
    undeclared = {name for name, found in outcomes.items() if found.undeclared}
    at_run_time = {
        name: found.gaps
        for name, found in outcomes.items()
        if found.gaps and name not in undeclared
    }
    whole = len(outcomes) - len(undeclared) - len(at_run_time)
    print(f"{len(outcomes)} graphs: {whole} fully, {len(undeclared)} with ops that are "
          f"not declared, {len(at_run_time)} with values of run time")  # fmt: skip
    assert (len(outcomes), whole) == (922, 902)
    assert len(undeclared) == 16
    assert Counter(op for found in outcomes.values() for op in found.undeclared) == {
        "Conv3DBackpropInputV2": 10, "NonMaxSuppressionV5": 2, "RaggedRange": 1,
        "SparseTensorDenseAdd": 2, "TruncateMod": 1,
    }  # fmt: skip
    for name, gaps in at_run_time.items():
        for why in gaps:
            assert why.startswith("Slice: "), name
            assert why.endswith("is not constant"), name


def test_what_is_lost_is_told(outcomes: dict[str, Outcome]) -> None:
    """Enter's number of rounds at a time is never a default that nd4j has."""
    told = [loss for found in outcomes.values() for loss in found.losses]
    assert any("parallel_iterations" in loss for loss in told)
    assert all(": " in loss for loss in told)


@pytest.fixture(scope="module")
def told(data: Path, tensorflow: Dictionary) -> list[Verdict]:
    return verdicts(TENSORFLOW, tensorflow)


def test_declarations_that_give_their_ops_back(
    told: list[Verdict], capsys: pytest.CaptureFixture[str]
) -> None:
    back = sum(each.back for each in told)
    usual = sum(each.usual for each in told)
    print(f"{len(told)} declarations: {back} give every op back, {usual} the usual one")
    assert len(told) == 306
    assert (back, usual) == (197, 255)
    assert all(each.why for each in told if not each.back)
    plugin = Path(__file__).parents[3] / "plugins" / "amanda-nd4j" / "README.md"
    text = " ".join(plugin.read_text("utf-8").split())
    assert f"{back} give back every op that they take" in text
    assert f"{usual} at least an op with its defaults" in text


def test_ops_of_a_declaration_that_gives_them_back_come_back_in_graphs(
    told: list[Verdict], frozen_data: Path, tensorflow: Dictionary
) -> None:
    """Not only specimens: in real graphs each of these ops is there again."""
    known = {each.name for each in told if each.back}
    compared: Counter[str] = Counter()
    for name, graph in graphs(frozen_data).items():
        there = TENSORFLOW.conversion(graph, ND4J)
        if there.report.gaps or any("Identity" in x for x in there.report.losses):
            continue
        back = TENSORFLOW.conversion(there.graph, tensorflow.name, keep_foreign=True)
        again = {op.name: op for op in back.graph.walk()}
        for op in graph.walk():
            if op.type in known:
                assert _told(again[op.name], tensorflow) == _told(op, tensorflow), name
                compared[op.type] += 1
    assert len(compared) > 120
    assert compared.total() > 4000


def test_graphs_that_do_not_come_back_have_a_reason(
    told: list[Verdict], frozen_data: Path, tensorflow: Dictionary
) -> None:
    """Each op that differs has a reported loss, or its declaration a reason."""
    reasons = {each.name: each.why for each in told if not each.back}
    counts: Counter[str] = Counter()
    for name, graph in graphs(frozen_data).items():
        there = TENSORFLOW.conversion(graph, ND4J)
        if there.report.gaps:
            counts["gaps"] += 1
            continue
        back = TENSORFLOW.conversion(there.graph, tensorflow.name, keep_foreign=True)
        again = {op.name: op for op in back.graph.walk()}
        losses = "; ".join(there.report.losses)
        different = [
            op
            for op in graph.walk()
            if op.own_namespace is None
            and (
                again[op.name].type != op.type
                or _told(again[op.name], tensorflow) != _told(op, tensorflow)
            )
        ]
        for op in different:
            assert reasons.get(op.type or "") or f"op {op.name!r}: " in losses, name
        counts["different" if different else "same"] += 1
    assert counts == {"same": 608, "different": 294, "gaps": 20}


def _told(op: Op, dictionary: Dictionary) -> tuple[Any, ...]:
    entry = dictionary[op.type or ""]
    attrs = {a.name: op.attrs.get(a.name, a.default) for a in entry.attrs}
    texts = {key: _plain(value) for key, value in attrs.items()}
    return op.type, texts, [v and (v.op.name, v.index) for v in op.inputs]


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.digest()
    return list(value) if isinstance(value, tuple) else value


# -- against rules done by hand --------------------------------------------------------


def test_arguments_are_those_that_the_rules_mean(
    frozen_data: Path, tensorflow: Dictionary
) -> None:
    """Every argument of every op, compared with an interpreter of the rules."""
    folder = frozen_data / "dl4j" / "2025"
    ops = {op.name: op for op in descriptors(folder / "nd4j-op-def.pbtxt")}
    found = read_declarations(folder / "tensorflow-mapping-ruleset.pbtxt")
    rules = {each.source: each for each in found}
    compared: Counter[str] = Counter()
    for name, graph in graphs(frozen_data).items():
        there = TENSORFLOW.conversion(graph, ND4J)
        made = {op.name: op for op in there.graph.walk() if op.namespace == ND4J}
        for op in graph.walk():
            twin = made.get(op.name)
            if op.type not in rules or twin is None or op.own_namespace is not None:
                continue
            declaration = rules[op.type]
            descriptor = ops[declaration.target]
            try:
                wanted = arguments(declaration, descriptor, op, tensorflow)
            except Absent:
                continue
            assert twin.type == declaration.target
            got = dict(_arguments(twin, descriptor))
            assert set(got) == set(wanted), (name, op)
            for key, value in wanted.items():
                assert equivalent_values(got[key], value), (name, op, key)
            compared[op.type] += 1
    assert len(compared) > 200
    assert compared.total() > 8000


def _arguments(op: Op, descriptor: Descriptor) -> list[tuple[tuple[str, int], Any]]:
    places = {
        a.called: (a.kind, a.place)
        for a in descriptor.arguments
        if not a.kind.endswith("_TENSOR")
    }
    extra = {
        "wFormat": ("INT64", 10), "scoreThreshold.double": ("DOUBLE", 1),
        "outputs.double": ("DOUBLE", -1),
    }  # fmt: skip
    return [
        (places[key] if key in places and key not in extra else extra[key], value)
        for key, value in op.attrs.items()
    ]


# -- ONNX, and the other state ---------------------------------------------------------


def test_rule_sets_of_onnx(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 35 without rules are those that the files say are imported by code."""
    for name, value in settings(data).items():
        monkeypatch.setenv(name, value)
    left = ONNX.translation.left
    assert len(left) == 35
    assert len(ONNX.translation.rows) == 121 - 35
    graph = Graph("amanda/onnx/13")
    x, w = (graph.parameter(parse_type("float32[...]"), name) for name in "xw")
    conv = graph.add("Conv", [x, w], {
        "kernel_shape": [3, 2], "pads": [1, 0, 1, 0], "strides": [2, 1],
    }, name="conv")  # fmt: skip
    axes = graph.constant(Tensor.of([0, 2], "int64"), "axes")
    graph.result(graph.add("ReduceSum", [conv.output, axes.output]).output)
    there = amanda.convert(graph, ND4J)
    made = there.ops["conv"]
    assert made.type == "conv2d"
    assert {k: made.attrs[k] for k in ("sH", "sW", "pH", "pW", "dH", "isNCHW")} == {
        "sH": 2, "sW": 1, "pH": 1, "pW": 0, "dH": 1, "isNCHW": 0,
    }  # fmt: skip
    back = amanda.convert(there, "onnx@13")
    again = back.ops["conv"]
    assert again.type == "Conv"
    assert again.attrs == {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0],
                           "strides": [2, 1]}  # fmt: skip
    assert [op.type for op in back if op.type != "constant"] == ["Conv", "ReduceSum"]
    del graph.ops["conv"].attrs["kernel_shape"]
    made = amanda.convert(graph, ND4J).ops["conv"]
    assert not {"kH", "kW"} & set(made.attrs)
    again = amanda.convert(amanda.convert(graph, ND4J), "onnx@13").ops["conv"]
    assert again.attrs == {"pads": [1, 0, 1, 0], "strides": [2, 1]}


def test_the_older_state(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings(data, "2021").items():
        monkeypatch.setenv(name, value)
    tensorflow, onnx = (
        Nd4jMapping(each).translation for each in ("tensorflow", "onnx")
    )
    assert len(tensorflow.rows) + len(tensorflow.left) == 302
    assert len(onnx.rows) + len(onnx.left) == 95
    assert len(onnx.left) == 1
