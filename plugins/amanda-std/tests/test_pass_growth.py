"""The work of each pass grows linearly with the number of ops."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from amanda.graph import Graph, bulk
from amanda.types import parse_type
from amanda_std import ops, passes, trace

LAYERS, TIMES = 20, 5
TOLERANCE = 0.05
"""What is more than linear is at least quadratic: 25 times the calls, not 5."""


def chain(layers: int) -> Graph:
    """Layers with work for most passes: transposes, equal ops and redundant ones."""
    w = np.eye(8, dtype="float32")

    def function(x: Any) -> Any:
        for _ in range(layers):
            y = ops.transpose(ops.matmul(x, w), perm=(0, 2, 1))
            y = ops.relu(ops.transpose(y, perm=(0, 2, 1)) * 1.0)
            x = ops.softmax(ops.tanh(y) + ops.tanh(y), axes=(2,)) + x
        return x

    return trace(function, [parse_type("float32[batch, length, 8]")])


def calls(name: str, layers: int) -> int:
    """The number of calls of functions, builtin ones too, that a pass makes."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    run = getattr(passes, name)
    run(chain(1))  # imports, and compiles rules
    graph = chain(layers)
    before = sys.getprofile()
    with bulk():
        sys.setprofile(note)
        try:
            run(graph)
        finally:
            sys.setprofile(before)
    return count


def growth(name: str) -> float:
    """How many times the calls are for a graph with five times the ops."""
    calls(name, LAYERS)  # fills the caches that both sizes share
    return calls(name, LAYERS * TIMES) / max(calls(name, LAYERS), 1)


def test_calls_of_passes_grow_linearly() -> None:
    found = {name: growth(name) for name in passes.__all__}
    assert {n: g for n, g in found.items() if g > TIMES * (1 + TOLERANCE)} == {}


def test_quadratic_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare_all(graph: Graph) -> int:
        return sum(isinstance(a, type(b)) for a in graph for b in graph)

    monkeypatch.setattr(passes, "compare_all", compare_all, raising=False)
    assert growth("compare_all") > 2 * TIMES
