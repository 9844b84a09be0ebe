"""`amanda reduce`: what it writes and prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import networks
import numpy as np
import planted
import pytest

import amanda
from amanda.cli import run_command_line

PRELOAD = str(Path(planted.__file__))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = amanda.convert(networks.transformer(1, causal=False), "onnx@18")
    amanda.save(graph, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_the_folder_shows_the_failure(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "small"
    backends = ["--backend", "numpy", "--backend", "wrong-softmax"]
    given = ["--random", "1", "--preload", PRELOAD, "-o", str(folder), "--json"]
    assert run_command_line(["reduce", str(model), *backends, *given]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["ops"], data["types"]) == (1, ["Softmax"])
    assert data["ops_of_original"] > 20
    assert data["failure"]["kind"] == "difference"
    assert data["complete"]
    names = {"model.onnx", "feeds.npz", "reproduce.py", "steps.txt"}
    assert {path.name for path in folder.iterdir()} == names
    graph = amanda.load(folder / "model.onnx")
    assert [op.type for op in graph if not op.is_constant] == ["Softmax"]
    feeds = dict(np.load(folder / "feeds.npz"))
    assert feeds.keys() == {port.name for port in graph.parameters}
    done = subprocess.run(
        [sys.executable, folder / "reproduce.py"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "elements differ" in done.stdout


def test_two_models(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = amanda.load(model)
    norms = [op for op in other if op.type == "LayerNormalization"]
    norms[1].attrs["epsilon"] = 0.5
    amanda.save(other, tmp_path / "other.onnx")
    given = ["--backend", "numpy", "--random", "1", "-o", str(tmp_path / "small")]
    files = [str(tmp_path / "other.onnx"), str(model)]
    assert run_command_line(["reduce", *files, *given]) == 0
    printed = capsys.readouterr().out
    assert "are reduced to 1, after" in printed
    assert "LayerNormalization" in printed
    done = subprocess.run(
        [sys.executable, tmp_path / "small" / "reproduce.py"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "elements differ" in done.stdout


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--backend", "numpy", "--to", "std"],
        ["--test", "true"],
        ["--backend", "a", "--backend", "b", "--backend", "c"],
    ],
)
def test_how_it_fails_is_needed(
    model: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["reduce", str(model), *given, "--random", "1"]) == 2
    assert "expected:" in capsys.readouterr().err


def test_it_does_not_fail(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--backend", "numpy", "--random", "1"]
    assert run_command_line(["reduce", str(model), *given]) == 1
    assert "does not fail" in capsys.readouterr().err
    assert run_command_line(["reduce", str(model), str(model), *given]) == 1
    assert "no op of the model differs" in capsys.readouterr().err
