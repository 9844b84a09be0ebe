"""Ops that compute nothing for a result, and are left out."""

from __future__ import annotations

from amanda.graph import Graph, Op

__all__ = ["remove_unused"]


def remove_unused(graph: Graph, kept: set[Op]) -> None:
    """Remove ops that no result needs: also checks, which return nothing.

    The kept ones and what they need stay.
    """
    for part in graph.graphs():
        for op in reversed(list(part)):
            if op not in kept and not any(port.is_used for port in op.outputs):
                part.remove(op)
