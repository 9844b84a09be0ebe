"""Finding the line of a value, once something is wrong with it.

Readers of every syntax can tell their document as a stream of steps; this walks such a
stream along a path. It runs for errors only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from amanda.files.text.syntax.plain_data import Path, steps

__all__ = ["Step", "find"]

Mark = TypeVar("Mark")
Kind: TypeAlias = Literal["map", "list", "end", "key", "tag", "scalar"]


class Step(NamedTuple, Generic[Mark]):
    """One piece of a document: a map or list begins or ends, a key, a scalar.

    A `tag` is a key that names a kind (`$dtype`): it is no step of any path. The mark
    is whatever the syntax knows about the place at no cost.
    """

    kind: Kind
    key: str
    mark: Mark


class _Level:
    """A map or list that the walk is in."""

    __slots__ = ("count", "depth", "step")

    def __init__(self, depth: int, is_list: bool) -> None:
        self.depth = depth  # how many steps of the path lead here; -1: aside of it
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


def find(stream: Iterable[Step[Mark]], path: Path | None) -> Mark | None:
    """The mark of the value at `path`, or of the nearest thing around it."""
    wanted = list(steps(path))
    best, mark = -1, None
    levels: list[_Level] = []
    next_depth = 0  # of the value that comes next in a map, or at the top
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
