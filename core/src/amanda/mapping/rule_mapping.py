"""Mappings by rules: a rule set between two sides, which maps both ways."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeAlias

from amanda.dictionary import Name, parse_name, version_key
from amanda.errors import ConversionError, UsageError
from amanda.graph import Graph, Op, bulk
from amanda.mapping.engine.conversion_run import ConversionRun
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.routes.plan import expect_no_gaps
from amanda.mapping.routes.report import Conversion, Report, merge_conversions
from amanda.mapping.routes.route import GapMet
from amanda.mapping.rules.rule_set import RuleSet
from amanda.mapping.side import Side

__all__ = ["RuleMapping"]

_SideOrFactory: TypeAlias = Side | Callable[[str], Side]


class RuleMapping:
    """Maps graphs by rules, in both directions.

    `left` and `right` are sides, or functions that return the side of a namespace by
    its full name (`amanda/onnx/18`), where there are several versions. `rules` may be a
    function that builds the rule set. Where both ends are one framework, the direction
    follows from the versions: left is the older.

    An entry of `amanda.mappings`:

        mapping = RuleMapping(onnx_side, std_side, rules)
    """

    def __init__(
        self,
        left: _SideOrFactory,
        right: _SideOrFactory,
        rules: RuleSet | Callable[[], RuleSet],
    ) -> None:
        self.left = left
        self.right = right
        self._rules = rules
        self._programs: dict[Any, RuleProgram] = {}

    @property
    def rules(self) -> RuleSet:
        """The rule set; one that was given as a function is built on first use."""
        if not isinstance(self._rules, RuleSet):
            self._rules = self._rules()
        return self._rules

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
    ) -> Graph:
        """The graph in the namespace `to`; ConversionError with every gap."""
        done = self.conversion(graph, to, keep_foreign=keep_foreign, gap_met=gap_met)
        return expect_no_gaps(done, keep_foreign=keep_foreign)

    def conversion(
        self,
        graph: Graph,
        to: str,
        *,
        keep_foreign: bool = False,
        gap_met: GapMet | None = None,
        trace: bool = False,
    ) -> Conversion:
        """The converted graph, and a report with the gaps, which are not raised."""
        if self._has_path_of(graph, to) and self.rules.left != self.rules.right:
            return self._convert_foreign_ops(graph, to, keep_foreign, gap_met, trace)
        start, goal = self._ends(graph, to)
        run = ConversionRun(
            self._program_for(graph, start, goal),
            keep_foreign=keep_foreign,
            gap_met=gap_met or _fill_no_gap,
            trace=trace,
        )
        with bulk():
            return run.convert(graph)

    def _convert_foreign_ops(
        self,
        graph: Graph,
        to: str,
        keep_foreign: bool,
        gap_met: GapMet | None,
        trace: bool,
    ) -> Conversion:
        """Map foreign ops of the other end, which an earlier conversion kept."""
        goal = parse_name(to)
        ends = (self.rules.left, self.rules.right)
        if goal.path not in ends or graph.namespace != str(goal):
            self._ends(graph, to)  # raises with what is supported
        other = ends[ends[0] == goal.path]
        spaces = dict.fromkeys(
            op.own_namespace for part in graph.graphs() for op in part
        )
        done = [Conversion(graph.clone(), Report(str(goal), str(goal)))]
        for space in spaces:
            if space is None or parse_name(space).path != other:
                continue
            program = self._program_for(graph, space, str(goal), picks_up=True)
            with bulk():
                run = ConversionRun(
                    program,
                    keep_foreign=keep_foreign,
                    gap_met=gap_met or _fill_no_gap,
                    trace=trace,
                )
                done.append(run.convert(done[-1].graph))
        return merge_conversions(done)

    def takes(self, op: Op, to: str) -> bool | str:
        """True if some rule supports this op in its graph, else the reasons."""
        if op.graph is None:
            raise UsageError("the op is in no graph", got=repr(op))
        start, goal = self._ends(op.graph, to)
        return self._program_for(op.graph, start, goal).takes(op)

    def with_rules(self, *paths: str | Path) -> Self:
        """A copy with the rules of files, which are tried before its own."""
        made = copy(self)
        made._rules = self.rules.copy()
        made._programs = {}
        for path in map(Path, paths):
            made.rules.load(path)
            made.rules.preferred |= {path.name}
        return made

    def program(
        self, source: str, target: str, *, picks_up: bool = False
    ) -> RuleProgram:
        """The compiled rules from one version to another."""
        key = (source, target, picks_up)
        if key not in self._programs:
            forward = self._is_forward(parse_name(source), parse_name(target))
            ends = (self.left, self.right) if forward else (self.right, self.left)
            names = (source, target)
            sides = [_side_at(end, name) for end, name in zip(ends, names, strict=True)]
            program = RuleProgram(self.rules, *sides, forward=forward)
            program.picks_up = picks_up
            self._programs[key] = program
        return self._programs[key]

    def _program_for(
        self, graph: Graph, source: str, target: str, *, picks_up: bool = False
    ) -> RuleProgram:
        """The program for one graph; subclasses may use the domains that it imports."""
        del graph
        return self.program(source, target, picks_up=picks_up)

    def _has_path_of(self, graph: Graph, to: str) -> bool:
        return parse_name(graph.namespace or to).path == parse_name(to).path

    def _ends(self, graph: Graph, to: str) -> tuple[str, str]:
        start, goal = graph.namespace or "", parse_name(to)
        paths = (self.rules.left, self.rules.right)
        ends = (parse_name(start).path if start else "", goal.path)
        if ends not in (paths, paths[::-1]):
            raise ConversionError(
                f"{self.rules.name} does not map from {start or 'nothing'} to {to}",
                expected=f"a graph of {paths[0]} or {paths[1]}, to the other",
            )
        return start, str(goal)

    def _is_forward(self, source: Name, target: Name) -> bool:
        rules = self.rules
        if rules.left != rules.right:
            return source.path == rules.left
        ends = (source.version or "", target.version or "")
        return version_key(ends[0]) <= version_key(ends[1])


def _side_at(end: _SideOrFactory, name: str) -> Side:
    return end if isinstance(end, Side) else end(name)


def _fill_no_gap(**_event: Any) -> None:
    """The default listener of `gap_met`: fills no gap."""
