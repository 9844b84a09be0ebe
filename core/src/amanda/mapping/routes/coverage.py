"""Which ops of one namespace a mapping brings to another, and by what kind of rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from amanda.dictionary import parse_name
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.rule_mapping import RuleMapping

__all__ = ["KINDS", "Coverage", "OpCovered", "coverage"]

KINDS: Final = ("row", "pattern", "function", "composite", "same", "gap")
"""By what an op is taken, the best first: an equation of one op, one of several, a
function; taken apart into ops that are taken; meaning the same; by nothing."""


class OpCovered(NamedTuple):
    """An op, by what it is taken, and how many rules of each kind there are for it."""

    op: str
    kind: str
    rules: dict[str, int]

    @property
    def words(self) -> str:
        """`row`, or `row, 2 patterns`."""
        told = [
            (name if number == 1 else f"{number} {name}s")
            for name, number in self.rules.items()
            if number
        ]
        return ", ".join(told) or self.kind


class Coverage(NamedTuple):
    """One direction of a mapping, between two versions."""

    source: str
    target: str
    ops: tuple[OpCovered, ...]

    @property
    def counts(self) -> Counter[str]:
        return Counter(op.kind for op in self.ops)

    def __str__(self) -> str:
        counts = self.counts
        told = [f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]]
        return f"{self.source} -> {self.target}: {len(self.ops)} ops: {', '.join(told)}"


def coverage(
    mapping: RuleMapping,
    source: str,
    target: str,
    ops: Iterable[str],
    composites: Iterable[str] = (),
) -> Coverage:
    """What rules there are for each op; `composites` can be taken apart without one."""
    start, goal = str(parse_name(source)), str(parse_name(target))
    program = mapping.program(start, goal)
    whole = frozenset(composites)
    found = [_op_coverage(program, op, op in whole) for op in ops]
    return Coverage(start, goal, tuple(sorted(found, key=_sort_key)))


def _op_coverage(program: RuleProgram, op: str, is_composite: bool) -> OpCovered:
    rules: dict[str, int] = dict.fromkeys(KINDS[:3], 0)
    for way in program.choice(op).ways:
        rules[
            "function" if way.is_function else "row" if way.size == 1 else "pattern"
        ] += 1
    kind = next((kind for kind, number in rules.items() if number), "")
    if not kind:
        kind = "same" if program.means_the_same(op) else "gap"
    if is_composite and kind in ("gap", "pattern"):
        kind = "composite"
    return OpCovered(op, kind, rules)


def _sort_key(covered: OpCovered) -> tuple[str, str]:
    return covered.op.lower(), covered.op
