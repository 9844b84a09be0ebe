"""`amanda edit`: the order of edits, what is written, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda_inspect.editing.commands import EDITS, parse_op

WEIGHT = np.arange(400, dtype="float32").reshape(4, 100) / 100


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = amanda.Graph("amanda/onnx/18", name="network")
    graph.imports[""] = 18
    x = graph.parameter("float32[1, 4]", "x")
    weight = graph.constant(WEIGHT, "weight")
    hidden = graph.add("MatMul", [x, weight.output], name="product").output
    hidden.name, hidden.type = "hidden", "float32[1, 100]"
    y = graph.add("Relu", [hidden], name="bend").output
    y.name, y.type = "y", "float32[1, 100]"
    graph.result(y, "y")
    amanda.save(graph, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_edits_are_made_in_the_order_given(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = model.with_name("out.onnx")
    edits = ["--rename-input", "x=a", "--dim", "a:0=n", "--rename-input", "a=b",
             "--dim", "b:0=7", "--insert", "hidden=Clip(_, 0.0, 6.0)",
             "--rename-output", "y=z"]  # fmt: skip
    assert run_command_line(["edit", str(model), str(out), *edits, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [each["edit"] for each in data["edits"]] == [
        "rename-input", "dim", "rename-input", "dim", "insert", "rename-output",
    ]  # fmt: skip
    assert data["inputs"] == {"b": "float32[7, 4]"}
    assert data["outputs"] == {"z": "float32[7, 100]"}
    runtime = pytest.importorskip("onnxruntime")
    x = np.ones((7, 4), "float32") / 3
    (found,) = runtime.InferenceSession(out).run(["z"], {"b": x})
    np.testing.assert_allclose(found, np.clip(x @ WEIGHT, 0, 6), 1e-5)
    swapped = ["--dim", "a:0=n", "--rename-input", "x=a"]
    assert run_command_line(["edit", str(model), str(out), *swapped]) == 2
    assert "--dim a:0=n" in capsys.readouterr().err


def test_each_edit_in_one_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        "rename-input": "x=image", "rename-output": "y=scores", "dim": "x:0=batch",
        "fix-input": "x=[[1, 2, 3, 4]]", "cut": "hidden..y", "keep-outputs": "y",
        "add-output": "hidden", "remove": "bend",
        "replace-op": "type:Relu=Elu(alpha=2)",
        "replace-subgraph": "hidden..y=Sigmoid", "insert": "hidden=Tanh",
        "set": "bend.x-note=seen", "opset": "13", "fold": "",
        "strip": "docs,training,names",
    }  # fmt: skip
    assert lines.keys() == EDITS.keys()
    out = model.with_name("out.onnx")
    for name, text in lines.items():
        words = [f"--{name}", *([text] if text else [])]
        if name == "set":  # Relu has no attributes
            words = ["--replace-op", "bend=Elu", "--set", "bend.alpha=0.5"]
        assert run_command_line(["edit", str(model), str(out), *words]) == 0, name
        before, after = amanda.load(model), amanda.load(out)
        assert not before.same_as(after) or name in ("fold", "keep-outputs")
        out.unlink()
    capsys.readouterr()


def test_weights_beside_the_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.onnx"
    assert run_command_line(["edit", str(model), str(out), "--external-weights"]) == 0
    assert len(list(tmp_path.glob("out.onnx.*.data"))) == 1
    again = tmp_path / "again.onnx"
    assert run_command_line(["edit", str(out), str(again), "--embed-weights"]) == 0
    assert not list(tmp_path.glob("again.onnx.*.data"))
    assert amanda.load(again).same_as(amanda.load(model))
    assert "2 ops" not in capsys.readouterr().err


def test_nothing_is_written(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = model.with_name("out.onnx")
    good = ["--remove", "bend", "--dry-run"]
    assert run_command_line(["edit", str(model), str(out), *good]) == 0
    bad = ["--replace-op", "bend=Rleu"]
    assert run_command_line(["edit", str(model), str(out), *bad]) == 1
    captured = capsys.readouterr()
    assert "nothing is written" in captured.out
    assert "Rleu" in captured.err
    assert not out.exists()
    assert run_command_line(["edit", str(model), str(out), *bad, "--no-check"]) == 0
    assert out.exists()


@pytest.mark.parametrize(
    "edit",
    [
        ["--rename-input", "x"],
        ["--cut", "hidden"],
        ["--insert", "hidden=Clip(_, 0.0"],
        ["--set", "bend=3"],
        ["--remove", "nothing"],
        [],
    ],
)
def test_edits_that_are_not_clear(
    model: Path, edit: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = [str(model.with_name("out.onnx"))] if edit else []
    assert run_command_line(["edit", str(model), *out, *edit]) == 2
    assert "expected:" in capsys.readouterr().err


def test_ops_as_text() -> None:
    assert parse_op("aten.relu.default") == ("aten.relu.default", [], {})
    assert parse_op("Add(_, 'a/b', [1, 2])") == ("Add", [None, "a/b", [1, 2]], {})
    assert parse_op("Cast(to=1)") == ("Cast", [], {"to": 1})
