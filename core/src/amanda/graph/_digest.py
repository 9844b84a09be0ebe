"""Structural equality and hashing of graphs, independent of the construction order.

Ops are numbered by a depth-first search backwards from the results, then from the
remaining ops, last first. Each op is then described by a record that refers to its
inputs by number. Graphs are equal if all their records are.
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
from amanda.graph._scopes import SCOPES_RECORD

if TYPE_CHECKING:
    from amanda.types import Symbols, Type

_BUFFER = 512  # records per update of the hash


class Description(NamedTuple):
    """Description of one op or graph; values and ops are referred to by number."""

    label: str
    fields: tuple[Any, ...]
    attrs: tuple[tuple[str, dict[str, Any]], ...]


class _Numbering:
    """Canonical numbers of graphs, ops and values, and string forms of types.

    Anonymous dims are numbered in order of occurrence, so that equal graphs have equal
    strings.
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
            ops = _canonical_order(graph, self.captures)
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


def _canonical_order(graph: Graph, captures: Captures) -> list[Op]:
    """Ops in order of a backward search from the results, then the unused ones."""
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


def _records(numbering: _Numbering, root: Graph) -> Iterator[Description]:
    yield from _graph_records(numbering, 0)
    for name in sorted(root._functions):
        done = len(numbering.order)
        numbering.number(root._functions[name])
        yield Description(f"function {name!r}", (name,), ())
        yield from _graph_records(numbering, done)
    for name in sorted(root._entries):
        sides = tuple(
            tuple((key, numbering.value(side[key], root)) for key in sorted(side))
            for side in root._entries[name]
        )
        yield Description(f"entry {name!r}", (name, sides), ())


def _graph_records(numbering: _Numbering, start: int) -> Iterator[Description]:
    for graph, ops in numbering.order[start:]:
        yield _graph_record(graph, numbering)
        for op in ops:
            yield _op_record(op, graph, numbering)


def _graph_record(graph: Graph, numbering: _Numbering) -> Description:
    fields = (
        graph.type,
        graph.name if numbering.names else None,
        graph.namespace if numbering.graphs[graph] == 0 else graph.own_namespace,
        tuple([numbering.port(port) for port in graph._parameters]),
        tuple([numbering.value(value, graph) for value in graph._results]),
        tuple([numbering.port(port) for port in graph.outputs]),
        tuple(sorted([numbering.op(op) for op in graph._inner_control])),
        tuple(sorted([numbering.op(op) for op in graph._inner_controlled])),
        tuple(sorted(graph._imports.items())),
    )
    return Description(f"graph {graph.name!r}", fields, _attrs(graph, numbering))


def _op_record(op: Op, graph: Graph, numbering: _Numbering) -> Description:
    names = numbering.names
    name = op.name if names else None
    inputs = tuple([numbering.value(value, graph) for value in op._inputs])
    more = op.side_record
    if (more is None or more.is_silent) and not op.is_graph:
        outputs = op.outputs
        if len(outputs) == 1 and outputs[0].name is None:
            results: Any = numbering.text(outputs[0].type)
        else:
            results = tuple([numbering.port(port) for port in outputs])
        attrs = (("", op._attrs),) if op._attrs else ()
        return Description(
            op.name or op.type or "?", (op.type, name, inputs, results), attrs
        )
    fields = (
        op.type,
        name,
        inputs,
        tuple([numbering.port(port) for port in op.outputs]),
        op.own_namespace,
        op.feedback,
        tuple(op.provenance) if names and op.provenance is not None else None,
        tuple(sorted([numbering.op(first) for first in op.control_inputs])),
        tuple([(key, numbering.graphs[op.bodies[key]]) for key in sorted(op.bodies)]),
        numbering.graphs[op] if isinstance(op, Graph) else None,
        tuple([port.name for port in op.input_ports]) if names else (),
    )
    return Description(op.name or op.type or "?", fields, _attrs(op, numbering))


def _attrs(op: Op, numbering: _Numbering) -> tuple[tuple[str, dict[str, Any]], ...]:
    own = op._attrs
    if own and SCOPES_RECORD in own:  # where ops were written is no structure
        own = {key: own[key] for key in own if key != SCOPES_RECORD}
    found = [("", own)] if own else []
    more = op.side_record
    if more is not None and more.extras:
        for key, attrs in more.extras.items():
            if attrs and isinstance(key, tuple):
                found.append((f"{key[0]} {key[1]}", attrs))
            elif attrs:
                kind = "signal" if key.graph is op else "control"
                found.append((f"{kind} {numbering.op(key)}", attrs))
    return tuple(sorted(found, key=lambda pair: pair[0]))


# -- the hash --------------------------------------------------------------------


def digest(graph: Graph, *, content: bool, names: bool) -> str:
    """See Graph.digest."""
    from amanda.types import Symbols

    symbols = Symbols()
    result = _digest(graph, content, names, symbols)
    if symbols.is_ambiguous:
        result = _digest(graph, content, names, _rank_symbols(graph, names))
    return result


def _rank_symbols(graph: Graph, names: bool) -> Symbols:
    """Number anonymous dims by all the positions at which they occur."""
    from amanda.types import Symbols

    watching = Symbols(watching=True)
    _digest(graph, False, names, watching)
    return watching.by_role()


def _digest(graph: Graph, content: bool, names: bool, symbols: Symbols) -> str:
    from amanda.tensors import value_digest

    state = blake2b(digest_size=16)
    buffer: list[str] = []
    for record in _records(_Numbering(graph, names, symbols), graph):
        buffer.append(repr(record.fields))  # unambiguous: plain data only
        if record.attrs or len(buffer) > _BUFFER:
            state.update("".join(buffer).encode("utf-8", "surrogatepass"))
            buffer.clear()
        for owner, attrs in record.attrs:
            state.update(owner.encode())
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
        ours, theirs = _rank_symbols(a, names), _rank_symbols(b, names)
        found = _difference(a, b, content, names, (ours, theirs))
    return found


def _difference(
    a: Graph, b: Graph, content: bool, names: bool, symbols: tuple[Symbols, Symbols]
) -> str | None:
    ours = _records(_Numbering(a, names, symbols[0]), a)
    theirs = _records(_Numbering(b, names, symbols[1]), b)
    for left, right in zip_longest(ours, theirs):
        if left is None or right is None:
            extra = left or right
            assert extra is not None
            return f"{extra.label} is in one graph only"
        if left.fields != right.fields:
            pairs = zip_longest(left.fields, right.fields)
            odd = [f"{x!r} is not {y!r}" for x, y in pairs if x != y]
            return f"{left.label}: {'; '.join(odd)}"[:500]
        if left.attrs or right.attrs:
            found = _attrs_difference(left, right, content, symbols)
            if found is not None:
                return found
    return None


def _attrs_difference(
    left: Description,
    right: Description,
    content: bool,
    symbols: tuple[Symbols, Symbols],
) -> str | None:
    from amanda.tensors import same_value

    if [owner for owner, _ in left.attrs] != [owner for owner, _ in right.attrs]:
        return f"{left.label}: attributes of different ports or edges"
    for (owner, a), (_, b) in zip(left.attrs, right.attrs, strict=True):
        if sorted(a) != sorted(b):
            odd = sorted(set(a) ^ set(b))
            return f"{left.label} {owner}: attributes {odd} are in one graph only"
        for key in sorted(a):
            if not same_value(a[key], b[key], content=content, symbols=symbols):
                return f"{left.label} {owner}: {key} is {a[key]!r} and {b[key]!r}"
    return None
