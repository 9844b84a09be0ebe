"""The rules between two versions in one direction, compiled when an op first asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from amanda.errors import AmandaError, Undecided
from amanda.graph import Op
from amanda.mapping.compiled import ANYWHERE, Inactive, Way
from amanda.mapping.functions import Function, compile_function
from amanda.mapping.making import compile_row
from amanda.mapping.rules import Rule, RuleSet
from amanda.mapping.side import Side, question, type_of

__all__ = ["Choice", "Program"]


class Choice:
    """The ways for ops of one type, the first to be tried first.

    Patterns are found by the op behind one of their inputs, so that those for other
    surroundings cost nothing.
    """

    __slots__ = ("_anywhere", "_by_producer", "_plain", "inactive", "ways")

    def __init__(
        self, ways: Sequence[Way], inactive: Sequence[tuple[str, str, str]]
    ) -> None:
        self.ways = tuple(ways)
        self.inactive = tuple(inactive)
        """Rules that are not for these versions: id, text, why."""
        self._plain = [(i, way) for i, way in enumerate(ways) if not way.producers]
        counts = Counter(key for way in ways for key in way.producers)
        self._by_producer: dict[tuple[int, str | None], list[tuple[int, Way]]] = {}
        self._anywhere = any(at == ANYWHERE for at, _ in counts)
        for i, way in enumerate(ways):
            if way.producers:  # under the one that it shares with the fewest
                rarest = min(way.producers, key=lambda key: counts[key])
                self._by_producer.setdefault(rarest, []).append((i, way))

    def for_op(self, op: Op) -> Sequence[Way]:
        """Those whose producers, if they want some, are there."""
        if not self._by_producer:
            return self.ways
        have = [
            (i, value.op.type) for i, value in enumerate(op.inputs) if value is not None
        ]
        if self._anywhere:
            have = list(dict.fromkeys([*have, *((ANYWHERE, type) for _, type in have)]))
        found = self._plain
        for key in have:
            more = self._by_producer.get(key)
            if more:
                fit = [pair for pair in more if _all_in(pair[1].producers, have)]
                found = [*found, *fit]
        if found is self._plain:
            return [way for _, way in found]
        return [way for _, way in sorted(found, key=_order)]


def _all_in(producers: tuple[tuple[int, str], ...], have: list[Any]) -> bool:
    return len(producers) == 1 or all(key in have for key in producers)


def _order(pair: tuple[int, Way]) -> int:
    return pair[0]


class Program:
    """One direction of a rule set, between two versions."""

    def __init__(
        self, rules: RuleSet, source: Side, target: Side, *, forward: bool
    ) -> None:
        self.rules = rules
        self.source = source
        self.target = target
        self.forward = forward
        self.in_place = rules.left == rules.right
        self.picks_up = False
        """Are only foreign ops mapped, those of the source in a graph of the target?"""
        self._choices: dict[str, Choice] = {}
        self._same: dict[str, bool] = {}

    def choice(self, type: str) -> Choice:
        found = self._choices.get(type)
        if found is None:
            found = self._choices[type] = self._compiled(type)
        return found

    def _compiled(self, type: str) -> Choice:
        ways: list[Way] = []
        inactive: list[tuple[str, str, str]] = []
        for rule in self.rules.of_type(type, forward=self.forward):
            try:
                ways.append(self._way(rule))
            except Inactive as why:
                text = rule.id if isinstance(rule, Function) else rule.text
                inactive.append((rule.id, text, str(why)))
        return Choice(ways, inactive)

    def _way(self, rule: Rule) -> Way:
        hints = self.rules.hints[self.forward]
        if isinstance(rule, Function):
            return compile_function(rule, self.source, self.target, hints)
        return compile_row(
            rule,
            self.source,
            self.target,
            self.rules.lenses,
            forward=self.forward,
            hints=hints,
        )

    def means_the_same(self, type: str) -> bool:
        """Within one framework: is an op type the same in both versions?"""
        if not self.in_place:
            return False
        if type not in self._same:
            old, new = self.source.signature(type), self.target.signature(type)
            self._same[type] = (
                old is not None and new is not None and old.since == new.since
            )
        return self._same[type]

    def takes(self, op: Op) -> bool | str:
        """Does some rule take this op where it stands? The reasons, if none does.

        A rule that types decide, which are not known, counts as one that does. Who
        decomposes what a target does not take asks this.
        """
        type = type_of(self.source, op)
        if type is None:
            return f"it is of {op.namespace}"
        reasons = []
        choice = self.choice(type)
        for way in choice.for_op(op):
            slots: list[Any] = [None] * way.width
            why = way.take(op, slots, [])
            if why is None:
                try:
                    for step in way.steps:
                        step(slots, question)
                except Undecided:
                    return True
                except AmandaError as declined:
                    why = declined.message
            if why is None:
                return True
            reasons.append(f"{way.id}: {why}")
        reasons += [f"{id}: {why}" for id, _, why in choice.inactive]
        return "; ".join(reasons) or f"no rule is for {type}"
