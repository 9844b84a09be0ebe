"""How a conversion would go: its route and, when asked for, every gap on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from amanda.errors import ConversionError
from amanda.mapping.routes.report import Conversion, Report
from amanda.mapping.routes.route import Gap, GapMet, Route, RouteStep, gap_error

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["Plan", "run_mapper", "expect_no_gaps"]


class Plan:
    """The route of a conversion. `reports` and `gaps` try it out, on first use.

    Finding the route imports no mapping; trying it out does, and maps the graph as far
    as it goes, without giving the result to anybody.
    """

    def __init__(
        self,
        route: Route,
        graph: Graph,
        step: Callable[[Graph, RouteStep, bool], Conversion],
        refused: Callable[[Graph], list[str]] | None = None,
    ) -> None:
        self.route = route
        self._graph = graph
        self._step = step
        self._refused = refused

    @property
    def source(self) -> str:
        return self.route.source

    @property
    def target(self) -> str:
        return self.route.target

    @property
    def steps(self) -> tuple[RouteStep, ...]:
        return self.route.steps

    @cached_property
    def _tried(self) -> tuple[Graph, tuple[Report, ...]]:
        graph, reports = self._graph, []
        for step in self.steps:
            done = self._step(graph, step, False)
            if done.report.gaps and step is not self.steps[-1]:
                done = Conversion(self._step(graph, step, True).graph, done.report)
            graph = done.graph
            reports.append(done.report)
        return graph, tuple(reports)

    @property
    def reports(self) -> tuple[Report, ...]:
        """What each step would tell."""
        return self._tried[1]

    @property
    def result(self) -> Graph:
        """What would come out; with gaps, it has holes."""
        return self._tried[0]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Every op that some step cannot map, each told where it is met first."""
        first, *later = self.reports or (Report("", ""),)
        return first.gaps + tuple(
            gap for report in later for gap in report.gaps if not gap.foreign
        )

    @cached_property
    def refusals(self) -> tuple[str, ...]:
        """What the backend does not take of the result, where one is meant."""
        if self._refused is None or self.gaps:
            return ()
        return tuple(self._refused(self.result))

    @property
    def is_clear(self) -> bool:
        """No gaps, and nothing that the backend refuses."""
        return not self.gaps and not self.refusals

    def __str__(self) -> str:
        return str(self.route)


def run_mapper(
    mapper: Any, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
) -> Conversion:
    """What a mapper makes of a graph, and its report; gaps are in there, not raised.

    A mapper that tells no reports is asked once more, where it has gaps.
    """
    if hasattr(mapper, "conversion"):
        return mapper.conversion(  # type: ignore[no-any-return]
            graph, to, keep_foreign=keep_foreign, gap_met=gap_met
        )
    report = Report(graph.namespace or "", to)
    try:
        made = mapper.apply(graph, to, keep_foreign=keep_foreign, gap_met=gap_met)
    except ConversionError as error:
        report.gaps = tuple(getattr(error, "gaps", ()))
        if not report.gaps:
            raise
        made = mapper.apply(graph, to, keep_foreign=True, gap_met=gap_met)
    return Conversion(made, report)


def expect_no_gaps(done: Conversion, *, keep_foreign: bool) -> Graph:
    """The graph; ConversionError with every gap, where gaps may not be."""
    report = done.report
    if report.gaps and not keep_foreign:
        raise gap_error(report.gaps, report.source, report.target)
    return done.graph
