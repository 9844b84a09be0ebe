"""Run the Python examples of a page, as a reader does: top to bottom, in one namespace.

    python tools/run_page.py docs/building.md     in a temporary folder

What is printed must be what the page says, up to white space; `...` is any text:

- a comment behind a `print` at the margin is its output;
- an indented block, or one of `text`, that directly follows a block of Python is the
  output of its other prints, unless it has commands (`$ ...`).

A comment of HTML directly before a block says what else a block is:

- `<!-- not run: REASON -->`: it cannot run, and is counted;
- `<!-- file: PATH -->`: it is written to this file, which later blocks read or import.
"""

from __future__ import annotations

import ast
import doctest
import io
import os
import re
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

CHECKER = doctest.OutputChecker()
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(r"```(\S*)$")
_NOTE = re.compile(r"<!-- (not run|file): (.+) -->")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    first_line: int
    """The number of its first line in the page."""
    text: str
    output: str | None
    """The indented block, or block of `text`, that directly follows."""
    not_run: str
    """The reason why it cannot run, or nothing."""
    file: str
    """The file that it is written to, or nothing."""


class PageError(Exception):
    """An example fails, or prints something else than the page says."""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = text.splitlines()
    i = 0
    note: dict[str, str] = {}
    while i < len(lines):
        fence, words = _FENCE.match(lines[i]), _NOTE.fullmatch(lines[i])
        i += 1
        if fence is None:
            note = {words[1]: words[2]} if words else note if not lines[i - 1] else {}
            continue
        end = lines.index("```", i)
        body = "\n".join(lines[i:end]) + "\n"
        why, file = note.get("not run", ""), note.get("file", "")
        yield Block(fence[1], i + 1, body, _output(lines, end + 1), why, file)
        i, note = end + 1, {}


def _output(lines: list[str], i: int) -> str | None:
    """The output that a page shows directly after line `i`."""
    while i < len(lines) and not lines[i]:
        i += 1
    if lines[i : i + 1] == ["```text"]:
        return "\n".join(lines[i + 1 : lines.index("```", i)]) + "\n"
    shown = []
    while i < len(lines) and (not lines[i] or lines[i].startswith("    ")):
        shown.append(lines[i].removeprefix("    "))
        i += 1
    is_output = any(shown) and not any(line.startswith("$ ") for line in shown)
    return "\n".join(shown).rstrip() + "\n" if is_output else None


def run(page: str, text: str) -> dict[str, int]:
    """Run the blocks of a page in the current folder; return how many of each kind."""
    space: dict[str, object] = {
        "__name__": "__main__",
        "__file__": str(Path("page.py").absolute()),
    }
    counts = {"run": 0, "not run": 0}
    for block in blocks(text):
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python" and not block.file:
            counts["not run" if block.not_run else "run"] += 1
            if not block.not_run:
                _run_block(page, block, space)
    return counts


def _run_block(page: str, block: Block, space: dict[str, object]) -> None:
    comments = _comments(block.text)
    shown = ""
    for statement in ast.parse(block.text, page).body:
        line = statement.end_lineno or 0
        ast.increment_lineno(statement, block.first_line - 1)
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(ast.Module([statement], []), page, "exec"), space)  # noqa: S102
        if _is_print(statement) and line in comments:
            _compare(f"{page}:{statement.lineno}", comments[line], out.getvalue())
        else:
            shown += out.getvalue()
    if block.output is not None or shown:
        _compare(f"{page}:{block.first_line}", block.output or "(nothing)", shown)


def _comments(code: str) -> dict[int, str]:
    """The comments of a block by line."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {
        token.start[0]: token.string.removeprefix("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def _is_print(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Name("print"))):
            return True
    return False


def _compare(where: str, expected: str, got: str) -> None:
    if not CHECKER.check_output(expected.rstrip() + "\n", got, OPTIONS):
        raise PageError(f"{where} says\n{expected}\nbut what is printed is\n{got}")


def main(arguments: list[str]) -> int:
    for page in map(Path, arguments):
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            home = Path.cwd()
            os.chdir(folder)
            sys.path.insert(0, folder)  # modules that the page shows
            try:
                counts = run(str(page), text)
            finally:
                os.chdir(home)
                sys.path.remove(folder)
        print(f"{page}: {counts['run']} blocks run, {counts['not run']} not run")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
