"""The rules between two versions in one direction, compiled when an op first asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.errors import AmandaError, Undecided
from amanda.graph import Op
from amanda.mapping.engine.compiled_rule import CompiledRule, InactiveRule
from amanda.mapping.engine.emitter import compile_row
from amanda.mapping.engine.rule_index import RuleIndex
from amanda.mapping.rules.functions import FunctionRule, compile_function
from amanda.mapping.rules.rule_set import AnyRule, RuleSet
from amanda.mapping.side import Side, answer_question, rule_op_type

__all__ = ["RuleProgram"]


class RuleProgram:
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
        self.fault: Callable[[Op], str | None] | None = getattr(source, "fault", None)
        self._choices: dict[str, RuleIndex] = {}
        self._same: dict[str, bool] = {}

    def choice(self, type: str) -> RuleIndex:
        found = self._choices.get(type)
        if found is None:
            found = self._choices[type] = self._compiled(type)
        return found

    def _compiled(self, type: str) -> RuleIndex:
        ways: list[CompiledRule] = []
        inactive: list[tuple[str, str, str]] = []
        for rule in self.rules.of_type(type, forward=self.forward):
            try:
                ways.append(self._way(rule))
            except InactiveRule as why:
                text = rule.id if isinstance(rule, FunctionRule) else rule.text
                inactive.append((rule.id, text, str(why)))
        return RuleIndex(self.source, ways, inactive)

    def _way(self, rule: AnyRule) -> CompiledRule:
        hints = self.rules.hints[self.forward]
        if isinstance(rule, FunctionRule):
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
        type = rule_op_type(self.source, op)
        if type is None:
            return f"it is of {op.namespace}"
        if self.fault is not None and (fault := self.fault(op)):
            return fault
        choice = self.choice(type)
        if any(_decline_reason(way, op) is None for way in choice.for_op(op)):
            return True
        reasons = [f"{way.id}: {_decline_reason(way, op)}" for way in choice.near(op)]
        reasons += [f"{id}: {why}" for id, _, why in choice.inactive]
        return "; ".join(reasons) or f"no rule is for {type}"


def _decline_reason(way: CompiledRule, op: Op) -> str | None:
    """What speaks against a rule, as far as that is known where the op stands."""
    slots: list[Any] = [None] * way.width
    why = way.take(op, slots, [])
    if why is not None:
        return why
    try:
        for step in way.steps:
            step(slots, answer_question)
    except Undecided:
        return None
    except AmandaError as declined:
        return declined.message
    return None
