"""Plain data: what YAML and JSON documents consist of, and positions in them.

A document consists of dicts with string keys, lists, None, bool, int, float and str;
other values are `Tagged`. Positions are not stored: an error has the path to its value,
and only then the text is parsed again to find the line.
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
    "TextPosition",
    "Tagged",
    "check_size",
    "decode_text",
    "extend_path",
    "format_position",
    "locate_error",
    "quote_short",
    "path_keys",
    "too_deep",
]

MAX_NESTING = 512  # nested lists and maps in a YAML or JSON document
MAX_BYTES = 1 << 31

Plain: TypeAlias = Any
"""None, bool, int, float, str, list[Plain], dict[str, Plain] or Tagged."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value with its kind: `!dtype float32`, `{"$dtype": "float32"}`."""

    tag: str
    value: Plain


class Block(dict[str, Any]):
    """A map that is always written with one key a line."""

    __slots__ = ()


class Rows(list[Any]):
    """A list that is always written with one item a line."""

    __slots__ = ()


class Path(NamedTuple):
    """A path in a document: a key or index inside the value at `outer`."""

    outer: Path | None
    step: str | int


def extend_path(path: Path | None, *more: str | int) -> Path | None:
    for step in more:
        path = Path(path, step)
    return path


def path_keys(path: Path | None) -> Iterator[str | int]:
    """The keys and indices from the top of the document."""
    found = []
    while path is not None:
        found.append(path.step)
        path = path.outer
    return reversed(found)


class TextPosition(NamedTuple):
    """A line and a column, counted from 1."""

    line: int
    column: int

    @classmethod
    def at(cls, text: str, offset: int) -> TextPosition:
        start = text.rfind("\n", 0, offset) + 1
        return cls(text.count("\n", 0, offset) + 1, offset - start + 1)


def quote_short(text: object) -> str:
    """A name in a message: quoted, and truncated if long."""
    shown = repr(text)
    return shown if len(shown) <= 80 else shown[:76] + " ..."


def format_position(name: str, spot: TextPosition | None) -> str:
    """A position as errors state it."""
    if spot is None:
        return name
    return f"{name}, line {spot.line}, column {spot.column}"


def locate_error(error: AmandaError, where: str) -> FormatError:
    """An error from elsewhere as a FormatError with its position in the document."""
    if error.where is not None:
        where = f"{where} ({error.where})"
    kind = type(error) if isinstance(error, FormatError) else FormatError
    return kind(
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


def decode_text(data: bytes | str, name: str) -> str:
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
            where=format_position(name, TextPosition.at(good, len(good))),
            got=f"byte {data[error.start]:#04x}",
        ) from error
