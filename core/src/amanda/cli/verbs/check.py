"""`amanda check`: whether a model can be converted to a framework or backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.inputs.passes import passes_options, plan_with_passes
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress
from amanda.cli.rule_mappings import use_rule_files
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.mapping import Gap, Plan, Report, RouteStep

__all__ = [
    "command",
    "gap_data",
    "loss_lines",
    "report_data",
    "route_data",
    "gap_lines",
]


@verb("check", "whether a model can be converted to a framework or backend")
@click.argument("file", type=click.Path())
@click.option(
    "--for",
    "target",
    metavar="BACKEND|NAMESPACE",
    help="A backend, or a framework's version, such as onnx@18.",
)
@click.option(
    "--to",
    "namespace",
    metavar="NAMESPACE",
    help="A framework's version, also where a backend has the same name.",
)
@click.option("--format", "form", help="The format of the file; default: detected.")
@load_option
@click.option("--rules", "files", multiple=True, help="A rule file, tried first.")
@passes_options
@click.option("--full", is_flag=True, help="Also print a stub of a rule for each gap.")
def command(
    file: str,
    *,
    target: str | None,
    namespace: str | None,
    form: str | None,
    files: tuple[str, ...],
    passes: str | None,
    no_passes: bool,
    full: bool,
) -> Answer:
    """Check whether FILE can be converted to a framework or run on a backend.

    --for prefers a backend where a framework has the same name, as jax does. All ops
    that cannot are listed, with the reason. Nothing is written. Exit code 1 means that
    there are such ops.

    Examples:
        amanda check digits.onnx --for jax
        amanda check digits.onnx --to tensorflow
    """
    from amanda.api.conversion import is_backend
    from amanda.host import default_host

    goal = target or namespace
    if goal is None or (target and namespace):
        raise UsageError(
            "what the file is checked for is not clear",
            expected="one of --for BACKEND, --for NAMESPACE, --to NAMESPACE",
            got="both --for and --to" if goal else "neither --for nor --to",
        )
    graph, form = open_model(file, form)
    on_backend = is_backend(goal, default_host(), bool(target))
    with show_progress(f"checking {file}"), use_rule_files(files):
        found, _ = plan_with_passes(graph, goal, passes, no_passes, on_backend)
        is_clear = found.is_clear  # runs the conversion, with these rules
    data = {
        "file": file,
        "format": form,
        "for": goal,
        "is_backend": on_backend,
        "route": route_data(found.steps),
        "steps": [report_data(report) for report in found.reports],
        "gaps": [gap_data(gap) for gap in found.gaps],
        "refused": list(map(str, found.refusals)),
        "refusals": [refusal._asdict() for refusal in found.refusals],
    }
    name = f"the backend {goal}" if on_backend else goal
    text = _report_lines(file, name, found, full=full)
    return Answer(data, text, exit_code=int(not is_clear))


def _report_lines(
    file: str, goal: str, found: Plan, *, full: bool
) -> Iterator[str | Table]:
    yield f"route: {found}"
    yield from map(str, found.reports)
    yield from gap_lines(found.gaps, full=full)
    if found.refusals:
        yield f"\n{goal} does not take:"
        yield from (f"  {why}" for why in found.refusals)
    yield from loss_lines(found.reports)
    if found.is_clear:
        yield f"{file} can go to {goal}"


def gap_lines(gaps: tuple[Gap, ...], *, full: bool) -> Iterator[str | Table]:
    """Gaps as text: one line each, with the reasons below."""
    if gaps:
        yield (
            f"\n{len(gaps)} ops have no mapping:"
            if len(gaps) > 1
            else ("\n1 op has no mapping:")
        )
    for gap in gaps:
        yield f"  {gap.op}, {gap.where}"
        yield from (f"    {why}" for why in gap.why or ("no rule maps it",))
        if gap.nearest and not gap.why:
            yield f"    nearest: {gap.nearest}"
        if full and gap.stub:
            yield f"    to begin with: {gap.stub}"


def loss_lines(reports: tuple[Report, ...]) -> Iterator[str]:
    """The losses that rules declare, and inputs and results of other types or of
    variables."""
    changed = [port for report in reports for port in report.changed_ports]
    if changed:
        yield "\ncomplex numbers, which the target lacks:"
        yield from (f"  {port}" for port in changed)
    variables = [port for report in reports for port in report.state_ports]
    if variables:
        yield "\nvariables, which the target lacks, as inputs and results:"
        yield from (f"  {port}" for port in variables)
    lost = [loss for report in reports for loss in report.losses]
    if lost:
        yield "\nlost on the way:"
        yield from (f"  {loss}" for loss in lost)


def route_data(steps: Iterable[RouteStep]) -> list[dict[str, str]]:
    """A route as data."""
    return [{"by": s.mapping, "from": s.source, "to": s.target} for s in steps]


def report_data(report: Report) -> dict[str, object]:
    """The report of a step as data."""
    return {
        "source": report.source,
        "target": report.target,
        "mapped": report.mapped,
        "carried": report.carried,
        "kept": report.kept,
        "filled": report.filled,
        "rules": dict(report.rules.most_common()),
        "passes": report.passes,
        "losses": list(report.losses),
        "changed_ports": [str(port) for port in report.changed_ports],
        "state_ports": [str(port) for port in report.state_ports],
    }


def gap_data(gap: Gap) -> dict[str, object]:
    return {
        "op": gap.op,
        "where": gap.where,
        "why": list(gap.why),
        "nearest": gap.nearest,
        "stub": gap.stub,
    }
