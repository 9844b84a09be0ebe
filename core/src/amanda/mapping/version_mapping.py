"""Mappings between the versions of one framework: graphs up- and downgraded.

An op stays as it is where both versions define it alike, or where the difference does
not concern it: other element types, new attributes that it does not set, defaults that
are then written out. Rules of the framework's hub mapping name only versions at which a
meaning changed, so they tell which ops did. What cannot stay is converted alone, by
rules between the versions where there are some, else to the hub and back.

    MAPPING_OF_VERSIONS = VersionMapping("acme-versions", MAPPING)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from amanda.current_host import host_in_use
from amanda.dictionary import Dictionary, OpDef, get_checker, parse_name
from amanda.errors import ConversionError
from amanda.graph import CORE, Graph, Op, OutputPort, bulk, copy_ops
from amanda.mapping.engine.conversion_run import ConversionRun
from amanda.mapping.hub_mapping import HubMapping
from amanda.mapping.routes.plan import expect_no_gaps
from amanda.mapping.routes.report import Conversion, Report, op_location
from amanda.mapping.routes.route import Gap, GapMet
from amanda.mapping.rule_mapping import RuleMapping
from amanda.mapping.rules.functions import FunctionRule
from amanda.mapping.rules.rule_set import RuleSet
from amanda.mapping.side import constant_of
from amanda.types import TensorType, Type, VoidType

__all__ = ["VersionChange", "VersionMapping", "version_number"]


class VersionMapping:
    """A framework's versions to each other.

    `through` maps the framework to the hub. `rules` are rules between versions, from
    the framework to itself. `harmless` has op types with versions at which rules change
    though the meaning does not. Subclasses may override what decides about single ops.
    """

    def __init__(
        self,
        name: str,
        through: HubMapping,
        *,
        rules: RuleSet | None = None,
        harmless: Collection[tuple[str, int]] = (),
    ) -> None:
        self.name = name
        self.through = through
        self.harmless = frozenset(harmless)
        self.steps = None
        if rules is not None:
            side = through.framework_side
            self.steps = RuleMapping(side, side, rules)
        self.changed_at = cache(self._changed_at)

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
    ) -> Graph:
        """The graph at the version of `to`; ConversionError with every gap."""
        done = self.conversion(graph, to, keep_foreign=keep_foreign, gap_met=gap_met)
        return expect_no_gaps(done, keep_foreign=keep_foreign)

    def conversion(
        self,
        graph: Graph,
        to: str,
        *,
        keep_foreign: bool = False,
        gap_met: GapMet | None = None,
    ) -> Conversion:
        """The converted graph, and a report with the gaps."""
        framework = self.through.framework
        for name in (graph.namespace, to):
            if name is None or parse_name(name).path != framework:
                raise ConversionError(
                    f"{self.name} does not map from {graph.namespace or 'nothing'} "
                    f"to {to}",
                    expected=f"two versions of {framework}",
                )
        with bulk():
            change = VersionChange(self, graph, to)
            return change.run(keep_foreign=keep_foreign, gap_met=gap_met)

    def _changed_at(self, op_type: str) -> tuple[int, ...]:
        """The versions at which the meaning of an op changed, by the hub's rules."""
        found: set[int] = set()
        for rule in self.through.rules.of_type(op_type, forward=True):
            term = rule.term if isinstance(rule, FunctionRule) else rule.left
            if term.low is not None:
                found.add(term.low)
            if term.high is not None:
                found.add(term.high + 1)
        return tuple(sorted(v for v in found if (op_type, v) not in self.harmless))

    # -- what subclasses may override ----------------------------------------------

    def version(self, namespace: str) -> Any:
        """The version in a namespace's name, to be compared with others."""
        return version_number(namespace)

    def is_changed(self, op: Op, change: VersionChange) -> bool:
        """Whether an op means something else at the target version."""
        return change.crosses(self.changed_at(op.type or ""))

    def is_replaced(self, op: Op, change: VersionChange) -> bool:
        """Whether an op is replaced although both versions define it alike."""
        del op, change
        return False

    def adjust(
        self, op: Op, before: OpDef, after: OpDef, change: VersionChange
    ) -> None:
        """Adapt an op that stays: write out defaults that are others now."""
        del change
        for attr in before.attrs:
            target = after.attr(attr.name)
            default = attr.default
            if attr.name in op.attrs:
                if target is None and _as_list(op.attrs[attr.name]) == _as_list(
                    default
                ):
                    del op.attrs[attr.name]
            elif (
                target is not None and default is not None and target.default != default
            ):
                op.attrs[attr.name] = _as_list(default)

    def may_leave(self, op: Op, change: VersionChange) -> bool:
        """Whether an op may go through the hub, alone."""
        del op, change
        return True

    def faults(self, piece: Graph) -> list[str]:
        """Why a converted piece is not valid at the target version."""
        del piece
        return []

    def adjust_constant(self, op: Op, change: VersionChange) -> None:
        """Adapt the metadata of a constant."""

    def finish(self, graph: Graph, change: VersionChange) -> None:
        """Adapt a converted graph and those in it."""
        for part in graph.graphs():
            own = part.own_namespace
            if own is not None and parse_name(own).path == self.through.framework:
                part.namespace = change.target


