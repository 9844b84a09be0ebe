"""Placeholders: the ops that stand for what a run is fed."""

from __future__ import annotations

from amanda.graph import Graph
from amanda_tf.loading.interface import placeholder_type

__all__ = ["PLACEHOLDERS", "placeholders_to_parameters"]

PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def placeholders_to_parameters(graph: Graph) -> None:
    """Replace placeholder ops by parameters of their names."""
    for op in list(graph):
        if op.type not in PLACEHOLDERS or op.own_namespace is not None:
            continue
        port = graph.parameter(placeholder_type(op), op.name)
        graph.replace_uses(op.output, port)
        graph.remove(op)
