"""Finds the line of a value, for errors.

Parsers of every syntax can stream the events of a document again; this follows a path
through such a stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from amanda.files.text.syntax.plain_data import Path, path_keys

__all__ = ["DocumentEvent", "find_mark"]

Mark = TypeVar("Mark")
Kind: TypeAlias = Literal["map", "list", "end", "key", "tag", "scalar"]


class DocumentEvent(NamedTuple, Generic[Mark]):
    """An event of a document: start or end of a map or list, a key, a scalar.

    A `tag` is a key that names a kind (`$dtype`), and not part of a path. The mark is
    the position in the form that the parser has it.
    """

    kind: Kind
    key: str
    mark: Mark


class _Level:
    """An open map or list."""

    __slots__ = ("count", "depth", "step")

    def __init__(self, depth: int, is_list: bool) -> None:
        self.depth = depth  # keys of the path matched so far; -1: not on the path
        self.count = 0 if is_list else -1
        self.step: str | int | None = None

    def onward(self, wanted: list[str | int], key: str | None) -> int:
        """The depth of the next value in here."""
        if self.depth < 0:
            return -1
        if key is None:
            key_or_index: str | int = self.count
        else:
            key_or_index = key
        on = self.depth < len(wanted) and wanted[self.depth] == key_or_index
        return self.depth + 1 if on else -1


def find_mark(stream: Iterable[DocumentEvent[Mark]], path: Path | None) -> Mark | None:
    """The mark of the value at `path`, or of the nearest one around it."""
    wanted = list(path_keys(path))
    best, mark = -1, None
    levels: list[_Level] = []
    next_depth = 0  # of the next value in a map, or at the top
    for kind, key, here in stream:
        if kind == "end":
            levels.pop()
            continue
        if kind == "tag":
            next_depth = levels[-1].depth
            continue
        if kind == "key":
            next_depth = levels[-1].onward(wanted, key)
            depth = next_depth
        else:
            if levels and levels[-1].count >= 0:
                next_depth = levels[-1].onward(wanted, None)
                levels[-1].count += 1
            depth = next_depth
            if kind != "scalar":
                levels.append(_Level(depth, kind == "list"))
        if depth > best:
            best, mark = depth, here
        if best == len(wanted):
            break
    return mark
