"""Dead code elimination."""

from __future__ import annotations

from amanda.graph import KEEP, Graph, Op, OutputPort
from amanda_std.hub.effect_order import has_effects


def drop(graph: Graph) -> int:
    """Remove the ops that no result needs, in all graphs inside; returns how many.

    Ops that are marked to be kept, named by an entry, or waited for by a control
    edge stay."""
    count = 0
    for part in reversed(list(graph.graphs())):
        pinned = {v for e in part.entries.values() for side in e for v in side.values()}
        sinks = set(part.inner_control_sinks)
        for op in reversed(part):
            if not _is_needed(op, pinned, sinks):
                part.remove(op, "drop")
                count += 1
    return count


def _is_needed(op: Op, pinned: set[OutputPort], sinks: set[Op]) -> bool:
    if op.control_outputs or op in sinks or not op.outputs or has_effects(op):
        return True
    return any(
        port.user_ops or port in pinned or KEEP in port.marks for port in op.outputs
    )
