"""`amanda bench`: counts of calls, and what is reported; no times are asserted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda_inspect.benchmarking import Measurement, time_backends
from amanda_inspect.windows import Backend
from amanda_std import ops


@pytest.fixture
def graph() -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[n, 8]", "x")
    graph.result(ops.tanh(x), "y")
    return graph


class Counted:
    """A backend that notes its calls."""

    namespace = "amanda/std/1"

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: Any) -> Any:
        return True

    def compile(self, graph: Any, device: Any, options: Mapping[str, Any]) -> Any:
        def run(feeds: Mapping[Any, Any], out: object = None) -> list[Any]:
            self.log.append(self.name)
            return [np.tanh(value) for value in feeds.values()]

        return run


def test_rounds_call_every_backend_in_turn(
    graph: amanda.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    host = amanda.Host()
    monkeypatch.setattr("amanda.host._default", host)
    for name in ("one", "two"):
        host.register_backend(name, Counted(name, log))
    feeds = {"x": np.zeros((2, 8), "float32")}
    sides = [Backend("one", {}), Backend("two", {})]
    found = time_backends(graph, feeds, sides, rounds=5, warm_up=2)
    assert log == ["one", "two"] * 8  # the first calls, the warm-up, and the rounds
    assert [len(each.calls) for each in found] == [5, 5]
    log.clear()
    (short,) = time_backends(graph, feeds, sides[:1], rounds=50, warm_up=1, seconds=0)
    assert (len(short.calls), len(log)) == (3, 5)


def test_medians_and_quartiles() -> None:
    found = Measurement(Backend("numpy", {}), calls=[0.004, 0.001, 0.002, 0.003, 0.005])
    assert (found.median, found.quartiles) == (0.003, (0.002, 0.004))
    assert found.throughput == pytest.approx(1000 / 3)
    assert Measurement(Backend("numpy", {}), calls=[0.5]).quartiles == (0.5, 0.5)


def test_verb(
    graph: amanda.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.amanda"
    amanda.save(graph, file)
    given = ["--random", "1", "--dim", "n=4", "--rounds", "3"]
    backends = ["--backend", "numpy", "--backend", "numpy"]
    assert run_command_line(["bench", str(file), *backends, *given, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["backends"]
    assert [row["calls"] for row in rows] == [3, 3]
    assert all(row["memory"] > 0 and row["median"] > 0 for row in rows)
    assert run_command_line(["bench", str(file), *backends, *given, "--no-memory"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "3 rounds"
    assert printed[1].split("  ")[0] == "backend"
    assert len(printed) == 4
