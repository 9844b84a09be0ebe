"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable

from amanda.graph import KEEP, Graph, Op, OutputPort
from amanda_std.hub.effect_order import has_effects


def drop(graph: Graph) -> int:
    """Remove the ops that no result needs, in all graphs inside; returns how many.

    Ops that are marked to be kept, named by an entry, or waited for by a control
    edge stay; nothing waits for a constant."""
    return sum(drop_ops(part, part) for part in reversed(list(graph.graphs())))


def drop_ops(graph: Graph, ops: Iterable[Op]) -> int:
    """Remove those of some ops of a graph that no result needs; returns how many."""
    pinned = {v for e in graph.entries.values() for side in e for v in side.values()}
    sinks = set(graph.inner_control_sinks)
    count = 0
    for op in reversed(list(ops)):
        if not _is_needed(op, pinned, sinks):
            graph.remove(op, "drop")
            count += 1
    return count


def _is_needed(op: Op, pinned: set[OutputPort], sinks: set[Op]) -> bool:
    if op in sinks or not op.outputs or has_effects(op):
        return True
    if op.control_outputs and not op.is_constant:
        return True
    return any(
        port.user_ops or port in pinned or KEEP in port.marks for port in op.outputs
    )
