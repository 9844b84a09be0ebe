"""The command `amanda scoreboard onnx`: run ONNX's backend test suite, and count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from amanda.cli import (
    Answer,
    Table,
    backend_label,
    backend_option,
    parse_backend_options,
    verb,
)
from amanda_onnx_conformance.cases import KINDS, cases
from amanda_onnx_conformance.outcomes import (
    OUTCOMES,
    cases_by_mode,
    count_outcomes,
    run_case,
)

__all__ = ["command"]

_FAILED = ("fail", "wrong")
"""Outcomes that no reason excuses."""


@verb("scoreboard", "run a framework's own test cases, and count")
@click.argument("suite", type=click.Choice(["onnx"]))
@click.option("--backend", default="numpy", help="The backend to run the cases on.")
@click.option("--fallback", help="A backend for ops that the first does not support.")
@backend_option
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS))
@click.option("--match", "pattern", help="Only cases whose names match this pattern.")
@click.option("--second", is_flag=True, help="Run a second data set, too.")
@click.option("--list", "list_all", is_flag=True, help="List all cases but passes.")
def command(
    suite: str, *, backend: str, fallback: str | None, options_told: tuple[str, ...],
    kinds: tuple[str, ...], pattern: str | None, second: bool, list_all: bool,
) -> Answer:  # fmt: skip
    """Run the cases of SUITE on a backend, through the hub set, and count.

    Exit code 1: some case failed, or returned other values without an error.
    """
    options = parse_backend_options(options_told, own=["fallback"])
    _check_options(backend, options)
    outcomes = [
        run_case(kind, case, backend, second=second, fallback=fallback, options=options)
        for kind, case in cases(kinds or KINDS, pattern)
    ]
    counts = count_outcomes(outcomes)
    rows = [(counts[status], status, doc) for status, doc in OUTCOMES.items()]
    table = Table(("cases", "outcome", "meaning"), rows)
    where = backend_label(backend, options) + (f", else {fallback}" if fallback else "")
    text: list[str | Table] = [table, f"{len(outcomes)} cases of {suite} on {where}"]
    modes = cases_by_mode(outcomes)
    text += [f"{len(names)} ran as {mode}" for mode, names in modes.items()]
    failing = [each for each in outcomes if each.status != "pass"]
    text += [
        f"{o.status}: {o.case}: {o.why}"
        for o in failing
        if list_all or o.status in _FAILED
    ]
    data = {
        "suite": suite, "backend": backend, "fallback": fallback, "second": second,
        "options": options, "counts": counts, "modes": modes,
        "cases": [each._asdict() for each in failing],
    }  # fmt: skip
    has_failed = any(counts[status] for status in _FAILED)
    return Answer(data, text, exit_code=int(has_failed))


def _check_options(backend: str, options: Mapping[str, Any]) -> None:
    """Raise for options that the backend rejects, once instead of for each case."""
    import amanda

    if not options:
        return
    graph = amanda.Graph("amanda/onnx/18", name="options")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    graph.result(graph.add("Relu", [x]).output, "y")
    amanda.compile(graph, backend, **options)
