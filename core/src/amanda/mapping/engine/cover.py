"""Covering: for each op of a graph the rules that may take it, by structure.

From the results backwards, so that what a pattern takes in is known before its own
turn comes. A rule that types decide, which are not there yet, is kept as a candidate,
and the next best ones with it; what their patterns take in is made on demand only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amanda.errors import AmandaError, Undecided
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.mapping.engine.compiled_rule import AnswerQuestion, CompiledRule, Slots
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.side import answer_question, rule_op_type

__all__ = [
    "COPY",
    "MAP",
    "COPY_WHOLE",
    "Cover",
    "CoverEntry",
    "RuleMatch",
    "decide_match",
]

MAP, COPY, COPY_WHOLE = range(3)
"""What is to be done with an op: map it, take it along and map what is in it, take it
along with what is in it."""

# How far a rule came that declined: for nearest rules.
_VERSION, _STRUCTURE, _DECISION = range(3)
_KEEP: Final = "keep"


class RuleMatch:
    """A rule that fits by structure, and the values that it found.

    `step` counts the decisions made; `why` is what left the next one open.
    """

    __slots__ = ("ops", "slots", "step", "way", "why")

    def __init__(self, way: CompiledRule, slots: Slots, ops: list[Op]) -> None:
        self.way = way
        self.slots = slots
        self.ops = ops
        self.step = 0
        self.why = ""

    @property
    def is_decided(self) -> bool:
        return self.step == len(self.way.steps)


class CoverEntry:
    """An op that is to be mapped, and the candidates for it, the best first."""

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
        """Is there no graph in it, nor in what patterns would take in with it?"""

    @property
    def match(self) -> RuleMatch | None:
        """The candidate whose turn it is."""
        return self.matches[self.at] if self.at < len(self.matches) else None

    def decline(self, way: CompiledRule, why: str, stage: int = _DECISION) -> None:
        self.declined.append((way.id, way.text, why, stage))


def decide_match(match: RuleMatch, ask: AnswerQuestion) -> bool:
    """Go through the decisions; False where one is still open. Raises Decline."""
    steps, slots, at = match.way.steps, match.slots, match.step
    try:
        while at < len(steps):
            steps[at](slots, ask)
            at += 1
    except Undecided as why:
        match.why = why.message
        return False
    finally:
        match.step = at
    return True


class Cover:
    """The entries of one graph, in its order. Constants have none: they come along
    where they are needed."""

    __slots__ = (
        "bound", "constants", "deferred", "entries", "needed", "program", "taken",
    )  # fmt: skip

    def __init__(
        self, program: RuleProgram, source: Graph, pinned: frozenset[OutputPort]
    ) -> None:
        self.program = program
        self.needed = pinned
        self.bound = False
        """Whether any op here takes part in a control edge."""
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
            is_theirs = space == program.target.name
            return CoverEntry(op, COPY_WHOLE if is_theirs else MAP)
        entry = CoverEntry(op, MAP, type)
        if program.fault is not None and (fault := program.fault(op)):
            entry.declined.append((program.source.name, "", fault, _VERSION))
            return entry
        choice = program.choice(type)
        self._candidates(entry, choice.for_op(op))
        if not entry.matches:
            entry.declined.clear()
            self._candidates(entry, choice.near(op))
            entry.declined += [(*rule, _VERSION) for rule in choice.inactive]
        if not entry.matches and program.means_the_same(type):
            entry.todo = COPY
        return entry

    def extend(self, entry: CoverEntry, failed: RuleMatch) -> None:
        """More candidates, after one that seemed certain declined while it was made.

        What its pattern took in is mapped after all, where that turns out needed.
        """
        if entry.type is None:
            return
        for op in failed.ops[1:]:
            if op in self.taken:
                self.taken.discard(op)
                self.deferred[op] = self._entry(op)
        ways = self.program.choice(entry.type).for_op(entry.op)
        at = next((i for i, way in enumerate(ways) if way is failed.way), len(ways))
        self._candidates(entry, ways[at + 1 :])

    def _candidates(self, entry: CoverEntry, ways: Sequence[CompiledRule]) -> None:
        op = entry.op
        for way in ways:
            slots: Slots = [None] * way.width
            ops: list[Op] = []
            why = way.take(op, slots, ops)
            if why is None and way.size > 1:
                why = self._outward(ops, way.edges)
            if why is not None:
                entry.decline(way, why, _STRUCTURE)
                continue
            match = RuleMatch(way, slots, ops)
            if way.steps:
                try:
                    decided = decide_match(match, answer_question)
                except AmandaError as declined:
                    entry.decline(way, declined.message)
                    continue
            else:
                decided = True
            entry.matches.append(match)
            if decided and not way.is_function:
                break

    def _outward(self, ops: list[Op], edges: int) -> str | None:
        """Is something inside a pattern used elsewhere?"""
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
