"""Placeholders: the ops that stand for what a run is fed."""

from __future__ import annotations

from amanda.graph import Graph, Op
from amanda.types import DType, Shape, TensorType

__all__ = ["PLACEHOLDERS", "placeholders_to_parameters"]

PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def placeholders_to_parameters(graph: Graph) -> None:
    """Replace placeholder ops by parameters of their names."""
    for op in list(graph):
        if op.type not in PLACEHOLDERS or op.own_namespace is not None:
            continue
        port = graph.parameter(_placeholder_type(op), op.name)
        graph.replace_uses(op.output, port)
        graph.remove(op)


def _placeholder_type(op: Op) -> TensorType | None:
    dtype, shape = op.attrs.get("dtype"), op.attrs.get("shape")
    if not isinstance(dtype, DType):
        return None
    known = isinstance(shape, Shape) and shape.has_rank
    return TensorType(dtype, shape if known else None)
