"""`amanda check`: whether a model can be converted to a framework or backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.inputs.backend_options import fallback_option
from amanda.cli.inputs.model import (
    dim_option,
    load_option,
    open_model,
    set_given_dims,
)
from amanda.cli.inputs.passes import passes_options, plan_with_passes
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.readiness import gap_data, readiness_sections
from amanda.cli.output.sections import Section, html_page, section_lines
from amanda.cli.output.terminal import show_progress
from amanda.cli.rule_mappings import use_rule_files
from amanda.errors import PluginError, UsageError

if TYPE_CHECKING:
    from amanda.api.readiness import Readiness
    from amanda.graph import Graph
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
@dim_option
@fallback_option
@click.option("--rules", "files", multiple=True, help="A rule file, tried first.")
@passes_options
@click.option(
    "--html", "page", metavar="FILE", help="Also write the report as a page of HTML."
)
@click.option("--full", is_flag=True, help="Also print a stub of a rule for each gap.")
def command(
    file: str,
    *,
    target: str | None,
    namespace: str | None,
    form: str | None,
    dims: tuple[str, ...],
    fallback: tuple[str, ...],
    files: tuple[str, ...],
    passes: str | None,
    no_passes: bool,
    page: str | None,
    full: bool,
) -> Answer:
    """Check whether FILE can be converted to a framework or run on a backend.

    --for prefers a backend where a framework has the same name, as jax does. Everything
    in the way is listed at once, bodies included: missing files, ops without a mapping
    or that the backend does not take, with the reason. So is what changes on the way
    (sizes, element types, losses), what the dictionary of the model finds, and memory.
    Nothing is converted on disk. Exit code 1 means that something is in the way.

    Examples:
        amanda check digits.onnx --for jax
        amanda check digits.onnx --to tensorflow
        amanda check digits.onnx --to jax  # exit code 1: sizes are open
        amanda check digits.onnx --to jax --dim batch=1 --html report.html
    """
    from amanda.api.conversion import is_backend
    from amanda.formatkit import collect_missing_files
    from amanda.host import default_host

    goal = _expect_one_goal(target, namespace)
    on_backend = is_backend(goal, default_host(), bool(target))
    if fallback and not on_backend:
        raise UsageError(
            "--fallback is for a model that runs on a backend",
            expected="--for BACKEND",
            got=goal,
        )
    with collect_missing_files() as missing:
        graph, form = open_model(file, form)
    set_given_dims(graph, dims)
    with show_progress(f"checking {file}"), use_rule_files(files):
        plan, _ = plan_with_passes(graph, goal, passes, no_passes, on_backend)
        found = _check(graph, plan, goal if on_backend else None, fallback)
    found.missing_files = list(missing)
    name = f"the backend {goal}" if on_backend else goal
    verdict = f"{file} can{'' if found.is_clear else 'not'} go to {name}"
    if page is not None:
        _write_page(page, f"amanda check {file}", verdict, found)
    data = {"file": file, "format": form, "for": goal, "is_backend": on_backend}
    text = _report_lines(name, verdict, found, full=full)
    return Answer(data | _report_data(found), text, exit_code=_exit_code(found))


def _expect_one_goal(target: str | None, namespace: str | None) -> str:
    """The value of --for or of --to, whichever is given."""
    goal = target or namespace
    if goal is None or (target and namespace):
        raise UsageError(
            "what the file is checked for is not clear",
            expected="one of --for BACKEND, --for NAMESPACE, --to NAMESPACE",
            got="both --for and --to" if goal else "neither --for nor --to",
        )
    return goal


def _report_data(found: Readiness) -> dict[str, object]:
    return {
        "is_clear": found.is_clear,
        "route": route_data(found.plan.steps),
        "steps": [report_data(report) for report in found.reports],
        "refused": list(map(str, found.refusals)),
        **{each.key: list(each.rows) for each in readiness_sections(found)},
    }


def _exit_code(found: Readiness) -> int:
    """1 for what stands in the way; that of the error for a plug-in that failed."""
    if isinstance(found.error, PluginError):
        return found.error.exit_code
    return int(not found.is_clear)


def _check(
    graph: Graph, plan: Plan, backend: str | None, fallback: Sequence[str]
) -> Readiness:
    from amanda.api.compilation import find_backend
    from amanda.api.readiness import check_readiness
    from amanda.host import default_host

    host = default_host()
    if backend is None:
        return check_readiness(graph, plan, host)
    loaded = find_backend(host, backend)
    return check_readiness(graph, plan, host, loaded, fallback)


def _write_page(path: str, title: str, verdict: str, found: Readiness) -> None:
    from amanda.files.atomic import replace_file

    route = [{"from": s.source, "to": s.target, "by": s.mapping}
             for s in found.plan.steps]  # fmt: skip
    parts = [Section("route", "route", route), *readiness_sections(found)]
    with replace_file(Path(path)) as file:
        file.write(html_page(title, verdict, found.is_clear, parts).encode())


def _report_lines(
    goal: str, verdict: str, found: Readiness, *, full: bool
) -> Iterator[str | Table]:
    yield f"route: {found.plan}"
    yield from map(str, found.reports)
    yield from gap_lines(tuple(found.gaps), full=full)
    if found.refusals:
        yield f"\n{goal} does not take:"
        yield from (f"  {why}" for why in found.refusals)
    yield from loss_lines(tuple(found.reports))
    for section in readiness_sections(found):
        if section.key not in ("errors", "gaps", "refusals", "losses"):
            yield from section_lines(section)
    if found.error is not None:
        yield f"\n{found.error}"
    yield f"\n{verdict}"


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
