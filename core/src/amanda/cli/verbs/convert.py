"""`amanda convert`: converts a model to another framework or format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.group import verb
from amanda.cli.inputs.model import (
    dim_option,
    load_option,
    open_model,
    set_given_dims,
)
from amanda.cli.inputs.passes import passes_options, plan_with_passes
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress
from amanda.cli.rule_mappings import use_rule_files
from amanda.cli.verbs.check import (
    gap_data,
    gap_lines,
    loss_lines,
    report_data,
    route_data,
)

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.mapping import Plan, Report

__all__ = ["command"]


@verb("convert", "convert a model to another framework or format")
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
@click.option(
    "--to",
    "goal",
    metavar="NAMESPACE",
    help="A framework's version, such as onnx@18; default: that of the format.",
)
@click.option("--format", "form", help="The format of SOURCE; default: detected.")
@load_option
@dim_option
@click.option("--target-format", "target_form", help="The format of TARGET.")
@click.option(
    "--schema",
    type=click.Choice(["exact", "published"]),
    help="The schema of YAML and JSON; default: exact.",
)
@click.option("--rules", "files", multiple=True, help="A rule file, tried first.")
@passes_options
@click.option("--trace", is_flag=True, help="Print which rule matched each op.")
@click.option(
    "--keep-foreign",
    is_flag=True,
    help="Keep ops that no rule maps, instead of an error.",
)
def command(
    source: str,
    target: str,
    *,
    goal: str | None,
    form: str | None,
    dims: tuple[str, ...],
    target_form: str | None,
    schema: str | None,
    files: tuple[str, ...],
    passes: str | None,
    no_passes: bool,
    trace: bool,
    keep_foreign: bool,
) -> Answer:
    """Read SOURCE, convert it to another framework, and write TARGET.

    On the way, the graph is optimized for inference; the report names the passes and
    how much they changed. TARGET is written atomically. If ops cannot be mapped, all
    are listed, nothing is written, and the exit code is 1.

    Examples:
        amanda convert digits.onnx older.onnx --to onnx@13
        amanda convert digits.onnx graph.pb --to tensorflow
    """
    from amanda.api.files import save
    from amanda.host import default_host
    from amanda.mapping.routes.report import trace_rules

    graph, form = open_model(source, form)
    set_given_dims(graph, dims)
    written = default_host().format_to_write(
        Path(target), target_form, goal or graph.namespace
    )
    goal = goal or _namespace_of_format(graph, written.manifest.get("namespace"))
    data: dict[str, object] = {
        "source": source, "target": target,
        "format": form, "target_format": written.name, "to": goal,
    }  # fmt: skip
    reports: list[Report] = []
    if goal is not None:
        with use_rule_files(files), trace_rules() if trace else nullcontext():
            found, names = plan_with_passes(graph, goal, passes, no_passes)
            data["route"] = route_data(found.steps)
            if not keep_foreign and found.gaps:
                return _gaps_answer(source, found, data)
            graph = _convert(graph, found, reports, keep_foreign, names)
            places = _function_locations(found) if trace else {}
    with show_progress(f"writing {target}"):
        options: dict[str, Any] = {} if schema is None else {"schema": schema}
        save(graph, target, format=written.choice, **options)
    data["steps"] = [report_data(report) for report in reports]
    data["namespace"] = graph.namespace
    chosen = None if goal is None else _chosen_version_note(goal, graph.namespace)
    if not trace or goal is None:
        return Answer(data, _result_lines(source, target, tuple(reports), chosen))
    data["trace"] = [
        [_trace_row(*one, places) for one in r.trace or ()] for r in reports
    ]
    return Answer(data, _with_trace(source, target, tuple(reports), places, chosen))


def _function_locations(found: Plan) -> dict[str, str]:
    """File and line of mapping functions, by their name in reports."""
    from amanda.host import default_host
    from amanda.mapping import RuleMapping

    host = default_host()
    mappers = [host.get("mappings", step.mapping) for step in found.steps]
    sets = [mapper.rules for mapper in mappers if isinstance(mapper, RuleMapping)]
    return {f.id: f.place for rules in sets for f in rules.functions}


def _trace_row(
    op: str, name: str | None, rule: str, places: dict[str, str]
) -> dict[str, str | None]:
    return {"op": op, "name": name, "rule": rule, "place": places.get(rule, rule)}


def _chosen_version_note(goal: str, namespace: str | None) -> str | None:
    """A note on the version that was chosen by default."""
    from amanda.dictionary import parse_name, parse_span
    from amanda.host import default_host

    if namespace is None or parse_span(goal).exact is not None:
        return None
    path = parse_name(namespace).path
    entries = default_host().entries("namespaces")
    own = [e for e in entries if not e.fault and parse_name(e.name).path == path]
    if not any(len(e.manifest.get("versions", ())) > 1 for e in own):
        return None
    short = path.removeprefix("amanda/")
    return f"it is of {namespace}, the newest one; --to {short}@VERSION for another"


def _with_trace(
    source: str,
    target: str,
    reports: tuple[Report, ...],
    places: dict[str, str],
    chosen: str | None,
) -> Iterator[str | Table]:
    for report in reports:
        rows = [_trace_row(*one, places).values() for one in report.trace or ()]
        headings = ("op", "name", "rule", "file and line")
        yield Table(headings, [[cell or "" for cell in row] for row in rows])
        yield ""
    yield from _result_lines(source, target, reports, chosen)


def _namespace_of_format(graph: Graph, span: str | None) -> str | None:
    """The namespace of a format, if the graph must be converted to it."""
    from amanda.backend import consumes

    if span is None or graph.namespace is None or consumes(graph.namespace, span):
        return None
    return span


def _convert(
    graph: Graph,
    found: Plan,
    reports: list[Report],
    keep_foreign: bool,
    passes: list[str],
) -> Graph:
    from amanda.api.conversion import convert_along
    from amanda.host import default_host

    if keep_foreign:
        host = default_host()
        return convert_along(graph, found.route, True, host, reports, passes=passes)
    reports += found.reports
    return found.result


def _gaps_answer(source: str, found: Plan, data: dict[str, object]) -> Answer:
    data["gaps"] = [gap_data(gap) for gap in found.gaps]

    def text() -> Iterator[str | Table]:
        yield f"{source} is not converted; nothing is written"
        yield from gap_lines(found.gaps, full=False)
        yield "\nkeep these ops as they are with --keep-foreign, or map them by rules"

    return Answer(data, text(), exit_code=1)


def _result_lines(
    source: str, target: str, reports: tuple[Report, ...], chosen: str | None
) -> Iterator[str | Table]:
    yield from map(str, reports)
    yield from loss_lines(reports)
    yield f"{source} is written as {target}"
    if chosen is not None:
        yield chosen
