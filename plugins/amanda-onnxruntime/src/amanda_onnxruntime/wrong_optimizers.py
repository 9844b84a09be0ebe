"""Optimizers of onnxruntime that change the results of a graph, by name."""

from __future__ import annotations

from typing import Final

import numpy as np

from amanda.graph import Graph, Op

__all__ = ["find_wrong_optimizers"]

_PAD_FUSION: Final = "Pad_Fusion"
"""Merges a Pad into the pads of the Conv or MaxPool that reads it."""


def find_wrong_optimizers(graph: Graph) -> list[str]:
    """The optimizers to disable for a graph, bodies and functions included."""
    ops = (op for part in graph.graphs() for op in part)
    return [_PAD_FUSION] if any(map(_pools_padding, ops)) else []


def _pools_padding(op: Op) -> bool:
    """Whether an op is a MaxPool of padding, which MaxPool's own pads are not part of.

    Padding by the lowest value is: it is in no maximum."""
    source = op.inputs[0].op if op.type == "MaxPool" and op.inputs[0] else None
    if source is None or source.type != "Pad":
        return False
    value = source.inputs[2] if len(source.inputs) > 2 else None
    if value is None or not value.op.is_constant:
        return True
    return not np.all(np.isneginf(value.op.attrs["value"].numpy().astype(np.float64)))
