"""What the examples in the help of verbs print, as files in tests/cli/goldens.

    python tests/routes/verbs/verb_goldens.py              write all
    python tests/routes/verbs/verb_goldens.py check run    those of some verbs

Every example runs in a copy of examples/digits. `test_verbs.py` compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

import amanda.host
from amanda.cli import VerbGroup, run_command_line
from amanda.cli.examples import Example
from amanda.cli.group import Verb, cli

ROOT = Path(__file__).resolve().parents[3]
GOLDENS = ROOT / "tests" / "cli" / "goldens"
DIGITS = ROOT / "examples" / "digits"
OF_THE_MACHINE = {
    "doctor": "it describes the machine",
    "plugins": "it lists what is installed",
    "completion": "click writes the script",
}
"""Verbs without a file, with the reason."""
NUMBERS = {
    *("bench", "bisect", "compare", "coverage", "namespace check", "rules", "run"),
    *("instrument", "view"),  # values; the size of the page
}
"""Verbs whose numbers depend on the machine, or change with every new rule."""
NOT_RUN = {
    "namespace regenerate": "it extracts all versions of a framework",
}
"""Verbs whose examples are not run, with the reason."""


class Ended(NamedTuple):
    """How a call of the command line ended."""

    code: int
    out: str
    err: str


def verbs() -> dict[str, Verb]:
    """Every installed verb by its full name: `check`, `plugin new`."""
    return dict(_verbs_of(cli, ""))


def _verbs_of(group: click.Group, prefix: str) -> Iterator[tuple[str, Verb]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, VerbGroup):
            yield from _verbs_of(command, f"{prefix}{name} ")
        elif isinstance(command, Verb):
            yield prefix + name, command


@contextlib.contextmanager
def host_in_calls() -> Iterator[amanda.Host]:
    """A host for the calls in this context, which may register more in it."""
    amanda.host._default = made = amanda.Host(only=_plugins_to_use())
    try:
        yield made
    finally:
        amanda.host._default = None


def _plugins_to_use() -> str:
    """AMANDA_PLUGINS, or all but nd4j: what that has is in files that the environment
    names, and is read once in a process."""
    named = os.environ.get("AMANDA_PLUGINS")
    dists = {info.dist for info in amanda.Host().plugins()}
    return named or ",".join(sorted(dists - {"amanda-nd4j"}))


def call(line: str) -> Ended:
    """Run a command line in this process."""
    arguments = shlex.split(line)[1:]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command_line(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def example_folder() -> Iterator[Path]:
    """A copy of examples/digits, which is the working directory meanwhile."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(shutil.copytree(DIGITS, Path(made, "digits")))
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def transcript(name: str, verb: Verb) -> str:
    """The examples of a verb, each with what it prints and its exit code."""
    parts = []
    with example_folder():
        for example in map(Example.parse, verb.examples):
            with host_in_calls():  # no plug-in is loaded
                ended = call(example.command)
            code = f"[exit code {ended.code}]\n" if ended.code else ""
            parts.append(f"$ {example.command}\n{ended.out}{ended.err}{code}")
    text = "\n".join(parts)
    return _without_numbers(text) if name in NUMBERS else text


def _without_numbers(text: str) -> str:
    lines = [
        line if line.startswith("$") else _plain_line(line)
        for line in text.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _plain_line(line: str) -> str:
    """A line with # for each number, and two spaces between columns.

    >>> _plain_line("jax        -0.127   1e-5 to 0.134")
    'jax  #  # to #'
    >>> _plain_line("load 1.2 s, compile 30 ms")
    'load # s, compile # s'
    """
    number = r"(?<![\w.@])-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)(?![\w])"
    plain = re.sub(r"(?<=# )ms\b", "s", re.sub(number, "#", line))
    return re.sub("  +", "  ", plain)


def golden_file(name: str) -> Path:
    return GOLDENS / f"{name.replace(' ', '-')}.txt"


def has_golden(name: str) -> bool:
    return name not in OF_THE_MACHINE and name not in NOT_RUN


def _write(names: list[str]) -> None:
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    GOLDENS.mkdir(exist_ok=True)
    for name, verb in verbs().items():
        if has_golden(name) and (not names or name in names):
            golden_file(name).write_text(transcript(name, verb), encoding="utf-8")


if __name__ == "__main__":
    _write(sys.argv[1:])
