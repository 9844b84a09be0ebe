"""The order in which rules are tried: by weight, and by `after` tags.

`after base` puts a rule behind all rules with the tag `base`. The tags of a rule are
those behind it (`@base`), those in the header of its file, and the name of its file
without the suffix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from heapq import heappop, heappush
from pathlib import PurePath

from amanda.errors import FormatError
from amanda.mapping.rules.terms import Equation, variables

__all__ = ["check_order", "sort_rules", "rule_tags"]


def rule_tags(row: Equation) -> tuple[str, ...]:
    """All tags of a rule, that of its file last."""
    return (*row.tags, PurePath(row.spot.file).stem)


def rule_weight(row: Equation, *, forward: bool) -> tuple[int, ...]:
    """The sort key: bigger patterns first, then more constraints, losses last."""
    here = row.sides(forward)[0]
    names = [var.name for var in variables(here)]
    repeated = len(names) - len(set(names))
    demands = here.constants + repeated + (row.guard is not None)
    return (row.loss is not None, -here.size, -demands)


def sort_rules(rows: Iterable[Equation], *, forward: bool) -> list[Equation]:
    """The rules for one op type, in the order in which they are tried."""
    waiting = sorted(rows, key=lambda row: rule_weight(row, forward=forward))
    if not any(row.after for row in waiting):
        return waiting
    left = Counter(tag for row in waiting for tag in rule_tags(row))
    parked: dict[str, list[int]] = {}
    ready = list(range(len(waiting)))  # a sorted list is a heap
    done: list[Equation] = []
    while ready:
        at = heappop(ready)
        row = waiting[at]
        first = next((tag for tag in row.after if left[tag]), None)
        if first is not None:
            parked.setdefault(first, []).append(at)
            continue
        done.append(row)
        for tag in rule_tags(row):
            left[tag] -= 1
            if not left[tag]:
                for other in parked.pop(tag, ()):
                    heappush(ready, other)
    return done


def check_order(rows: Sequence[Equation]) -> None:
    """FormatError for unknown tags in `after`, and for cycles."""
    bound = [row for row in rows if row.after]
    if not bound:
        return
    members: dict[str, list[Equation]] = {}
    for row in rows:
        for tag in rule_tags(row):
            members.setdefault(tag, []).append(row)
    for row in bound:
        for tag in row.after:
            if tag not in members:
                raise _unknown_tag_error(row, tag, members)
    _check_cycles(bound, members)


def _unknown_tag_error(row: Equation, tag: str, known: Iterable[str]) -> FormatError:
    near = get_close_matches(tag, known, n=1)
    return FormatError(
        f"a rule waits for {tag!r}, and no rule has this tag",
        where=row.spot,
        hint=f"did you mean {near[0]!r}?" if near else "load those rules first",
    )


def _check_cycles(
    bound: Sequence[Equation], members: dict[str, list[Equation]]
) -> None:
    """Depth-first search over tags; edges lead to the tags that rules wait for."""
    onward = {
        tag: {first: row for row in rows for first in row.after}
        for tag, rows in members.items()
    }
    done: set[str] = set()
    for start in bound:
        for tag in start.after:
            path: dict[str, Iterator[tuple[str, Equation]]] = {}
            if tag not in done:
                path[tag] = iter(onward[tag].items())
            while path:
                at = next(reversed(path))
                step = next(path[at], None)
                if step is None:
                    done.add(at)
                    del path[at]
                    continue
                following, row = step
                if following in path:
                    raise _cycle_error(row, following, [*path])
                if following not in done:
                    path[following] = iter(onward[following].items())


def _cycle_error(row: Equation, tag: str, path: list[str]) -> FormatError:
    tags = [*path[path.index(tag) :], tag]
    return FormatError(
        "rules wait for each other, so none of them is first",
        where=row.spot,
        got=" after ".join(tags),
    )
