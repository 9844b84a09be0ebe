"""`amanda instrument`: tools applied to a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.group import verb
from amanda.cli.inputs.feeds import feed_options, read_feeds
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.inputs.tool_options import create_tools
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.instrument import Instrumented, Report

__all__ = ["command"]


@verb("instrument", "measure or change a model with tools")
@click.argument("file", type=click.Path())
@click.option(
    "--tool",
    "tools",
    multiple=True,
    required=True,
    metavar="NAME",
    help="A tool of an installed plug-in (`amanda plugins` lists them); may be "
    "repeated.",
)
@click.option(
    "--option",
    "options_told",
    multiple=True,
    metavar="[TOOL.]NAME=VALUE",
    help="An option of the tool; its documentation lists them.",
)
@click.option("--backend", metavar="NAME[:DEVICE]", help="See `amanda backends`.")
@click.option("--format", "form", help="The format of FILE; default: detected.")
@load_option
@click.option(
    "--loss",
    metavar="RESULT",
    help="The result whose gradients tools observe; default: the only one of floats.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="Write the instrumented model, in the format of the suffix.",
)
@click.option(
    "--report",
    "page",
    metavar="FILE",
    help="Write the report: as data to a .json file, as a page with the pictures of "
    "the tools to a .html file.",
)
@feed_options
def command(
    file: str,
    *,
    tools: tuple[str, ...],
    options_told: tuple[str, ...],
    backend: str | None,
    form: str | None,
    loss: str | None,
    output: str | None,
    page: str | None,
    **given: Any,
) -> Answer:
    """Apply tools to FILE, run it where they observe values, and print the report.

    Tools that only look at the model need neither feeds nor a backend. Feeds are also
    the data of tools that calibrate. FILE itself is never changed.

    Examples:
        amanda instrument digits.onnx --tool flops
        amanda instrument digits.onnx --tool trace --backend numpy --random 1
    """
    from amanda.instrument import apply

    made = create_tools(tools, options_told)
    _expect_report_suffix(page)
    graph, form = open_model(file, form)
    feeds = _feeds_if_given(graph, given)
    with show_progress(f"applying {', '.join(tools)} to {file}"):
        instrumented = apply(
            graph, *made, loss=loss, data=() if feeds is None else [feeds]
        )
    if instrumented.report.probes and (feeds is not None or output is None):
        feeds = read_feeds(graph, **given) if feeds is None else feeds
        with show_progress(f"running {file}"):
            instrumented.run(feeds, backend)
    if output is not None:
        _write_model(instrumented.graph, output)
    if page is not None:
        _write_report(instrumented.report, page, file)
    data: dict[str, object] = {
        "file": file,
        "format": form,
        "tools": list(tools),
        "backend": backend,
        "report": instrumented.report.to_dict(),
        "written": [each for each in (output, page) if each is not None],
    }
    return Answer(data, _lines(instrumented, output, page))


def _feeds_if_given(graph: Graph, given: Mapping[str, Any]) -> dict[Any, Any] | None:
    """The feeds, if the command line names some."""
    is_given = given["random"] is not None or given["feeds"] or given["texts"]
    return read_feeds(graph, **given) if is_given else None


def _write_model(graph: Graph, output: str) -> None:
    """Write a graph in the format of a file's suffix, converted to its namespace."""
    from amanda.api.conversion import convert
    from amanda.api.files import save
    from amanda.backend import consumes
    from amanda.host import default_host

    entry = default_host().format_to_write(Path(output), None, graph.namespace)
    span = entry.manifest.get("namespace")
    if span is not None and not consumes(graph.namespace or "", span):
        with show_progress(f"converting to {span}"):
            graph = convert(graph, span)
    with show_progress(f"writing {output}"):
        save(graph, output, format=entry.choice)


def _expect_report_suffix(page: str | None) -> None:
    if page is not None and Path(page).suffix not in (".json", ".html"):
        raise UsageError(
            "a report is written to a .json or .html file", got=page, where="--report"
        )


def _write_report(report: Report, page: str, file: str) -> None:
    """Write a report as JSON or as a page of HTML."""
    from amanda.cli.output.json_text import json_text
    from amanda.cli.output.sections import Section, html_page
    from amanda.files import replace_file

    if page.endswith(".json"):
        text = json_text(report.to_dict())
    else:
        headings, rows = report.table()
        missing = [
            {"op": each.op, "value": each.key, "reason": each.reason}
            for each in report.unobserved
        ]
        sections = [
            Section("rows", "Ops", [dict(zip(headings, r, strict=True)) for r in rows]),
            Section("unobserved", "Not observed", missing),
        ]
        notes = "; ".join(report.notes())
        text = html_page(f"Report of {file}", notes, True, sections, report.pictures)
    with replace_file(Path(page)) as target:
        target.write(text.encode("utf-8"))


def _lines(
    instrumented: Instrumented, output: str | None, page: str | None
) -> Iterator[str | Table]:
    """The report as text, and which files were written."""
    headings, rows = instrumented.report.table()
    if rows:
        yield Table(headings, rows)
    yield from instrumented.report.notes()
    for path in (output, page):
        if path is not None:
            yield f"wrote {path}"
