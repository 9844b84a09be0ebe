"""`amanda bisect`: what it prints, its exit codes and what it saves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda_std import ops


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    files = []
    for epsilon in (1e-5, 0.1):
        graph = amanda.Graph("amanda/std/1")
        x = graph.parameter("float32[n, 8]", "x")
        norm = ops.layer_norm(ops.tanh(x), epsilon=epsilon)
        norm.port.op.name = "norm"
        graph.result(ops.exp(norm), "y")
        files.append(tmp_path / f"{epsilon}.amanda")
        amanda.save(graph, files[-1])
    return files


def test_two_files(models: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--backend", "numpy", "--random", "1", "--dim", "n=4"]
    assert run_command_line(["bisect", *map(str, models), *given]) == 5
    printed = capsys.readouterr().out
    assert "the first op of" in printed
    assert "layer_norm 'norm'" in printed
    assert "attribute epsilon: 0.1, not the default" in printed
    assert run_command_line(["bisect", *map(str, models), *given, "--json"]) == 5
    data = json.loads(capsys.readouterr().out)
    assert (data["first"]["op"], data["first"]["type"]) == ("norm", "layer_norm")
    assert data["results"]["y"]["equal"] is False
    same = [str(models[0])] * 2
    assert run_command_line(["bisect", *same, *given]) == 0
    assert "no op of" in capsys.readouterr().out


def test_the_reproduction_runs(
    models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bundle"
    given = ["--backend", "numpy", "--random", "1", "--dim", "n=4", "--save", folder]
    assert run_command_line(["bisect", *map(str, [*models, *given])]) == 5
    assert f"saved {folder}/reproduce.py" in capsys.readouterr().out
    graph = amanda.load(folder / "op.amanda")
    assert [op.type for op in graph if not op.is_constant] == ["layer_norm"]
    wanted = np.load(folder / "wanted.npz")["output 0"]
    read = np.load(folder / "inputs.npz")["input 0"]
    centered = read - read.mean(-1, keepdims=True)
    spread = np.sqrt(np.square(centered).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(wanted, centered / spread, 1e-4, 1e-5)
    done = subprocess.run(
        [sys.executable, folder / "reproduce.py"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "32 of 32 elements differ" in done.stdout


@pytest.mark.parametrize(
    "given", [["--backend", "numpy"], [], ["--backend", "numpy"] * 3]
)
def test_two_runs_are_needed(
    models: list[Path], given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(models[0])] if len(given) < 4 else list(map(str, models))
    assert run_command_line(["bisect", *files, *given, "--random", "1"]) == 2
    assert "expected:" in capsys.readouterr().err
