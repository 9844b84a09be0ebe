"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph, Op
from amanda_std.hub.expression_key import common_subexpression_key


def share(graph: Graph) -> int:
    """Replace ops that compute the same by one, graph by graph; returns how many.

    Operands of commutative ops are compared in any order. Ops with bodies, control
    edges or values marked to be kept stay."""
    count = 0
    for part in graph.graphs():
        seen: dict[Any, Op] = {}
        for op in part:
            key = common_subexpression_key(op)
            if key is None:
                continue
            first = seen.setdefault(key, op)
            if first is not op:
                part.replace(op, first.outputs, "share")
                count += 1
    return count
