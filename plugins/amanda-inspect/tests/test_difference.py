"""Differences of graphs: planted ones are found, others are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda_inspect import diff, view
from amanda_std import ops


def network(
    *, axis: int = 1, scale: float = 1.0, more: bool = False, swapped: bool = False
) -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[n, 4]", "x")
    weight = np.arange(16, dtype="float32").reshape(4, 4)
    weight[0, 0] = scale
    product = ops.matmul(x, weight)
    product = ops.exp(product) if more else product
    y = ops.subtract(*((x, product) if swapped else (product, x)))
    y = ops.softmax(y, axes=(axis,))
    graph.result(ops.relu(y), "y")
    return graph


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"axis": 0}, ["softmax #3: attribute axes: (0,), not (1,)"]),
    (
        {"scale": 3.0},
        ["weight matmul #1 input 1: 1 of 16 elements differ, at [0, 0] 3, not 1; "
         "max abs 2, max rel 2, SNR 24.9 dB"],
    ),
    ({"more": True}, ["subtract #3: input 0: exp #2, not matmul #1", "added exp #2"]),
    (
        {"swapped": True},
        ["subtract #2: input 0: x, not matmul #1; input 1: matmul #1, not x"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "lines"), CASES, ids=lambda x: str(x)[:30])
def test_planted_differences(change: dict[str, Any], lines: list[str]) -> None:
    found = diff(network(), network(**change))
    assert list(found.lines()) == lines
    assert found.is_empty == (not lines)


def test_names_and_order_make_no_difference() -> None:
    a, b = network(), network()
    for i, op in enumerate(b):
        op.name = f"other {i}"
    assert diff(a, b).is_empty


def test_attributes_are_compared_in_float32() -> None:
    graphs = []
    for epsilon in (1e-12, float(np.float32(1e-12)), 2e-12):
        graph = amanda.Graph("amanda/std/1")
        x = graph.parameter("float32[4]", "x")
        graph.result(ops.layer_norm(x, epsilon=epsilon), "y")
        graphs.append(graph)
    assert diff(graphs[0], graphs[1]).is_empty
    assert not diff(graphs[0], graphs[2]).is_empty


def test_inputs_outputs_and_functions() -> None:
    a, b = network(), network()
    b.parameter("int64[]", "size")
    b.outputs[0].name = "probabilities"
    assert diff(a, b).head[:1] == ["input size added"]
    inner = amanda.Graph("amanda/std/1", name="twice")
    a.add_function("twice", inner)
    assert "function twice removed" in diff(a, network()).head


def test_bodies() -> None:
    def looped(step: float) -> amanda.Graph:
        graph = amanda.Graph("amanda/std/1")
        x = graph.parameter("float32[3]", "x")

        def body(i: Any, running: Any, now: Any) -> Any:
            return running, ops.tanh(ops.add(now, np.float32(step)))

        (y,) = ops.loop(np.asarray(3, "int64"), np.asarray(True), body, x)
        graph.result(y, "y")
        return graph

    (changed,) = diff(looped(0.5), looped(0.75)).changed
    assert changed.op.type == "loop"
    assert "0.75, not 0.5" in str(changed)


def captured(step: float, outer: float = 1.0) -> amanda.Graph:
    """A conditional whose branches read a value and a constant around them."""
    graph = amanda.Graph("amanda/onnx/18")
    x, flag = graph.parameter("float32[3]", "x"), graph.parameter("bool[]", "flag")
    y = graph.add("Mul", [x, graph.constant(np.float32(outer)).output]).output
    number = graph.constant(np.float32(step)).output
    bodies = {}
    for key, kind in (("then_branch", "Add"), ("else_branch", "Sub")):
        body = amanda.Graph("amanda/onnx/18", outer=graph)
        body.result(body.add(kind, [body.add("Exp", [y]).output, number]).output)
        bodies[key] = body
    graph.result(graph.add("If", [flag], bodies=bodies).output, "z")
    return graph


def test_what_bodies_capture_corresponds() -> None:
    assert diff(captured(1), captured(1)).is_empty
    assert [str(each) for each in diff(captured(1), captured(1, 2)).weights] == [
        "weight Mul #1 input 1: 1 of 1 elements differ, at [] 2, not 1; "
        "max abs 1, max rel 1, SNR 0 dB"
    ]
    (changed,) = diff(captured(1), captured(2)).changed
    assert sorted(changed.bodies) == ["else_branch", "then_branch"]
    assert all(len(body.weights) == 1 for body in changed.bodies.values())


def test_places_of_bodies_and_functions() -> None:
    graphs = []
    for axis in (0, 1):
        inner = amanda.Graph("amanda/onnx/18", name="inner")
        x = inner.parameter("float32[2, 3]", "x")
        inner.result(inner.add("Softmax", [x], {"axis": axis}, name="soft").output)
        graph = captured(1 + axis)
        graph.add_function("inner", inner)
        graphs.append(graph)
    found = diff(*graphs)
    assert [place for place, _ in found.walk()] == [
        "",
        "If #3 / else_branch",
        "If #3 / then_branch",
        "function inner",
    ]
    assert found.head_lines == [
        "function inner: Softmax 'soft': attribute axis: 1, not 0"
    ]
    tables = {
        t["title"]: t for t in view(graphs[1], difference=found).data["differences"]
    }
    node, *cells = tables["Changed ops"]["rows"][-1]
    assert node is not None
    assert cells == ["Softmax 'soft'", "function inner", "attribute axis", "1", "0"]
    assert [row[2] for row in tables["Weights"]["rows"]] == [
        "If #3 / else_branch",
        "If #3 / then_branch",
    ]


def test_many_ops_are_counted_by_scope() -> None:
    a, b = network(), network()
    y = b.results[0]
    assert y is not None
    for i in range(30):
        y = b.add("tanh", [y], name=f"head/layer/tanh_{i}").output
    b.result_ports[0].connect(y)
    assert list(diff(a, b).lines(20)) == ["added 30 tanh in head/layer"]
    assert len(list(diff(a, b).lines())) == 30


def test_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in ("a.amanda", "b.amanda")]
    for file, scale in zip(files, (1.0, 3.0), strict=True):
        amanda.save(network(scale=scale), file)
    assert run_command_line(["diff", files[0], files[0]]) == 0
    assert "are the same graph" in capsys.readouterr().out
    assert run_command_line(["diff", *files]) == 1
    assert "1 of 16 elements differ" in capsys.readouterr().out
    assert run_command_line(["diff", *files, "--json"]) == 1
    (weight,) = json.loads(capsys.readouterr().out)["weights"]
    assert (weight["unequal"], weight["max_abs"]) == (1, 2.0)
    squares = float(np.square(np.arange(16)).sum())
    assert weight["norms"] == pytest.approx(
        [(squares + 9) ** 0.5, (squares + 1) ** 0.5]
    )
    assert len({*weight["hashes"]}) == 2
