"""The commands of docs/inspect.md run, and print what the page says."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from amanda.cli import run_command_line

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "inspect.md"
VERBS = ("check", "convert", "compare", "edit", "bisect", "reduce", "diff", "view",
         "run", "bench")  # fmt: skip
for _plugin in ("amanda_onnx", "amanda_torch", "amanda_onnxruntime"):
    pytest.importorskip(_plugin, reason=f"{_plugin} is not installed")


class Command(NamedTuple):
    """A command line of the page, its exit code, and what it prints."""

    words: list[str]
    code: int
    output: str


def commands(text: str) -> Iterator[Command]:
    """The command lines of the indented blocks, in order."""
    code = re.compile(r"  # exit code (\d+)$")
    for block in re.split(r"\n(?=    \$ )", text)[1:]:
        line, *rest = block.splitlines()
        found = code.search(line)
        output = []
        for each in rest:
            if each and not each.startswith("    "):
                break
            output.append(each[4:])
        words = shlex.split(code.sub("", line).removeprefix("    $ "))
        yield Command(words, int(found[1]) if found else 0, "\n".join(output).strip())


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    if words[0] == "amanda":
        code = run_command_line(words[1:])
        return code, capsys.readouterr().out
    assert words[0] == "python"
    call = [sys.executable, *words[1:]]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_commands_of_the_page(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = shutil.copytree(ROOT / "examples" / "digits", tmp_path / "digits")
    monkeypatch.chdir(folder)
    checker = doctest.OutputChecker()
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = list(commands(PAGE.read_text(encoding="utf-8")))
    for words, code, output in found:
        ended, printed = run(words, capsys)
        assert ended == code, words
        is_same = checker.check_output(f"{output}\n", f"{printed.strip()}\n", options)
        assert is_same, f"{shlex.join(words)}\n{printed}\nis not\n{output}"
    assert {words[1] for words, *_ in found if words[0] == "amanda"} == set(VERBS)
    for name in ("differences.html", "wrong.html", "digits.svg", "trace.json"):
        assert (folder / name).stat().st_size > 1000


def test_commands_of_a_page() -> None:
    text = "text\n\n    $ amanda a 'b c'  # exit code 5\n    one\n\n    two\n\nmore\n\n"
    text += "    $ amanda b\n    three\n"
    assert list(commands(text)) == [
        Command(["amanda", "a", "b c"], 5, "one\n\ntwo"),
        Command(["amanda", "b"], 0, "three"),
    ]
