"""Covers: for each op of a graph, the rules that match its structure.

Ops are visited from the results backwards, so that the ops inside a pattern are known
before they are visited. A rule that depends on types which are not known yet stays a
candidate, together with the next best ones; the ops inside their patterns are built on
demand only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amanda.errors import AmandaError
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.mapping.engine.compiled_rule import CompiledRule, RuleMatch, decide_match
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.side import answer_question, rule_op_type

__all__ = [
    "COPY",
    "MAP",
    "COPY_WHOLE",
    "Cover",
    "CoverEntry",
]

MAP, COPY, COPY_WHOLE = range(3)
"""What to do with an op: map it, copy it and map its bodies, or copy it whole."""

# How far a rule got before it declined, to report the nearest rules.
_VERSION, _STRUCTURE, _DECISION = range(3)
_KEEP: Final = "keep"


class CoverEntry:
    """An op to be mapped, and its candidate rules, best first."""

    __slots__ = ("at", "declined", "done", "is_flat", "matches", "op", "todo", "type")

    def __init__(self, op: Op, todo: int, type: str | None = None) -> None:
        self.op = op
        self.todo = todo
        self.type = type
        self.matches: list[RuleMatch] = []
        self.declined: list[tuple[str, str, str, int]] = []
        self.at = 0
        self.done = False
        self.is_flat = not op.is_graph and (
            op.side_record is None or not op.side_record.bodies
        )
        """Whether neither the op nor the patterns of its candidates hold graphs."""

    @property
    def match(self) -> RuleMatch | None:
        """The current candidate."""
        return self.matches[self.at] if self.at < len(self.matches) else None

    def decline(self, rule: CompiledRule, why: str, stage: int = _DECISION) -> None:
        self.declined.append((rule.id, rule.text, why, stage))


class Cover:
    """The entries of one graph, in order; constants have none, they are copied on
    demand."""

    __slots__ = (
        "bound", "constants", "deferred", "entries", "needed", "program", "taken",
    )  # fmt: skip

    def __init__(
        self, program: RuleProgram, source: Graph, pinned: frozenset[OutputPort]
    ) -> None:
        self.program = program
        self.needed = pinned
        self.bound = False
        """Whether any op has control edges."""
        self.taken: set[Op] = set()
        self.deferred: dict[Op, CoverEntry] = {}
        self.constants: list[Op] = []
        self.entries: list[CoverEntry] = []
        maybe: set[Op] = set()
        taken = self.taken
        for op in reversed(source):
            if taken and op in taken:
                continue
            more = op.side_record
            if more is not None:
                if more.control or more.controlled:
                    self.bound = True
                if more.namespace == CORE and op.type == CONSTANT:
                    self.constants.append(op)
                    continue
            entry = self._entry(op)
            self.entries.append(entry)
            matches = entry.matches
            if maybe and op in maybe:
                self.deferred[op] = entry
            elif matches and matches[0].is_decided:
                if len(matches[0].ops) > 1:
                    taken.update(matches[0].ops[1:])
                    entry.is_flat = False
                continue
            for match in matches:
                if len(match.ops) > 1:
                    maybe.update(match.ops[1:])
                    entry.is_flat = False
        self.constants.reverse()
        self.entries.reverse()

    def _entry(self, op: Op) -> CoverEntry:
        program = self.program
        if op.is_graph:
            return CoverEntry(op, COPY)
        more = op.side_record
        space = None if more is None else more.namespace
        if space == CORE:
            return CoverEntry(op, COPY)
        if program.picks_up and space != program.source.name:
            return CoverEntry(op, COPY if space is None else COPY_WHOLE)
        type = op.type if space is None else rule_op_type(program.source, op)
        if type is None:
            holds = getattr(program.target, "holds", None)
            is_theirs = space == program.target.name or (
                holds is not None and holds(space)
            )
            return CoverEntry(op, COPY_WHOLE if is_theirs else MAP)
        entry = CoverEntry(op, MAP, type)
        if program.fault is not None and (fault := program.fault(op)):
            entry.declined.append((program.source.name, "", fault, _VERSION))
            return entry
        candidates = program.candidates(type)
        self._candidates(entry, candidates.for_op(op))
        if not entry.matches:
            entry.declined.clear()
            self._candidates(entry, candidates.near(op))
            entry.declined += [(*rule, _VERSION) for rule in candidates.inactive]
        if not entry.matches and program.means_the_same(type):
            entry.todo = COPY
        return entry

    def extend(self, entry: CoverEntry, failed: RuleMatch) -> None:
        """Add candidates after one that seemed certain declined while it was built.

        The ops inside its pattern are mapped after all, where they are needed.
        """
        if entry.type is None:
            return
        for op in failed.ops[1:]:
            if op in self.taken:
                self.taken.discard(op)
                self.deferred[op] = self._entry(op)
        rule = failed.rule
        if self._add_matches(entry, rule, after=failed):
            return
        rules = self.program.candidates(entry.type).for_op(entry.op)
        at = next((i for i, one in enumerate(rules) if one is rule), len(rules))
        self._candidates(entry, rules[at + 1 :])

    def _candidates(self, entry: CoverEntry, rules: Sequence[CompiledRule]) -> None:
        for rule in rules:
            if self._add_matches(entry, rule):
                break

    def _add_matches(
        self, entry: CoverEntry, rule: CompiledRule, after: RuleMatch | None = None
    ) -> bool:
        """Add the matches of a rule up to the first that is certain.

        Returns whether one is. Where none is added, the reason is that of the first."""
        op = entry.op
        declined: tuple[str, int] | None = None
        count = len(entry.matches)
        match = rule.find(op, after)
        while not isinstance(match, str):
            why = self._outward(match.ops, rule.edges) if rule.size > 1 else None
            try:
                if why is not None:
                    declined = declined or (why, _STRUCTURE)
                elif decide_match(match, answer_question):
                    entry.matches.append(match)
                    return not rule.is_function
                else:
                    entry.matches.append(match)
            except AmandaError as error:
                declined = declined or (error.message, _DECISION)
            match = rule.find(op, match)
        if after is None and len(entry.matches) == count:
            entry.decline(rule, *(declined or (match, _STRUCTURE)))
        return False

    def _outward(self, ops: list[Op], edges: int) -> str | None:
        """The reason if something inside a pattern is used elsewhere, else None."""
        inside = set(ops)
        found = 0
        for op in inside:
            if op.side_record is not None:
                found += sum(other in inside for other in op.control_inputs)
            if op is ops[0]:
                continue
            waits = (*op.control_inputs, *op.control_outputs) if op.side_record else ()
            if waits and not (edges and inside.issuperset(waits)):
                return f"{op.short}, inside the pattern, has control edges"
            for port in op.outputs:
                if port in self.needed or _KEEP in port.marks:
                    return f"{port}, inside the pattern, must be kept"
                for user in port.user_ops:
                    if user not in inside:
                        return f"{port}, inside the pattern, is used by {user.short}"
        if found != edges:
            return f"{found} control edges inside the pattern, not {edges}"
        return None
