"""Plain data: what YAML and JSON documents are made of, and places in them.

A document is dicts with text keys, lists, None, bool, int, float and str; what these
cannot carry is `Tagged`. Readers keep no places beside the data: an error names the
path to its value, and only then is the text read again to find the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from amanda.errors import AmandaError, FormatError, LimitError

__all__ = [
    "MAX_BYTES",
    "MAX_NESTING",
    "Block",
    "Path",
    "Plain",
    "Rows",
    "Spot",
    "Tagged",
    "check_size",
    "decoded",
    "deeper",
    "place",
    "placed",
    "short",
    "steps",
    "too_deep",
]

MAX_NESTING = 512  # lists and maps in each other, in one YAML or JSON document
MAX_BYTES = 1 << 31

Plain: TypeAlias = Any
"""None, bool, int, float, str, list[Plain], dict[str, Plain] or Tagged."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value that needs its kind said: `!dtype float32`, `{"$dtype": "float32"}`."""

    tag: str
    value: Plain


class Block(dict[str, Any]):
    """A map that is written one key a line, however short it is."""

    __slots__ = ()


class Rows(list[Any]):
    """A list that is written one item a line, however short it is."""

    __slots__ = ()


class Path(NamedTuple):
    """Where a value stands in a document: a key or index in what `outer` leads to."""

    outer: Path | None
    step: str | int


def deeper(path: Path | None, *more: str | int) -> Path | None:
    for step in more:
        path = Path(path, step)
    return path


def steps(path: Path | None) -> Iterator[str | int]:
    """The keys and indices from the top of the document."""
    found = []
    while path is not None:
        found.append(path.step)
        path = path.outer
    return reversed(found)


class Spot(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int

    @classmethod
    def at(cls, text: str, offset: int) -> Spot:
        start = text.rfind("\n", 0, offset) + 1
        return cls(text.count("\n", 0, offset) + 1, offset - start + 1)


def short(text: object) -> str:
    """A name in a message: quoted, and cut where it is absurdly long."""
    shown = repr(text)
    return shown if len(shown) <= 80 else shown[:76] + " ..."


def place(name: str, spot: Spot | None) -> str:
    """How errors write a place."""
    if spot is None:
        return name
    return f"{name}, line {spot.line}, column {spot.column}"


def placed(error: AmandaError, where: str) -> FormatError:
    """An error of another room as one of the document, with its place."""
    if error.where is not None:
        where = f"{where} ({error.where})"
    if isinstance(error, FormatError):
        error.where = where
        return error
    return FormatError(
        error.message,
        who=error.who,
        where=where,
        expected=error.expected,
        got=error.got,
        hint=error.hint,
        problems=error.problems,
    )


def too_deep(where: str) -> LimitError:
    return LimitError(
        "the document nests too deeply",
        where=where,
        expected=f"at most {MAX_NESTING} lists and maps in each other",
        hint="deep bodies belong into the table `graphs:`, which has no limit",
    )


def check_size(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise LimitError(
            "the document is too large for a text form",
            where=name,
            expected=f"at most {MAX_BYTES:,} bytes",
            got=f"{size:,}",
            hint="save large graphs as .amanda",
        )


def decoded(data: bytes | str, name: str) -> str:
    """The text of a document; bytes must be UTF-8."""
    check_size(len(data), name)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8-sig", "replace")
        raise FormatError(
            "the text is not UTF-8",
            where=place(name, Spot.at(good, len(good))),
            got=f"byte {data[error.start]:#04x}",
        ) from error
