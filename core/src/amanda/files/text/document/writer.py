"""Graphs to documents: the exact form, deterministic.

Graphs are nested to a depth of 16; deeper ones go to the flat table `graphs` of the
document, so nesting has no limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from amanda.errors import FormatError
from amanda.files.text.document.attribute_values import ValueEncoder
from amanda.files.text.document.reader import MAX_COUNT, VERSION
from amanda.files.text.syntax.plain_data import Block, Plain, Rows
from amanda.graph import (
    ControlPort,
    Edge,
    Graph,
    InputPort,
    Op,
    OutputPort,
    Parameter,
)
from amanda.tensors import Tensor
from amanda.types import Symbols

__all__ = ["DocumentWriter"]

_MAX_INLINE_DEPTH = 16  # nested graphs that are written in place
_MAX_OUTWARD = 8  # outer graphs that are written as `../`
_MAX_KEY = 100  # characters of a name; longer names are not used as keys
_OP = re.compile(r"(?![0-9]+\Z)[^\s.\0-\x1f][^\s\0-\x1f]*\Z")
_PORT = re.compile(r"(?![0-9]+\Z)[^\s.\0-\x1f\-^][^\s.\0-\x1f]*\Z")
_PORT_KEYS = frozenset({"name", "type", "attrs", "marks"})


class DocumentWriter:
    """Writes one graph as plain data."""

    def __init__(self, root: Graph, weights: list[Tensor] | None = None) -> None:
        self.encoder = ValueEncoder(Symbols(), weights)
        self.root = root
        self.table: list[Plain] = []
        self.scopes: dict[Graph, AddressScope] = {}
        self.work: list[tuple[Graph, Block, int, bool]] = []

    def document(self) -> Plain:
        top = Block(amanda=VERSION, graph=Block())
        self.work.append((self.root, top["graph"], 1, True))
        while self.work:
            work = self.work.pop()
            done = len(self.work)
            self._graph(*work)
            self.work[done:] = reversed(self.work[done:])
        if self.table:
            top["graphs"] = self.table
        return top

    def scope(self, graph: Graph) -> AddressScope:
        scope = self.scopes.get(graph)
        if scope is None:
            scope = self.scopes[graph] = AddressScope(graph)
        return scope

    # -- graphs and ops --------------------------------------------------------------

    def _graph(self, graph: Graph, fields: Block, depth: int, named: bool) -> None:
        """The fields of a graph; without its name if the key in the outer map is it."""
        if named and graph.name is not None:
            fields["name"] = graph.name
        self._head(graph, fields)
        if graph.imports:
            fields["imports"] = dict(graph.imports)
        self._attrs(graph, fields)
        inputs = [self._port(port, port.type) for port in graph.parameters]
        outputs = [self._port(port, port.type) for port in graph.outputs]
        self._ports(fields, inputs, outputs)
        self._tail(graph, fields, depth)
        self._ops(graph, fields, depth)
        edges = self._edges(graph)
        if edges:
            fields["edges"] = edges
        if graph.entries:
            scope = self.scope(graph)
            fields["entries"] = Block(
                (name, Block((key, {label: self._end(value, scope)
                                    for label, value in side.items()})
                             for key, side in zip(("inputs", "outputs"), entry,
                                                  strict=True)))
                for name, entry in graph.entries.items()
            )  # fmt: skip
        if graph.functions:
            fields["functions"] = Block(
                (name, self._inner(function, depth, True))
                for name, function in graph.functions.items()
            )

    def _inner(self, graph: Graph, depth: int, named: bool) -> Block:
        """A nested graph: its fields, or a reference to the table."""
        fields = Block()
        if depth < _MAX_INLINE_DEPTH:
            self.work.append((graph, fields, depth + 1, named))
            return fields
        pointer = Block(graph=len(self.table))
        self.table.append(fields)
        if named and graph.name is not None:
            pointer["name"] = graph.name
        self.work.append((graph, fields, 1, False))
        return pointer

    def _ops(self, graph: Graph, fields: Block, depth: int) -> None:
        ops = list(graph)
        by_name = all(op.name is not None and len(op.name) <= _MAX_KEY for op in ops)
        if by_name:
            fields["ops"] = Block(
                (op.name or "", self._op(op, depth, False)) for op in ops
            )
        else:
            fields["ops"] = Rows(self._op(op, depth, True) for op in ops)

    def _op(self, op: Op, depth: int, named: bool) -> Block:
        if isinstance(op, Graph):
            return self._inner(op, depth, named)
        fields = Block()
        if named and op.name is not None:
            fields["name"] = op.name
        self._head(op, fields)
        self._attrs(op, fields)
        inputs = [self._port(port, None) for port in op.input_ports]
        outputs = [self._port(port, port.type) for port in op.outputs]
        self._ports(fields, inputs, outputs)
        if op.feedback:
            fields["feedback"] = True
        self._tail(op, fields, depth)
        return fields

    def _head(self, op: Op, fields: Block) -> None:
        if op.type is not None:
            fields["type"] = op.type
        if op.own_namespace is not None:
            fields["namespace"] = op.own_namespace

    def _attrs(self, op: Op, fields: Block) -> None:
        if op.has_attrs:
            fields["attrs"] = self._map(op.attrs)

    def _tail(self, op: Op, fields: Block, depth: int) -> None:
        if op.provenance is not None:
            sources, by = op.provenance
            fields["provenance"] = {"sources": list(sources), "by": by}
        if op.bodies:
            fields["bodies"] = Block(
                (key, self._inner(body, depth, True)) for key, body in op.bodies.items()
            )

    def _map(self, attrs: dict[str, Any]) -> dict[str, Plain]:
        return {key: self.encoder.value(value) for key, value in attrs.items()}

    # -- ports ------------------------------------------------------------------------

    def _ports(self, fields: Block, inputs: list[Plain], outputs: list[Plain]) -> None:
        for key, ports in (("input_ports", inputs), ("output_ports", outputs)):
            if not ports:
                continue
            bare = len(ports) <= MAX_COUNT and not any(ports)
            named = all(type(port) is str for port in ports)
            fields[key] = len(ports) if bare else ports if named else Rows(ports)

    def _port(self, port: InputPort | OutputPort, type: Any) -> Plain:
        name = port.name
        text = None if type is None else self.encoder.port_type(type)
        marks = sorted(port.marks) if isinstance(port, OutputPort) else []
        if not marks and not port.has_attrs:
            if text is None and name:
                return name
            if text is not None and name is not None and name not in _PORT_KEYS:
                return Block({name: text})
        fields: dict[str, Plain] = {}
        if name is not None:
            fields["name"] = name
        if text is not None:
            fields["type"] = text
        if port.has_attrs:
            fields["attrs"] = self._map(port.attrs)
        if marks:
            fields["marks"] = marks
        return fields

    # -- edges ------------------------------------------------------------------------

    def _edges(self, graph: Graph) -> list[Plain]:
        """All edges, in the order of the ops and ports where they end."""
        scope = self.scope(graph)
        edges = Rows()
        for op in graph:
            for i, value in enumerate(op.inputs):
                if value is not None:
                    port = InputPort(op, i)
                    attrs = port.edge_attrs if port.has_edge_attrs else None
                    target = scope.address(op, port, False)
                    edges.append(self._edge(self._end(value, scope), target, attrs))
        for i, value in enumerate(graph.results):
            if value is not None:
                port = InputPort(graph, i, True)
                attrs = port.edge_attrs if port.has_edge_attrs else None
                target = scope.graph_port(i, False)
                edges.append(self._edge(self._end(value, scope), target, attrs))
        for first, then in control_edge_ends(graph):
            edge = Edge(ControlPort(first, "out"), ControlPort(then, "in"))
            attrs = edge.attrs if edge.has_attrs else None
            edges.append(self._edge(scope.control(first), scope.control(then), attrs))
        return edges

    def _edge(
        self, source: Plain, target: Plain, attrs: dict[str, Any] | None
    ) -> Plain:
        if not attrs and type(source) is str and type(target) is str:
            return f"{source} -> {target}"
        if type(source) is not type(target):
            source, target = _address_as_map(source), _address_as_map(target)
        edge = {"output_port": source, "input_port": target}
        if attrs:
            edge["attrs"] = self._map(attrs)
        return edge

    def _end(self, value: OutputPort, scope: AddressScope) -> Plain:
        """The address of a value, for an edge of the scope's graph."""
        home, up, at = value.graph, 0, scope.graph
        while at is not home:
            around = enclosing_graph(at)
            if around is None:
                raise FormatError(
                    "a graph reads a value that is not in the document",
                    who=scope.graph.label,
                    got=repr(value),
                    hint="save the graph around it, or make the value a parameter",
                )
            at, up = around, up + 1
        there = self.scope(at) if up else scope
        if isinstance(value, Parameter):
            address = there.graph_port(value.index, True)
        else:
            address = there.address(value.op, value, True)
        if not up:
            return address
        if type(address) is str:
            if up <= _MAX_OUTWARD:
                return "../" * up + address
            address = _address_as_map(address)
        return {**address, "up": up}


