"""Builds graphs from parsed ones, with an explicit stack for nested graphs.

Ops are added in text order with the values that exist; backward edges, of loops or of
ops written out of order, are connected when all ops exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from amanda.errors import AmandaError, FormatError
from amanda.files.content import expect_constant
from amanda.files.text.construct.parsed_graph import (
    ParsedEntry,
    ParsedGraph,
    ParsedOp,
    ParsedPort,
    Ports,
    ResolvedEnd,
    Where,
    nested_graphs,
    port_count,
)
from amanda.files.text.construct.resolve_edges import SELF, resolve_edges
from amanda.files.text.syntax.plain_data import locate_error
from amanda.graph import Graph, InputPort, Op, OutputPort, Provenance

__all__ = ["build_graph"]


def build_graph(plan: ParsedGraph, where: Where) -> Graph:
    """Build a graph; FormatError with the position of what is invalid."""
    resolve_edges(plan, where)
    root = _OpenGraph(plan, None, where)
    stack = [root]
    while stack:
        frame = stack[-1]
        child = frame.advance(stack)
        if child is not None:
            stack.append(child)
        else:
            frame.finish(stack)
            stack.pop()
    return root.graph


class _OpenGraph:
    """A graph that is being built.

    It is added to the graph around it while empty, so that the cost does not grow with
    the depth.
    """

    def __init__(self, plan: ParsedGraph, outer: Graph | None, where: Where) -> None:
        self.plan, self.where = plan, where
        self.graph = Graph(plan.namespace, plan.name, type=plan.type, outer=outer)
        self.made: list[Op] = []
        self.inside: list[_OpenGraph] = []  # graphs in the last op, to be built next
        self.waiting: list[tuple[InputPort, ResolvedEnd]] = []
        self.functions = list(reversed((plan.functions or {}).items()))
        if plan.attrs:
            self.graph.attrs.update(plan.attrs)
        if plan.imports:
            self.graph.imports.update(plan.imports)
        self.parameters = [
            self.graph.parameter() for _ in range(port_count(plan.inputs))
        ]
        _set_ports(self.parameters, plan.inputs)
        for _ in range(port_count(plan.outputs)):
            self.graph.result(None)
        _set_ports(self.graph.outputs, plan.outputs)
        if plan.provenance is not None:
            self.graph.provenance = Provenance(*plan.provenance)

    @contextmanager
    def at(self, place: Any) -> Iterator[None]:
        """Errors of the block get the position in the text."""
        try:
            yield
        except AmandaError as error:
            raise locate_error(error, self.where(place)) from error

    def advance(self, stack: list[_OpenGraph]) -> _OpenGraph | None:
        """Add ops until one contains a graph, which is built next."""
        ops = self.plan.ops
        while not self.inside and len(self.made) < len(ops):
            self._add(ops[len(self.made)], stack)
        if self.inside:
            return self.inside.pop()
        if self.functions:
            name, plan = self.functions.pop()
            function = _OpenGraph(plan, None, self.where)
            with self.at(plan.place):
                self.graph.add_function(name, function.graph)
            return function
        return None

    def _add(self, plan: ParsedOp, stack: list[_OpenGraph]) -> None:
        late: list[tuple[int, ResolvedEnd]] = []
        values = self._values(plan, stack, late)
        with self.at(plan.place):
            op = self._create_op(plan, values)
        self.made.append(op)
        for i, ref in late:
            stack[-1 - ref.up].waiting.append((InputPort(op, i), ref))
        _set_input_ports(op, plan)
        if plan.provenance is not None:
            op.provenance = Provenance(*plan.provenance)

    def _values(
        self,
        plan: ParsedOp,
        stack: list[_OpenGraph],
        late: list[tuple[int, ResolvedEnd]],
    ) -> list[OutputPort | None]:
        if plan.sources is None:
            return [None] * port_count(plan.inputs)
        values: list[OutputPort | None] = []
        for i, ref in enumerate(plan.sources):
            value = None if ref is None else _value(stack[-1 - ref.up], ref)
            if value is None and ref is not None:
                late.append((i, ref))
            values.append(value)
        return values

    def _create_op(self, plan: ParsedOp, values: list[OutputPort | None]) -> Op:
        frames = {
            key: _OpenGraph(graph, self.graph, self.where)
            for key, graph in nested_graphs(plan)
        }
        self.inside = list(reversed(frames.values()))
        own = frames.pop(None, None)
        bodies = {key or "": frame.graph for key, frame in frames.items()}
        if own is not None:
            if plan.feedback:
                raise FormatError("a graph cannot be a feedback op")
            op: Op = self.graph.add_graph(own.graph, values)
            for key, body in bodies.items():
                op.set_body(key, body)
            return op
        op = self.graph.add(
            plan.type,
            values,
            plan.attrs,
            name=plan.name,
            outputs=port_count(plan.outputs),
            bodies=bodies,
            namespace=plan.namespace,
            feedback=plan.feedback,
        )
        expect_constant(op)
        _set_ports(op.outputs, plan.outputs)
        return op

    def finish(self, stack: list[_OpenGraph]) -> None:
        plan, graph = self.plan, self.graph
        with self.at(plan.place):
            for i, ref in enumerate(plan.results):
                if ref is not None:
                    self._result(InputPort(graph, i, True), ref, stack)
            wiring: AbstractContextManager[object] = (
                graph.wiring() if plan.backwards else nullcontext()
            )
            with wiring:
                self._connect()
        for name, entry in (plan.entries or {}).items():
            self._entry(name, entry)

    def _result(
        self, port: InputPort, ref: ResolvedEnd, stack: list[_OpenGraph]
    ) -> None:
        value = _value(stack[-1 - ref.up], ref)
        if value is None:
            stack[-1 - ref.up].waiting.append((port, ref))
        else:
            port.connect(value)
        attrs = (self.plan.result_attrs or {}).get(port.index)
        if attrs:
            port.edge_attrs.update(attrs)

    def _connect(self) -> None:
        """Connect backward edges and control edges."""
        for port, ref in self.waiting:
            value = _value(self, ref)
            assert value is not None
            port.connect(value)
        graph, made = self.graph, self.made
        for op, op_plan in zip(made, self.plan.ops, strict=True):
            if op_plan.edge_attrs:
                for i, attrs in op_plan.edge_attrs.items():
                    InputPort(op, i).edge_attrs.update(attrs)
            for first, more in (op_plan.control or {}).items():
                graph.control(graph if first == SELF else made[first], op, more)
        for first, more in (self.plan.sinks or {}).items():
            graph.control(graph if first == SELF else made[first], graph, more)

    def _entry(self, name: str, entry: ParsedEntry) -> None:
        sides = []
        for side in (entry.inputs, entry.outputs):
            values = {}
            for label, ref in side.items():
                assert isinstance(ref, ResolvedEnd)
                value = _value(self, ref)
                assert value is not None
                values[label] = value
            sides.append(values)
        with self.at(entry.place):
            self.graph.set_entry(name, *sides)


def _value(frame: _OpenGraph, ref: ResolvedEnd) -> OutputPort | None:
    """The value of a resolved end; None while its op is not added yet."""
    if ref.op == SELF:
        return frame.parameters[ref.port]
    if ref.op < len(frame.made):
        return frame.made[ref.op].outputs[ref.port]
    return None


def _set_port(port: OutputPort, plan: ParsedPort) -> None:
    port.name, port.type = plan.name, plan.type
    if plan.attrs:
        port.attrs.update(plan.attrs)
    for label in plan.marks or ():
        port.mark(label)


def _set_ports(ports: Sequence[OutputPort], plans: Ports) -> None:
    if not isinstance(plans, int):
        for port, plan in zip(ports, plans, strict=True):
            _set_port(port, plan)


def _set_input_ports(op: Op, plan: ParsedOp) -> None:
    """Set names and attributes of input ports; a graph's are those of its parameters.

    The type of an input is that of its source; a different type in the text becomes
    the attribute `type` of the port.
    """
    if isinstance(plan.inputs, int) or isinstance(plan, ParsedGraph):
        return
    for i, port_plan in enumerate(plan.inputs):
        port = InputPort(op, i)
        if port_plan.name is not None:
            port.set_name(port_plan.name)
        if port_plan.attrs:
            port.attrs.update(port_plan.attrs)
        if port_plan.type is not None and port.type != port_plan.type:
            port.attrs.setdefault("type", port_plan.type)
