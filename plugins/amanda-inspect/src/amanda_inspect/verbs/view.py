"""`amanda view`: a graph as a page, a picture or a file of another viewer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import amanda
from amanda.cli import (
    Answer,
    find_scopes,
    load_option,
    open_model,
    show_progress,
    verb,
)
from amanda.errors import UsageError
from amanda.graph import Graph, ScopeTable
from amanda_inspect.common import common_namespace
from amanda_inspect.difference import GraphDifference, diff
from amanda_inspect.viewer import GraphPage, read_overlay, view
from amanda_inspect.viewer.netron import open_in_netron
from amanda_inspect.viewer.page import write_text
from amanda_inspect.viewer.targets import gap_overlay, placement_overlay

__all__ = ["command"]

_file = click.Path(path_type=Path, dir_okay=False)


@verb("view", "write a page of a model: its graph with search, details and overlays")
@click.argument("file", type=click.Path())
@click.option(
    "--output", "-o", type=_file, help="The page; default: FILE.html in this folder."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--to",
    metavar="NAMESPACE",
    help="Show the model converted to a namespace, with the ops that each op is from.",
)
@click.option(
    "--against",
    type=click.Path(),
    metavar="OTHER",
    help="Mark what FILE has and the model OTHER has not, and what differs.",
)
@click.option(
    "--overlay",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="OVERLAY",
    help="Numbers or classes of ops, or what bisect --json prints; may be repeated.",
)
@click.option(
    "--for",
    "target",
    metavar="BACKEND|NAMESPACE",
    help="Mark the ops that cannot go to a backend or a framework's version.",
)
@click.option("--backend", metavar="NAME[:DEVICE]", help="Mark where each op runs.")
@click.option(
    "--fallback",
    multiple=True,
    metavar="NAME",
    help="With --backend: a backend for the ops that it does not support.",
)
@click.option("--svg", type=_file, help="Write a static picture.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    help="With --svg: levels of groups that are open; default: while it is small.",
)
@click.option(
    "--model-explorer",
    "explorer",
    type=_file,
    help="Write the graph for Google's Model Explorer, as JSON.",
)
@click.option(
    "--netron", is_flag=True, help="Open FILE in Netron, if that is installed."
)
@click.option("--format", "form", help="The format of the files; default: detected.")
@load_option
def command(
    file: str,
    *,
    output: Path | None,
    opens: bool,
    to: str | None,
    against: str | None,
    files: tuple[str, ...],
    target: str | None,
    backend: str | None,
    fallback: tuple[str, ...],
    svg: Path | None,
    depth: int | None,
    explorer: Path | None,
    netron: bool,
    form: str | None,
) -> Answer:
    """Write a page of the model in FILE that needs no network and no other file.

    Groups are scopes of names, modules, bodies and functions; a double click opens
    one. The page has the attributes, types, weights, dictionary entry and origin of
    each op, and a search. Overlays color the ops. With --svg, --model-explorer or
    --netron, a page is written only if --output names it.

    Examples:
        amanda view digits.onnx --output digits.html
        amanda view digits.onnx --to std --backend numpy
        amanda view digits.onnx --svg digits.svg --depth 2
    """
    if fallback and backend is None:
        raise UsageError("--fallback needs --backend", got=", ".join(fallback))
    if depth is not None and svg is None:
        raise UsageError("--depth needs --svg", got=f"--depth {depth}")
    if to is not None and against is not None:
        raise UsageError("--to and --against exclude each other")
    if netron:
        open_in_netron(file)
    shown = _open(file, form, to, against)
    with show_progress(f"making the page of {file}"):
        overlays = [read_overlay(path) for path in files]
        if target is not None:
            overlays.append(gap_overlay(shown.graph, target))
        if backend is not None:
            overlays.append(placement_overlay(shown.graph, backend, fallback))
        page = view(
            shown.graph,
            title=Path(file).name,
            source=shown.source,
            scopes=shown.scopes,
            overlays=overlays,
            difference=shown.difference,
        )
        if output is None and not (svg or explorer or netron):
            output = Path(f"{Path(file).name}.html")
        written = _write(page, output, svg, depth, explorer)
    if opens and output is not None:
        click.launch(str(output))
    return Answer(_data(file, shown, page, written), _lines(page, written))


def _write(
    page: GraphPage,
    output: Path | None,
    svg: Path | None,
    depth: int | None,
    explorer: Path | None,
) -> dict[str, Path]:
    """Write the files that are asked for; returns them by kind."""
    if output is not None:
        page.save(output)
    if svg is not None:
        write_text(svg, page.svg(depth))
    if explorer is not None:
        write_text(explorer, json.dumps(page.model_explorer()))
    files = {"page": output, "svg": svg, "model_explorer": explorer}
    return {kind: path for kind, path in files.items() if path is not None}


@dataclass
class _Shown:
    """What the page is made of."""

    graph: Graph
    form: str
    source: Graph | None = None
    scopes: ScopeTable | None = None
    difference: GraphDifference | None = None


def _open(file: str, form: str | None, to: str | None, against: str | None) -> _Shown:
    graph, form = open_model(file, form)
    shown = _Shown(graph, form, scopes=find_scopes(graph, form))
    if to is not None:
        with show_progress(f"converting {file} to {to}"):
            shown.source, shown.graph = graph, amanda.convert(graph, to)
    if against is not None:
        other, _ = open_model(against, None)
        with show_progress(f"comparing {against} and {file}"):
            both = common_namespace(other, graph, are_run=False)
            shown.graph, shown.difference = both.b, diff(both.a, both.b)
    return shown


def _data(
    file: str, shown: _Shown, page: GraphPage, written: dict[str, Path]
) -> dict[str, Any]:
    return {
        "file": file,
        "format": shown.form,
        "namespace": shown.graph.namespace,
        "nodes": page.nodes,
        "written": [
            {"kind": kind, "path": str(path), "bytes": path.stat().st_size}
            for kind, path in written.items()
        ],
        "overlays": [
            {
                "name": each["name"],
                "placed": len(each["values"]),
                "unplaced": each["unplaced"],
            }
            for each in page.data["overlays"]
        ],
    }


def _lines(page: GraphPage, written: dict[str, Path]) -> Iterator[str]:
    for path in written.values():
        yield f"{path}: {page.nodes:,} nodes, {_size_text(path.stat().st_size)}"
    for each in page.data["overlays"]:
        line = f"  {each['name']}: {len(each['values'])} ops"
        if each["unplaced"]:
            line += f"; {each['unplaced']} entries name no op of the graph"
        yield line


def _size_text(count: int) -> str:
    """
    >>> _size_text(1499), _size_text(2_340_000)
    ('1 KB', '2.3 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} KB"
