"""`info`: what a file holds, counted through every kind of nesting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import amanda
from amanda.cli.verbs.info import count_contents

if TYPE_CHECKING:
    from tests.cli.conftest import Call


def test_text(call: Call, model: Path) -> None:
    ended = call("info", model)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == TEXT.format(file=model)


TEXT = """\
file       {file} (yaml)
name       small
namespace  amanda/onnx/18
imports    ai.onnx 18
ops        5 in 4 graphs, nested 1 deep
weights    1, 32 bytes
functions  twice

inputs  type
x       float32[batch, 4]

outputs  type
y        ?

inputs of entry 'serve'  type
input                    float32[batch, 4]

outputs of entry 'serve'  type
scores                    ?

op        count
If            1
MatMul        1
Neg           1
Relu          1
constant      1
"""


def test_json(call: Call, model: Path) -> None:
    assert call("info", model, "--json").json == {
        "schema": 1,
        "verb": "info",
        "exit_code": 0,
        "file": str(model),
        "format": "yaml",
        "namespace": "amanda/onnx/18",
        "name": "small",
        "imports": {"ai.onnx": 18},
        "inputs": [{"name": "x", "type": "float32[batch, 4]"}],
        "outputs": [{"name": "y", "type": None}],
        "entries": {
            "serve": {
                "inputs": [{"name": "input", "type": "float32[batch, 4]"}],
                "outputs": [{"name": "scores", "type": None}],
            }
        },
        "functions": ["twice"],
        "graphs": 4,
        "depth": 1,
        "ops": {
            "total": 5,
            "by_type": {"If": 1, "MatMul": 1, "Neg": 1, "Relu": 1, "constant": 1},
        },
        "weights": {"count": 1, "bytes": 32},
        "modules": 0,
        "variables": [],
    }


def test_many_types_are_cut_short(call: Call, tmp_path: Path) -> None:
    graph = amanda.Graph()
    for i in range(30):
        graph.add(f"Kind{i:02}")
    file = tmp_path / "many.json"
    amanda.save(graph, file)
    ended = call("info", file)
    assert "Kind19" in ended.out
    assert "Kind20" not in ended.out
    assert ended.out.endswith("\n... and 10 more types; --full shows them\n")
    assert "Kind29" in call("info", file, "--full").out


def test_an_empty_graph(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "empty.amanda"
    amanda.save(amanda.Graph(), file)
    told = f"file       {file} (amanda)\nops        0\nweights    0, 0 bytes\n"
    assert call("info", file).out == told


def test_nesting_has_no_limit() -> None:
    root = graph = amanda.Graph()
    for _ in range(5000):
        graph = graph.add_graph(amanda.Graph())
    graph.add("Relu")
    counts = count_contents(root)
    assert (counts.depth, counts.graphs, counts.ops["Relu"]) == (5000, 5001, 1)


def test_shared_weights_count_once_in_bytes() -> None:
    graph = amanda.Graph()
    tensor = amanda.Tensor.splat(amanda.types.float32, (10,), 0.0)
    graph.constant(tensor)
    graph.constant(tensor)
    counts = count_contents(graph)
    assert (counts.weights, counts.weight_bytes) == (2, 40)


def test_tensors_of_variables_are_weights() -> None:
    graph = amanda.Graph()
    tensor = amanda.Tensor.splat(amanda.types.float32, (10,), 0.0)
    graph.add("VarHandleOp", attrs={"x-value": tensor, "x-other": tensor})
    counts = count_contents(graph)
    assert (counts.weights, counts.weight_bytes) == (1, 40)


@pytest.mark.parametrize("verb", ["info", "show"])
def test_a_file_that_is_not_there(verb: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "gone.yaml"
    ended = call(verb, file)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"amanda {verb}: ")
    assert str(file) in ended.err


@pytest.mark.parametrize("verb", ["info", "show"])
def test_a_file_of_no_known_format(verb: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "model.xyz"
    file.write_bytes(b"\x00\x01\x02")
    ended = call(verb, file)
    assert ended.code == 3
    told = f"amanda {verb}: no installed format reads 'model.xyz'\n"
    assert ended.err.startswith(told)


@pytest.mark.parametrize("verb", ["info", "show"])
def test_the_format_can_be_told(verb: str, call: Call, model: Path) -> None:
    bare = model.rename(model.with_name("model"))
    assert call(verb, bare, "--format", "yaml").code == 0
    assert call(verb, bare, "--format", "yml").code == 3


@pytest.mark.parametrize("verb", ["info", "show"])
def test_a_damaged_file(verb: str, call: Call, model: Path) -> None:
    model.write_text(model.read_text()[:40] + "\n\t- [")
    ended = call(verb, model, "--json")
    assert ended.code == 1
    assert ended.json["error"]["kind"] == "FormatError"
