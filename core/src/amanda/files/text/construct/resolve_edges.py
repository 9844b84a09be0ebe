"""Resolves the ends of edges.

Names are looked up in this order: the graph of the edge, by its own name (`graph` if it
has none), if it has such a port; an op of this name; the op at this index; and last
`graph` again, for a graph that has a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from amanda.errors import FormatError
from amanda.files.text.construct.parsed_graph import (
    Address,
    End,
    ParsedEdge,
    ParsedEntry,
    ParsedGraph,
    ParsedOp,
    Ports,
    ResolvedEnd,
    Where,
    nested_graphs,
    port_count,
)
from amanda.files.text.syntax.plain_data import quote_short

__all__ = ["CONTROL", "SELF", "possible_addresses", "resolve_edges"]

CONTROL = -1  # the control port
SELF = -1  # the graph itself, in place of an op
CONTROL_NAME = "^control"
_MAX_DOTS = 64  # in one end of an edge; more are never tried
_SHOWN = 10


def resolve_edges(root: ParsedGraph, where: Where) -> None:
    """Resolve the inputs of every op, at any depth."""
    EdgeResolver(where).graph(root)


class ResolverScope:
    """One graph whose ops are being resolved."""

    def __init__(self, plan: ParsedGraph, closed: bool, where: Where) -> None:
        self.plan = plan
        self.closed = closed  # a root or function captures nothing
        self.at = 0  # the op whose graphs are being resolved
        self.own = "graph" if plan.name is None else plan.name
        self.names: dict[str, int] = {}
        self.tables: dict[int, dict[str, int]] = {}  # port names, for many ports
        for i, op in enumerate(plan.ops):
            if op.name is not None and self.names.setdefault(op.name, i) != i:
                first = plan.ops[self.names[op.name]]
                raise FormatError(
                    f"two ops have the name {quote_short(op.name)}",
                    where=where(op.place),
                    got=f"the first at {where(first.place)}",
                )

    def op_index(self, name: str | int) -> int | None:
        if isinstance(name, str):
            found = self.names.get(name)
            if found is not None or not name.isdecimal() or len(name) > 18:
                return found
            name = int(name)
        return name if 0 <= name < len(self.plan.ops) else None

    def port_index(self, ports: Ports, key: str | int) -> int | None:
        """The index of a port by its key; -1 for control."""
        if isinstance(key, str):
            if key == CONTROL_NAME:
                return CONTROL
            found = self._find_port(ports, key)
            if found is not None:
                return found
            if key == "-1":
                return CONTROL
            if not key.isdecimal() or len(key) > 18:
                return None
            key = int(key)
        return key if -1 <= key < port_count(ports) else None

    def _find_port(self, ports: Ports, name: str) -> int | None:
        if isinstance(ports, int):
            return None
        if len(ports) < 8:
            for i, port in enumerate(ports):
                if port.name == name:
                    return i
            return None
        table = self.tables.get(id(ports))
        if table is None:
            table = self.tables[id(ports)] = {}
            for i, port in enumerate(ports):
                if port.name is not None:
                    table.setdefault(port.name, i)
        return table.get(name)

    def nested_scopes(self) -> Iterator[tuple[int, ParsedGraph, bool]]:
        for i, op in enumerate(self.plan.ops):
            for _, graph in nested_graphs(op):
                yield i, graph, False
        for graph in (self.plan.functions or {}).values():
            yield len(self.plan.ops), graph, True


class EdgeResolver:
    def __init__(self, where: Where) -> None:
        self.where = where
        self.scopes: list[ResolverScope] = []

    def graph(self, root: ParsedGraph) -> None:
        self._enter(root, True)
        waiting = [self.scopes[0].nested_scopes()]
        while waiting:
            child = next(waiting[-1], None)
            if child is None:
                waiting.pop()
                self.scopes.pop()
                continue
            self.scopes[-1].at, plan, closed = child
            self._enter(plan, closed)
            waiting.append(self.scopes[-1].nested_scopes())

    def _enter(self, plan: ParsedGraph, closed: bool) -> None:
        self.scopes.append(ResolverScope(plan, closed, self.where))
        plan.results = [None] * port_count(plan.outputs)
        for edge in plan.edges:
            self._edge(plan, edge)
        plan.edges = []
        if plan.entries:
            plan.entries = {
                name: ParsedEntry(
                    self._values(entry.inputs, entry.place),
                    self._values(entry.outputs, entry.place),
                    entry.place,
                )
                for name, entry in plan.entries.items()
            }

    def _values(self, ends: Any, place: Any) -> dict[str, End | ResolvedEnd]:
        found: dict[str, End | ResolvedEnd] = {}
        for label, end in ends.items():
            ref, _ = self._find(end, True, place)
            if ref.port == CONTROL or ref.up:
                raise self._error("an entry names values of the graph itself", place)
            found[label] = ref
        return found

    def _error(self, message: str, place: Any, **parts: Any) -> FormatError:
        return FormatError(message, where=self.where(place), **parts)

    # -- edges -------------------------------------------------------------------

    def _edge(self, plan: ParsedGraph, edge: ParsedEdge) -> None:
        source, by_input = self._find(edge.source, True, edge.place)
        target, _ = self._find(edge.target, False, edge.place)
        attrs = edge.attrs
        if by_input:
            written = f"{_format_end(edge.source)} -> {_format_end(edge.target)}"
            attrs = {**(attrs or {}), "written": written}
        if target.up:
            raise self._error(
                "an edge ends in a graph around its own", edge.place,
                hint="list the edge in that graph",
            )  # fmt: skip
        if (source.port == CONTROL) != (target.port == CONTROL):
            raise self._error("an edge between a control port and a value", edge.place)
        if source.port == CONTROL:
            self._signal(plan, source, target, attrs, edge.place)
        else:
            self._value(plan, source, target, attrs, edge.place)

    def _value(
        self,
        plan: ParsedGraph,
        source: ResolvedEnd,
        target: ResolvedEnd,
        attrs: dict[str, Any] | None,
        place: Any,
    ) -> None:
        if target.op == SELF:
            held = plan.results
        else:
            op = plan.ops[target.op]
            if op.sources is None:
                op.sources = [None] * port_count(op.inputs)
            held = op.sources
        if held[target.port] is not None:
            raise self._error("a second edge ends at one input port", place)
        held[target.port] = source
        if attrs:
            holder: Any = plan if target.op == SELF else plan.ops[target.op]
            key = "result_attrs" if target.op == SELF else "edge_attrs"
            if getattr(holder, key) is None:
                setattr(holder, key, {})
            getattr(holder, key)[target.port] = attrs
        self._note_order(source, target.op)

    def _note_order(self, source: ResolvedEnd, reader: int) -> None:
        """Mark the graph whose op order is against this edge."""
        scope = self.scopes[-1 - source.up]
        if source.up:
            reader = scope.at
        if source.op == SELF or reader == SELF or source.op < reader:
            return
        if not scope.plan.ops[source.op].feedback:
            scope.plan.backwards = True

    def _signal(
        self,
        plan: ParsedGraph,
        source: ResolvedEnd,
        target: ResolvedEnd,
        attrs: dict[str, Any] | None,
        place: Any,
    ) -> None:
        if source.up:
            raise self._error("a control edge starts in a graph around", place)
        if target.op == SELF:
            if plan.sinks is None:
                plan.sinks = {}
            held = plan.sinks
        else:
            op = plan.ops[target.op]
            if op.control is None:
                op.control = {}
            held = op.control
        if source.op in held:
            raise self._error("a control edge stands here twice", place)
        held[source.op] = attrs
        self._note_order(source, target.op)

    # -- ends --------------------------------------------------------------------

    def _find(self, end: End, as_source: bool, place: Any) -> tuple[ResolvedEnd, bool]:
        """Resolve an end; and whether a source was named by an input port of its op."""
        if isinstance(end, Address):
            scope = self._up(end.up, place)
            ref = self._try(scope, end, as_source)
            tried: Iterable[Address] = (end,)
        else:
            up = 0
            while end.startswith("../", 3 * up):
                up += 1
            scope = self._up(up, place)
            tried = list(possible_addresses(end[3 * up :], up))
            ref = None
            for address in tried:
                ref = self._try(scope, address, as_source)
                if ref is not None:
                    break
        if ref is not None:
            return ref, False
        if as_source:
            for address in tried:
                ref = self._by_input(scope, address)
                if ref is not None:
                    return ref, True
        raise self._unresolved_error(scope, end, list(tried), as_source, place)

    def _up(self, up: int, place: Any) -> ResolverScope:
        if (
            up < 0
            or up >= len(self.scopes)
            or (up and any(scope.closed for scope in self.scopes[-up:]))
        ):
            raise self._error(
                "an edge starts outside of all graphs around it", place,
                got=f"{up} graphs up",
            )  # fmt: skip
        return self.scopes[-1 - up]

    def _try(
        self, scope: ResolverScope, address: Address, as_source: bool
    ) -> ResolvedEnd | None:
        name, key, up, exact = address
        plan = scope.plan
        own = plan.inputs if as_source else plan.outputs
        if name is None or (name == scope.own and not exact):
            port = scope.port_index(own, key)
            if port is not None:
                return ResolvedEnd(up, SELF, port)
            if name is None:
                return None
        index = scope.op_index(name)
        if index is not None:
            op = plan.ops[index]
            port = scope.port_index(op.outputs if as_source else op.inputs, key)
            return None if port is None else ResolvedEnd(up, index, port)
        if name == "graph" and not exact:
            port = scope.port_index(own, key)
            return None if port is None else ResolvedEnd(up, SELF, port)
        return None

    def _by_input(self, scope: ResolverScope, address: Address) -> ResolvedEnd | None:
        """Resolve a source named by an input port to the single output of its op.

        The published specification has such an example; the edge records the spelling.
        """
        if address.op is None:
            return None
        index = scope.op_index(address.op)
        if index is None or port_count(scope.plan.ops[index].outputs) != 1:
            return None
        port = scope._find_port(scope.plan.ops[index].inputs, str(address.port))
        return None if port is None else ResolvedEnd(address.up, index, 0)

    def _unresolved_error(
        self,
        scope: ResolverScope,
        end: End,
        tried: list[Address],
        as_source: bool,
        place: Any,
    ) -> FormatError:
        if not tried:
            return self._error(
                "the end of an edge is not an address", place,
                expected="op.port", got=quote_short(end),
            )  # fmt: skip
        kind = "output" if as_source else "input"
        for address in tried:
            own = address.op == scope.own and not address.exact
            if address.op is None or own:
                op: ParsedOp = scope.plan
                ports = op.inputs if as_source else op.outputs
            else:
                index = scope.op_index(address.op)
                if index is None:
                    continue
                op = scope.plan.ops[index]
                ports = op.outputs if as_source else op.inputs
            label = (
                "the graph itself"
                if op is scope.plan
                else f"op {quote_short(address.op)}"
            )
            return self._error(
                f"{label} has no {kind} port {quote_short(address.port)}", place,
                expected=_list_ports(ports),
            )  # fmt: skip
        return self._error(
            f"no op {quote_short(tried[0].op)} in this graph", place,
            expected=_format_names(scope.names, len(scope.plan.ops)),
        )  # fmt: skip


def possible_addresses(text: str, up: int) -> Iterator[Address]:
    """The addresses that `op.port` may denote; names of ops and ports may have dots."""
    end = len(text)
    for _ in range(_MAX_DOTS):
        end = text.rfind(".", 0, end)
        if end < 0:
            return
        if end + 1 < len(text):
            yield Address(text[:end] or None, text[end + 1 :], up)


def _format_end(end: End) -> str:
    return end if isinstance(end, str) else f"{end.op}.{end.port}"


def _list_ports(ports: Ports) -> str:
    total = port_count(ports)
    if isinstance(ports, int):
        return f"an index below {total}, or ^control"
    names = [port.name for port in ports[:_SHOWN]]
    shown = [str(i) if name is None else name[:40] for i, name in enumerate(names)]
    more = "" if total <= _SHOWN else f" ... ({total} ports)"
    return ", ".join([*shown, "^control"]) + more


def _format_names(names: Iterable[str], total: int) -> str:
    shown = [name[:40] for name, _ in zip(names, range(_SHOWN), strict=False)]
    more = f" ... ({total} ops)" if total > len(shown) else ""
    return (", ".join(shown) + more).strip() or "an index"
