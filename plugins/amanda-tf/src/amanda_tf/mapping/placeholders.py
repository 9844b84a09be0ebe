"""Placeholders: the ops that stand for what a run is fed."""

from __future__ import annotations

from amanda.graph import Graph
from amanda.mapping import constant_of
from amanda_tf.loading.interface import placeholder_type
from amanda_tf.notes import VALUE

__all__ = ["PLACEHOLDERS", "placeholders_to_parameters"]

PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def placeholders_to_parameters(graph: Graph) -> None:
    """Replace placeholder ops by parameters of their names.

    A default that is constant is the feed of a parameter that is not fed.
    """
    for op in list(graph):
        if op.type not in PLACEHOLDERS or op.own_namespace is not None:
            continue
        name, default = op.name, op.inputs[0] if op.inputs else None
        port = graph.parameter(placeholder_type(op))
        if port.type is None and default is not None:
            port.type = default.type
        graph.replace(op, [port], "placeholder")
        port.name = name
        value = None if default is None else constant_of(default)
        if value is not None:
            port.attrs[VALUE] = value
