"""The commands, the example and the map of the README, and the example scripts."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

NEEDED = (
    "amanda_std", "amanda_onnx", "amanda_onnxruntime", "amanda_jax", "amanda_torch",
    "amanda_tools",
)  # fmt: skip
needs_plugins = pytest.mark.skipif(
    any(find_spec(name) is None for name in NEEDED),
    reason="the plug-ins that the commands of the README use are not installed",
)


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_example_is_as_short_as_it_says() -> None:
    (example,) = blocks(README)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20


def commands(model: str) -> list[list[str]]:
    """The command lines of the README that are about one file."""
    lines = re.findall(r"^    \$ amanda (.+)$", README, flags=re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines if f" {model}" in line]


def amanda(folder: Path, *arguments: str) -> str:
    call = [sys.executable, "-m", "amanda", *arguments]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_readme_after_its_example(tmp_path: Path) -> None:
    (example,) = blocks(README)
    call = [sys.executable, "-c", example]
    subprocess.run(call, cwd=tmp_path, check=True, capture_output=True)
    assert len(commands("small.amanda")) == 2
    for arguments in commands("small.amanda"):
        assert "Clip" in amanda(tmp_path, *arguments)


@needs_plugins
def test_the_commands_of_the_readme_on_a_model(tmp_path: Path) -> None:
    model = ROOT / "examples" / "digits" / "digits.onnx"
    shutil.copy(model, tmp_path / "model.onnx")
    found = [each for each in commands("model.onnx") if "saved_model" not in each]
    verbs = "check convert convert convert compare instrument instrument"
    assert [arguments[0] for arguments in found] == verbs.split()
    for arguments in found:
        assert amanda(tmp_path, *arguments)
    assert "amanda/onnx/13" in amanda(tmp_path, "info", "older.onnx")
    assert "amanda/torch/" in amanda(tmp_path, "info", "model.pt2")
    assert "DequantizeLinear" in amanda(tmp_path, "info", "quantized.onnx")
    assert "nn.Module" in (tmp_path / "model.py").read_text(encoding="utf-8")


def example(name: str, folder: Path) -> str:
    call = [sys.executable, str(ROOT / "examples" / name), str(folder)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_form_gives_the_same_graph_back(tmp_path: Path) -> None:
    assert example("round_trip.py", tmp_path).count("identical") == 5


@needs_plugins
def test_the_main_job(tmp_path: Path) -> None:
    told = example("main_job.py", tmp_path)
    assert "18 ops of amanda/onnx/17, 0 faults" in told
    assert told.count("20 of 20") == 6
    rows = [line.split() for line in told.splitlines()]
    for backend in ("numpy", "jax", "onnxruntime"):
        assert [backend, *"655799"] in rows
    assert "█" in told


def test_every_folder_is_on_the_map() -> None:
    hidden = {"build", "dist"}
    folders = {
        folder.name
        for folder in ROOT.iterdir()
        if folder.is_dir() and folder.name[0] not in "._" and folder.name not in hidden
    }
    assert folders == set(re.findall(r"\]\(([a-z]+)/\)", README))


def test_it_names_its_two_commands() -> None:
    from_readme = re.findall(r"^    python3 (tools/run\.py \w+)", README, re.MULTILINE)
    assert from_readme == ["tools/run.py main", "tools/run.py tests"]
    for command in from_readme:
        assert (ROOT / command.split()[0]).is_file()
