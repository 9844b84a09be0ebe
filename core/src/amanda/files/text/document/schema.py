"""Graphs as plain data, and back, with the schema of YAML and JSON.

>>> from amanda.graph import Graph
>>> graph = Graph("amanda/std/1")
>>> y = graph.add("relu", [graph.parameter(name="x")], name="y").output
>>> _ = graph.result(y)
>>> data = to_data(graph)
>>> data["graph"]["edges"]
['graph.x -> y.0', 'y.0 -> graph.0']
>>> from_data(data).same_as(graph)
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from amanda.errors import FormatError
from amanda.files.content import expect_valid_content
from amanda.files.text.construct.build_graph import build_graph
from amanda.files.text.construct.parsed_graph import (
    Address,
    End,
    ParsedEdge,
    ParsedGraph,
)
from amanda.files.text.construct.resolve_edges import possible_addresses
from amanda.files.text.document.published_writer import PublishedWriter
from amanda.files.text.document.reader import VERSION, DocumentReader
from amanda.files.text.document.writer import DocumentWriter
from amanda.files.text.syntax.plain_data import (
    Path,
    Plain,
    TextPosition,
    format_position,
    path_keys,
)
from amanda.graph import Graph, bulk
from amanda.tensors import Tensor

__all__ = [
    "VERSION",
    "EdgeDocument",
    "from_data",
    "graph_of_document",
    "published_data",
    "read_data",
    "to_data",
]


@dataclass(frozen=True)
class EdgeDocument:
    """A document that describes one edge, without a graph."""

    source: Address
    target: Address
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_control(self) -> bool:
        return self.source.port in (-1, "^control")


def to_data(graph: Graph, weights: list[Tensor] | None = None) -> Plain:
    """A graph as dicts, lists and scalars; `Tagged` for other values.

    With `weights`, tensors are added to this list, and the data has their index."""
    expect_valid_content(graph)
    return DocumentWriter(graph, weights).document()


def published_data(graph: Graph, is_json: bool) -> Plain:
    """A graph in the published schema; FormatError if it would be read differently."""
    expect_valid_content(graph)
    data = PublishedWriter(graph, is_json).document()
    again = graph_of_document(from_data(data), "<published>")
    if (difference := again.difference(graph)) is not None:
        raise FormatError(
            "the published schema cannot hold this graph",
            who=graph.label,
            got=str(difference),
            hint="change what differs, or save it without schema='published'",
        )
    return data


def from_data(data: Plain, name: str = "<data>") -> Graph | EdgeDocument:
    """The graph or edge that plain data describes."""

    def where(path: Path | None) -> str:
        return ".".join([name, *map(str, path_keys(path))])

    with bulk():
        return read_data(data, where)


def read_data(data: Plain, where: Callable[[Path | None], str]) -> Graph | EdgeDocument:
    """The same; `where` formats the position of a path for errors."""
    plan = DocumentReader(where).document(data)
    if isinstance(plan, ParsedEdge):
        source, target = (_address(end) for end in (plan.source, plan.target))
        if (source.port in (-1, "^control")) != (target.port in (-1, "^control")):
            raise FormatError(
                "an edge between a control port and a value", where=where(plan.place)
            )
        return EdgeDocument(source, target, plan.attrs or {})
    if not isinstance(plan, ParsedGraph):
        alone = ParsedGraph(plan.place)
        alone.ops = [plan]
        plan = alone
    return build_graph(plan, where)


def _address(end: End) -> Address:
    if isinstance(end, Address):
        return end
    return next(possible_addresses(end, 0), Address(None, end))


def text_locator(
    text: str, name: str, locate: Callable[[str, Path | None], TextPosition]
) -> Callable[[Path | None], str]:
    """Returns the position of a path in a text, computed on demand."""
    return lambda path: format_position(name, locate(text, path))


def graph_of_document(document: Graph | EdgeDocument, name: str) -> Graph:
    """The graph that a document describes; FormatError if it describes an edge."""
    if isinstance(document, EdgeDocument):
        raise FormatError(
            "the document describes one edge, not a graph",
            where=name,
            expected="a graph, a subgraph or an op",
            got=f"an edge from {document.source.op} to {document.target.op}",
            hint="read it with `loads` of its text form",
        )
    return document
