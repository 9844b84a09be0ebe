"""Coverage: which ops of a namespace a mapping supports, and by what kind of rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from amanda.dictionary import parse_name
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.rule_mapping import RuleMapping

__all__ = ["KINDS", "Coverage", "OpCovered", "coverage"]

KINDS: Final = ("row", "pattern", "function", "composite", "same", "gap")
"""How an op is supported, best first: by an equation of one op, of several, by a
function; by its definition; unchanged; or not at all."""


class OpCovered(NamedTuple):
    """How one op is supported, and the number of rules of each kind."""

    op: str
    kind: str
    rules: dict[str, int]

    @property
    def summary(self) -> str:
        """`row`, or `row, 2 patterns`."""
        counted = [
            (name if number == 1 else f"{number} {name}s")
            for name, number in self.rules.items()
            if number
        ]
        return ", ".join(counted) or self.kind


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
        counted = [f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]]
        return (
            f"{self.source} -> {self.target}: {len(self.ops)} ops: {', '.join(counted)}"
        )


def coverage(
    mapping: RuleMapping,
    source: str,
    target: str,
    ops: Iterable[str],
    composites: Iterable[str] = (),
) -> Coverage:
    """The rules for each op; `composites` are ops with a definition."""
    start, goal = str(parse_name(source)), str(parse_name(target))
    program = mapping.program(start, goal)
    whole = frozenset(composites)
    found = [_op_coverage(program, op, op in whole) for op in ops]
    return Coverage(start, goal, tuple(sorted(found, key=_sort_key)))


def _op_coverage(program: RuleProgram, op: str, is_composite: bool) -> OpCovered:
    rules: dict[str, int] = dict.fromkeys(KINDS[:3], 0)
    for rule in program.candidates(op).rules:
        rules[
            "function" if rule.is_function else "row" if rule.size == 1 else "pattern"
        ] += 1
    kind = next((kind for kind, number in rules.items() if number), "")
    if not kind:
        kind = "same" if program.means_the_same(op) else "gap"
    if is_composite and kind in ("gap", "pattern"):
        kind = "composite"
    return OpCovered(op, kind, rules)


def _sort_key(covered: OpCovered) -> tuple[str, str]:
    return covered.op.lower(), covered.op
