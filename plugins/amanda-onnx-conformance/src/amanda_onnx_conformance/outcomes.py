"""Run one case of the suite on a backend, and classify how it went.

Every case is loaded, mapped to what the backend supports, run, and compared strictly.
With a second data set, the program compiled for the first one also runs the second.
Where a backend counts the ops that it runs elsewhere (outside XLA, say), a case with
such an op does not pass, unless a fallback was allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from amanda_onnx_conformance.cases import cases, data_sets, load_model, to_array
from amanda_onnx_conformance.comparison import difference
from amanda_onnx_conformance.second_data import (
    EXCLUDED,
    SecondDataSet,
    second_data_set,
)

__all__ = [
    "OUTCOMES",
    "Outcome",
    "cases_by_mode",
    "count_outcomes",
    "draws_random_numbers",
    "run_case",
]

OUTCOMES: Final = {
    "pass": "outputs as expected",
    "gap": "an op that no rule maps",
    "declined": "an op that the rules or the backend decline, with the reason",
    "drawn": "random numbers: dtypes and shapes as expected, values not compared",
    "excluded": "no second data set, with the reason",
    "outside": "as expected, but some op ran outside the backend's own target",
    "fail": "an error",
    "wrong": "other values, without an error",
}

_ANY_VALUE: Final = 1e300
"""A tolerance that every number meets and nan does not."""
_SECOND_DATA_ULPS: Final = 2
"""Tolerance on second inputs, in units in the last place of the largest element: they
may cancel, unlike the inputs that the suite's tolerances were chosen for."""

_RANDOM_OPS: Final = frozenset({"Bernoulli", "Multinomial", "RandomNormal",
                                "RandomNormalLike", "RandomUniform",
                                "RandomUniformLike"})  # fmt: skip


class Outcome(NamedTuple):
    """How a case went: one of `OUTCOMES`, and why."""

    case: str
    kind: str
    status: str
    why: str = ""
    mode: str = ""
    """How the backend ran it, where it reports that."""


