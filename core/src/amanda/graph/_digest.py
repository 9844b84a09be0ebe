"""Structural equality and its hash, in an order that does not depend on building.

Ops are numbered as a search from the results backwards meets them, those that no
result needs after them in the kept order. Each op then writes one record that names
its inputs by number; graphs are equal when all records are.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.graph._captures import Captures, capture_edges
from amanda.graph._graph import Graph
from amanda.graph._op import Op
from amanda.graph._port import OutputPort, Parameter

if TYPE_CHECKING:
    from amanda.types import Symbols, Type

_BUFFER = 512  # records hashed at once


class Record(NamedTuple):
    """What one op or graph is, with values and ops named by number."""

    place: str
    fields: tuple[Any, ...]
    attrs: tuple[tuple[str, dict[str, Any]], ...]


class _Numbers:
    """Numbers of graphs, ops and values in canonical order, and texts of types.

    Anonymous dims are numbered as they come, so that equal graphs show equal texts.
    """

    def __init__(self, root: Graph, names: bool, symbols: Symbols) -> None:
        self.captures: Captures = {}
        self.names = names
        self.symbols = symbols
        self.texts: dict[Type | None, str | None] = {None: None}
        self.graphs: dict[Graph, int] = {}
        self.ops: dict[Op, tuple[int, int]] = {}
        self.order: list[tuple[Graph, list[Op]]] = []
        self.number(root)

    def number(self, root: Graph) -> None:
        self.graphs[root] = len(self.graphs)
        self.captures = capture_edges(root)
        queue = [root]
        for graph in queue:
            ops = _canonical(graph, self.captures)
            self.order.append((graph, ops))
            at = self.graphs[graph]
            for i, op in enumerate(ops):
                self.ops[op] = (at, i)
                if op.is_graph or op.side_record is not None:
                    for inner in _inner_graphs_of(op):
                        self.graphs[inner] = len(self.graphs)
                        queue.append(inner)

    def value(self, port: OutputPort | None, graph: Graph) -> Any:
        if port is None:
            return None
        if type(port) is Parameter:
            if port.op is graph:
                return port.index
            return (self.graphs.get(port.op, repr(port)), port.index)
        at = self.ops.get(port.op)
        if at is None:
            return repr(port)
        if port.graph is graph:
            return (at[1], port.index)
        return (*at, port.index)

    def op(self, op: Op) -> Any:
        return self.ops[op][1] if op in self.ops else "graph"

    def text(self, type: Type | None) -> str | None:
        text = self.texts.get(type)
        if text is None and type is not None:
            text = self.texts[type] = type.text(self.symbols)
        return text

    def port(self, port: OutputPort) -> tuple[Any, ...]:
        return (
            port.name if self.names else None,
            self.text(port.type),
            tuple(sorted(port.marks)) if port.marks else (),
        )


def _inner_graphs_of(op: Op) -> list[Graph]:
    graphs = [op] if isinstance(op, Graph) else []
    return graphs + [op.bodies[key] for key in sorted(op.bodies)]


def _canonical(graph: Graph, captures: Captures) -> list[Op]:
    """Ops as a search backwards from the results meets them, then the others."""
    found: dict[Op, None] = {}
    for value in graph._results:
        if value is not None and type(value) is OutputPort and value.op.graph is graph:
            _search(graph, value.op, found, captures)
    if len(found) < graph._count:
        for op in reversed(graph):
            if op not in found:
                _search(graph, op, found, captures)
    return list(found)


def _search(graph: Graph, start: Op, found: dict[Op, None], captures: Captures) -> None:
    stack = [start]
    while stack:
        op = stack.pop()
        if op in found:
            continue
        found[op] = None
        for value in op._inputs:
            if value is not None and type(value) is OutputPort:
                first = value.op
                if first not in found and first.graph is graph:
                    stack.append(first)
        if op.side_record is not None or op.is_graph:
            stack += op.control_inputs
            for value in captures.get(op, ()):
                if type(value) is OutputPort and value.op.graph is graph:
                    stack.append(value.op)


def _records(numbers: _Numbers, root: Graph) -> Iterator[Record]:
    yield from _graph_records(numbers, 0)
    for name in sorted(root._functions):
        done = len(numbers.order)
        numbers.number(root._functions[name])
        yield Record(f"function {name!r}", (name,), ())
        yield from _graph_records(numbers, done)
    for name in sorted(root._entries):
        sides = tuple(
            tuple((key, numbers.value(side[key], root)) for key in sorted(side))
            for side in root._entries[name]
        )
        yield Record(f"entry {name!r}", (name, sides), ())


def _graph_records(numbers: _Numbers, start: int) -> Iterator[Record]:
    for graph, ops in numbers.order[start:]:
        yield _graph_record(graph, numbers)
        for op in ops:
            yield _op_record(op, graph, numbers)


def _graph_record(graph: Graph, numbers: _Numbers) -> Record:
    fields = (
        graph.type,
        graph.name if numbers.names else None,
        graph.namespace if numbers.graphs[graph] == 0 else graph.own_namespace,
        tuple([numbers.port(port) for port in graph._parameters]),
        tuple([numbers.value(value, graph) for value in graph._results]),
        tuple([numbers.port(port) for port in graph.outputs]),
        tuple(sorted([numbers.op(op) for op in graph._inner_control])),
        tuple(sorted([numbers.op(op) for op in graph._inner_controlled])),
        tuple(sorted(graph._imports.items())),
    )
    return Record(f"graph {graph.name!r}", fields, _attrs(graph, numbers))


def _op_record(op: Op, graph: Graph, numbers: _Numbers) -> Record:
    names = numbers.names
    name = op.name if names else None
    inputs = tuple([numbers.value(value, graph) for value in op._inputs])
    more = op.side_record
    if (more is None or more.is_silent) and not op.is_graph:
        outputs = op.outputs
        if len(outputs) == 1 and outputs[0].name is None:
            made: Any = numbers.text(outputs[0].type)
        else:
            made = tuple([numbers.port(port) for port in outputs])
        attrs = (("", op._attrs),) if op._attrs else ()
        return Record(op.name or op.type or "?", (op.type, name, inputs, made), attrs)
    fields = (
        op.type,
        name,
        inputs,
        tuple([numbers.port(port) for port in op.outputs]),
        op.own_namespace,
        op.feedback,
        tuple(op.provenance) if names and op.provenance is not None else None,
        tuple(sorted([numbers.op(first) for first in op.control_inputs])),
        tuple([(key, numbers.graphs[op.bodies[key]]) for key in sorted(op.bodies)]),
        numbers.graphs[op] if isinstance(op, Graph) else None,
        tuple([port.name for port in op.input_ports]) if names else (),
    )
    return Record(op.name or op.type or "?", fields, _attrs(op, numbers))


def _attrs(op: Op, numbers: _Numbers) -> tuple[tuple[str, dict[str, Any]], ...]:
    found = [("", op._attrs)] if op._attrs else []
    more = op.side_record
    if more is not None and more.extras:
        for key, attrs in more.extras.items():
            if attrs and isinstance(key, tuple):
                found.append((f"{key[0]} {key[1]}", attrs))
            elif attrs:
                kind = "signal" if key.graph is op else "control"
                found.append((f"{kind} {numbers.op(key)}", attrs))
    return tuple(sorted(found, key=lambda pair: pair[0]))


# -- the hash --------------------------------------------------------------------


def digest(graph: Graph, *, content: bool, names: bool) -> str:
    """See Graph.digest."""
    from amanda.types import Symbols

    symbols = Symbols()
    found = _digest(graph, content, names, symbols)
    if symbols.is_ambiguous:
        found = _digest(graph, content, names, _rank_records(graph, names))
    return found


def _rank_records(graph: Graph, names: bool) -> Symbols:
    """Numbers of anonymous dims by all the places where they stand."""
    from amanda.types import Symbols

    watching = Symbols(watching=True)
    _digest(graph, False, names, watching)
    return watching.by_role()


def _digest(graph: Graph, content: bool, names: bool, symbols: Symbols) -> str:
    from amanda.tensors import value_digest

    state = blake2b(digest_size=16)
    buffer: list[str] = []
    for record in _records(_Numbers(graph, names, symbols), graph):
        buffer.append(repr(record.fields))  # plain data only, so without ambiguity
        if record.attrs or len(buffer) > _BUFFER:
            state.update("".join(buffer).encode("utf-8", "surrogatepass"))
            buffer.clear()
        for place, attrs in record.attrs:
            state.update(place.encode())
            value_digest(attrs, state.update, content=content, symbols=symbols)
    state.update("".join(buffer).encode("utf-8", "surrogatepass"))
    return state.hexdigest()


# -- equality --------------------------------------------------------------------


def difference(a: Graph, b: Graph, *, content: bool, names: bool) -> str | None:
    """See Graph.difference."""
    from amanda.types import Symbols

    ours, theirs = Symbols(), Symbols()
    found = _difference(a, b, content, names, (ours, theirs))
    if found is not None and ours.is_ambiguous and theirs.is_ambiguous:
        ours, theirs = _rank_records(a, names), _rank_records(b, names)
        found = _difference(a, b, content, names, (ours, theirs))
    return found


def _difference(
    a: Graph, b: Graph, content: bool, names: bool, symbols: tuple[Symbols, Symbols]
) -> str | None:
    ours = _records(_Numbers(a, names, symbols[0]), a)
    theirs = _records(_Numbers(b, names, symbols[1]), b)
    for left, right in zip_longest(ours, theirs):
        if left is None or right is None:
            extra = left or right
            assert extra is not None
            return f"{extra.place} is in one graph only"
        if left.fields != right.fields:
            pairs = zip_longest(left.fields, right.fields)
            odd = [f"{x!r} is not {y!r}" for x, y in pairs if x != y]
            return f"{left.place}: {'; '.join(odd)}"[:500]
        if left.attrs or right.attrs:
            found = _attrs_differ(left, right, content, symbols)
            if found is not None:
                return found
    return None


def _attrs_differ(
    left: Record, right: Record, content: bool, symbols: tuple[Symbols, Symbols]
) -> str | None:
    from amanda.tensors import same_value

    if [place for place, _ in left.attrs] != [place for place, _ in right.attrs]:
        return f"{left.place}: attributes at different places"
    for (place, a), (_, b) in zip(left.attrs, right.attrs, strict=True):
        if sorted(a) != sorted(b):
            odd = sorted(set(a) ^ set(b))
            return f"{left.place} {place}: attributes {odd} are on one side only"
        for key in sorted(a):
            if not same_value(a[key], b[key], content=content, symbols=symbols):
                return f"{left.place} {place}: {key} is {a[key]!r} and {b[key]!r}"
    return None
