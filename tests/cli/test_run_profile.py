"""`run` with --profile, --trace, --repeat and --save, on a backend of the test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import amanda
from amanda.backend import OpLabel, OpTime, Profile
from amanda.files.text.formats import YamlFormat
from amanda.graph import Graph

if TYPE_CHECKING:
    from tests.cli.conftest import Call

OPS = [
    OpTime(OpLabel("one", "add", ("a",)), 0.0, 0.002, 2048),
    OpTime(OpLabel("two", "add", ("a", "b")), 0.002, 0.004),
    OpTime(OpLabel("three", "tanh", ("c",)), 0.006, 0.006),
]


class Timed:
    """Runs and times nothing, but counts the calls."""

    name, namespace, profiles = "timed", "toy/timed/1", True

    def __init__(self) -> None:
        self.calls = 0

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: Any) -> bool:
        return True

    def compile(self, graph: Any, device: Any, options: Mapping[str, Any]) -> Any:
        backend, names = self, [port.name for port in graph.outputs]

        class Executable:
            def __call__(self, feeds: Any, out: Any = None) -> list[Any]:
                backend.calls += 1
                return [np.float32([i]) for i, _ in enumerate(names)]

            def profile(self, feeds: Any) -> Profile:
                assert options["profile"] is True
                return Profile("as the test says", OPS, 0.01)

        return Executable()


@pytest.fixture
def timed(host: amanda.Host) -> Timed:
    backend = Timed()
    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    host.register_backend("timed", backend, manifest={"namespace": Timed.namespace})
    return backend


@pytest.fixture
def model(tmp_path: Path, timed: Timed) -> Path:
    graph = Graph(Timed.namespace)
    titles = {"y": "first", "a/b:0": "second"}
    for name in titles:
        op = graph.add("make", [], name=titles[name])
        graph.result(op.output, name)
    path = tmp_path / "m.yaml"
    amanda.save(graph, path)
    return path


def test_profile_by_op_and_by_source(call: Call, model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    ended = call("run", model, "--profile", "--trace", trace, "--json")
    assert ended.code == 0
    found = ended.json["profile"]
    assert found["ops"] == {"three": 0.006, "two": 0.004, "one": 0.002}
    assert found["sources"] == {"c": 0.006, "a": 0.004, "b": 0.002}
    assert found["types"] == {"add": 0.006, "tanh": 0.006}
    assert [step["bytes"] for step in found["steps"]] == [2048, None, None]
    written = json.loads(trace.read_text())
    assert (written["ops"], written["sources"]) == (found["ops"], found["sources"])
    events = [each for each in written["traceEvents"] if each["ph"] == "X"]
    assert [(each["name"], each["ts"], each["dur"]) for each in events] == [
        ("add one", 0, 2000), ("add two", 2000, 4000), ("tanh three", 6000, 6000),
    ]  # fmt: skip
    assert all({"pid", "tid", "cat"} <= each.keys() for each in written["traceEvents"]
               if each["ph"] == "X")  # fmt: skip


def test_profile_for_people(call: Call, model: Path) -> None:
    lines = call("run", model, "--profile").out.splitlines()
    start = lines.index("3 ops in 12 ms, as the test says; a whole call takes 10 ms")
    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["ms", "share", "peak", "KiB", "type", "op", "from"],
        ["6", "50.0%", "tanh", "three", "c"],
        ["4", "33.3%", "add", "two", "a,", "b"],
        ["2", "16.7%", "2", "add", "one", "a"],
    ]


def test_backends_that_time_no_ops(call: Call, host: amanda.Host, model: Path) -> None:
    class Plain(Timed):
        name, profiles = "plain", False

    host.register_backend("plain", Plain(), manifest={"namespace": Timed.namespace})
    ended = call("run", model, "--backend", "plain", "--profile")
    assert ended.code == 2
    assert ended.err == (
        "amanda run: backend 'plain' times no ops\n"
        "  expected: one of timed\n"
        "  to do:    --repeat N times whole calls on every backend\n"
    )


def test_repeated_calls(call: Call, model: Path, timed: Timed) -> None:
    found = call("run", model, "--repeat", 4, "--json").json["seconds"]
    assert timed.calls == 5
    assert list(found) == [
        "load", "compile", "first call", "median", "least", "greatest",
    ]  # fmt: skip
    assert found["least"] <= found["median"] <= found["greatest"]
    assert "first call " in call("run", model, "--repeat", 1).out.splitlines()[-1]


def test_results_in_files(call: Call, model: Path, tmp_path: Path) -> None:
    call("run", model, "--save", tmp_path / "all.npz")
    assert sorted(np.load(tmp_path / "all.npz")) == ["a/b:0", "y"]
    call("run", model, "--save", tmp_path / "folder")
    assert sorted(f.name for f in (tmp_path / "folder").iterdir()) == [
        "a_b_0.npy", "y.npy",
    ]  # fmt: skip
    assert np.load(tmp_path / "folder" / "a_b_0.npy").tolist() == [1]
    two = call("run", model, "--save", tmp_path / "one.npy")
    assert (two.code, "a .npy file has one array" in two.err) == (2, True)
    alone = call("run", model, "--target", "first", "--save", tmp_path / "one.npy")
    assert alone.err == ""
    assert np.load(tmp_path / "one.npy").tolist() == [0]
    assert call("run", model, "--save", tmp_path / "x.pkl").code == 2


def test_targets_are_results_and_ops(call: Call, model: Path) -> None:
    """Results are named as the targets are, and each is computed once."""
    titles = ["y", "second", "a/b:0", "first:0", "y"]
    found = call("run", model, *(f"--target={title}" for title in titles), "--json")
    assert found.code == 0
    values = {name: each["values"] for name, each in found.json["results"].items()}
    assert values == {"y": "0", "second": "1", "a/b:0": "2", "first:0": "3"}
    assert call("run", model, "--target", "frist").err == (
        "amanda run: the graph has no result and no op 'frist'\n"
        "  expected: the name of a result or an op, name:index, an op, or a value\n"
        "  to do:    did you mean 'first'?\n"
    )
