"""What the README and the guide show works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_every_block_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks((ROOT / page).read_text(encoding="utf-8"))
    assert found
    for block in found:
        exec(compile(block, page, "exec"), {"__name__": "__main__"})


def test_the_example_is_as_short_as_it_says() -> None:
    (example,) = blocks(README)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20


def test_the_commands_of_the_readme_after_its_example(tmp_path: Path) -> None:
    (example,) = blocks(README)
    call = [sys.executable, "-c", example]
    subprocess.run(call, cwd=tmp_path, check=True, capture_output=True)
    for line in re.findall(r"^    \$ amanda (.+)$", README, flags=re.MULTILINE):
        call = [sys.executable, "-m", "amanda", *line.split()]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Clip" in done.stdout


def test_the_main_job(tmp_path: Path) -> None:
    script = ROOT / "examples" / "round_trip.py"
    call = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same graph again") == 5


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
