"""Sizes that are not known when a graph is compiled, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator

from amanda.backend import DynamicSize
from amanda.dictionary import location_of
from amanda.graph import Graph, Op, OutputPort
from amanda.types import Sym, TensorType
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_std.backends import Trait, has_trait

__all__ = ["find_dynamic_sizes"]

_PER_SIZE = "one program for each size; the option buckets pads to a few sizes"
_PER_VALUE = (
    "computed first, then one program for each value; after those of the option "
    "specializations, Python runs the ops that need it"
)
_BY_DATA = "data decides it: Python runs the op; the option padded gives it a bound"


def find_dynamic_sizes(graph: Graph) -> Iterator[DynamicSize]:
    """Symbolic dims of inputs, values that decide shapes, results that data sizes."""
    for dim in dict.fromkeys(_symbolic_dims(graph)):
        yield DynamicSize(dim, "dim", _PER_SIZE)
    for value in analyze_static_values(graph).data:
        yield DynamicSize(_label(value), "value", _PER_VALUE)
    for op in graph.walk():
        if has_trait(op, Trait.DATA_DEPENDENT_SIZE):
            yield DynamicSize(_placed_label(op), "result", _BY_DATA)


def _symbolic_dims(graph: Graph) -> Iterator[str]:
    for port in graph.parameters:
        type = port.type
        if isinstance(type, TensorType) and type.shape.has_rank:
            yield from (str(d) for d in type.shape.dims if isinstance(d, Sym))


def _label(value: OutputPort) -> str:
    is_input = value.op.graph is None
    return f"input {value.name}" if is_input else _placed_label(value.op)


def _placed_label(op: Op) -> str:
    """The label of an op, with the bodies and functions that it is in."""
    place = location_of(op)
    return f"{op.label}, {place}" if place else op.label
