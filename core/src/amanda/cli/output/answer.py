"""Answers of verbs, and how they are printed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["SCHEMA", "Answer", "Table", "to_json", "plain_lines", "print_answer"]

SCHEMA = 1
"""Version of the JSON schema; keys may be added to a version, but not changed."""

# Control characters that could move the cursor or hide text in a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Table:
    """Rows with headings: colored on a terminal, aligned columns elsewhere.

    >>> print(*Table(("op", "count"), [("Relu", 2), ("Conv", 12)]).lines(), sep="\\n")
    op    count
    Relu      2
    Conv     12
    """

    headings: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    @property
    def texts(self) -> list[list[str]]:
        return [[str(cell) for cell in row] for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """Which columns have only numbers, and are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else ()
        found = [all(isinstance(cell, int | float) for cell in c) for c in columns]
        return found or [False] * len(self.headings)

    def lines(self) -> Iterator[str]:
        texts = [list(self.headings), *self.texts]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for row in texts:
            cells = zip(row, widths, self.numeric, strict=True)
            padded = (c.rjust(w) if right else c.ljust(w) for c, w, right in cells)
            yield "  ".join(padded).rstrip()


@dataclass(frozen=True)
class Answer:
    """`data` for JSON, `text` for people, and an exit code: 0 yes, 1 no, or another."""

    data: Mapping[str, object] = field(default_factory=dict)
    text: Iterable[str | Table] = ()
    exit_code: int = 0
    content: bytes = b""
    """Binary content that is written instead of the text."""


def to_json(verb: str, exit_code: int, data: Mapping[str, object]) -> str:
    """The JSON text of an answer.

    >>> print(to_json("info", 0, {"ops": 3}))
    {
      "schema": 1,
      "verb": "info",
      "exit_code": 0,
      "ops": 3
    }
    """
    from amanda.cli.output.json_text import json_text

    head = {"schema": SCHEMA, "verb": verb, "exit_code": exit_code}
    return json_text({**head, **data})


def plain_lines(text: Iterable[str | Table]) -> Iterator[str]:
    """Lines without color and control characters."""
    for block in text:
        parts = block.lines() if isinstance(block, Table) else block.split("\n")
        for line in parts:
            yield _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def print_answer(verb: str, answer: Answer, *, json: bool) -> None:
    """Print an answer on standard output."""
    if json:
        print(to_json(verb, answer.exit_code, answer.data))  # noqa: T201
    elif answer.content:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer.content)
    elif sys.stdout.isatty() and not isinstance(answer.text, str):
        from amanda.cli.output.terminal import print_colored

        print_colored(answer.text)
    else:
        for line in plain_lines(answer.text):
            print(line)  # noqa: T201
    sys.stdout.flush()  # raises here if the pipe is broken, not at exit