class VersionChange:
    """One graph converted from its version to another."""

    def __init__(self, mapping: VersionMapping, graph: Graph, target: str) -> None:
        self.mapping = mapping
        self.source = graph.namespace or ""
        self.target = target
        self.version = mapping.version(target)
        self.after = _dictionary(target)
        self.report = Report(self.source, target)
        self._original = graph
        self._copies: dict[Any, Any] = {}
        self._graph = graph.clone(memo=self._copies)
        self._gaps: list[Gap] = []
        self._losses: dict[str, None] = {}
        self._types: dict[OutputPort, Type] | None = None
        self._version_of_op = mapping.version(self.source)

    def run(self, *, keep_foreign: bool, gap_met: GapMet | None) -> Conversion:
        """Convert the ops one by one."""
        replaced: set[Graph] = set()
        for part in list(self._graph.graphs()):
            if part in replaced:
                continue
            source = part.namespace or self.source
            self._version_of_op = self.mapping.version(source)
            for op in list(part):
                if op.__class__ is Op and not self._can_stay(op, source):
                    for body in op.bodies.values():
                        replaced.update(body.graphs())
                    if not self._replace(op, part, source, gap_met) and keep_foreign:
                        op.namespace = source
                        self.report.kept += 1
        self.mapping.finish(self._graph, self)
        self.report.gaps = tuple(self._gaps)
        self.report.losses = tuple(self._losses)
        return Conversion(self._graph, self.report)

    def crosses(self, versions: Collection[int]) -> bool:
        """Whether any of these lies between the versions of this change."""
        low, high = sorted((self._version_of_op, self.version))
        return any(low < version <= high for version in versions)

    # -- ops that stay -------------------------------------------------------------

    def _can_stay(self, op: Op, source: str) -> bool:
        own = op.own_namespace
        if own == CORE:
            self.mapping.adjust_constant(op, self)
            return True
        if own is not None and own != source:
            return True  # of another domain, which has versions of its own
        if self.mapping.is_replaced(op, self):
            return False
        before, after = _dictionary(source).get(op.type), self.after.get(op.type)
        if before is None or before is after:  # None: a function of the model's own
            self.report.carried += before is not None
            return True
        if after is None or self.mapping.is_changed(op, self):
            return False
        self.mapping.adjust(op, before, after, self)
        checker = get_checker(self.after, op.type or "")
        with self._with_types(op):
            functions = frozenset(self._graph.functions)
            faults = checker.faults(op, functions) if checker is not None else ["?"]
        self.report.carried += not faults
        return not faults

    # -- types ---------------------------------------------------------------------

    def type_of(self, value: OutputPort | None) -> Type | None:
        """The type of a value, inferred by the hub where the model has none."""
        if value is None or value.type is not None:
            return None if value is None else value.type
        if self._types is None:
            self._types = self._inferred_types()
        return self._types.get(value)

    def _inferred_types(self) -> dict[OutputPort, Type]:
        run = ConversionRun(
            self.mapping.through.program(self.source, self.mapping.through.hub),
            keep_foreign=True,
            gap_met=lambda **_event: None,
            trace=False,
        )
        run.convert(self._original)
        return {
            self._copies[value]: there.type
            for value, there in run.made.items()
            if value in self._copies and there.type is not None
        }

    @contextmanager
    def _with_types(self, op: Op) -> Iterator[None]:
        """A context in which the inputs and outputs of an op have types."""
        untyped = [
            v for v in (*op.inputs, *op.outputs) if v is not None and v.type is None
        ]
        for value in untyped:
            value.type = self.type_of(value)
        try:
            yield
        finally:
            for value in untyped:
                value.type = None

    # -- ops that are converted ----------------------------------------------------

    def _replace(
        self, op: Op, part: Graph, source: str, gap_met: GapMet | None
    ) -> bool:
        """Convert an op alone and put the result in its place; False for a gap."""
        piece, inputs = self._extract(op, part, source)
        steps, by = self._convert_piece(piece, op, gap_met)
        why = self._faults_of(steps)
        if why:
            at = op_location(op, op.index if op.name is None else None)
            self._gaps.append(Gap(op.type or "op", at, why))
            return False
        self.report.rules[f"{op.type}: {by}"] += 1
        for step in steps:
            self._losses.update(dict.fromkeys(step.report.losses))
        self._insert(op, part, steps[-1].graph, inputs)
        return True

    def _faults_of(self, steps: list[Conversion]) -> tuple[str, ...]:
        """Why the conversions of a piece do not do."""
        if not steps:
            return (
                f"{self.target} has no such op, or not so, and no rule replaces it",
            )
        gaps = steps[-1].report.gaps
        if not gaps:
            return tuple(self.mapping.faults(steps[-1].graph))
        return tuple(dict.fromkeys(line for gap in gaps for line in _reasons(gap)))

    def _convert_piece(
        self, piece: Graph, op: Op, gap_met: GapMet | None
    ) -> tuple[list[Conversion], str]:
        """The conversions of a piece, one after the other, and what they went by."""
        if self.mapping.steps is not None:
            step = self.mapping.steps.conversion(piece, self.target)
            if step.report.rules and not step.report.gaps:
                return [step], "by a rule between versions"
        if not self.mapping.may_leave(op, self):
            return [], ""
        through = self.mapping.through
        found = [through.conversion(piece, through.hub, gap_met=gap_met)]
        if not found[0].report.gaps:
            back = through.conversion(found[0].graph, self.target, gap_met=gap_met)
            found.append(back)
        return found, f"through {parse_name(through.hub).path}"

    def _extract(
        self, op: Op, part: Graph, source: str
    ) -> tuple[Graph, list[OutputPort]]:
        """An op as a model of its own, with its constants; and the model's inputs."""
        piece = Graph(source, "piece")
        side = self.mapping.through.framework_side(source)
        piece.imports.update(getattr(side, "imports", {}))
        memo: dict[Any, Any] = {}
        inputs = []
        inside = {g for body in op.bodies.values() for g in body.graphs()}
        captured = [v for g in inside for v in g.captures if v.graph not in inside]
        for value in (*op.inputs, *captured):
            if value is None or value in memo:
                continue
            tensor = constant_of(value)
            if tensor is not None:
                memo[value] = piece.constant(tensor).output
            else:
                memo[value] = piece.parameter(_without_content(self.type_of(value)))
                inputs.append(value)
        copy_ops(part, piece, [op], memo)
        for port in op.outputs:
            twin = memo[port]
            twin.type = twin.type or _without_content(self.type_of(port))
            if not _is_absent(port):
                piece.result(twin)
        for name, function in self._graph.functions.items():
            piece.add_function(name, function.clone())
        return piece, inputs

    def _insert(
        self, op: Op, part: Graph, piece: Graph, inputs: list[OutputPort]
    ) -> None:
        """Put a converted piece in the place of its op, under the op's names."""
        for inner in piece.graphs():
            for each in list(inner):
                if each.name is not None:
                    inner.rename(each, None)
                for port in each.outputs:
                    port.name = None
        before = set(part)
        with part.before(op):
            found = iter(part.paste(piece, inputs))
        values = [None if _is_absent(port) else next(found) for port in op.outputs]
        name = op.name
        for old, new in zip(op.outputs, values, strict=True):
            is_new = new is not None and new.op not in before and new.op is not part
            known = self.type_of(old)
            if new is not None and self._types is not None and known is not None:
                self._types.setdefault(new, known)
            if new is not None and is_new and new.name is None:
                new.name, new.type = old.name, old.type
                if old.has_attrs:
                    new.attrs.update(old.attrs)
        part.replace(op, values, self.mapping.name)
        first = next((v.op for v in values if v is not None), None)
        is_new = first is not None and first not in before and first is not part
        if name and first is not None and is_new and first.name is None:
            part.rename(first, name)


def version_number(namespace: str) -> int:
    """The version in a namespace's name.

    >>> version_number("amanda/onnx/18")
    18
    """
    return parse_name(namespace).number


def _dictionary(name: str) -> Dictionary:
    found: Any = host_in_use().namespace(name, assume=True)
    assert isinstance(found, Dictionary)
    return found


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


def _is_absent(port: OutputPort) -> bool:
    return isinstance(port.type, VoidType) and not port.users


def _without_content(found: Type | None) -> Type | None:
    """Element type and shape only."""
    if isinstance(found, TensorType):
        return TensorType(found.dtype, found.shape)
    return found


def _reasons(gap: Gap) -> Iterator[str]:
    yield from gap.why or (f"no rule maps {gap.op}",)
