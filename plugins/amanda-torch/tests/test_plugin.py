"""The plug-in and its files. No PyTorch here."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.graph import Graph
from amanda.testing import FormatSuite, PluginSuite


def linear() -> Graph:
    """A program built by hand: `x @ w.T + 1`, with a symbolic batch."""
    graph = Graph("amanda/torch/2.13.0")
    x = graph.parameter("float32[n, 4]", "x")
    value = amanda.Tensor.of(np.arange(12, dtype=np.float32).reshape(3, 4))
    attrs = {"target": "weight", "kind": "parameter", "x-value": value}
    w = graph.add("get_attr", [], attrs, name="w").output
    y = graph.add("aten.linear.default", [x, w], name="y").output
    z = graph.add("aten.add.Tensor", [y], {"other": 1}, name="z").output
    for port, type in (
        (w, "float32[3, 4]"),
        (y, "float32[n, 3]"),
        (z, "float32[n, 3]"),
    ):
        port.type = type  # type: ignore[assignment]
    graph.result(z, "z")
    return graph


class TestPlugin(PluginSuite):
    dist = "amanda-torch"


class TestFormat(FormatSuite):
    format = "torch"
    late = ("numpy", "torch")

    def samples(self) -> Mapping[str, Callable[[], Graph]]:
        return {"linear": linear}


def changed(path: Path, change: Callable[[dict[str, bytes]], Any]) -> Path:
    """The file of `linear`, with other members."""
    amanda.save(linear(), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


class Exploding:
    """A pickle of this writes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    trap = tmp_path / "opened"
    bomb = pickle.dumps(Exploding(trap))

    def add_pickles(members: dict[str, bytes]) -> None:
        members["program/data/sample_inputs/model.pt"] = bomb
        members["program/data/weights/weight_9"] = bomb
        table = "program/data/weights/model_weights_config.json"
        config = json.loads(members[table])
        config["config"]["odd"] = {
            "path_name": "weight_9", "is_param": True, "use_pickle": True,
            "tensor_meta": None,
        }  # fmt: skip
        members[table] = json.dumps(config).encode()

    path = changed(tmp_path / "m.pt2", add_pickles)
    again = tmp_path / "m" / "m.pt2"
    again.parent.mkdir()
    amanda.save(amanda.load(path), again)
    with zipfile.ZipFile(again) as archive:
        names = archive.namelist()
        held = [name for name in names if archive.read(name) == bomb]
    assert len(held) == 2
    assert not trap.exists()
    pickle.loads(bomb)  # the trap works
    assert trap.exists()


def test_reading_imports_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    amanda.save(linear(), path)
    code = (
        "import sys; sys.modules['torch'] = None; import amanda; "
        f"graph = amanda.load({str(path)!r}); amanda.save(graph, {str(path)!r}); "
        "print(len(graph))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.stdout, found.returncode) == ("3\n", 0), found.stderr


def saved_members(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    """A change of the JSON of the program."""

    def change_members(members: dict[str, bytes]) -> None:
        program = json.loads(members["program/models/model.json"])
        change(program["graph_module"]["graph"])
        members["program/models/model.json"] = json.dumps(program).encode()

    return change_members


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["nodes"][0].pop("target"), "node 0 (y)"),
        (lambda g: g["nodes"][1]["inputs"][0].update(arg={}), "node 1 (z)"),
        (lambda g: g["nodes"].reverse(), "computed before"),
        (lambda g: g["tensor_values"]["y"].update(dtype=99), "got:      99"),
        (lambda g: g["tensor_values"]["y"].update(sizes=[{"as_int": -1}]), "node 0"),
        (lambda g: g["inputs"].append({"as_tensor": {"name": "q"}}), "input 2"),
        (lambda g: g["outputs"][0].update(as_int=3), "output 0"),
    ],
)
def test_malformed_programs_name_the_place(
    tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    path = changed(tmp_path / "m.pt2", saved_members(change))
    with pytest.raises(FormatError) as caught:
        amanda.load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def archive_of(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, b"{}")
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("program/data/aotinductor/model/a.so", "AOTInductor"),
        ("program/data.pkl", "never opened"),
        ("program/other", "no exported program"),
    ],
)
def test_other_archives_are_refused(name: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        amanda.load(archive_of(name), format="torch")
    assert message in str(caught.value)
    assert "torch.export.save" in str(caught.value)


def test_old_schemas_are_read(tmp_path: Path) -> None:
    """Nodes before schema 8.9 have neither names nor kinds of arguments."""

    def make_old(graph: dict[str, Any]) -> None:
        for node in graph["nodes"]:
            del node["name"]
            for item in node["inputs"]:
                del item["kind"]

    path = changed(tmp_path / "m.pt2", saved_members(make_old))
    assert amanda.load(path).same_as(linear())


def test_one_of_several_programs(tmp_path: Path) -> None:
    def add_another(members: dict[str, bytes]) -> None:
        for name, content in list(members.items()):
            members[name.replace("model", "decoder", 1) if "/models/" not in name
                    else "program/models/decoder.json"] = content  # fmt: skip

    path = changed(tmp_path / "m.pt2", add_another)
    assert amanda.load(path).same_as(linear())
    decoder = amanda.load(path, model="decoder")
    assert [op.type for op in decoder] == [op.type for op in linear()]
    with pytest.raises(FormatError, match="no model 'x'"):
        amanda.load(path, model="x")
    out = tmp_path / "decoder.pt2"
    amanda.save(decoder, out)
    with zipfile.ZipFile(out) as archive:
        assert "program/models/decoder.json" in archive.namelist()
