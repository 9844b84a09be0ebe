"""Ops that no result of a graph needs."""

from __future__ import annotations

from amanda.graph import Graph, Op

__all__ = ["remove_unused"]

_CYCLIC = ("merge", "next_iteration")
"""Ops that may be on a cycle."""


def remove_unused(graph: Graph) -> None:
    """Remove ops that no result and no check needs, by a value or by order."""
    needed = _needed_ops(graph)
    unused = [op for op in graph if op not in needed and op.type != "placeholder"]
    for op in unused:
        if op.feedback or op.type in _CYCLIC:
            for port in op.input_ports:
                port.connect(None)
    for op in reversed(unused):
        graph.remove(op)


def _needed_ops(graph: Graph) -> set[Op]:
    waiting = [value.op for value in graph.results if value is not None]
    needed: set[Op] = set()
    while waiting:
        op = waiting.pop()
        if op in needed or op.graph is not graph:
            continue
        needed.add(op)
        waiting += [value.op for value in op.inputs if value is not None]
        waiting += [v.op for body in op.bodies.values() for v in body.captures]
        waiting += op.control_inputs
    return needed
