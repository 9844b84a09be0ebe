"""Run one test case on a backend, and classify how it went.

A case is a graph and data sets. It is mapped to what the backend supports, run, and
compared strictly. Where a backend counts the ops that it runs elsewhere (outside XLA,
say), a case with such an op does not pass, unless a fallback was allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from amanda.scoreboard.comparison import difference
from amanda.scoreboard.criteria import Criterion, same_types

__all__ = [
    "OUTCOMES",
    "DataSet",
    "Outcome",
    "cases_by_compilations",
    "cases_by_mode",
    "count_outcomes",
    "run_data_sets",
    "run_function",
]

OUTCOMES: Final = {
    "pass": "outputs as expected",
    "gap": "an op that no rule maps",
    "declined": "an op that the rules or the backend decline, with the reason",
    "drawn": "values that the framework leaves open: dtypes and shapes as expected",
    "excluded": "no second data set, with the reason",
    "outside": "as expected, but some op ran outside the backend's own target",
    "stopped": "took longer than the time limit, or ended the process",
    "fail": "an error",
    "wrong": "other values, without an error",
}


class Outcome(NamedTuple):
    """How a case went: one of `OUTCOMES`, and why."""

    case: str
    kind: str
    status: str
    why: str = ""
    mode: str = ""
    """How the backend ran it, where it reports that."""
    compilations: int = 0
    """How many programs the backend compiled in all runs, where it counts them."""


class DataSet(NamedTuple):
    """Inputs, the expected outputs, and how far outputs may be from these."""

    feeds: Mapping[str, Any] | Sequence[Any]
    """By name, or in the order of the graph's parameters."""
    expected: Sequence[Any]
    rtol: float
    atol: float
    ulps: int = 0
    """Units in the last place of the largest element that are tolerated, too."""
    criterion: Criterion | None = None
    """What outputs must meet that are not determined; in place of a comparison."""


def run_data_sets(
    case: str, kind: str, load: Callable[[], Any], sets: Iterable[DataSet],
    backend: str, settings: Mapping[str, Any], *,
    leaves_values_open: Callable[[Any], bool] = lambda _: False,
) -> Outcome:  # fmt: skip
    """Compile the graph of a case once, and run each data set.

    `load` returns the graph; `settings` are arguments of `amanda.compile`.
    """
    import amanda

    def run() -> tuple[Any, ...]:
        with _compiling():
            graph = load()
            compiled = amanda.compile(graph, backend, **settings)
        return _run(graph, compiled, sets, settings, leaves_values_open)

    return _outcome(case, kind, run)


def run_function(
    case: str, kind: str, make: Callable[[], Callable[[Any], Sequence[Any]]],
    sets: Iterable[DataSet],
) -> Outcome:  # fmt: skip
    """Make a function of feeds, as of a framework's own module, and run each data set.

    Errors of `make` are classified as those of a compilation are.
    """

    def run() -> tuple[Any, ...]:
        with _compiling():
            function = make()
        for data in sets:
            why = _why_wrong(partial(function, data.feeds), data)
            if why:
                return "wrong", why
        return ("pass",)

    return _outcome(case, kind, run)


def _outcome(case: str, kind: str, run: Callable[[], tuple[Any, ...]]) -> Outcome:
    """The outcome of a case: what a run returns, or the status of its error."""
    from amanda.errors import AmandaError, BackendError, ConversionError

    try:
        return Outcome(case, kind, *run())
    except _CompileError as failed:
        error = failed.error
        if isinstance(error, ConversionError):
            return Outcome(case, kind, *_conversion_status(error))
        if isinstance(error, BackendError):
            return Outcome(case, kind, "declined", _declined_ops(error))
        return Outcome(case, kind, "fail", _one_line(error))
    except AmandaError as error:
        return Outcome(case, kind, "fail", _one_line(error))
    except Exception as error:  # noqa: BLE001 - a bug in any part is one case's failure
        return Outcome(case, kind, "fail", f"{type(error).__name__}: {error}")


