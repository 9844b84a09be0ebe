"""Mappings to and from a hub namespace, declared by a side and a package of rules.

A plug-in says what its ops look like (a side) and where its rules are (a package); what
every mapping to the hub needs besides is done here:

    MAPPING = HubMapping(
        "acme-std", "amanda/acme", side=acme_side, package="amanda_acme.mapping"
    )

- Rules are discovered: the `*.rules` files of the package and the tables `READ`,
  `WRITE` and `LENSES` of its modules and of its sub-packages. A sub-package with a
  higher `PRIORITY` comes first; otherwise names decide.
- Hub ops that the target does not support are replaced by their definitions.
- Ops of several domains: the side is built for the domains that a graph imports.
- What rules built and no result uses is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.resources import files
from operator import attrgetter
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias

from amanda.current_host import host_in_use
from amanda.dictionary import parse_name
from amanda.errors import AmandaError
from amanda.graph import SCOPES_RECORD, STATE_NOTE, VALUE_NOTE, Graph, Op, state_ports
from amanda.mapping.engine.compiled_rule import (
    CompiledRule,
    RuleMatch,
    decide_match,
)
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.engine.trim import trim
from amanda.mapping.lowering import Overrides, lower
from amanda.mapping.routes.process import builds_op
from amanda.mapping.routes.report import ChangedPort, Conversion
from amanda.mapping.routes.route import GapMet
from amanda.mapping.rule_mapping import RuleMapping
from amanda.mapping.rules.rule_set import RuleSet
from amanda.mapping.side import Decline, PlainSide, Side, answer_question

__all__ = ["HUB", "HubMapping", "SideFactory", "discover_rules"]

HUB: Final = "amanda/std/1"


class SideFactory(Protocol):
    """Builds the framework's side of a hub mapping.

    A side may also have `prepare(graph)`, which returns the graph to be read, for
    instance with local functions inlined, `scopes(graph)`, the modules and source lines
    of its ops, and `finish(graph, source)`, which completes a written graph in place.
    """

    def __call__(self, namespace: str, imports: Mapping[str, int] | None, /) -> Side:
        """The side of a version of the framework.

        `imports` has the domains of a graph to be written, with their versions; it is
        None for graphs to be read, whose ops may be of any domain.
        """


def dictionary_side(namespace: str, _imports: Mapping[str, int] | None) -> Side:
    """A side that has nothing but the dictionary of its namespace."""
    dictionary: Any = host_in_use().namespace(namespace, assume=True)
    side: Side = PlainSide.of(dictionary)
    return side


class HubMapping(RuleMapping):
    """A framework to the hub and back.

    On the way back, `definitions` replace hub ops, by type, before the hub's own
    definitions are tried; one may raise Decline to leave an op as it is. Those of
    `fallback_definitions` replace composites that no rule fits. `layout` is
    that of the framework's data, such as `NC*`, if it has only one: hub ops of another
    layout are converted to it first. Without `complex_types`, complex numbers become
    pairs of real ones, also in inputs and results, as the report states. Without
    `variables`, these become inputs and results with the note `x-state`; in graphs
    that are read, such inputs and results become variables.
    Without `empty_results`, results that have no value are dropped; a loss says so.
    `consumed_notes` are free notes of ops that the mapping reads, such as the values of
    variables: they are not reported as lost.
    """

    def __init__(
        self,
        name: str,
        framework: str,
        *,
        package: str,
        side: SideFactory = dictionary_side,
        hub: str = HUB,
        definitions: Overrides | None = None,
        fallback_definitions: Overrides | None = None,
        layout: str | None = None,
        complex_types: bool = True,
        variables: bool = True,
        empty_results: bool = True,
        consumed_notes: Sequence[str] = (),
    ) -> None:
        rules = partial(discover_rules, name, framework, hub, package)
        super().__init__(self.framework_side, self._hub_side, rules)
        self.framework = parse_name(framework).path
        self.hub = hub
        self.definitions = definitions or {}
        self.fallback_definitions = fallback_definitions or {}
        self.layout = layout
        self.complex_types = complex_types
        self.variables = variables
        self.empty_results = empty_results
        state_notes = () if variables else (STATE_NOTE, VALUE_NOTE)
        self.consumed_notes = (*consumed_notes, *state_notes)
        self._side = side
        self._sides: dict[tuple[str, Any], Side] = {}
        """Sides to write, by version and domains; a factory may return one for many."""

    def framework_side(
        self, namespace: str, imports: Mapping[str, int] | None = None
    ) -> Side:
        """The side of a version of the framework; see `SideFactory`."""
        return self._side(namespace, imports)

    def _hub_side(self, name: str) -> Side:
        space: Any = host_in_use().namespace(name)
        return space.side  # type: ignore[no-any-return]

    def composites(self) -> list[str]:
        """The hub ops that are replaced by their definitions where no rule fits."""
        hub: Any = host_in_use().namespace(self.hub)
        return [name for name in hub if hub.is_composite(name)]

    # -- conversions -----------------------------------------------------------------

    def conversion(
        self,
        graph: Graph,
        to: str,
        *,
        keep_foreign: bool = False,
        gap_met: GapMet | None = None,
        trace: bool = False,
    ) -> Conversion:
        """The graph in the other namespace, and a report with the gaps."""
        convert = partial(
            super().conversion,
            to=to, keep_foreign=keep_foreign, gap_met=gap_met, trace=trace,
        )  # fmt: skip
        if graph.namespace is not None and self._has_path_of(graph, to):
            return convert(graph)
        start, goal = self._ends(graph, to)
        program = self._program_for(graph, start, goal)
        if parse_name(start).path == self.framework:
            prepare = getattr(program.source, "prepare", None)
            source = graph if prepare is None else prepare(graph)
            done = convert(source)
            trim(source, done.graph)
            scopes = getattr(program.source, "scopes", None)
            if scopes is not None and len(table := scopes(graph)):
                done.graph.attrs[SCOPES_RECORD] = table.as_attribute()
            if not self.variables and state_ports(done.graph):
                hub: Any = host_in_use().namespace(self.hub)
                hub.implicit_state(done.graph)
            return done
        return self._write(graph, program, convert, keep_foreign)

    def _write(
        self, graph: Graph, program: RuleProgram,
        convert: Callable[[Graph], Conversion], keep_foreign: bool,
    ) -> Conversion:  # fmt: skip
        """A graph of the hub in the framework's ops; unfinished if ops are missing.

        A composite that a rule matched and that became a gap nevertheless, as rules for
        the ops around it do not fit, is replaced by its definition, and the conversion
        is repeated.
        """
        refused: set[str] = set()
        hub: Any = host_in_use().namespace(self.hub)
        while True:
            lowered, changed, losses = self._lower(graph, program, refused)
            done = convert(lowered)
            gaps = {gap.op for gap in done.report.gaps} - refused
            more = {type for type in gaps if type in hub and hub.is_composite(type)}
            if not more:
                break
            refused |= more
        trim(lowered, done.graph)
        done.report.changed_ports = changed
        done.report.losses += losses
        if not self.variables:
            done.report.state_ports = state_ports(done.graph)
        finish = getattr(program.target, "finish", None)
        if finish is not None and (keep_foreign or not done.report.gaps):
            finish(done.graph, graph)
        return done

    def _lower(
        self, graph: Graph, program: RuleProgram, refused: Collection[str]
    ) -> tuple[Graph, tuple[ChangedPort, ...], tuple[str, ...]]:
        """A typed copy in which composites that no rule supports are replaced, the
        inputs and results of other types in it, and what was lost."""
        hub: Any = host_in_use().namespace(self.hub)

        def supports(op: Op) -> bool:
            if op.type in refused:
                return False
            return not hub.is_composite(op.type) or is_matched(op, _is_built)

        def is_matched(op: Op, fits: OpTest = _is_matched) -> bool:
            return fits(program, op) or any(
                _is_matched(program, user, op)
                for port in op.outputs
                for user in port.user_ops
                if user is not op.graph
            )

        copy = graph.clone()
        losses = () if self.empty_results else _drop_empty_results(copy)
        hub.infer(copy)
        if not self.variables:
            hub.explicit_state(copy)
        if self.layout is not None:
            hub.assign_layout(copy, self.layout)
        before = _port_types(copy)
        if not self.complex_types:
            hub.complex_as_pairs(copy, is_matched)
        changed = tuple(
            ChangedPort(*row, after)
            for row, (*_, after) in zip(before, _port_types(copy), strict=True)
            if row[-1] != after
        )
        rest = {k: v for k, v in self.definitions.items() if k not in refused}
        lower(copy, supports, self.fallback_definitions, first=rest)
        return copy, changed, losses

    # -- programs --------------------------------------------------------------------

    def program(
        self,
        source: str,
        target: str,
        *,
        picks_up: bool = False,
        imports: Mapping[str, int] | None = None,
    ) -> RuleProgram:
        """The compiled rules from one version to another.

        `imports` are the domains of a graph to be written; without any, only ops of the
        framework's own domain are written.
        """
        if parse_name(target).path != self.framework:
            return super().program(source, target, picks_up=picks_up)
        domains = tuple(sorted((imports or {}).items()))
        side = self._sides.get((target, domains))
        if side is None:
            side = self.framework_side(target, dict(domains))
            self._sides[target, domains] = side
        key = (source, target, picks_up, id(side))
        if key not in self._programs:
            program = RuleProgram(
                self.rules, self._hub_side(source), side, forward=False
            )
            program.picks_up = picks_up
            self._programs[key] = program
        return self._programs[key]

    def _program_for(
        self, graph: Graph, source: str, target: str, *, picks_up: bool = False
    ) -> RuleProgram:
        return self.program(source, target, picks_up=picks_up, imports=graph.imports)


OpTest: TypeAlias = Callable[[RuleProgram, Op], bool]


def _port_types(graph: Graph) -> list[tuple[str, int, str | None, Any]]:
    """The types of inputs and results, with their places, indices and names."""
    rows: list[tuple[str, int, str | None, Any]] = [
        ("input", port.index, port.name, port.type) for port in graph.parameters
    ]
    results = zip(graph.outputs, graph.results, strict=True)
    return rows + [
        ("result", port.index, port.name, None if value is None else value.type)
        for port, value in results
    ]


def _drop_empty_results(graph: Graph) -> tuple[str, ...]:
    """Remove the results without a value; returns what to say about each."""
    empty = [i for i, value in enumerate(graph.results) if value is None]
    labels = [graph.outputs[i].name or str(i) for i in empty]
    for i in reversed(empty):
        graph.remove_result(i)
    return tuple(f"the result {label}, which has no value" for label in labels)


def _is_matched(program: RuleProgram, op: Op, part: Op | None = None) -> bool:
    """Whether a rule matches an op, with `part` as another op of its pattern."""
    rules = program.candidates(op.type or "").for_op(op)
    return any(_matches(rule, op, part) for rule in rules)


def _is_built(program: RuleProgram, op: Op) -> bool:
    """Whether a rule builds what an op, or a pattern that ends with it, becomes.

    Patterns, and ops with bodies, are matched only."""
    rules = program.candidates(op.type or "").for_op(op)
    return any(
        _matches(rule, op, None)
        and (rule.size > 1 or bool(op.bodies) or builds_op(program, rule, op))
        for rule in rules
    )


def _matches(rule: CompiledRule, op: Op, part: Op | None) -> bool:
    if part is not None and rule.size == 1:
        return False

    def decide(match: RuleMatch) -> None:
        if part is not None and part not in match.ops:
            raise Decline(f"{part} is not in the pattern")
        decide_match(match, answer_question)

    try:
        rule.first_of(op, decide)
    except AmandaError:
        return False
    return True


# -- discovery -------------------------------------------------------------------------


def discover_rules(name: str, left: str, right: str, package: str) -> RuleSet:
    """All rules of a package and its sub-packages.

    A rule file is any `*.rules`. Modules may have `READ` and `WRITE`, functions by the
    head of the op that they are for, and `LENSES`.
    """
    rules = RuleSet(name, left, right)
    modules = [module for each in _packages(package) for module in _modules(each)]
    for module in modules:
        for lens in getattr(module, "LENSES", ()):
            rules.add_lens(lens)
    for each in _packages(package):
        found = (f for f in files(each).iterdir() if f.name.endswith(".rules"))
        for file in sorted(found, key=attrgetter("name")):
            rules.defer(file.read_text("utf-8"), file.name)
    for module in modules:
        for head, function in getattr(module, "READ", {}).items():
            rules.read(head)(function)
        for head, function in getattr(module, "WRITE", {}).items():
            rules.write(head)(function)
    return rules


def _packages(package: str) -> list[ModuleType]:
    """A package, then its sub-packages by priority and name."""
    root = import_module(package)
    names = [info.name for info in iter_modules(root.__path__) if info.ispkg]
    found = [import_module(f"{package}.{name}") for name in sorted(names)]
    return [root, *sorted(found, key=lambda m: -getattr(m, "PRIORITY", 0))]


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    names = [info.name for info in iter_modules(package.__path__) if not info.ispkg]
    for name in sorted(names):
        yield import_module(f"{package.__name__}.{name}")
