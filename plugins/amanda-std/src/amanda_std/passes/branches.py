"""Constant conditions: an `if` is replaced by the branch that is always taken."""

from __future__ import annotations

from amanda.graph import Graph, Op
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import constant_of
from amanda_std.hub.op_access import has_trait
from amanda_std.passes.infer import infer


def branches(graph: Graph) -> int:
    """Replace each `if` whose condition is constant by its branch; returns how many."""
    count = 0
    for part in graph.graphs():
        for op in part:
            if has_trait(op, Trait.BRANCHES) and _inline_branch(part, op):
                count += 1
    return count


def _inline_branch(graph: Graph, op: Op) -> bool:
    condition, *inputs = op.inputs
    known = None if condition is None else constant_of(condition)
    if known is None or op.control_inputs or op.control_outputs:
        return False
    body = op.bodies.get("then" if bool(known.numpy()) else "otherwise")
    if body is None:
        return False  # a `case`, or a function of the root
    with graph.before(op):
        values = graph.paste(body, inputs)
    graph.replace(op, values, "branches")
    infer(graph, [v for v in inputs if v is not None])
    return True
