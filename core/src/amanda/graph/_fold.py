"""Inlining nested graphs, and outlining ops into a nested graph."""

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
    """Replace a nested graph by copies of its ops; returns what replaces its outputs.

    Values of the inner graph forward to their copies, so handles on them resolve.
    """
    if not inner.is_graph or inner.graph is not graph:
        raise GraphError(f"{inner.label} is not a nested graph of {graph.label}")
    memo: dict[Any, Any] = {}
    ops = list(inner)
    with graph.before(inner._next):  # a loop over the ops visits the copies, too
        values = graph.paste(inner, inner.inputs, memo=memo)
    for port, value in zip(inner.outputs, values, strict=True):
        if value is not None and value.type is None:
            value.type = port.type
    graph.replace(inner, values, INLINE)
    for op in ops:
        _set_forward(op, memo, INLINE)
    return values


def outline(
    graph: Graph, ops: Iterable[Op], name: str | None, type: str | None
) -> Graph:
    """Replace ops by a nested graph of them.

    Values read from outside become its parameters, values used outside its results.
    """
    chosen = set(ops)
    inside = [op for op in graph if op in chosen]
    if not inside or len(inside) != len(chosen):
        raise GraphError(
            "ops cannot be outlined", expected=f"one or more ops of {graph.label}"
        )
    _expect_convex(graph, inside, chosen)
    _expect_no_control(inside, chosen)
    nested = graph.__class__(None, graph.fresh_name(name) if name else None, type=type)
    memo: dict[Any, Any] = {}
    for value in _outside_inputs(inside, chosen):
        memo[value] = nested.parameter(value.type, value.name)
    sources = list(memo)
    copy_ops(graph, nested, inside, memo)
    results = [p for op in inside for p in op.outputs if _is_needed(graph, p, chosen)]
    for port in results:
        nested.result(memo[port], port.name)
    with graph.before(inside[-1]):
        graph.add_graph(nested, sources)
    outputs = dict(zip(results, nested.outputs, strict=True))
    for port, output in outputs.items():
        output.type = port.type
    for op in reversed(inside):
        graph.replace(op, [outputs.get(port) for port in op.outputs], OUTLINE)
        _set_forward(op, memo | outputs, OUTLINE)
    return nested


def _expect_convex(graph: Graph, inside: list[Op], chosen: set[Op]) -> None:
    """Raise an error if a path leaves the ops and enters them again."""
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
                    f"{through.label} is between the ops to be outlined",
                    got=f"it depends on one of them, and {op.short} reads it",
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
                    f"{op.label} cannot be outlined",
                    got=f"it has a control edge with {other.short}, which is outside",
                    hint="outline both ends, or remove the edge",
                )


def _outside_inputs(inside: list[Op], chosen: set[Op]) -> Iterator[OutputPort]:
    """Values from around that the ops read as inputs, each once.

    What only their bodies read they go on capturing."""
    found: set[OutputPort] = set()
    for op in inside:
        for value in op.inputs:
            if value is not None and value not in found and value.op not in chosen:
                found.add(value)
                yield value


def _is_needed(graph: Graph, port: OutputPort, chosen: set[Op]) -> bool:
    """Whether a value is marked, in an entry, or read outside of the chosen ops."""
    if port.marks or port in graph._pins:
        return True
    for user in port.user_ops:
        reader = user if user is graph else graph._containing_op(user)
        if reader not in chosen:
            return True
    return False


def _set_forward(op: Op, memo: Mapping[Any, Any], by: str) -> None:
    op._side.forward = (tuple(memo.get(port) for port in op.outputs), by)
