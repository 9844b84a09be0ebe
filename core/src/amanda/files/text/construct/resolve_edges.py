"""Finding what the ends of edges name.

Names are looked for in this order: the graph that the edge stands in, by its own name
(`graph` where it has none), if that has such a port; an op of this name; the op at this
index; and last `graph` again, for a graph that has a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from amanda.errors import FormatError
from amanda.files.text.construct.parsed_graph import (
    Address,
    EdgePlan,
    End,
    EntryPlan,
    GraphPlan,
    OpPlan,
    Ports,
    Ref,
    Where,
    count,
    nested,
)
from amanda.files.text.syntax.plain_data import short

__all__ = ["CONTROL", "SELF", "readings", "resolve"]

CONTROL = -1  # the port of signals
SELF = -1  # the graph itself, in place of an op
CONTROL_NAME = "^control"
_DOTS = 64  # in one end of an edge; more are never tried
_SHOWN = 10


def resolve(root: GraphPlan, where: Where) -> None:
    """Give every op of a plan its sources, at any depth."""
    Resolver(where).graph(root)


class Scope:
    """One graph of the plan while its inside is resolved."""

    def __init__(self, plan: GraphPlan, closed: bool, where: Where) -> None:
        self.plan = plan
        self.closed = closed  # a root or function reads nothing from around
        self.at = 0  # the op whose inside is being resolved
        self.own = "graph" if plan.name is None else plan.name
        self.names: dict[str, int] = {}
        self.tables: dict[int, dict[str, int]] = {}  # port names, where ports are many
        for i, op in enumerate(plan.ops):
            if op.name is not None and self.names.setdefault(op.name, i) != i:
                first = plan.ops[self.names[op.name]]
                raise FormatError(
                    f"two ops have the name {short(op.name)}",
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
        """The index of the port that a key names; -1 for control."""
        if isinstance(key, str):
            if key == CONTROL_NAME:
                return CONTROL
            found = self._named(ports, key)
            if found is not None:
                return found
            if key == "-1":
                return CONTROL
            if not key.isdecimal() or len(key) > 18:
                return None
            key = int(key)
        return key if -1 <= key < count(ports) else None

    def _named(self, ports: Ports, name: str) -> int | None:
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

    def children(self) -> Iterator[tuple[int, GraphPlan, bool]]:
        for i, op in enumerate(self.plan.ops):
            for _, graph in nested(op):
                yield i, graph, False
        for graph in (self.plan.functions or {}).values():
            yield len(self.plan.ops), graph, True


class Resolver:
    def __init__(self, where: Where) -> None:
        self.where = where
        self.scopes: list[Scope] = []

    def graph(self, root: GraphPlan) -> None:
        self._enter(root, True)
        waiting = [self.scopes[0].children()]
        while waiting:
            child = next(waiting[-1], None)
            if child is None:
                waiting.pop()
                self.scopes.pop()
                continue
            self.scopes[-1].at, plan, closed = child
            self._enter(plan, closed)
            waiting.append(self.scopes[-1].children())

    def _enter(self, plan: GraphPlan, closed: bool) -> None:
        self.scopes.append(Scope(plan, closed, self.where))
        plan.results = [None] * count(plan.outputs)
        for edge in plan.edges:
            self._edge(plan, edge)
        plan.edges = []
        if plan.entries:
            plan.entries = {
                name: EntryPlan(
                    self._values(entry.inputs, entry.place),
                    self._values(entry.outputs, entry.place),
                    entry.place,
                )
                for name, entry in plan.entries.items()
            }

    def _values(self, ends: Any, place: Any) -> dict[str, End | Ref]:
        found: dict[str, End | Ref] = {}
        for label, end in ends.items():
            ref, _ = self._find(end, True, place)
            if ref.port == CONTROL or ref.up:
                raise self._error("an entry names values of the graph itself", place)
            found[label] = ref
        return found

    def _error(self, message: str, place: Any, **parts: Any) -> FormatError:
        return FormatError(message, where=self.where(place), **parts)

    # -- edges -------------------------------------------------------------------

    def _edge(self, plan: GraphPlan, edge: EdgePlan) -> None:
        source, by_input = self._find(edge.source, True, edge.place)
        target, _ = self._find(edge.target, False, edge.place)
        attrs = edge.attrs
        if by_input:
            written = f"{_written(edge.source)} -> {_written(edge.target)}"
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
        plan: GraphPlan,
        source: Ref,
        target: Ref,
        attrs: dict[str, Any] | None,
        place: Any,
    ) -> None:
        if target.op == SELF:
            held = plan.results
        else:
            op = plan.ops[target.op]
            if op.sources is None:
                op.sources = [None] * count(op.inputs)
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

    def _note_order(self, source: Ref, reader: int) -> None:
        """Mark the graph whose ops do not stand in the order of this edge."""
        scope = self.scopes[-1 - source.up]
        if source.up:
            reader = scope.at
        if source.op == SELF or reader == SELF or source.op < reader:
            return
        if not scope.plan.ops[source.op].feedback:
            scope.plan.backwards = True

    def _signal(
        self,
        plan: GraphPlan,
        source: Ref,
        target: Ref,
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

    def _find(self, end: End, as_source: bool, place: Any) -> tuple[Ref, bool]:
        """What an end means, and whether a source was named by its op's input port."""
        if isinstance(end, Address):
            scope = self._up(end.up, place)
            ref = self._try(scope, end, as_source)
            tried: Iterable[Address] = (end,)
        else:
            up = 0
            while end.startswith("../", 3 * up):
                up += 1
            scope = self._up(up, place)
            tried = list(readings(end[3 * up :], up))
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
        raise self._nothing(scope, end, list(tried), as_source, place)

    def _up(self, up: int, place: Any) -> Scope:
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

    def _try(self, scope: Scope, address: Address, as_source: bool) -> Ref | None:
        name, key, up, exact = address
        plan = scope.plan
        own = plan.inputs if as_source else plan.outputs
        if name is None or (name == scope.own and not exact):
            port = scope.port_index(own, key)
            if port is not None:
                return Ref(up, SELF, port)
            if name is None:
                return None
        index = scope.op_index(name)
        if index is not None:
            op = plan.ops[index]
            port = scope.port_index(op.outputs if as_source else op.inputs, key)
            return None if port is None else Ref(up, index, port)
        if name == "graph" and not exact:
            port = scope.port_index(own, key)
            return None if port is None else Ref(up, SELF, port)
        return None

    def _by_input(self, scope: Scope, address: Address) -> Ref | None:
        """A source named by an input port stands for the one output of its op.

        A published example says so; the edge keeps how it was written.
        """
        if address.op is None:
            return None
        index = scope.op_index(address.op)
        if index is None or count(scope.plan.ops[index].outputs) != 1:
            return None
        port = scope._named(scope.plan.ops[index].inputs, str(address.port))
        return None if port is None else Ref(address.up, index, 0)

    def _nothing(
        self,
        scope: Scope,
        end: End,
        tried: list[Address],
        as_source: bool,
        place: Any,
    ) -> FormatError:
        if not tried:
            return self._error(
                "the end of an edge is not an address", place,
                expected="op.port", got=short(end),
            )  # fmt: skip
        kind = "output" if as_source else "input"
        for address in tried:
            own = address.op == scope.own and not address.exact
            if address.op is None or own:
                op: OpPlan = scope.plan
                ports = op.inputs if as_source else op.outputs
            else:
                index = scope.op_index(address.op)
                if index is None:
                    continue
                op = scope.plan.ops[index]
                ports = op.outputs if as_source else op.inputs
            label = (
                "the graph itself" if op is scope.plan else f"op {short(address.op)}"
            )
            return self._error(
                f"{label} has no {kind} port {short(address.port)}", place,
                expected=_known(ports),
            )  # fmt: skip
        return self._error(
            f"no op {short(tried[0].op)} in this graph", place,
            expected=_listed(scope.names, len(scope.plan.ops)),
        )  # fmt: skip


def readings(text: str, up: int) -> Iterator[Address]:
    """The addresses that `op.port` can mean: op names and port names may hold dots."""
    end = len(text)
    for _ in range(_DOTS):
        end = text.rfind(".", 0, end)
        if end < 0:
            return
        if end + 1 < len(text):
            yield Address(text[:end] or None, text[end + 1 :], up)


def _written(end: End) -> str:
    return end if isinstance(end, str) else f"{end.op}.{end.port}"


def _known(ports: Ports) -> str:
    total = count(ports)
    if isinstance(ports, int):
        return f"an index below {total}, or ^control"
    names = [port.name for port in ports[:_SHOWN]]
    shown = [str(i) if name is None else name[:40] for i, name in enumerate(names)]
    more = "" if total <= _SHOWN else f" ... ({total} ports)"
    return ", ".join([*shown, "^control"]) + more


def _listed(names: Iterable[str], total: int) -> str:
    shown = [name[:40] for name, _ in zip(names, range(_SHOWN), strict=False)]
    more = f" ... ({total} ops)" if total > len(shown) else ""
    return (", ".join(shown) + more).strip() or "an index"
