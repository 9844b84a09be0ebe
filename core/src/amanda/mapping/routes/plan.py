"""Plans: the route of a conversion and, on demand, every gap on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from amanda.errors import ConversionError, PluginBrokenError
from amanda.mapping.routes.report import Conversion, Report
from amanda.mapping.routes.route import Gap, GapMet, Route, RouteStep, gap_error

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.mapping.lowering import Refusal

__all__ = ["Plan", "gaps_of", "run_mapper", "expect_no_gaps"]


class Plan:
    """The route of a conversion. `reports` and `gaps` run it, on first use.

    Finding the route imports no mapping; running it does, and converts the graph as far
    as possible. `lower` returns a graph with the ops that the backend supports, and
    what it does not support, of a graph in which gaps are foreign ops; these are not
    asked about where there are gaps.
    """

    def __init__(
        self,
        route: Route,
        graph: Graph,
        step: Callable[[Graph, RouteStep, bool], Conversion],
        lower: Callable[[Graph, bool], tuple[Graph, list[Refusal]]] | None = None,
    ) -> None:
        self.route = route
        self._graph = graph
        self._step = step
        self._lower = lower
        self.finished_reports: tuple[Report, ...] = ()
        """The reports of the steps that did not raise an error, once they ran."""

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
    def _run(self) -> tuple[Graph, Graph, tuple[Report, ...]]:
        """The graphs before the last step and after it, and the report of each step."""
        before = graph = self._graph
        for step in self.steps:
            before, done = graph, self._step(graph, step, False)
            if done.report.gaps and step is not self.steps[-1]:
                done = Conversion(self._step(graph, step, True).graph, done.report)
            graph = done.graph
            self.finished_reports += (done.report,)
        return before, graph, self.finished_reports

    @property
    def reports(self) -> tuple[Report, ...]:
        """The report of each step."""
        return self._run[2]

    @property
    def result(self) -> Graph:
        """The converted graph; incomplete where there are gaps."""
        return self._run[1]

    @cached_property
    def result_with_gaps(self) -> Graph:
        """The converted graph, in which gaps are ops of their own namespace."""
        before, after, reports = self._run
        if not reports or not reports[-1].gaps:
            return after
        return self._step(before, self.steps[-1], True).graph

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Every op that some step cannot map, once each."""
        return gaps_of(self.reports)

    @cached_property
    def _lowered_result(self) -> tuple[Graph, list[Refusal]]:
        made = self.result_with_gaps
        return (made, []) if self._lower is None else self._lower(made, bool(self.gaps))

    @property
    def lowered_graph(self) -> Graph:
        """The graph with gaps, as the backend would compile it."""
        return self._lowered_result[0]

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What the backend does not support beside the gaps, for a plan to one."""
        return tuple(self._lowered_result[1])

    @property
    def is_clear(self) -> bool:
        """Whether there are no gaps and no refusals."""
        return not self.gaps and not self.refusals

    def __str__(self) -> str:
        return str(self.route)


def gaps_of(reports: Sequence[Report]) -> tuple[Gap, ...]:
    """Every op that some step could not map, once each."""
    first, *later = reports or (Report("", ""),)
    return first.gaps + tuple(
        gap for report in later for gap in report.gaps if not gap.foreign
    )


def run_mapper(
    mapper: Any, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
) -> Conversion:
    """The conversion of a graph by a mapper; gaps are in its report, not raised.

    A mapper without reports is called a second time where it has gaps.
    """
    if hasattr(mapper, "conversion"):
        return mapper.conversion(  # type: ignore[no-any-return]
            graph, to, keep_foreign=keep_foreign, gap_met=gap_met
        )
    if not callable(getattr(mapper, "apply", None)):
        raise PluginBrokenError(
            "this is not a mapping",
            expected="an object with apply(graph, to, keep_foreign=, gap_met=)",
            got=type(mapper).__name__,
        )
    report = Report(graph.namespace or "", to)
    try:
        made = mapper.apply(graph, to, keep_foreign=keep_foreign, gap_met=gap_met)
    except ConversionError as error:
        report.gaps = tuple(getattr(error, "gaps", ()))
        if not report.gaps:
            raise
        made = mapper.apply(graph, to, keep_foreign=True, gap_met=gap_met)
    if not report.gaps:
        report.carried = sum(op.is_constant for op in graph.walk())
        count = sum(1 for _ in graph.walk()) - report.carried
        report.rules[type(mapper).__name__] += count
    return Conversion._make((made, report))  # the caller checks what was returned


def expect_no_gaps(done: Conversion, *, keep_foreign: bool) -> Graph:
    """The converted graph; ConversionError with every gap, unless these may stay."""
    report = done.report
    if report.gaps and not keep_foreign:
        raise gap_error(report.gaps, report.source, report.target)
    return done.graph
