"""What a text says, before there is a graph: the common ground of all text forms.

Readers make plans; `resolve` finds what the ends of edges name; `build` makes the
graph. A place is whatever its reader can turn into a line and column later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from amanda.types import Type

__all__ = [
    "Address",
    "EdgePlan",
    "End",
    "EntryPlan",
    "GraphPlan",
    "OpPlan",
    "PortPlan",
    "Ports",
    "Ref",
    "Where",
    "count",
    "nested",
]

Where: TypeAlias = Callable[[Any], str]
"""Turns a place of a plan into the words of an error."""


class Address(NamedTuple):
    """The end of an edge, by names or indices.

    Without `op` it is a port of the graph itself, seen from inside; port -1 is the one
    for control signals. `up` counts graphs: 1 is the graph around the edge's own.
    A name that is `exact` is that of an op, never that of the graph itself.
    """

    op: str | int | None
    port: str | int
    up: int = 0
    exact: bool = False


End: TypeAlias = "Address | str"
"""An address; or as text, `op.port`, where only the graph's names say what is meant."""


class Ref(NamedTuple):
    """What an address means: op -1 is the graph itself, port -1 that of signals."""

    up: int
    op: int
    port: int


class PortPlan:
    __slots__ = ("attrs", "marks", "name", "place", "type")

    def __init__(
        self, name: str | None = None, type: Type | None = None, place: Any = None
    ) -> None:
        self.name, self.type, self.place = name, type, place
        self.attrs: dict[str, Any] | None = None
        self.marks: list[str] | None = None


Ports: TypeAlias = "int | list[PortPlan]"
"""A number says only how many there are."""


def count(ports: Ports) -> int:
    return ports if isinstance(ports, int) else len(ports)


class EdgePlan:
    __slots__ = ("attrs", "place", "source", "target")

    def __init__(
        self, source: End, target: End, place: Any, attrs: dict[str, Any] | None = None
    ) -> None:
        self.source, self.target, self.place, self.attrs = source, target, place, attrs


class OpPlan:
    """An op, and after `resolve` what it reads and waits for."""

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
        self.bodies: dict[str, GraphPlan] | None = None
        self.sources: list[Ref | None] | None = None
        self.edge_attrs: dict[int, dict[str, Any]] | None = None
        # the op's index, -1 for the graph around, and the attributes of the edge
        self.control: dict[int, dict[str, Any] | None] | None = None


class EntryPlan(NamedTuple):
    inputs: Mapping[str, End | Ref]
    outputs: Mapping[str, End | Ref]
    place: Any


class GraphPlan(OpPlan):
    """A graph; as one of the `ops` of another it is a subgraph."""

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
        self.ops: list[OpPlan] = []
        self.edges: list[EdgePlan] = []
        self.imports: dict[str, int] | None = None
        self.entries: dict[str, EntryPlan] | None = None
        self.functions: dict[str, GraphPlan] | None = None
        self.backwards = False  # some edge does not follow the order of the ops
        self.results: list[Ref | None] = []
        self.result_attrs: dict[int, dict[str, Any]] | None = None
        self.sinks: dict[int, dict[str, Any] | None] | None = None


def nested(op: OpPlan) -> Iterator[tuple[str | None, GraphPlan]]:
    """The graphs that an op holds: itself (None), and its bodies by name."""
    if isinstance(op, GraphPlan):
        yield None, op
    if op.bodies:
        yield from op.bodies.items()