def control_edge_ends(graph: Graph) -> Iterator[tuple[Op, Op]]:
    """The ends of all control edges, in the order of their targets."""
    waiting = set(graph.inner_control_sources)
    for op in graph:
        if op in waiting:
            yield graph, op
        for first in op.control_inputs:
            yield first, op
    for first in graph.inner_control_sinks:
        yield first, graph


def enclosing_graph(graph: Graph) -> Graph | None:
    """The graph whose values a graph may capture."""
    if graph.graph is not None:
        return graph.graph
    return None if graph.holder is None else graph.holder.graph


def _address_as_map(address: Plain) -> dict[str, Plain]:
    """An address as a map, for edges whose ends cannot be text."""
    if type(address) is not str:
        return dict(address)
    up = 0
    while address.startswith("../"):
        address, up = address[3:], up + 1
    op, _, port = address.rpartition(".")
    fields: dict[str, Plain] = {"op": _number(op)} if op else {}
    fields["port"] = _number(port)
    if up:
        fields["up"] = up
    return fields


class AddressScope:
    """Addresses of the ops and ports of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._places: dict[Op, int] | None = None
        self._texts: dict[Op, str | int] = {}
        self._ports: dict[tuple[Op, bool], list[str | int]] = {}
        name = "graph" if graph.name is None else graph.name
        self.name = name
        plain = _OP.match(name) is not None and name not in graph
        self.own_name = name if plain else ""  # `.port` is of the graph itself

    def place(self, op: Op) -> int:
        if self._places is None:
            self._places = {op: i for i, op in enumerate(self.graph)}
        return self._places[op]

    def op(self, op: Op) -> str | int:
        """The key of an op: text in front of a dot, or its index."""
        found = self._texts.get(op)
        if found is None:
            name = op.name
            if name is None:
                place = self.place(op)
                taken = str(place) in self.graph or str(place) == self.name
                found = place if taken else str(place)
            elif name == self.name or not _OP.match(name):
                found = self.place(op)
            else:
                found = name
            self._texts[op] = found
        return found

    def address(self, op: Op, port: InputPort | OutputPort, outward: bool) -> Plain:
        ports: Sequence[Any] = op.outputs if outward else op.input_ports
        return _join_address(self.op(op), self._keys(op, ports, outward)[port.index])

    def graph_port(self, index: int, outward: bool) -> Plain:
        """The address of a port of the graph itself, seen from inside."""
        graph = self.graph
        ports = graph.parameters if outward else graph.outputs
        key = self._keys(graph, ports, outward)[index]
        return {"port": key} if type(key) is int else f"{self.own_name}.{key}"

    def control(self, op: Op) -> Plain:
        if op is self.graph:
            return f"{self.own_name}.^control"
        return _join_address(self.op(op), "^control")

    def _keys(self, op: Op, ports: Sequence[Any], outward: bool) -> list[str | int]:
        """The key of each port: its name where that is unique, its index as text, or
        as a number if another port's name is that text."""
        if len(ports) == 1 and ports[0].name is None:
            return _FIRST
        found = self._ports.get((op, outward))
        if found is None:
            names = Counter([port.name for port in ports])
            found = self._ports[op, outward] = [
                port.name
                if port.name and names[port.name] == 1 and _PORT.match(port.name)
                else (i if str(i) in names else str(i))
                for i, port in enumerate(ports)
            ]
        return found


_FIRST: list[str | int] = ["0"]


def _join_address(op: str | int, port: str | int) -> Plain:
    if type(op) is str and type(port) is str:
        return f"{op}.{port}"
    return {"op": _number(op), "port": _number(port)}


def _number(key: str | int) -> str | int:
    return int(key) if type(key) is str and key.isdecimal() else key
