"""Two models brought to one namespace, so that their ops can be compared."""

from __future__ import annotations

from typing import Final

import amanda
from amanda.graph import Graph

__all__ = ["HUB", "common_namespace"]

HUB: Final = "amanda/std/1"


def common_namespace(a: Graph, b: Graph) -> tuple[Graph, Graph]:
    """Two graphs of one namespace: of the hub, where they have different ones.

    Graphs in the hub are optimized for inference, where models of different exporters
    are more alike.
    """
    if a is b or a.namespace == b.namespace:
        return a, b
    both = [amanda.convert(each, HUB) for each in (a, b)]
    for graph in both:
        amanda.improve(graph, "optimize_for_inference")
    return both[0], both[1]
