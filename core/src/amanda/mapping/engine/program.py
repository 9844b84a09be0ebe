"""The rules between two versions in one direction, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable

from amanda.errors import AmandaError
from amanda.graph import Op
from amanda.mapping.engine.compiled_rule import (
    CompiledRule,
    InactiveRule,
    decide_match,
)
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
        """Whether to map only foreign ops: those of the source in a target graph."""
        self.fault: Callable[[Op], str | None] | None = getattr(source, "fault", None)
        self._candidates: dict[str, RuleIndex] = {}
        self._same: dict[str, bool] = {}

    def candidates(self, type: str) -> RuleIndex:
        found = self._candidates.get(type)
        if found is None:
            found = self._candidates[type] = self._index(type)
        return found

    def _index(self, type: str) -> RuleIndex:
        compiled: list[CompiledRule] = []
        inactive: list[tuple[str, str, str]] = []
        for rule in self.rules.of_type(type, forward=self.forward):
            try:
                compiled.append(self._compile(rule))
            except InactiveRule as why:
                text = rule.id if isinstance(rule, FunctionRule) else rule.text
                inactive.append((rule.id, text, str(why)))
        return RuleIndex(self.source, compiled, inactive)

    def _compile(self, rule: AnyRule) -> CompiledRule:
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
        """Whether an op type is the same in both versions of one framework."""
        if not self.in_place:
            return False
        if type not in self._same:
            old, new = self.source.signature(type), self.target.signature(type)
            self._same[type] = (
                old is not None and new is not None and old.since == new.since
            )
        return self._same[type]

    def takes(self, op: Op) -> bool | str:
        """True if some rule supports this op in its graph, else the reasons.

        A rule that depends on unknown types counts as one that does.
        """
        type = rule_op_type(self.source, op)
        if type is None:
            return f"it is of {op.namespace}"
        if self.fault is not None and (fault := self.fault(op)):
            return fault
        candidates = self.candidates(type)
        if any(_decline_reason(rule, op) is None for rule in candidates.for_op(op)):
            return True
        reasons = [
            f"{rule.id}: {_decline_reason(rule, op)}" for rule in candidates.near(op)
        ]
        reasons += [f"{id}: {why}" for id, _, why in candidates.inactive]
        return "; ".join(reasons) or f"no rule is for {type}"


def _decline_reason(rule: CompiledRule, op: Op) -> str | None:
    """Why a rule declines an op, as far as known in its graph; None if it may not."""
    try:
        rule.first_of(op, lambda match: decide_match(match, answer_question))
    except AmandaError as declined:
        return declined.message
    return None