def run_case(
    kind: str, case: Any, backend: str = "numpy", *, second: bool = False,
    fallback: str | None = None, options: Mapping[str, Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run one case; `second`: with its second data set, too.

    `fallback` is a backend for ops that this one does not support. `options` are
    options of `backend`.
    """
    from amanda.errors import AmandaError, BackendError, ConversionError

    try:
        model = load_model(case)
        sets: Iterable[_DataSet] = (_DataSet(*each) for each in data_sets(case))
        if second:
            found = _second_data_of(kind, case)
            if found.why:
                return Outcome(case.name, kind, "excluded", EXCLUDED[found.why])
            model = found.model
            more = _DataSet(found.feeds, found.expected, _SECOND_DATA_ULPS)
            sets = [*sets, more]
        settings = {**(options or {}), "fallback": fallback}
        return Outcome(case.name, kind, *_run(case, model, sets, backend, settings))
    except _CompileError as failed:
        error = failed.error
        if isinstance(error, ConversionError):
            return Outcome(case.name, kind, *_conversion_status(error))
        if isinstance(error, BackendError):
            return Outcome(case.name, kind, "declined", _declined_ops(error))
        return Outcome(case.name, kind, "fail", " ".join(str(error).split()))
    except AmandaError as error:
        return Outcome(case.name, kind, "fail", " ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - a bug in any part is one case's failure
        return Outcome(case.name, kind, "fail", f"{type(error).__name__}: {error}")


class _CompileError(Exception):
    """A case could not be compiled; `error` is the cause."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class _DataSet(NamedTuple):
    feeds: Sequence[Any]
    expected: Sequence[Any]
    ulps: int = 0


def _run(
    case: Any, model: Any, sets: Iterable[_DataSet], backend: str,
    settings: Mapping[str, Any],
) -> tuple[str, str, str]:  # fmt: skip
    """Compile once and run each data set; the status, the reason and the mode."""
    import amanda
    from amanda.errors import AmandaError

    try:
        graph = amanda.load(model)
        run = amanda.compile(graph, backend, **settings)
    except AmandaError as error:
        raise _CompileError(error) from error
    names = [p.name for p in graph.parameters]
    for feeds, expected, ulps in sets:
        given = dict(zip(names, map(to_array, feeds), strict=False))
        found = list(run(given).values())
        why = difference(found, expected, case.rtol, case.atol, ulps)
        if why:
            same_types = not difference(found, expected, 0, _ANY_VALUE)
            drawn = same_types and draws_random_numbers(graph)
            return ("drawn" if drawn else "wrong"), why, _report_of(run).mode
    report = _report_of(run)
    outside = "" if settings["fallback"] else report.outside
    return ("outside" if outside else "pass"), outside, report.mode


class _RunReport(NamedTuple):
    outside: str = ""
    """The ops that a backend which counts them ran outside its own target."""
    mode: str = ""


def _report_of(run: Any) -> _RunReport:
    """What the executable reports of its calls, if it does."""
    report = getattr(run.executable, "report", None)
    if report is None:
        return _RunReport()
    found = report()
    outside = (str(op).partition(" ")[0] for op in getattr(found, "outside", ()))
    return _RunReport(", ".join(outside), getattr(found, "mode", ""))


def draws_random_numbers(graph: Any) -> bool:
    """Whether a graph draws random numbers; ONNX leaves open which ones."""
    return any(
        op.type in _RANDOM_OPS or (op.type == "Dropout" and len(op.inputs) > 2)
        for op in graph.walk()
    )


# -- the second data set -----------------------------------------------------------


@cache
def _node_models() -> dict[str, Any]:
    return {case.name: case.model for _, case in cases(["node"])}


def _second_data_of(kind: str, case: Any) -> SecondDataSet:
    """The second data set of a case, derived from its first one."""
    import onnx

    model = load_model(case)
    if isinstance(model, Path):
        model = onnx.load(model)
    if kind == "real":
        return SecondDataSet(model, why="real")
    feeds, expected = next(iter(data_sets(case)))

    def differs(found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
        return difference(found, wanted, case.rtol, case.atol)

    # An expanded case holds the body of a function: the one-op model has its inputs.
    one_op = _node_models().get(case.name.partition("_expanded")[0], model)
    return second_data_set(
        case.name, model, one_op, [to_array(f) for f in feeds],
        [to_array(e) for e in expected], differs,
    )  # fmt: skip


# -- reasons -----------------------------------------------------------------------


def cases_by_mode(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """The names of the cases that ran in each mode that a backend reports."""
    modes: dict[str, list[str]] = {}
    for each in outcomes:
        if each.mode:
            modes.setdefault(each.mode, []).append(each.case)
    return modes


def count_outcomes(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The number of cases of each status."""
    counts = Counter(each.status for each in outcomes)
    return {status: counts[status] for status in OUTCOMES}


def _declined_ops(error: Any) -> str:
    """Each op that a backend declines, without its number, and why."""
    rows = [str(problem).partition(": ") for problem in error.problems]
    reasons = [f"{label.partition(' ')[0]}: {reason}" for label, _, reason in rows]
    return " | ".join(dict.fromkeys(reasons)) or " ".join(str(error).split())


def _conversion_status(error: Any) -> tuple[str, str]:
    """`gap` where some op has no rule, `declined` where its rules decline."""
    gaps = getattr(error, "gaps", ())
    if not gaps:
        return "fail", " ".join(str(error).split())
    rows = [
        (f"{gap.op}: {'; '.join(gap.why) or 'no rule maps it'}",
         bool(gap.why) and not gap.foreign)
        for gap in gaps
    ]  # fmt: skip
    status = "declined" if all(declined for _, declined in rows) else "gap"
    return status, " | ".join(dict.fromkeys(text for text, _ in rows))
