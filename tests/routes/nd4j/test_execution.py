"""nd4j graphs run: those that Deeplearning4j's rules map from TensorFlow.

A part of the graphs by default, all of them under `-m scale`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from routes.nd4j.account import ND4J

import amanda
from amanda.graph import Graph
from amanda.scoreboard import Outcome
from amanda.types import parse_type
from amanda_nd4j.mapping import TENSORFLOW
from amanda_nd4j.std import MAPPING

pytest.importorskip("amanda_tf_conformance", reason="has the frozen graphs")

from routes.nd4j.execution import OTHER_VALUES, outcomes_of

from amanda_tf_conformance.frozen_graphs import FrozenGraph, frozen_graphs

EVERY = 11


@pytest.fixture(scope="module")
def cases(frozen_data: Path) -> list[FrozenGraph]:
    assert frozen_data.is_dir()
    return frozen_graphs()


def other_values(found: list[Outcome]) -> dict[str, str]:
    return {o.case: o.why for o in found if o.status not in ("pass", "drawn", "gap")}


def test_some_graphs_run_with_the_numbers_of_tensorflow(
    cases: list[FrozenGraph],
) -> None:
    chosen = cases[::EVERY]
    found = outcomes_of(TENSORFLOW, chosen, promoted=True)
    assert other_values(found).keys() <= OTHER_VALUES.keys(), other_values(found)
    counts = Counter(each.status for each in found)
    assert counts.total() == 84
    assert counts["pass"] >= 79


@pytest.mark.scale
@pytest.mark.parametrize("promoted", [True, False])
def test_all_graphs_run(cases: list[FrozenGraph], promoted: bool) -> None:
    """Of 922 graphs 902 map to nd4j; of these 97 percent have TensorFlow's numbers."""
    found = outcomes_of(TENSORFLOW, cases, promoted=promoted)
    assert other_values(found).keys() == OTHER_VALUES.keys(), other_values(found)
    assert Counter(each.status for each in found) == {
        "pass": 875, "drawn": 23, "gap": 20, "wrong": 4,
    }  # fmt: skip


def test_some_graphs_come_back_through_the_hub(cases: list[FrozenGraph]) -> None:
    """Graphs of the hub are written as nd4j, and run with the same numbers."""
    from amanda.scoreboard import run_data_sets

    counts: Counter[str] = Counter()
    for case in cases[::EVERY]:
        hub = amanda.convert(case.load(promoted=True), "std")
        written = MAPPING.conversion(hub, ND4J)
        if written.report.gaps:
            counts["gap"] += 1
            continue
        data = case.data(promoted=True)
        found = run_data_sets(
            case.name, "", lambda: amanda.convert(written.graph, "std"), [data],  # noqa: B023
            "numpy", {},
        )  # fmt: skip
        assert found.status == "pass", (case.name, found.why)
        counts["pass"] += 1
    assert counts["pass"] >= 60


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("type", "rate", "mean", "variance"),
    [
        ("random_gamma", 2.5, 2.5, 2.5),
        ("random_gamma", 0.4, 0.4, 0.4),
        ("random_poisson", 3.7, 3.7, 3.7),
    ],
)
def test_moments_of_random_numbers(
    type: str, rate: float, mean: float, variance: float
) -> None:
    graph = Graph(ND4J)
    size = graph.constant(amanda.Tensor.of([50_000], "int32")).output
    x = graph.parameter(parse_type("float32[]"), "rate")
    graph.result(graph.add(type, [size, x], {"seed": 7}).output, "y")
    y = amanda.run(graph, [np.float32(rate)], backend="numpy")["y"]
    assert y.shape == (50_000,)
    assert abs(y.mean() - mean) < 0.02 * mean
    assert abs(y.var() - variance) < 0.04 * variance


def test_the_way_without_rule_sets_is_by_the_hub(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    """A mapping whose environment variable is not set is no part of a route."""
    from routes.nd4j.account import settings

    from amanda_nd4j.rulesets import RULES

    graph = Graph("amanda/onnx/18")
    x = graph.parameter(parse_type("float32[2]"), "x")
    graph.result(graph.add("Relu", [x]).output, "y")
    for name, value in settings(data).items():
        monkeypatch.setenv(name, value)
    files = os.environ[RULES]
    monkeypatch.delenv(RULES)
    steps = amanda.plan(graph, "nd4j").route.steps
    assert [step.mapping for step in steps] == ["onnx-std", "nd4j-std"]
    monkeypatch.setenv(RULES, files)
    steps = amanda.plan(graph, "nd4j").route.steps
    assert [step.mapping for step in steps] == ["nd4j-onnx"]
