"""`amanda scoreboard`: run the test cases of a framework, and count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.group import verb
from amanda.cli.inputs.backend_options import (
    backend_label,
    backend_option,
    parse_backend_options,
)
from amanda.cli.output.answer import Answer, Table
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.scoreboard import Outcome, Scoreboard, Selection

__all__ = ["command"]

_FAILED = ("stopped", "fail", "wrong")
"""Outcomes that no reason excuses."""


@verb("scoreboard", "run a framework's own test cases, and count")
@click.argument("suite")
@click.option("--backend", default="numpy", help="The backend to run the cases on.")
@click.option("--fallback", help="A backend for ops that the first does not support.")
@backend_option
@click.option("--kind", "kinds", multiple=True, help="Only cases of this kind.")
@click.option("--match", "pattern", help="Only cases whose names match this pattern.")
@click.option(
    "--every",
    default=1,
    type=click.IntRange(1),
    metavar="N",
    help="Only every Nth case.",
)
@click.option("--second", is_flag=True, help="Run a second data set, too.")
@click.option("--seconds", type=float, help="Stop cases that take longer.")
@click.option("--list", "list_all", is_flag=True, help="List all cases but passes.")
def command(
    suite: str, *, backend: str, fallback: str | None, options_told: tuple[str, ...],
    kinds: tuple[str, ...], pattern: str | None, every: int, second: bool,
    seconds: float | None, list_all: bool,
) -> Answer:  # fmt: skip
    """Run the cases of SUITE on a backend, through the hub set, and count.

    Exit code 1: some case failed, or returned other values without an error. A suite is
    a plug-in, such as amanda-onnx-conformance.

    Examples:
        amanda scoreboard onnx --match test_relu
    """
    from amanda.scoreboard import Selection, run_selection

    options = parse_backend_options(options_told, own=["fallback"])
    selection = Selection(
        suite, kinds, pattern, every, backend, second, fallback, options
    )
    _check_selection(selection, selection.load())
    _check_options(backend, options)
    return _answer(selection, list(run_selection(selection, seconds)), list_all)


def _answer(
    selection: Selection, outcomes: Sequence[Outcome], list_all: bool
) -> Answer:
    from amanda.scoreboard import (
        OUTCOMES,
        cases_by_compilations,
        cases_by_mode,
        count_outcomes,
    )

    counts = count_outcomes(outcomes)
    rows = [(counts[status], status, doc) for status, doc in OUTCOMES.items()]
    where = backend_label(selection.backend, dict(selection.options))
    where += f", else {selection.fallback}" if selection.fallback else ""
    line = f"{len(outcomes)} cases of {selection.suite} on {where}"
    text: list[str | Table] = [Table(("cases", "outcome", "meaning"), rows), line]
    modes, compilations = cases_by_mode(outcomes), cases_by_compilations(outcomes)
    text += [f"{len(names)} ran as {mode}" for mode, names in modes.items()]
    text += [f"{n} compiled {times} programs" for times, n in compilations.items()]
    failing = [each for each in outcomes if each.status != "pass"]
    text += [
        f"{o.status}: {o.case}: {o.why}"
        for o in failing
        if list_all or o.status in _FAILED
    ]
    data = {
        "suite": selection.suite, "backend": selection.backend,
        "fallback": selection.fallback, "second": selection.second,
        "every": selection.every, "options": selection.options, "counts": counts,
        "totals": Counter(each.kind for each in outcomes), "modes": modes,
        "compilations": {str(times): n for times, n in compilations.items()},
        "cases": [each._asdict() for each in failing],
    }  # fmt: skip
    has_failed = any(counts[status] for status in _FAILED)
    return Answer(data, text, exit_code=int(has_failed))


def _check_selection(selection: Selection, suite: Scoreboard) -> None:
    """Raise for kinds and data sets that a suite does not have."""
    for kind in selection.kinds:
        if kind not in suite.KINDS:
            raise UsageError(
                f"{selection.suite!r} has no cases of the kind {kind!r}",
                who="--kind", expected=f"one of {', '.join(suite.KINDS)}", got=kind,
            )  # fmt: skip
    if selection.second and not suite.SECOND_DATA:
        raise UsageError(
            f"cases of {selection.suite!r} have no second data set",
            who="--second", hint="leave --second out",
        )  # fmt: skip


def _check_options(backend: str, options: Mapping[str, Any]) -> None:
    """Raise for options that the backend rejects, once instead of for each case."""
    import amanda

    if not options:
        return
    graph = amanda.Graph("amanda/std/1", name="options")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    graph.result(graph.add("relu", [x]).output, "y")
    amanda.compile(graph, backend, **options)
