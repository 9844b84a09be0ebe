"""Candidate rules of an op, found by its neighbors.

A pattern names the producers of its inputs, and their producers. The rules for one op
type are indexed by these, so that any number of patterns for other neighbors costs one
table lookup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from amanda.graph import Op
from amanda.mapping.engine.compiled_rule import CompiledRule
from amanda.mapping.engine.neighbors import (
    CONTROL_INPUT,
    EITHER_INPUT,
    RequiredNeighbor,
)
from amanda.mapping.side import Side, rule_op_type

__all__ = ["RuleIndex"]

_COMMUTATIVE_INPUTS: Final = 2
"""Commutative ops may swap their first two inputs."""
_RankedRule: TypeAlias = "tuple[int, CompiledRule]"
"""A rule with its rank: the number of rules to be tried before it."""


class RuleIndex:
    """The rules for ops of one type, in the order in which they are tried."""

    __slots__ = ("_nobody", "_plain", "_side", "_table", "inactive", "rules")

    def __init__(
        self,
        side: Side,
        rules: Sequence[CompiledRule],
        inactive: Sequence[tuple[str, str, str]],
    ) -> None:
        self.rules = tuple(rules)
        self.inactive = tuple(inactive)
        """Rules that do not apply to these versions: id, text, reason."""
        self._side = side
        rows = [(pair, pair[1].needs) for pair in enumerate(rules) if pair[1].needs]
        self._table = _NeighborTable(rows, side) if rows else None
        self._nobody = tuple(pair for pair in enumerate(rules) if not pair[1].needs)
        self._plain = tuple(rule for _, rule in self._nobody)

    def for_op(self, op: Op) -> Sequence[CompiledRule]:
        """The rules that may match an op, by its neighbors."""
        if self._table is None:
            return self.rules
        found: list[_RankedRule] = []
        self._table.find(op, found)
        if not found:
            return self._plain
        some = {
            pair
            for pair in found
            if pair[1].is_line or _are_present(op, pair[1].needs, self._side)
        }
        return [rule for _, rule in sorted([*some, *self._nobody], key=_rank_of)]

    def near(self, op: Op) -> Sequence[CompiledRule]:
        """The rules that would match if only the direct neighbors counted."""
        return [
            rule
            for rule in self.rules
            if _are_present(
                op, [need._replace(needs=()) for need in rule.needs], self._side
            )
        ]


class _NeighborTable:
    """Rules by one required neighbor each: the one shared with the fewest others."""

    __slots__ = ("_before", "_behind", "_places", "_side", "_some")

    def __init__(
        self,
        rows: Sequence[tuple[_RankedRule, tuple[RequiredNeighbor, ...]]],
        side: Side,
    ) -> None:
        self._side = side
        self._some = [pair for pair, needs in rows if not needs]
        counts = Counter(need[:2] for _, needs in rows for need in needs)
        groups: dict[
            tuple[int, str], list[tuple[_RankedRule, tuple[RequiredNeighbor, ...]]]
        ] = {}
        for pair, needs in rows:
            if needs:
                rarest = min(needs, key=lambda n: (counts[n[:2]], -len(n.needs)))
                groups.setdefault(rarest[:2], []).append((pair, rarest.needs))
        self._behind: dict[str, list[tuple[int, _NeighborTable]]] = {}
        self._before: dict[str, _NeighborTable] = {}
        farthest = max(
            (_COMMUTATIVE_INPUTS - 1 if at == EITHER_INPUT else at for at, _ in groups),
            default=-1,
        )
        self._places = range(farthest + 1)  # an op may have thousands of inputs
        for (at, type), group in groups.items():
            table = _NeighborTable(group, side)
            if at == CONTROL_INPUT:
                self._before[type] = table
            else:
                self._behind.setdefault(type, []).append((at, table))

    def find(self, op: Op, found: list[_RankedRule]) -> None:
        """Add the rules whose neighbor is present; some may be added twice."""
        if self._some:
            found += self._some
        behind = self._behind
        if behind:
            for i, value in zip(self._places, op._inputs, strict=False):
                if value is None:
                    continue
                maker = value.op
                type = (
                    maker.type
                    if maker.side_record is None
                    else rule_op_type(self._side, maker)
                )
                if type in behind:
                    for at, table in behind[type]:
                        if at == i or (at == EITHER_INPUT and i < _COMMUTATIVE_INPUTS):
                            table.find(maker, found)
        if self._before and op.side_record is not None:
            for one in op.control_inputs:
                before = self._before.get(rule_op_type(self._side, one) or "")
                if before is not None:
                    before.find(one, found)


def _are_present(op: Op, needs: Iterable[RequiredNeighbor], side: Side) -> bool:
    """Whether all required neighbors are present."""
    return all(_is_present(op, need, side) for need in needs)


def _is_present(op: Op, need: RequiredNeighbor, side: Side) -> bool:
    around: Sequence[Op | None]
    if need.at == CONTROL_INPUT:
        around = op.control_inputs
    else:
        first, last = (
            (0, _COMMUTATIVE_INPUTS)
            if need.at == EITHER_INPUT
            else (need.at, need.at + 1)
        )
        some = islice(op._inputs, first, last)
        around = [None if value is None else value.op for value in some]
    return any(
        other is not None
        and rule_op_type(side, other) == need.type
        and _are_present(other, need.needs, side)
        for other in around
    )


def _rank_of(pair: _RankedRule) -> int:
    return pair[0]
