"""What a text states, before there is a graph; shared by all text forms.

Parsers create these; `resolve_edges` resolves the ends of edges, `build_graph` builds
the graph. A `place` is whatever its parser can convert to a line and column later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from amanda.types import Type

__all__ = [
    "Address",
    "ParsedEdge",
    "End",
    "ParsedEntry",
    "ParsedGraph",
    "ParsedOp",
    "ParsedPort",
    "Ports",
    "ResolvedEnd",
    "Where",
    "port_count",
    "nested_graphs",
]

Where: TypeAlias = Callable[[Any], str]
"""Turns a place of a plan into the words of an error."""


class Address(NamedTuple):
    """The end of an edge, by names or indices.

    Without `op` it is a port of the graph itself, seen from inside; port -1 is the one
    for control signals. `up` counts graphs: 1 is the graph around the edge's own.
    An `exact` name is that of an op, never of the graph itself.
    """

    op: str | int | None
    port: str | int
    up: int = 0
    exact: bool = False


End: TypeAlias = "Address | str"
"""An address; or as text, `op.port`, where only the graph's names say what is meant."""


class ResolvedEnd(NamedTuple):
    """A resolved address: op -1 is the graph itself, port -1 the control port."""

    up: int
    op: int
    port: int


class ParsedPort:
    __slots__ = ("attrs", "marks", "name", "place", "type")

    def __init__(
        self, name: str | None = None, type: Type | None = None, place: Any = None
    ) -> None:
        self.name, self.type, self.place = name, type, place
        self.attrs: dict[str, Any] | None = None
        self.marks: list[str] | None = None


Ports: TypeAlias = "int | list[ParsedPort]"
"""A number says only how many there are."""


def port_count(ports: Ports) -> int:
    return ports if isinstance(ports, int) else len(ports)


class ParsedEdge:
    __slots__ = ("attrs", "place", "source", "target")

    def __init__(
        self, source: End, target: End, place: Any, attrs: dict[str, Any] | None = None
    ) -> None:
        self.source, self.target, self.place, self.attrs = source, target, place, attrs


class ParsedOp:
    """An op, and after `resolve_edges` its inputs and control inputs."""

    __slots__ = (
        "attrs",
        "bodies",
        "control",
        "edge_attrs",
        "feedback",
        "inputs",
        "name",
        "namespace",
        "outputs",
        "place",
        "provenance",
        "sources",
        "type",
    )

    def __init__(self, place: Any = None) -> None:
        self.place = place
        self.type: str | None = None
        self.name: str | None = None
        self.namespace: str | None = None
        self.attrs: dict[str, Any] | None = None
        self.inputs: Ports = 0
        self.outputs: Ports = 0
        self.feedback = False
        self.provenance: tuple[tuple[str, ...], str] | None = None
        self.bodies: dict[str, ParsedGraph] | None = None
        self.sources: list[ResolvedEnd | None] | None = None
        self.edge_attrs: dict[int, dict[str, Any]] | None = None
        # the op's index, -1 for the graph around, and the attributes of the edge
        self.control: dict[int, dict[str, Any] | None] | None = None


class ParsedEntry(NamedTuple):
    inputs: Mapping[str, End | ResolvedEnd]
    outputs: Mapping[str, End | ResolvedEnd]
    place: Any


class ParsedGraph(ParsedOp):
    """A graph; among the `ops` of another one it is a subgraph."""

    __slots__ = (
        "backwards",
        "edges",
        "entries",
        "functions",
        "imports",
        "ops",
        "result_attrs",
        "results",
        "sinks",
    )

    def __init__(self, place: Any = None) -> None:
        super().__init__(place)
        self.ops: list[ParsedOp] = []
        self.edges: list[ParsedEdge] = []
        self.imports: dict[str, int] | None = None
        self.entries: dict[str, ParsedEntry] | None = None
        self.functions: dict[str, ParsedGraph] | None = None
        self.backwards = False  # some edge does not follow the order of the ops
        self.results: list[ResolvedEnd | None] = []
        self.result_attrs: dict[int, dict[str, Any]] | None = None
        self.sinks: dict[int, dict[str, Any] | None] | None = None


def nested_graphs(op: ParsedOp) -> Iterator[tuple[str | None, ParsedGraph]]:
    """The graphs of an op: itself (None), and its bodies by name."""
    if isinstance(op, ParsedGraph):
        yield None, op
    if op.bodies:
        yield from op.bodies.items()
