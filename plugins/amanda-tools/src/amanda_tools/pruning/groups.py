"""Groups of channels that are removed together, and where their weights are.

A value has at most one axis of channels here, which consists of runs: the channels of a
group in order, each with some consecutive elements. Additions join groups, which then
have the coarser of their channels: the channels of a head of attention are one.
Concatenations put runs one after another; what reads part of a group splits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import NamedTuple

from amanda.graph import Op

__all__ = [
    "Channels",
    "Group",
    "Part",
    "Place",
    "Run",
    "make_coarser",
    "cut_runs",
    "join",
    "parts_by_group",
]


class Place(NamedTuple):
    """Where the channels of a group are along an axis, in elements.

    The axis is one of a constant (`attribute` is empty), or the size of that axis is an
    entry of an attribute, such as the shape of a reshape: the whole of it if the index
    is None."""

    op: Op
    axis: int | None
    offset: int
    elements: int
    role: str
    """`output` of a layer, `input` of one, `other` (a bias, a norm), or `size`."""
    attribute: str = ""


class Group:
    """Channels of which each is kept or removed as a whole.

    Groups that were joined have a common root; a group that was split has parts."""

    def __init__(self, size: int) -> None:
        self.size = size
        """The number of channels."""
        self.places: list[Place] = []
        self.is_fixed = False
        self._parent: Group | None = None
        self._parts: list[Group] = []

    @property
    def root(self) -> Group:
        at = self
        while at._parent is not None:
            at = at._parent
        return at

    def runs_within(self, elements: int) -> list[Run]:
        """The groups that this one consists of now, with their shares of an axis."""
        root = self.root
        if not root._parts:
            return [Run(root, elements)]
        found = []
        for part, size in zip(root._parts, root._part_sizes, strict=True):
            found += part.runs_within(elements * size // root.size)
        return found

    def with_parts(self) -> Iterator[Group]:
        """This group, and those that it was split into."""
        yield self
        for part in self._parts:
            yield from part.with_parts()

    def merge(self, other: Group) -> None:
        """Make this group, a root without parts, and another one the same."""
        self.size = gcd(self.size, other.size)
        other._parent = self

    def divide(self, size: int) -> None:
        """Let the first channels of a root be a group, and the others another one."""
        self._parts = [Group(size), Group(self.size - size)]
        self._part_sizes = [size, self.size - size]

    _part_sizes: Sequence[int] = ()


class Run(NamedTuple):
    """The channels of a group along part of an axis."""

    group: Group
    elements: int


class Channels(NamedTuple):
    """The axis of channels of a value, and its runs in order."""

    axis: int
    runs: tuple[Run, ...]

    def current_runs(self) -> list[Run]:
        """The runs of groups as they are now: joined and split."""
        return [
            part for run in self.runs for part in run.group.runs_within(run.elements)
        ]

    @property
    def elements(self) -> int:
        return sum(run.elements for run in self.runs)

    def fix(self) -> None:
        """Keep all channels."""
        for run in self.runs:
            run.group.is_fixed = True

    def add_places(
        self, op: Op, axis: int | None, role: str, attribute: str = "", scale: int = 1
    ) -> None:
        """Note that the runs are along an axis too, `scale` elements for each one."""
        offset = 0
        for group, elements in self.runs:
            count = elements * scale
            group.places.append(Place(op, axis, offset, count, role, attribute))
            offset += count


class Part(NamedTuple):
    """A place of a group that is a root without parts: what removing cuts there."""

    place: Place
    offset: int
    elements: int


def parts_by_group(groups: Iterable[Group]) -> Iterator[tuple[Group, list[Part]]]:
    """The final groups, with all places of those that they were joined from."""
    found: dict[Group, list[Part]] = {}
    fixed: set[Group] = set()
    for group in [part for each in groups for part in each.with_parts()]:
        if group.is_fixed:
            fixed.update(run.group for run in group.runs_within(0))
        for place in group.places:
            offset = place.offset
            for share, elements in group.runs_within(place.elements):
                found.setdefault(share, []).append(Part(place, offset, elements))
                offset += elements
    for group, parts in found.items():
        if group not in fixed:
            yield group, parts


def join(one: Channels, other: Channels) -> bool:
    """Make the channels of two values the same; False if their axes do not agree."""
    if one.axis != other.axis or one.elements != other.elements:
        return False
    while True:
        pairs, difference = _align(one.current_runs(), other.current_runs())
        if difference is None:
            break
        if not _divide(*difference):
            return False
    for first, second in pairs:
        if first.group.root is not second.group.root:
            first.group.root.merge(second.group.root)
    return True


def _align(
    one: Sequence[Run], other: Sequence[Run]
) -> tuple[list[tuple[Run, Run]], tuple[Run, int] | None]:
    """Runs of the same elements, up to the first that is longer than its partner."""
    pairs: list[tuple[Run, Run]] = []
    for first, second in zip(one, other, strict=False):
        if first.elements > second.elements:
            return pairs, (first, second.elements)
        if first.elements < second.elements:
            return pairs, (second, first.elements)
        pairs.append((first, second))
    return pairs, None


def _divide(run: Run, elements: int) -> bool:
    """Split a group after some elements of its run, if a channel begins there."""
    size, rest = divmod(elements * run.group.size, run.elements)
    if rest or not 0 < size < run.group.size:
        return False
    run.group.divide(size)
    return True


def cut_runs(channels: Channels, sizes: Iterable[int]) -> list[tuple[Run, ...]] | None:
    """The runs of consecutive pieces of an axis; None where a channel is cut."""
    pieces = []
    start = 0
    for size in sizes:
        piece = _runs_between(channels, start, start + size)
        if piece is None:
            return None
        pieces.append(piece)
        start += size
    return pieces


def _runs_between(channels: Channels, start: int, stop: int) -> tuple[Run, ...] | None:
    at = 0
    found = []
    for run in channels.current_runs():
        end = at + run.elements
        for edge in (start, stop):
            if at < edge < end:
                is_split = _divide(run, edge - at)
                return _runs_between(channels, start, stop) if is_split else None
        if start <= at and end <= stop:
            found.append(run)
        at = end
    return tuple(found)


def make_coarser(channels: Channels, elements: int) -> bool:
    """Let channels be multiples of some elements; False where a run is not."""
    runs = channels.current_runs()
    if any(run.elements % elements for run in runs):
        return False
    for group, count in runs:
        group.size = gcd(group.size, count // elements)
    return True
