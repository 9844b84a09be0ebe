"""`amanda bench`: counts of calls, and what is reported; no times are asserted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda.errors import PluginMissingError, UsageError
from amanda.graph import Graph
from amanda_inspect.benchmarking import Measurement, time_backends
from amanda_inspect.plot import plot_measurements, svg_text
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


def test_at_least_one_round() -> None:
    with pytest.raises(UsageError, match="at least one round"):
        time_backends(Graph("amanda/std/1"), {}, [], rounds=0)


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


def measurements() -> list[Measurement]:
    calls = [0.001, 0.002, 0.003, 0.004, 0.005]
    slow = [2 * each for each in calls]
    return [
        Measurement(Backend("numpy", {}), calls=calls),
        Measurement(Backend("jax", {"precision": "<high>"}), calls=slow),
    ]


def test_plot_shows_medians_quartiles_and_calls(tmp_path: Path) -> None:
    root = ET.fromstring(svg_text("model <1>", measurements()))
    mark = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in root.iter(f"{mark}text")]
    assert texts[0] == "model <1>"
    assert {"numpy", "jax (precision=<high>)", "3 ms", "6 ms"} <= set(texts)
    bars = [float(r.get("width")) for r in root.iter(f"{mark}rect") if r.get("x")]
    assert bars[1] == pytest.approx(2 * bars[0], abs=0.2)
    spread = [each for each in root.iter(f"{mark}line") if each.get("stroke-width")]
    widths = [float(each.get("x2")) - float(each.get("x1")) for each in spread]
    assert widths[0] == pytest.approx(bars[0] * 2 / 3, abs=0.2)
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.3)
    calls = [each for each in root.iter(f"{mark}line") if each.get("stroke-opacity")]
    assert len(calls) == 10
    plot_measurements(str(tmp_path / "plot.svg"), "m", measurements())
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    with pytest.raises(UsageError, match=r"a plot is .svg or .png"):
        plot_measurements(str(tmp_path / "plot.pdf"), "m", measurements())


def test_plot_as_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plot.png"
    if find_spec("matplotlib") is not None:
        plot_measurements(str(path), "m", measurements())
        assert path.read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(PluginMissingError, match="pip install matplotlib"):
        plot_measurements(str(path), "m", measurements())