class _CompileError(Exception):
    """A case could not be compiled; `error` is the cause."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _compiling() -> Iterator[None]:
    """Where errors are those of a compilation."""
    from amanda.errors import AmandaError

    try:
        yield
    except AmandaError as error:
        raise _CompileError(error) from error


def _run(
    graph: Any, run: Any, sets: Iterable[DataSet], settings: Mapping[str, Any],
    leaves_values_open: Callable[[Any], bool],
) -> tuple[Any, ...]:  # fmt: skip
    """The status and the reason of a compiled graph's runs, and what it reports."""
    names = [p.name for p in graph.parameters]
    for data in sets:
        feeds: Any = data.feeds
        if not isinstance(feeds, Mapping):
            feeds = dict(zip(names, feeds, strict=False))
        call = partial(_outputs, run, feeds)
        why = _why_wrong(call, data)
        if why:
            drawn = data.criterion is None and leaves_values_open(graph)
            drawn = drawn and _may_be_drawn(call(), data.expected)
            return ("drawn" if drawn else "wrong"), why, *_report_of(run)[1:]
    outside, *report = _report_of(run)
    outside = "" if settings.get("fallback") else outside
    return ("outside" if outside else "pass"), outside, *report


def _may_be_drawn(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether dtypes and shapes are as expected, and no number is nan."""
    import numpy as np

    numbers = [y for y in map(np.asarray, found) if y.dtype.kind in "fc"]
    has_nan = any(np.isnan(y).any() for y in numbers)
    return same_types(expected)(lambda: found) is None and not has_nan


def _outputs(run: Any, feeds: Mapping[str, Any]) -> list[Any]:
    return list(run(feeds).values())


def _why_wrong(call: Callable[[], Sequence[Any]], data: DataSet) -> str | None:
    """Why the outputs of a call are not right; None where they are."""
    if data.criterion is not None:
        return data.criterion(call)
    return difference(call(), data.expected, data.rtol, data.atol, data.ulps)


class _RunReport(NamedTuple):
    outside: str = ""
    """The ops that a backend which counts them ran outside its own target."""
    mode: str = ""
    compilations: int = 0


def _report_of(run: Any) -> _RunReport:
    """What the executable reports of its calls, if it does."""
    report = getattr(run.executable, "report", None)
    if report is None:
        return _RunReport()
    found = report()
    outside = (str(op).partition(" ")[0] for op in getattr(found, "outside", ()))
    compilations = getattr(found, "compilations", 0)
    return _RunReport(", ".join(outside), getattr(found, "mode", ""), compilations)


# -- reasons -----------------------------------------------------------------------


def cases_by_mode(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """The names of the cases that ran in each mode that a backend reports."""
    modes: dict[str, list[str]] = {}
    for each in outcomes:
        if each.mode:
            modes.setdefault(each.mode, []).append(each.case)
    return modes


def cases_by_compilations(outcomes: Iterable[Outcome]) -> dict[int, int]:
    """The number of cases by the number of programs that a backend compiled for one."""
    counts = Counter(each.compilations for each in outcomes if each.compilations)
    return dict(sorted(counts.items()))


def count_outcomes(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The number of cases of each status."""
    counts = Counter(each.status for each in outcomes)
    return {status: counts[status] for status in OUTCOMES}


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _declined_ops(error: Any) -> str:
    """Each op that a backend declines, without its number, and why."""
    rows = [str(problem).partition(": ") for problem in error.problems]
    reasons = [f"{label.partition(' ')[0]}: {reason}" for label, _, reason in rows]
    return " | ".join(dict.fromkeys(reasons)) or _one_line(error)


def _conversion_status(error: Any) -> tuple[str, str]:
    """`gap` where some op has no rule, `declined` where its rules decline."""
    gaps = getattr(error, "gaps", ())
    if not gaps:
        return "fail", _one_line(error)
    rows = [
        (f"{gap.op}: {'; '.join(gap.why) or 'no rule maps it'}",
         bool(gap.why) and not gap.foreign)
        for gap in gaps
    ]  # fmt: skip
    status = "declined" if all(declined for _, declined in rows) else "gap"
    return status, " | ".join(dict.fromkeys(text for text, _ in rows))
