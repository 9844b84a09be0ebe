"""Lowering: decomposing a whole graph to the ops that a target supports."""

from __future__ import annotations

from amanda.graph import Graph
from amanda.mapping import Overrides, Supports, Unlowered
from amanda.mapping import lower as lower_any
from amanda_std.engine.links import NAMESPACE
from amanda_std.hub.dictionary import StdNamespace

__all__ = ["lower"]


def lower(
    graph: Graph, supports: Supports, overrides: Overrides | None = None
) -> list[Unlowered]:
    """Decompose the ops that a target does not support, as deep as necessary.

    `supports` returns True, or a reason. `overrides` are the target's own definitions
    of ops, also of primitives, which precede those of the hub. Returns the ops that
    could not be decomposed, with reasons."""
    return lower_any(graph, supports, overrides, known={NAMESPACE: StdNamespace()})
