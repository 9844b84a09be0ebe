"""Graphs that stand as ops, put in their places."""

from __future__ import annotations

from amanda.graph import Graph


def inline(graph: Graph) -> int:
    """Puts what graphs that stand as ops hold in their places, at any depth.

    From the outside in, so that nothing is copied into a graph that goes itself. One
    that control edges wait for, or that waits for some, stays.
    """
    count = 0
    for part in graph.graphs():
        for op in part:  # what was put in is visited too
            if isinstance(op, Graph) and not _is_bound(op):
                part.inline(op)
                count += 1
    return count


def _is_bound(graph: Graph) -> bool:
    inside = graph.inner_control_sources or graph.inner_control_sinks
    return bool(inside or graph.control_inputs or graph.control_outputs)
