"""Where values are in one block of memory: those needed at the same time, apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["Lifetime", "plan_memory"]

ALIGNMENT: Final = 16


class Lifetime(NamedTuple):
    """A value with its bytes, from the step that computes it to its last reader."""

    name: str
    bytes: int
    first: int
    last: int


def plan_memory(values: Sequence[Lifetime]) -> tuple[Mapping[str, int], int]:
    """The offset of each value, and the size of the block; the largest come first.

    >>> a, b = Lifetime("a", 32, 0, 1), Lifetime("b", 16, 1, 2)
    >>> plan_memory([a, b, Lifetime("c", 8, 2, 3)])
    ({'a': 0, 'b': 32, 'c': 0}, 48)
    """
    placed: list[tuple[Lifetime, int]] = []
    for value in sorted(values, key=lambda each: (-each.bytes, each.first)):
        others = [
            (offset, offset + _round(other.bytes))
            for other, offset in placed
            if other.first <= value.last and value.first <= other.last
        ]
        placed.append((value, _first_gap(others, _round(value.bytes))))
    offsets = {value.name: offset for value, offset in placed}
    size = max((offset + _round(value.bytes) for value, offset in placed), default=0)
    return {value.name: offsets[value.name] for value in values}, size


def _round(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _first_gap(taken: Collection[tuple[int, int]], size: int) -> int:
    """The lowest offset with enough room between what is taken."""
    at = 0
    for start, stop in sorted(taken):
        if start - at >= size:
            break
        at = max(at, stop)
    return at
