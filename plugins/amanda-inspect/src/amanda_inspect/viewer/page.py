"""One HTML page of a graph that needs no other file and no network.

>>> import amanda
>>> graph = amanda.Graph("amanda/std/1", name="small")
>>> x = graph.parameter("float32[3]", "x")
>>> _ = graph.result(graph.add("tanh", [x]).output, "y")
>>> page = view(graph)
>>> page.html.startswith("<!DOCTYPE html>"), page.nodes
(True, 4)
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Final

from amanda.errors import UsageError
from amanda.files import replace_file
from amanda.graph import Graph, ScopeTable
from amanda_inspect.difference import GraphDifference
from amanda_inspect.viewer.differences import difference_tables
from amanda_inspect.viewer.model_explorer import model_explorer_data
from amanda_inspect.viewer.nodes import Kind, Node, build_tree
from amanda_inspect.viewer.overlays import Overlay, place_overlay
from amanda_inspect.viewer.removed import add_removed_ops, difference_overlay
from amanda_inspect.viewer.svg import draw_graph
from amanda_inspect.viewer.tables import PAGE_SCHEMA, Tables
from amanda_inspect.viewer.weights import MAX_ELEMENTS, Histograms

__all__ = ["GraphPage", "view"]

SCRIPTS: Final = (
    "model.js",
    "layout.js",
    "draw.js",
    "overlay.js",
    "panel.js",
    "differences.js",
    "main.js",
)
LIBRARY: Final = "dagre.min.js"
LICENCE: Final = "dagre.LICENSE"
MAX_NOTEBOOK_BYTES: Final = 4 << 20
"""Larger pages are not put into the output of a notebook."""


@dataclass(frozen=True)
class GraphPage:
    """The page of a graph; `save` writes it."""

    title: str
    data: dict[str, Any]
    """What the script of the page reads."""

    def __post_init__(self) -> None:
        if self.data.get("schema") != PAGE_SCHEMA:
            raise UsageError(
                "this is not the data of a page", who="GraphPage",
                expected=f"what view(graph) makes, of schema {PAGE_SCHEMA}",
                got=f"keys {', '.join(map(str, list(self.data)[:5])) or 'none'}",
            )  # fmt: skip

    @property
    def nodes(self) -> int:
        """Groups, ops and ports in the page."""
        return len(self.data["kind"])

    @cached_property
    def html(self) -> str:
        """The page as text."""
        return _fill_template(self.title, self.data)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, replacing one that is there."""
        write_text(path, self.html)

    def svg(self, depth: int | None = None) -> str:
        """A static picture: groups open to a depth, or while it stays small."""
        if depth is not None and depth < 1:
            raise UsageError(
                "a picture has at least one level", expected="a depth from 1", got=depth
            )
        return draw_graph(self.data, depth)

    def model_explorer(self) -> dict[str, Any]:
        """The graph collection for Google's Model Explorer, as data for JSON."""
        return model_explorer_data(self.data)

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        size = len(self.html)
        if size > MAX_NOTEBOOK_BYTES:
            text = (
                f"The page of {self.title} has {size >> 20} MB; save(path) writes it."
            )
            return f"<p>{escape(text)}</p>"
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:600px;border:0" '
            f'title="{escape(self.title)}" srcdoc="{escape(self.html)}"></iframe>'
        )


def view(
    graph: Graph,
    *,
    title: str | None = None,
    source: Graph | None = None,
    scopes: ScopeTable | None = None,
    overlays: Sequence[Overlay] = (),
    difference: GraphDifference | None = None,
    max_elements: int = MAX_ELEMENTS,
) -> GraphPage:
    """The page of a graph.

    `source` is the graph that this one was converted from: its ops are shown beside
    those made from them. `scopes` has the modules of ops, by default those noted in
    the graph. `difference` is that of another graph and this one, from `diff`.
    Histograms are of constants with at most `max_elements` in all.
    """
    if scopes is None:
        scopes = ScopeTable.of(graph if source is None else source)
    root = build_tree(graph, scopes)
    shown = list(overlays)
    removed = {}
    if difference is not None:
        removed = add_removed_ops(root, difference)
        shown.insert(0, difference_overlay(difference))
    tables = Tables(
        root,
        scopes=scopes,
        source=source,
        histograms=Histograms(max_elements),
        removed=removed,
    )
    name = title or graph.name or "graph"
    differences = None
    if difference is not None:
        differences = difference_tables(difference, tables.places)
    data = {
        "schema": PAGE_SCHEMA,
        "head": {"title": name, "facts": _facts(graph, tables.nodes)},
        **tables.as_data(),
        "differences": differences,
        "overlays": [place_overlay(each, graph, tables.places) for each in shown],
    }
    return GraphPage(name, data)


def _facts(graph: Graph, nodes: Sequence[Node]) -> list[tuple[str, str]]:
    """What the panel says of the whole model."""
    counts = Counter(node.kind for node in nodes)
    imports = ", ".join(
        f"{name or 'default'} {number}" for name, number in graph.imports.items()
    )
    facts = {
        "namespace": graph.namespace or "none",
        "imports": imports,
        "ops": f"{counts[Kind.OP] + counts[Kind.GRAPH] - 1:,}",
        "constants": f"{counts[Kind.CONSTANT]:,}",
        "functions": f"{counts[Kind.FUNCTION]:,}" if counts[Kind.FUNCTION] else "",
    }
    return [(key, text) for key, text in facts.items() if text]


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a file, replacing one that is there."""
    with replace_file(Path(path)) as file:
        file.write(text.encode())


def read_asset(name: str) -> str:
    """The text of a file of the page."""
    folder = files("amanda_inspect.viewer") / "assets"
    return (folder / name).read_text(encoding="utf-8")


def _read_library() -> str:
    """The script of the library, with its licence and without its source map."""
    script = read_asset(LIBRARY).partition("//# sourceMappingURL")[0]
    return f"/*! {LIBRARY}\n\n{read_asset(LICENCE)}*/\n{script}"


def _fill_template(title: str, data: dict[str, Any]) -> str:
    script = "\n".join([_read_library(), *map(read_asset, SCRIPTS)])
    style = read_asset("page.css")
    policy = (
        f"default-src 'none'; script-src {_source_hash(script)}; "
        f"style-src {_source_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": escape(title),
        "style": style,
        "script": script,
        "data": _embedded_json(data),
    }
    head, *rest = read_asset("page.html").split("{")
    text = [head]
    for piece in rest:
        name, _, after = piece.partition("}")
        text += [parts[name], after]
    return "".join(text)


def _source_hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _embedded_json(data: dict[str, Any]) -> str:
    """JSON that ends no element of HTML, whatever its strings have."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
