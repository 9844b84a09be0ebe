"""A model as primitives, each of which knows the op that it is from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda_std.backends import is_std, lower, operation_of

__all__ = ["lower_with_sources", "op_numbers"]


def op_numbers(graph: Graph) -> list[Op]:
    """The ops of a graph with those of bodies, in the order that numbers them."""
    return list(_walk(graph))


def lower_with_sources(graph: Graph) -> tuple[Graph, dict[int, OutputPort]]:
    """A copy of a graph as primitives, and the first output of each op in it.

    Keys are numbers of ops (`op_numbers`); the provenance of a primitive is the number
    of the op that it is from."""
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    ports: dict[int, OutputPort] = {}
    for number, (op, twin) in enumerate(zip(_walk(graph), _walk(copy), strict=True)):
        if not twin.is_constant:
            twin.provenance = Provenance((str(number),), "primitives")
            if op.outputs and op.graph is graph:
                ports[number] = twin.outputs[0]
    lower(copy, _is_primitive)
    return copy, {number: port.resolve() for number, port in ports.items()}


def _walk(graph: Graph) -> Iterator[Op]:
    for part in graph.graphs():
        yield from part


def _is_primitive(op: Op) -> bool:
    return not is_std(op) or not operation_of(op).is_composite
