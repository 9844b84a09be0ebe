"""Inlining of nested graphs."""

from __future__ import annotations

from amanda.graph import Graph


def inline(graph: Graph) -> int:
    """Replace nested graphs by their ops, at any depth.

    Outer graphs come first, so that no op is copied twice. Graphs with control edges
    stay.
    """
    count = 0
    for part in graph.graphs():
        for op in part:  # inlined ops are visited, too
            if isinstance(op, Graph) and not _is_bound(op):
                part.inline(op)
                count += 1
    return count


def _is_bound(graph: Graph) -> bool:
    inside = graph.inner_control_sources or graph.inner_control_sinks
    return bool(inside or graph.control_inputs or graph.control_outputs)
