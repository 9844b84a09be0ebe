"""Checks of a graph's invariants, which every mutation must preserve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amanda.graph import _order
from amanda.graph._op import CONSTANT, CORE
from amanda.graph._port import OutputPort, Parameter

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._op import Op


def check(graph: Graph) -> list[str]:
    """See Graph.check."""
    faults: list[str] = []
    graphs = list(graph.graphs())
    for each in graphs:
        faults += _check_list(each)
        faults += _check_names(each)
        faults += _check_ports(each)
        faults += _check_order(each)
        faults += _check_control(each)
        faults += _check_bodies_and_entries(each)
    faults += _check_users(graphs)
    return faults


def content_faults(graph: Graph) -> Iterator[str]:
    """Fields of a graph and its ops with values that nothing can use."""
    for domain, version in graph.imports.items():
        if type(domain) is not str or not is_version(version):
            yield f"{graph!r} imports {domain!r} {version!r:.40}, expected an int64"
    for op in graph:
        if op.type == CONSTANT and op.namespace == CORE and (why := constant_fault(op)):
            yield f"{op!r} {why}"


def is_version(version: object) -> bool:
    """Whether a value can be the version of an imported domain: an int64."""
    return type(version) is int and -(1 << 63) <= version < 1 << 63


def constant_fault(op: Op) -> str | None:
    """Why a constant has no value."""
    from amanda.tensors import Tensor

    value = op.attrs.get("value")
    if isinstance(value, Tensor):
        count = len(op.outputs)
        return f"is a constant with {count} outputs, not one" if count != 1 else None
    return f"is a constant whose value is {type(value).__name__}, not a tensor"


def _check_list(graph: Graph) -> Iterator[str]:
    prev, op, count, label = None, graph._first, 0, None
    while op is not None:
        if op._prev is not prev:
            yield f"{op!r} does not point back to {prev!r}"
        if op.graph is not graph:
            yield f"{op!r} is in {graph!r}, but its graph is {op.graph!r}"
        if graph._labelled:
            assert op._order is not None
            if label is not None and op._order <= label:
                yield f"the order label of {op!r} is not above that of {prev!r}"
            label = op._order
        prev, op, count = op, op._next, count + 1
        if count > graph._count:
            yield f"{graph!r} has more ops in its list than its count of {graph._count}"
            return
    if graph._last is not prev or count != graph._count:
        yield f"{graph!r} has a count of {graph._count}, its list has {count} ops"


def _check_names(graph: Graph) -> Iterator[str]:
    named = {op.name: op for op in graph if op.name is not None}
    if named != graph._names:
        yield f"the name index of {graph!r} differs from the names of its ops"


def _check_ports(graph: Graph) -> Iterator[str]:
    for op in graph:
        if any(p.op is not op or p.index != i for i, p in enumerate(op.outputs)):
            yield f"the output ports of {op!r} are misnumbered"
    if any(p.op is not graph or p.index != i for i, p in enumerate(graph._parameters)):
        yield f"the parameters of {graph!r} are misnumbered"
    if len(graph._inputs) != len(graph._parameters):
        yield f"{graph!r} has not as many inputs as parameters"
    if len(graph.outputs) != len(graph._results):
        yield f"{graph!r} has not as many outputs as results"


def _check_order(graph: Graph) -> Iterator[str]:
    position = {op: i for i, op in enumerate(graph)}
    for op, at in position.items():
        for then in _order.successors(graph, op):
            if position.get(then, -1) <= at:
                yield f"{then!r} must come after {op!r}"


def _check_control(graph: Graph) -> Iterator[str]:
    for op in graph:
        if any(op not in first.control_outputs for first in op.control_inputs):
            yield f"a control edge to {op!r} is recorded at one end only"
        if any(op not in then.control_inputs for then in op.control_outputs):
            yield f"a control edge from {op!r} is recorded at one end only"
    inside = set(graph)
    if not {*graph._inner_control, *graph._inner_controlled} <= inside:
        yield f"a control port of {graph!r} is connected to an op of another graph"


def _check_bodies_and_entries(graph: Graph) -> Iterator[str]:
    for op in graph:
        for key, body in op.bodies.items():
            if body.holder is not op or body.body_name != key or body.graph is not None:
                yield f"body {key!r} of {op!r} does not refer back to it"
    for value in graph._pins:
        if value.graph is not graph:
            yield f"an entry of {graph!r} has {value!r} of another graph"


def _check_users(graphs: list[Graph]) -> Iterator[str]:
    reads: Counter[tuple[OutputPort, Op]] = Counter()
    inside = set(graphs)
    values: list[OutputPort] = []
    for graph in graphs:
        values += graph._parameters
        for op in graph:
            values += op.outputs
            reads.update((v, op) for v in op._inputs if v is not None)
        reads.update((v, graph) for v in graph._results if v is not None)
    known: Counter[tuple[OutputPort, Op]] = Counter()
    for value in values:
        known.update((value, port.op) for port in value.users)
        for port in value.users:
            if port.source is not value:
                yield f"{value!r} has the user {port!r}, which reads {port.source!r}"
    for (value, op), count in reads.items():
        if value.graph not in inside:
            continue  # a capture from outside of the checked graph
        if known[value, op] != count:
            yield f"{op!r} reads {value!r} {count} times, recorded {known[value, op]}"
        home = value.graph
        scope: Op | None = op if op.is_graph else op.graph
        while scope is not None and scope is not home:
            scope = scope._scope if scope.is_graph else scope.graph  # type: ignore[attr-defined]
        if scope is None and not isinstance(value, Parameter):
            yield f"{op!r} reads {value!r}, which is not in an enclosing graph"
    for key, count in known.items():
        reader = key[1] if key[1].is_graph else key[1].graph
        if reader in inside and reads[key] != count:
            yield f"{key[1]!r} reads {key[0]!r} {reads[key]} times, recorded {count}"
