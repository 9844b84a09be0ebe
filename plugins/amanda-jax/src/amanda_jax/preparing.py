"""A copy of a graph, made ready to be compiled."""

from __future__ import annotations

from typing import Final

from amanda.graph import Graph, Op
from amanda_std.lowering import lower
from amanda_std.passes.infer import infer
from amanda_std.reading import is_constant

LITERAL: Final = 16
"""Elements up to which a constant is a number in the program, and no weight."""

_HIDING: Final = ("range",)
"""Composites that make a host argument inside of a tensor outside: expanded first, so
that it can be seen."""


def prepared(graph: Graph) -> Graph:
    """A copy with types, host arguments in sight, and the weights of bodies outside."""
    copy = graph.clone()
    infer(copy)
    lower(copy, lambda op: op.type not in _HIDING)
    _lift_weights(copy)
    return copy


def is_weight(op: Op) -> bool:
    return is_constant(op) and bool(op.attrs["value"].size > LITERAL)


def _lift_weights(graph: Graph) -> None:
    """Weights of bodies become captures: what a body holds would be baked in."""
    inner = [part for part in graph.graphs() if part is not graph]
    first = next(iter(graph), None)
    for part in inner:
        for op in [op for op in part if is_weight(op)]:
            with graph.before(first):
                outer = graph.constant(op.attrs["value"]).output
            outer.type = op.output.type
            part.replace_uses(op.output, outer)
