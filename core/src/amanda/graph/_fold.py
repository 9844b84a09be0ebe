"""Ops put into a graph that stands as one op, and taken out of it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from amanda.errors import GraphError
from amanda.graph._clone import copy_ops
from amanda.graph._op import Op
from amanda.graph._port import OutputPort

if TYPE_CHECKING:
    from amanda.graph._graph import Graph

INLINE, OUTLINE = "inline", "outline"


def inline(graph: Graph, inner: Graph) -> list[OutputPort | None]:
    """The ops of a graph that stands as an op, in its place; what its outputs are.

    Values of the inner graph leave forwards, so handles on them find them again.
    """
    if not inner.is_graph or inner.graph is not graph:
        raise GraphError(f"{inner.label} does not stand as an op in {graph.label}")
    memo: dict[Any, Any] = {}
    ops = list(inner)
    with graph.before(inner):
        values = graph.paste(inner, inner.inputs, memo=memo)
    graph.replace(inner, values, INLINE)
    for op in ops:
        _forward(op, memo, INLINE)
    return values


def outline(
    graph: Graph, ops: Iterable[Op], name: str | None, type: str | None
) -> Graph:
    """Some ops as a graph that stands as one op, in their place.

    What they read becomes its parameters, what others read of them its results.
    """
    chosen = set(ops)
    inside = [op for op in graph if op in chosen]
    if not inside or len(inside) != len(chosen):
        raise GraphError(f"what is outlined are ops of {graph.label}, at least one")
    _expect_convex(graph, inside, chosen)
    _expect_no_control(inside, chosen)
    made = graph.__class__(None, graph.fresh_name(name) if name else None, type=type)
    memo: dict[Any, Any] = {}
    for value in _read(inside, chosen):
        memo[value] = made.parameter(value.type, value.name)
    sources = list(memo)
    copy_ops(graph, made, inside, memo)
    results = [p for op in inside for p in op.outputs if _is_needed(graph, p, chosen)]
    for port in results:
        made.result(memo[port], port.name)
    with graph.before(inside[-1]):
        graph.add_graph(made, sources)
    heirs = dict(zip(results, made.outputs, strict=True))
    for port, heir in heirs.items():
        heir.type = port.type
    for op in reversed(inside):
        graph.replace(op, [heirs.get(port) for port in op.outputs], OUTLINE)
        _forward(op, memo | heirs, OUTLINE)
    return made


def _expect_convex(graph: Graph, inside: list[Op], chosen: set[Op]) -> None:
    """Nothing outside may read of them and be read by them."""
    first, last = inside[0], inside[-1]
    between: set[Op] = set()
    seen = False
    for op in graph:
        seen = seen or op is first
        if not seen:
            continue
        through = next((v for v in op.depends_on() if v in between), None)
        if op in chosen:
            if through is not None:
                raise GraphError(
                    f"{through.label} stands between the ops that are outlined",
                    got=f"it reads one of them, and {op.short} reads it",
                    hint="outline it too",
                )
        elif through is not None or any(v in chosen for v in op.depends_on()):
            between.add(op)
        if op is last:
            return


def _expect_no_control(inside: list[Op], chosen: set[Op]) -> None:
    for op in inside:
        for other in (*op.control_inputs, *op.control_outputs):
            if other not in chosen:
                raise GraphError(
                    f"a control edge leads from or to {op.label}, which is outlined",
                    got=f"the other end, {other.short}, is not",
                    hint="outline both ends, or take the edge away",
                )


def _read(inside: list[Op], chosen: set[Op]) -> Iterator[OutputPort]:
    """Values from around that the ops read as inputs, each once.

    What only their bodies read they go on capturing."""
    found: set[OutputPort] = set()
    for op in inside:
        for value in op.inputs:
            if value is not None and value not in found and value.op not in chosen:
                found.add(value)
                yield value


def _is_needed(graph: Graph, port: OutputPort, chosen: set[Op]) -> bool:
    """Does anything but the chosen ops read it, at any depth, or hold on to it?"""
    if port.marks or port in graph._pins:
        return True
    for user in port.user_ops:
        place = user if user is graph else graph._place(user)
        if place not in chosen:
            return True
    return False


def _forward(op: Op, memo: Mapping[Any, Any], by: str) -> None:
    op._side.forward = (tuple(memo.get(port) for port in op.outputs), by)
