"""Reports: what tools found in a graph, and observed in its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.instrument._sources import SourceOp
    from amanda.instrument._tool import Tool

__all__ = [
    "COMBINATIONS",
    "HostCallback",
    "Observation",
    "ObservedOp",
    "Probe",
    "Report",
    "Unobserved",
]

_SHOWN_VALUES: Final = 6


class ObservedOp(NamedTuple):
    """The op that an observation is of."""

    tool: str
    name: str
    """Its name, or that of its source op, or its type and a number."""
    type: str
    scope: str
    sources: tuple[SourceOp, ...]


class Observation(NamedTuple):
    """One row of a report."""

    tool: str
    op: str
    type: str
    scope: str
    sources: tuple[SourceOp, ...]
    key: str
    value: Any
    executions: int
    """How many executions of the op the value combines; 0 for what no run computes."""


class Unobserved(NamedTuple):
    """An op that a tool could not observe, and why."""

    tool: str
    op: str
    key: str
    reason: str


class HostCallback(NamedTuple):
    """An observation that left the device: a Python function of whole values."""

    tool: str
    op: str
    key: str


def _running_mean(old: Any, new: Any, times: int, more: int) -> Any:
    import numpy as np

    old, new = np.asarray(old), np.asarray(new)
    return old + (new - old) * (more / (times + more))


def _numpy(function: str) -> Callable[[Any, Any, int, int], Any]:
    def combine(old: Any, new: Any, _: int, __: int) -> Any:
        import numpy as np

        return getattr(np, function)(np.asarray(old), np.asarray(new))

    return combine


COMBINATIONS: Final[Mapping[str, Callable[[Any, Any, int, int], Any]]] = {
    "last": lambda _, new, __, ___: new,
    "sum": _numpy("add"),
    "max": _numpy("maximum"),
    "min": _numpy("minimum"),
    "mean": _running_mean,
    "stack": lambda old, new, _, __: [*old, *new],
}
"""How values of several executions become one: of the values so far and the new one,
and of how many executions each is."""


@dataclass
class Probe:
    """An observed value of a graph, and what the runs so far gave."""

    op: ObservedOp
    key: str
    combine: str
    result: str
    """The name of the result of the instrumented graph that has it."""
    count_result: str | None = None
    """The result with the number of executions, for values of bodies."""
    value: Any = None
    count: int = 0

    def add(self, results: Mapping[str, Any]) -> None:
        """Combine with the value of one more run."""
        times = 1 if self.count_result is None else int(results[self.count_result])
        if times == 0:
            return
        new = results[self.result]
        if self.combine == "stack":
            new = [new]
        combine = COMBINATIONS[self.combine]
        self.value = combine(self.value, new, self.count, times) if self.count else new
        self.count += times


@dataclass
class Report:
    """What tools found about the ops of a graph.

    `report["key"]` is a dict of values by op; `report.rows` has all rows. Runs of the
    instrumented graph add to it; `reset` starts again.
    """

    facts: list[Observation] = field(default_factory=list)
    """Rows that no run computes: what a tool found in the graph itself."""
    probes: list[Probe] = field(default_factory=list)
    """The observed values, one result of the instrumented graph each."""
    unobserved: list[Unobserved] = field(default_factory=list)
    """Ops that a tool selected and could not observe, with the reasons."""
    callbacks: list[HostCallback] = field(default_factory=list)
    """Observations that leave the device in every run."""
    summary: dict[str, Any] = field(default_factory=dict)
    """Facts about the whole model, by name."""
    tools: Sequence[Tool] = ()
    """The tools, in the order in which they were applied."""
    runs: int = 0

    @property
    def rows(self) -> list[Observation]:
        """All rows: facts first, then what runs observed."""
        return [*self.facts, *self._observed_rows()]

    def _observed_rows(self) -> Iterator[Observation]:
        for probe in self.probes:
            if probe.count:
                yield Observation(*probe.op, probe.key, probe.value, probe.count)

    def add_run(self, results: Mapping[str, Any]) -> None:
        """Take the observed values of a run."""
        for probe in self.probes:
            probe.add(results)
        self.runs += 1
        for tool in self.tools:
            tool.after_run(self)

    @property
    def conclusions(self) -> dict[str, Any]:
        """Facts about the whole model: the summary, and conclusions from runs."""
        found = dict(self.summary)
        for tool in self.tools if self.runs else ():
            found.update(tool.conclude(self))
        return found

    @property
    def pictures(self) -> list[str]:
        """The pictures of the tools that draw one, as SVG."""
        drawn = (tool.picture(self) for tool in self.tools)
        return [picture for picture in drawn if picture]

    def reset(self) -> None:
        """Forget the runs so far."""
        self.runs = 0
        for probe in self.probes:
            probe.value, probe.count = None, 0

    def select(
        self,
        key: str | None = None,
        *,
        tool: str | None = None,
        op: str | None = None,
        type: str | None = None,
    ) -> list[Observation]:
        """The rows that satisfy all given conditions."""
        wanted = {"key": key, "tool": tool, "op": op, "type": type}
        given = {name: value for name, value in wanted.items() if value is not None}
        return [
            row
            for row in self.rows
            if all(getattr(row, name) == value for name, value in given.items())
        ]

    @property
    def keys(self) -> list[str]:
        """The keys of the rows, in order."""
        return list(dict.fromkeys(row.key for row in self.rows))

    def __getitem__(self, key: str) -> dict[str, Any]:
        """The values of one key, by op."""
        found = {row.op: row.value for row in self.select(key)}
        if not found:
            raise UsageError(
                f"the report has no rows of {key!r}",
                expected=", ".join(self.keys) or "a run of the instrumented graph",
            )
        return found

    def table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Headings and rows of text: a row for each op, a column for each key."""
        keys = self.keys
        by_op: dict[tuple[str, str], dict[str, object]] = {}
        heads: dict[tuple[str, str], tuple[str, str]] = {}
        for row in self.rows:
            place = (row.tool, row.op)
            heads[place] = (row.type, row.scope or _names_of(row.sources, row.op))
            by_op.setdefault(place, {})[row.key] = format_value(row.value)
        rows = [
            (place[1], *heads[place], *(values.get(key, "") for key in keys))
            for place, values in by_op.items()
        ]
        return ("op", "type", "from", *keys), rows

    def to_dict(self) -> dict[str, Any]:
        """The report as data for JSON; arrays become lists."""
        return {
            "runs": self.runs,
            "summary": to_data(self.conclusions),
            "rows": [
                {
                    **row._asdict(),
                    "sources": [source.name for source in row.sources],
                    "value": to_data(row.value),
                }
                for row in self.rows
            ],
            "unobserved": [each._asdict() for each in self.unobserved],
            "callbacks": [each._asdict() for each in self.callbacks],
        }

    def __str__(self) -> str:
        headings, rows = self.table()
        texts = [list(headings), *([str(cell) for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines = [
            "  ".join(map(str.ljust, row, widths)).rstrip()
            for row in (texts if rows else ())
        ]
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> Iterator[str]:
        """Lines below the table: the summary, what is missing and what left the
        device."""
        for name, value in self.conclusions.items():
            yield f"{name}: {format_value(value)}"
        if self.callbacks:
            yield f"left the device: {len(self.callbacks)} values"
        for missing in self.unobserved:
            yield f"not observed: {missing.op}, {missing.key}: {missing.reason}"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Its table and pictures as HTML, which notebooks show."""
        from amanda.html_tables import html_page, html_table

        headings, rows = self.table()
        missing = [(each.op, each.key, each.reason) for each in self.unobserved]
        tables = [
            html_table(headings, rows),
            html_table(("not observed", "key", "reason"), missing),
            *self.pictures,
        ]
        facts = {name: format_value(v) for name, v in self.conclusions.items()}
        return html_page("report", {"runs": self.runs, **facts}, tables)

    def __repr__(self) -> str:
        return f"<report: {len(self.rows)} rows, {self.runs} runs>"


def _names_of(sources: Sequence[SourceOp], op: str) -> str:
    """The names of source ops, except the op's own."""
    return ", ".join(source.name for source in sources if source.name != op)


def format_value(value: object) -> str:
    """A value in a cell of a table: numbers short, arrays cut."""
    import numpy as np

    if isinstance(value, str | bool | int):
        return f"{value:,}" if type(value) is int else str(value)
    if isinstance(value, list | tuple | dict):
        return str(value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return str(value)
    if array.dtype == object:
        return str(value)
    if array.ndim == 0:
        number = array.item()
        return f"{number:.4g}" if isinstance(number, float) else str(number)
    form = "{:.3g}" if array.dtype.kind in "fc" else "{}"
    shown = ", ".join(map(form.format, array.reshape(-1)[:_SHOWN_VALUES].tolist()))
    rest = ", ..." if array.size > _SHOWN_VALUES else ""
    return f"[{shown}{rest}]"


def to_data(value: object) -> object:
    """A value as JSON has it: lists for arrays, text for numbers that are none."""
    import math

    if isinstance(value, Mapping):
        return {str(key): to_data(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(each) for each in value]
    if hasattr(value, "tolist"):
        return to_data(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "__array__"):
        import numpy as np

        return to_data(np.asarray(value).tolist())
    return str(value)
