"""Graphs as plain data, and back: the one schema of YAML and JSON.

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
from amanda.files.text.construct.build_graph import build
from amanda.files.text.construct.parsed_graph import Address, EdgePlan, End, GraphPlan
from amanda.files.text.construct.resolve_edges import readings
from amanda.files.text.document.reader import VERSION, Reader
from amanda.files.text.document.writer import Writer
from amanda.files.text.syntax.plain_data import Path, Plain, Spot, place, steps
from amanda.graph import Graph, bulk

__all__ = ["VERSION", "EdgeDocument", "from_data", "graph_of", "read_data", "to_data"]


@dataclass(frozen=True)
class EdgeDocument:
    """What a document about one edge says: no graph is there to have the edge."""

    source: Address
    target: Address
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_control(self) -> bool:
        return self.source.port in (-1, "^control")


def to_data(graph: Graph) -> Plain:
    """A graph as dicts, lists and scalars; `Tagged` for what these cannot say."""
    return Writer(graph).document()


def from_data(data: Plain, name: str = "<data>") -> Graph | EdgeDocument:
    """What a document of plain data is about."""

    def where(path: Path | None) -> str:
        return ".".join([name, *map(str, steps(path))])

    with bulk():
        return read_data(data, where)


def read_data(data: Plain, where: Callable[[Path | None], str]) -> Graph | EdgeDocument:
    """`where` tells the place of a path, as errors write it."""
    plan = Reader(where).document(data)
    if isinstance(plan, EdgePlan):
        source, target = (_address(end) for end in (plan.source, plan.target))
        if (source.port in (-1, "^control")) != (target.port in (-1, "^control")):
            raise FormatError(
                "an edge between a control port and a value", where=where(plan.place)
            )
        return EdgeDocument(source, target, plan.attrs or {})
    if not isinstance(plan, GraphPlan):
        alone = GraphPlan(plan.place)
        alone.ops = [plan]
        plan = alone
    return build(plan, where)


def _address(end: End) -> Address:
    if isinstance(end, Address):
        return end
    return next(readings(end, 0), Address(None, end))


def locating(
    text: str, name: str, locate: Callable[[str, Path | None], Spot]
) -> Callable[[Path | None], str]:
    """Places in a text, found when they are asked for."""
    return lambda path: place(name, locate(text, path))


def graph_of(document: Graph | EdgeDocument, name: str) -> Graph:
    """The graph that a document is about; FormatError where it is about an edge."""
    if isinstance(document, EdgeDocument):
        raise FormatError(
            "the document describes one edge, not a graph",
            where=name,
            expected="a graph, a subgraph or an op",
            got=f"an edge from {document.source.op} to {document.target.op}",
            hint="read it with `loads` of its text form",
        )
    return document
