"""`amanda opset`: convert a model to another version of its framework."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress
from amanda.cli.verbs.check import gap_data, gap_lines, loss_lines, report_data
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.mapping import Plan

__all__ = ["command"]


@verb("opset", "convert a model to another version of its framework")
@click.argument("file", type=click.Path())
@click.argument("version", required=False)
@click.option("-o", "--output", type=click.Path(), help="Where to write the model.")
@click.option("--format", "form", help="The format of FILE, where it does not show.")
@load_option
def command(
    file: str, version: str | None, *, output: str | None, form: str | None
) -> Answer:
    """Convert the model in FILE to another VERSION of its framework.

    Ops with the same meaning in both versions are unchanged. Without --output, nothing
    is written. Without VERSION, try every version, and list which ones can represent
    the model. Exit code 1 means that some op cannot be converted.

    Examples:
        amanda opset digits.onnx
        amanda opset digits.onnx 13 -o older.onnx
    """
    from amanda.dictionary import parse_name

    if version is None and output is not None:
        raise UsageError("--output requires a VERSION: amanda opset FILE 18")
    graph, form = open_model(file, form)
    if graph.namespace is None:
        raise UsageError(f"the framework of {file} is unknown")
    path = parse_name(graph.namespace).path
    if version is None:
        return _try_every_version(file, graph, path)
    return _convert_to_version(file, graph, f"{path}/{version}", output, form)


def _convert_to_version(
    file: str, graph: Graph, goal: str, output: str | None, form: str
) -> Answer:
    from amanda.api.conversion import plan
    from amanda.api.files import save

    with show_progress(f"converting {file} to {goal}"):
        found = plan(graph, goal)
        gaps = found.gaps
    data: dict[str, object] = {
        "file": file, "format": form, "from": graph.namespace, "to": goal,
        "steps": [report_data(report) for report in found.reports],
        "gaps": [gap_data(gap) for gap in gaps],
        "output": None if gaps else output,
    }  # fmt: skip
    if output is not None and not gaps:
        with show_progress(f"writing {output}"):
            save(found.result if found.steps else graph, output, format=form)
    return Answer(
        data, _result_lines(file, goal, found, output), exit_code=int(bool(gaps))
    )


def _result_lines(
    file: str, goal: str, found: Plan, output: str | None
) -> Iterator[str | Table]:
    yield from map(str, found.reports)
    yield from gap_lines(found.gaps, full=False)
    yield from loss_lines(found.reports)
    if found.gaps:
        yield f"{file} cannot be converted to {goal}; nothing is written"
    elif output is None:
        yield f"{file} can be converted to {goal}"
    else:
        yield f"{file} is written to {output}, as {goal}"


def _try_every_version(file: str, graph: Graph, path: str) -> Answer:
    from amanda.api.conversion import plan
    from amanda.dictionary import parse_name

    rows: list[tuple[object, ...]] = []
    for version in _versions(path):
        goal = f"{path}/{version}"
        with show_progress(f"converting {file} to {goal}"):
            found = plan(graph, goal)
            kinds = dict.fromkeys(gap.op for gap in found.gaps)
        changed = sum(report.mapped for report in found.reports)
        rows.append((version, "no" if kinds else "yes", changed, ", ".join(kinds)))
    own = parse_name(graph.namespace or "").version
    names = ("version", "holds", "changed", "cannot")
    data = {
        "file": file, "from": graph.namespace,
        "versions": [dict(zip(names, row, strict=True)) for row in rows],
    }  # fmt: skip
    table = Table(("version", "possible", "ops changed", "unsupported ops"), rows)
    return Answer(data, [table, f"{file} has {path}, version {own}"])


def _versions(path: str) -> list[str]:
    """The known versions of a framework, oldest first."""
    from amanda.api.namespaces import namespace
    from amanda.dictionary import Dictionary, version_key

    found = namespace(path)
    if not isinstance(found, Dictionary):
        raise UsageError(f"nothing is known of the versions of {path}")
    return sorted(map(str, found.history.order), key=version_key)
