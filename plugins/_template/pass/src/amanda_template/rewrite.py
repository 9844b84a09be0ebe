"""The pass: a function that rewrites a graph in place and returns how much it did.

`Graph.replace` keeps users and control edges right, and leaves a forward at the op that
it removed, so that handles held elsewhere still find their value.
"""

from __future__ import annotations

from amanda.graph import Graph

__all__ = ["remove_double_negation"]


def remove_double_negation(graph: Graph) -> int:
    """Replaces -(-x) by x, in the graph and in all graphs inside it."""
    count = 0
    for part in graph.graphs():
        for op in part:
            source = op.inputs[0] if op.type == "negative" else None
            if source is None or source.op.type != "negative":
                continue
            (inner,) = source.op.inputs
            if inner is not None:
                part.replace(op, [inner], "remove_double_negation")
                count += 1
    return count
