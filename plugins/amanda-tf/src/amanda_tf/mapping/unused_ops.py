"""Ops that no result of a graph needs."""

from __future__ import annotations

from amanda.graph import Graph, Op, OutputPort
from amanda_tf.mapping.placeholders import PLACEHOLDERS

_CYCLIC = ("Merge", "RefMerge", "NextIteration", "RefNextIteration")
"""Ops whose inputs may be cycles."""

__all__ = ["remove_unused"]


def remove_unused(graph: Graph) -> None:
    """Remove ops that no result needs, by a value or by order."""
    sides = (side for entry in graph.entries.values() for side in entry)
    named = (value for side in sides for value in side.values())
    values = [v for v in (*graph.results, *named) if v is not None]
    needed = _with_order(graph, values)
    unused = [op for op in graph if op not in needed and op.type not in PLACEHOLDERS]
    for op in unused:
        if op.feedback or op.type in _CYCLIC:
            for port in op.input_ports:
                port.connect(None)
    for op in reversed(unused):
        graph.remove(op)


def _with_order(graph: Graph, values: list[OutputPort]) -> set[Op]:
    """The ops that values depend on, and those that these ops wait for."""
    needed: set[Op] = set()
    waiting = values
    while waiting:
        found = [op for op in graph.upstream(*waiting) if op not in needed]
        needed.update(found)
        first = {f for op in found for f in op.control_inputs}
        waiting = []
        for op in first - needed:
            if op.graph is not graph:
                continue
            needed.add(op)
            waiting += [v for v in op.inputs if v is not None]
    return needed
