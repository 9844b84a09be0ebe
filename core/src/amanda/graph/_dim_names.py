"""Graphs in which the names of symbolic dims are documentation, as in ONNX files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from amanda.types import Sym, TensorType

if TYPE_CHECKING:
    from amanda.graph._graph import Graph

__all__ = ["UNCHECKED_DIM_NAMES", "input_dims", "shares_dims"]

UNCHECKED_DIM_NAMES: Final = "x-unchecked-dim-names"
"""Attribute of a root graph, `True` where names of dims are documentation.

Inputs whose dims share a symbol may then have different sizes there. Readers of such
formats set it where `shares_dims`."""


def input_dims(graph: Graph) -> list[Sym]:
    """The symbolic dims of the inputs that are tensors, in order."""
    shapes = [
        port.type.shape
        for port in graph.parameters
        if isinstance(port.type, TensorType) and port.type.shape.has_rank
    ]
    return [dim for shape in shapes for dim in shape if isinstance(dim, Sym)]


def shares_dims(graph: Graph) -> bool:
    """Whether a symbol is in several dims of the inputs.

    >>> from amanda.graph import Graph
    >>> graph = Graph("amanda/std/1")
    >>> _ = graph.parameter("float32[n, 3]"), graph.parameter("float32[n]")
    >>> shares_dims(graph)
    True
    """
    counts = Counter(symbol for dim in input_dims(graph) for symbol in dim.free)
    return any(count > 1 for count in counts.values())
