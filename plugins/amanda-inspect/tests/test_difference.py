"""Differences of graphs: planted ones are found, others are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda_inspect import diff
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
