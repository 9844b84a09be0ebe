"""Checks of tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import amanda
from amanda.dictionary import parse_span
from amanda.graph import Graph
from amanda.instrument import Instrumented, Tool
from amanda.testing._plugin import expect_chosen, expect_lazy
from amanda.testing._suite import Suite, for_each, skip
from amanda.types import Sym

_RELATIVE = 1e-4


class ToolSample(NamedTuple):
    """A graph of any namespace, and its feeds in order."""

    graph: Graph
    feeds: Sequence[Any]


class ToolSuite(Suite):
    """Checks of the tool of this name, on `samples`.

    `options` are those of the constructor; `backends` are run on and must report the
    same.
    """

    tool: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    backends: ClassVar[tuple[str, ...]] = ("numpy",)
    late: ClassVar[tuple[str, ...]] = ()
    """Libraries that importing the tool must not import."""
    changes_results: ClassVar[bool] = False
    """Whether the results of the model may differ with the tool."""
    tolerance: ClassVar[float] = 1e-4

    def samples(self) -> Mapping[str, Callable[[], ToolSample]]:
        """Functions that build graphs, by name."""
        return {}

    def new_tool(self) -> Tool:
        """The tool, with the options of the suite."""
        made: Tool = self.host().get("tools", self.tool)(**self.options)
        return made

    def apply(self, sample: ToolSample) -> Instrumented:
        return amanda.apply(
            sample.graph, self.new_tool(), data=[sample.feeds], host=self.host()
        )

    # The checks

    def check_is_chosen_by_name(self) -> None:
        expect_chosen(self, "tools", self.tool)

    def check_imports_its_library_late(self) -> None:
        expect_lazy(self.host().find("tools", self.tool), self.late)

    def check_has_the_protocol(self) -> None:
        made = self.new_tool()
        assert isinstance(made, Tool), "is no subclass of amanda.instrument.Tool"
        assert made.label() == self.tool, f"is named {made.label()!r} in reports"
        assert made.namespace is None or parse_span(made.namespace).exact
        assert (type(made).__doc__ or "").strip(), "has no docstring"

    def check_has_samples(self) -> None:
        assert self.samples(), "no graph is given to test with"

    @for_each("samples")
    def check_leaves_the_graph_as_it_was(self, case: str) -> None:
        sample = self.samples()[case]()
        copy = sample.graph.clone()
        self.apply(sample)
        assert sample.graph.difference(copy) is None

    @for_each("samples")
    def check_makes_a_valid_graph(self, case: str) -> None:
        instrumented = self.apply(self.samples()[case]())
        assert instrumented.graph.check() == []
        names = [port.name for port in instrumented.graph.outputs]
        assert len(set(names)) == len(names), "results share a name"

    @for_each("samples")
    def check_keeps_the_results(self, case: str) -> None:
        import numpy as np

        if self.changes_results:
            skip("the tool changes what the model computes")
        sample = self.samples()[case]()
        expected = amanda.run(
            sample.graph, sample.feeds, backend=self.backends[0], host=self.host()
        )
        found = self.apply(sample).run(sample.feeds, self.backends[0])
        assert len(found) == len(expected)
        for got, due in zip(found.values(), expected.values(), strict=True):
            np.testing.assert_allclose(got, due, rtol=self.tolerance, atol=1e-6)

    @for_each("samples")
    def check_reports_the_same_on_all_backends(self, case: str) -> None:
        if len(self.backends) < 2:
            skip("one backend is named")
        sample = self.samples()[case]()
        instrumented = self.apply(sample)
        tables = []
        for backend in self.backends:
            instrumented.report.reset()
            instrumented.run(sample.feeds, backend)
            tables.append([(*row[:-2], row.value) for row in instrumented.report.rows])
        for backend, table in zip(self.backends, tables, strict=True):
            assert [row[:-1] for row in table] == [row[:-1] for row in tables[0]]
            for mine, first in zip(table, tables[0], strict=True):
                _expect_close(mine[-1], first[-1], self.tolerance, f"{backend}: {mine}")

    @for_each("samples")
    def check_reports_data(self, case: str) -> None:
        sample = self.samples()[case]()
        instrumented = self.apply(sample)
        instrumented.run(sample.feeds, self.backends[0])
        report = instrumented.report
        is_empty = not (report.rows or report.summary or report.unobserved)
        assert not is_empty or self.changes_results, "reports nothing"
        json.dumps(report.to_dict(), allow_nan=False)
        assert str(report)
        assert report.to_html()


def _expect_close(got: Any, due: Any, tolerance: float, label: str) -> None:
    """Compare the values of two reports: numbers and arrays to rounding."""
    import numpy as np

    if isinstance(got, Sym) or isinstance(due, Sym):
        assert got == due, label
        return
    try:
        a, b = np.asarray(got, "float64"), np.asarray(due, "float64")
    except (TypeError, ValueError):
        assert got == due, label
        return
    scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    np.testing.assert_allclose(
        a, b, rtol=tolerance, atol=tolerance * scale * _RELATIVE + 1e-7, err_msg=label
    )
