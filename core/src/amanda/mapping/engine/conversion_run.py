"""One conversion: cover each graph with rules, then build their results in order.

Bodies are mapped before the op that holds them, each as a frame on a stack, so that
depth and length of a model do not exceed the limit of Python's own stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from amanda.argument_checks import without_checks
from amanda.errors import AmandaError, InternalError, PluginBrokenError, Undecided
from amanda.graph import CORE, Graph, Op, OutputPort, Parameter, Provenance
from amanda.mapping.engine.body_types import BodyTypes
from amanda.mapping.engine.carry import (
    carry_attributes,
    copy_body,
    copy_control_edges,
    copy_entries,
    copy_input_fields,
    copy_op,
    copy_port_fields,
    copy_result_edge,
    declared_type,
    source_names,
    start_graph,
)
from amanda.mapping.engine.compiled_rule import RuleMatch, decide_match
from amanda.mapping.engine.cover import COPY_WHOLE, MAP, Cover, CoverEntry
from amanda.mapping.engine.discard import discard_op, empty_graph
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.routes.report import (
    TRACING,
    Conversion,
    CoveredOp,
    Report,
    UnmappedOp,
    describe_gaps,
    op_location,
)
from amanda.mapping.routes.route import GapMet
from amanda.mapping.side import Decline, answer_question, constant_of

__all__ = ["ConversionRun"]

_PORTS = (OutputPort, Parameter)
_new_tuple: Any = tuple.__new__  # faster than the constructor of a NamedTuple
_BY_HOOK = "gap_met"


class _BehindGapError(Exception):
    """An input depends on a gap, which is reported there."""


class _GraphFrame:
    """A graph being converted: its cover, and the position in it."""

    __slots__ = ("at", "bodies", "cover", "source", "target")

    def __init__(self, source: Graph, target: Graph, cover: Cover) -> None:
        self.source = source
        self.target = target
        self.cover = cover
        self.at = 0
        self.bodies: list[Graph] = []  # that ops of the source hold


class ConversionRun:
    """A conversion of one graph. `convert` may be called once."""

    def __init__(
        self, program: RuleProgram, *, keep_foreign: bool, gap_met: GapMet, trace: bool
    ) -> None:
        self.program = program
        self.target = program.target
        self.build = without_checks(self.target.build)
        self.keep_foreign = keep_foreign
        self.gap_met = gap_met
        self.report = Report(program.source.name, program.target.name)
        if trace or TRACING.get():
            self.report.trace = []
        self.made: dict[OutputPort, OutputPort] = {}
        self._bodies: dict[Graph, Graph] = {}
        self._graphs: dict[Graph, Graph] = {}
        self._body_types = BodyTypes(program.source, self.made)
        self._deferred: dict[Op, CoverEntry] = {}
        self._failed: set[Op] = set()
        self._incomplete: set[Op] = set()  # graphs with a result that depends on a gap
        self._unmapped: list[UnmappedOp] = []
        self._carried: list[Op] = []  # constants copied while an op was built
        self._maybe_unused: list[
            Op
        ] = []  # of them, those that may be unused in the end
        self._mapped_ops: dict[Op, list[Op]] = {}  # where there are control edges
        self._placeholders: dict[
            OutputPort, OutputPort
        ] = {}  # placeholders for feedback
        self._losses: dict[str, None] = {}
        self._pinned: frozenset[OutputPort] = frozenset()
        # where foreign ops are mapped, their inputs come from copied ops
        self._infer = getattr(self.target, "infer", None) if program.picks_up else None
        self._check = getattr(self.target, "check", None)

    # -- graphs ----------------------------------------------------------------

    def convert(self, source: Graph) -> Conversion:
        sides = (side for entry in source.entries.values() for side in entry)
        self._pinned = frozenset(value for side in sides for value in side.values())
        root = start_graph(source, self.made, self.target.name, None)
        for name, function in source.functions.items():
            root.add_function(name, self._map_graphs(function, None))
        self._map_graphs(source, root)
        copy_entries(source, root, self.made)
        root.imports.update(source.imports)
        root.imports.update(getattr(self.target, "imports", None) or {})
        for op in self._maybe_unused:
            if not op.outputs[0].user_ops and op.graph is not None:
                op.graph.remove(op)
        self._report_gaps()
        return Conversion(root, self.report)

    def _report_gaps(self) -> None:
        program = self.program
        self.report.gaps = describe_gaps(
            self._unmapped, program.rules, program.source, forward=program.forward
        )
        self.report.losses = tuple(self._losses)

    def _map_graphs(self, source: Graph, target: Graph | None) -> Graph:
        """Map a graph and everything in it."""
        first = self._push_frame(source, target, None)
        stack = [first]
        while stack:
            frame = stack[-1]
            inner = self._advance(frame)
            if inner:
                frame.bodies += inner
                stack += [self._push_frame(body, None, frame.target) for body in inner]
            else:
                self._finish_graph(frame)
                stack.pop()
        return first.target

    def _advance(self, frame: _GraphFrame) -> list[Graph]:
        """Build op after op; stops at one whose nested graphs must be mapped first, and
        returns these."""
        entries, deferred = frame.cover.entries, self._deferred
        while frame.at < len(entries):
            entry = entries[frame.at]
            if not entry.is_flat and (inner := self._next_graphs(entry)):
                return inner
            frame.at += 1
            if deferred:
                if entry.op not in deferred:
                    self._build_entry(frame, entry)
            elif not self._try_candidate(frame, entry):
                self._build_entry(frame, entry)
        return []

    def _push_frame(
        self, source: Graph, target: Graph | None, outer: Graph | None
    ) -> _GraphFrame:
        if target is None:
            target = start_graph(source, self.made, None, outer)
            self._bodies[source] = target
            self._body_types.add(source, target)
        self._graphs[source] = target
        cover = Cover(self.program, source, self._pinned)
        self._deferred.update(cover.deferred)
        return _GraphFrame(source, target, cover)

    def _next_graphs(self, entry: CoverEntry) -> list[Graph]:
        """The nested graphs that must be mapped before this op, or mapped again."""
        found, op = self._unmapped_graphs(entry), entry.op
        if found or not self._body_types.find_wider(op, self._bodies):
            return found
        bodies = list(op.bodies.values())
        for body in bodies:
            self._drop_unheld(body)
            inside = list(body.walk())
            graphs = {body, *(g for o in inside for g in o.bodies.values())}
            self._bodies = {b: g for b, g in self._bodies.items() if b not in graphs}
            self._incomplete -= graphs
            self._failed.difference_update(inside)
            self._unmapped = [u for u in self._unmapped if u.op.graph not in graphs]
            for port in (port for o in inside for port in o.outputs):
                self.made.pop(port, None)
        return bodies

    def _unmapped_graphs(self, entry: CoverEntry) -> list[Graph]:
        """The nested graphs that must be mapped before this op."""
        op = entry.op
        found: list[Graph] = []
        if op.side_record is not None:
            is_foreign = entry.todo == MAP and entry.type is None
            is_kept = self.keep_foreign and not entry.matches and entry.todo == MAP
            if not (is_foreign or is_kept or entry.todo == COPY_WHOLE):
                found += op.bodies.values()
        for match in entry.matches:
            if len(match.ops) > 1:
                found += [g for o in match.ops[1:] for g in o.bodies.values()]
        if isinstance(op, Graph):
            found.append(op)
        if not found:
            return found
        return [graph for graph in dict.fromkeys(found) if graph not in self._bodies]

    def _finish_graph(self, frame: _GraphFrame) -> None:
        source, target = frame.source, frame.target
        for op in frame.cover.constants:
            if _is_constant_needed(op, self._pinned):
                self.value(op.outputs[0])
        for port, value in zip(source.outputs, source.results, strict=True):
            made = self._map_result(source, value)
            target.result(made, port.name)
            result = target.outputs[port.index]
            copy_port_fields(port, result)
            if source.side_record is not None:
                copy_result_edge(source, target, port.index)
            if result.type is None and made is not None:
                result.type = declared_type(value, made)
        for value, placeholder in self._placeholders.items():
            if value.graph is source and value in self.made:
                target.replace_uses(placeholder, self.made[value])
                target.remove(placeholder.op)
        if (
            frame.cover.bound
            or source.inner_control_sources
            or source.inner_control_sinks
        ):
            copy_control_edges(source, target, self._mapped_ops, self.made)
        for body in frame.bodies:
            self._drop_unheld(body)

    def _drop_unheld(self, body: Graph) -> None:
        """Empty a body that the rule of its op did not use."""
        made = self._bodies[body]
        if made.holder is None and made.graph is None:
            empty_graph(made)

    def _map_result(self, source: Graph, value: OutputPort | None) -> OutputPort | None:
        try:
            return self.value(value)  # type: ignore[no-any-return]
        except _BehindGapError:
            self._incomplete.add(source)
            return None

    def _is_incomplete(self, op: Op) -> bool:
        """Whether a result of the op or of its bodies depends on a gap."""
        return bool(self._incomplete) and not self._incomplete.isdisjoint(
            (op, *op.bodies.values())
        )

    def _mark_dependent(self, op: Op) -> None:
        """Mark an op whose users depend on gaps too, and are no gaps themselves."""
        self._failed.add(op)
        for port in op.outputs:
            self.made.pop(port, None)

    # -- values ----------------------------------------------------------------

    def value(self, value: Any) -> Any:
        """What a value or body of the source was mapped to; anything else as it is."""
        if value.__class__ in _PORTS:
            return self.made.get(value) or self._copy_or_placeholder(value)
        if isinstance(value, Graph):
            return self._bodies[value]
        return value

    def _copy_or_placeholder(self, value: OutputPort) -> OutputPort:
        """A constant is copied when it is needed; feedback gets a placeholder."""
        op = value.op
        tensor = constant_of(value)
        home = self._graphs.get(op.graph) if op.graph is not None else None
        if tensor is not None and home is not None:
            self._carried.append(self._copy(op, home, (), CORE))
            self.report.carried += 1
            return self.made[value]
        if op.feedback and home is not None and op not in self._failed:
            if value not in self._placeholders:
                placeholder = home.add("feedback", namespace=CORE, feedback=True)
                self._carried.append(placeholder)  # not an op of the rule itself
                self._placeholders[value] = placeholder.output
            return self._placeholders[value]
        raise _BehindGapError

    def _copy(
        self,
        op: Op,
        target: Graph,
        inputs: Sequence[OutputPort | None],
        namespace: str | None,
        bodies: dict[str, Graph] | None = None,
    ) -> Op:
        name = _free_name(target, op.name)
        made = copy_op(op, target, inputs, name=name, namespace=namespace,
                         bodies=bodies, provenance=op.provenance)  # fmt: skip
        self.made.update(zip(op.outputs, made.outputs, strict=True))
        if self._infer is not None and any(port.type is None for port in made.outputs):
            self._infer(made)
        if _has_control_edges(op):
            self._mapped_ops[op] = [made]
        return made

    def _ask(self, value: OutputPort, what: str) -> Any:
        """The answer for the mapped value, else for the value of the source."""
        made = self.made.get(value)
        if made is None:
            return answer_question(value, what)
        try:
            return answer_question(made, what)
        except Undecided as why:
            try:
                return answer_question(value, what)
            except Undecided:
                raise why from None

    # -- ops -------------------------------------------------------------------

    def _build_entry(self, frame: _GraphFrame, entry: CoverEntry) -> None:
        """Build an op, and before it the deferred ops that it turns out to need."""
        stack = [entry]
        while stack:
            entry = stack[-1]
            if entry.done:
                stack.pop()
                continue
            if self._deferred:
                needs = self._deferred_needs(entry)
                if needs:
                    stack += needs
                    continue
            entry.done = self._try_candidate(frame, entry)

    def _deferred_needs(self, entry: CoverEntry) -> list[CoverEntry]:
        match = entry.match
        values: Iterable[Any] = entry.op.inputs
        if match is not None and not match.rule.is_function:
            values = match.slots
        found: dict[Op, CoverEntry] = {}
        for value in values:
            for one in value if isinstance(value, tuple | list) else (value,):
                if one.__class__ is OutputPort and one not in self.made:
                    late = self._deferred.get(one.op)
                    if late is not None and not late.done and late is not entry:
                        found[one.op] = late
        return list(found.values())

    def _try_candidate(self, frame: _GraphFrame, entry: CoverEntry) -> bool:
        """Try the current candidate; False where the next one must be tried."""
        target = frame.target
        if entry.todo != MAP:
            self._copy_op(target, entry)
            return True
        match = entry.match
        if match is None:
            self._report_gap(target, entry)
            return True
        before = target.last_op
        try:
            if match.step < len(match.rule.steps):
                self._run_steps(match)
            self._build(target, entry, match, before)
            if self._incomplete and self._is_incomplete(entry.op):
                self._mark_dependent(entry.op)
        except _BehindGapError:
            self._undo(target, before)
            self._failed.add(entry.op)
        except InternalError:
            raise
        except AmandaError as why:
            self._undo(target, before)
            for port in entry.op.outputs:
                self.made.pop(port, None)
            if self._is_incomplete(entry.op):  # steps cannot decide about them
                self._mark_dependent(entry.op)
                return True
            entry.decline(match.rule, why.message)
            entry.at += 1
            if entry.match is None:
                frame.cover.extend(entry, match)
                self._deferred.update(frame.cover.deferred)
            return False
        except Exception as error:
            error.add_note(f"while {match.rule.id} mapped {op_location(entry.op)}")
            raise
        return True

    def _run_steps(self, match: RuleMatch) -> None:
        for value in match.slots:
            if value.__class__ in _PORTS and constant_of(value) is None:
                self.value(value)  # types are known only before a gap
        if not decide_match(match, self._ask):
            raise Decline(match.why)

    def _build(
        self, target: Graph, entry: CoverEntry, match: RuleMatch, before: Op | None
    ) -> None:
        op, rule = entry.op, match.rule
        found = rule.build(self, target, match.slots, op, _free_name(target, op.name))
        outputs = op.outputs
        for i, port in enumerate(outputs):
            value = found[i] if i < len(found) else None
            if value is not None:
                self.made[port] = value
            elif port.is_used or port in self._pinned:
                for done in outputs[:i]:
                    self.made.pop(done, None)
                raise Decline(f"it does not return output {i}")
        self._add_provenance(target, op, match, before)
        self.report.rules[rule.id] += 1
        if self.report.trace is not None:
            self.report.trace.append(CoveredOp(op.type or "", op.name, rule.id))
        if rule.loss is not None:
            self._losses[f"{op.type}, {op_location(op)}: {rule.loss}"] = None

    def _add_provenance(
        self, target: Graph, op: Op, match: RuleMatch, before: Op | None
    ) -> None:
        """Add names, types and provenance to the ops that a rule built."""
        origin = _new_tuple(Provenance, (source_names(match.ops), match.rule.id))
        new: list[Op] = []
        at = target.last_op
        while at is not before and at is not None:
            if not self._carried or at not in self._carried:
                at.provenance = origin
                new.append(at)
            at = at.previous
        rare = op.side_record is not None  # most ops have no side record
        if rare and _has_control_edges(op):
            if not new and not set(op.control_inputs) <= set(match.ops):
                raise Decline("nothing is made that could wait for its control inputs")
            self._mapped_ops[op] = new
        for port in op.outputs:
            value = self.made.get(port)
            if value is None or value.op.provenance is not origin:
                continue
            if rare:
                copy_port_fields(port, value)
            elif value.type is None:
                value.type = port.type
            if value.name is None:
                value.name = port.name
            is_first = port.index == 0 and value.op.name is None
            if is_first and op.name is not None and op.name not in target:
                target.rename(value.op, op.name)
        if rare or op.has_attrs or len(match.ops) > 1:
            carry_attributes(match.ops, new, self.made)
        if self._check is not None:
            self._expect_valid(new)
        self._carried.clear()

    def _expect_valid(self, ops: list[Op]) -> None:
        """Decline a rule that built an invalid op."""
        assert self._check is not None
        for op in ops:
            is_plain = not op.is_graph and op.own_namespace != CORE
            why = self._check(op) if is_plain else None
            if why is not None:
                raise Decline(f"{op.type} of {self.target.name}: {why}")

    def _undo(self, target: Graph, before: Op | None) -> None:
        """Remove what a rule built before it declined; constants may still be used."""
        at = target.last_op
        while at is not before and at is not None:
            previous = at.previous
            if at in self._carried:
                self._maybe_unused.append(at)
            else:
                discard_op(target, at)
            at = previous
        self._carried.clear()

    # -- ops without a rule ----------------------------------------------------

    def _copy_op(self, target: Graph, entry: CoverEntry) -> None:
        op = entry.op
        try:
            inputs = [self.value(value) for value in op.inputs]
        except _BehindGapError:
            self._failed.add(op)
            return
        self.report.carried += 1
        if isinstance(op, Graph):
            self._copy_graph(target, op, inputs)
        elif entry.todo == COPY_WHOLE:
            theirs = op.own_namespace == target.namespace
            self._copy_whole(target, op, inputs, None if theirs else op.own_namespace)
        else:
            bodies = {key: self._bodies[body] for key, body in op.bodies.items()}
            self._copy(op, target, inputs, self._own_namespace(op), bodies or None)
        if self._is_incomplete(op):
            self._mark_dependent(op)
        self._carried.clear()

    def _own_namespace(self, op: Op) -> str | None:
        """The own namespace of an op that is copied."""
        own = op.own_namespace
        return own if own == CORE or self.program.picks_up else None

    def _copy_graph(
        self, target: Graph, op: Graph, inputs: list[OutputPort | None]
    ) -> None:
        held = self._bodies[op]
        held.name = _free_name(target, held.name)
        target.add_graph(held, inputs)
        copy_input_fields(op, held)
        self.made.update(zip(op.outputs, held.outputs, strict=True))
        for key, body in op.bodies.items():
            held.set_body(key, self._bodies[body])
        self._mapped_ops[op] = [held]

    def _copy_whole(
        self,
        target: Graph,
        op: Op,
        inputs: list[OutputPort | None],
        namespace: str | None,
    ) -> None:
        """Copy an op with everything in it."""
        bodies = {
            key: copy_body(body, target, self.value) for key, body in op.bodies.items()
        }
        self._copy(op, target, inputs, namespace, bodies or None)

    def _report_gap(self, target: Graph, entry: CoverEntry) -> None:
        op = entry.op
        try:
            inputs = [self.value(value) for value in op.inputs]
        except _BehindGapError:
            inputs = None
        if inputs is None or not self._is_filled(target, entry, inputs):
            self._unmapped.append(UnmappedOp(op, entry.type, entry.declined))
            if inputs is None or not self._keep_foreign_op(target, op, inputs):
                self._failed.add(op)
        self._carried.clear()

    def _is_filled(
        self, target: Graph, entry: CoverEntry, inputs: list[OutputPort | None]
    ) -> bool:
        op = entry.op
        before = target.last_op
        why = tuple(f"{id}: {why}" for id, _, why, _ in entry.declined)
        values = self.gap_met(op=op, why=why, build=target, inputs=inputs)
        if values is None:
            return False
        if len(values) != len(op.outputs):
            raise PluginBrokenError(
                f"a listener of {_BY_HOOK} filled {op_location(op)} with too many or "
                "too few values",
                expected=f"{len(op.outputs)}, one for each output",
                got=len(values),
            )
        self.made.update(zip(op.outputs, values, strict=True))
        at = target.last_op
        while at is not before and at is not None:
            at.provenance = Provenance(source_names([op]), _BY_HOOK)
            at = at.previous
        self.report.filled += 1
        return True

    def _keep_foreign_op(
        self, target: Graph, op: Op, inputs: list[OutputPort | None]
    ) -> bool:
        """Keep a foreign op in its own namespace, where that is allowed."""
        if self.keep_foreign:
            self._copy_whole(target, op, inputs, op.namespace)
            self.report.kept += 1
        return self.keep_foreign


def _free_name(target: Graph, name: str | None) -> str | None:
    if name is None or name not in target:
        return name
    return target.fresh_name(name)


def _has_control_edges(op: Op) -> bool:
    """Whether an op has control edges."""
    return op.side_record is not None and bool(op.control_inputs or op.control_outputs)


def _is_constant_needed(op: Op, pinned: frozenset[OutputPort]) -> bool:
    """Whether a constant must be copied although no built op uses it."""
    value = op.outputs[0]
    if not value.is_used or value in pinned:
        return True
    return op.side_record is not None and (
        "keep" in value.marks or _has_control_edges(op)
    )
