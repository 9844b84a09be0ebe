"""Ops that no result of a graph needs."""

from __future__ import annotations

from amanda.graph import Graph, Op, OutputPort
from amanda_tf.loading.interface import is_left_by_lowering
from amanda_tf.mapping.placeholders import PLACEHOLDERS
from amanda_tf.notes import CONTROL_OUTPUT

_CYCLIC = ("Merge", "RefMerge", "NextIteration", "RefNextIteration")
"""Ops whose inputs may be cycles."""

__all__ = ["is_control_output", "remove_unused", "unused_ops"]


def remove_unused(graph: Graph) -> None:
    """Remove ops that no result and no control output needs, by a value or by order."""
    unused = unused_ops(graph)
    for op in unused:
        if op.feedback or op.type in _CYCLIC:
            for port in op.input_ports:
                port.connect(None)
    for op in reversed(unused):
        graph.remove(op)


def unused_ops(graph: Graph, *, entries: bool = True) -> list[Op]:
    """The ops that no result, no control output and, with `entries`, no entry needs, by
    a value or by order; without placeholders, which are inputs of the graph."""
    sides = (side for entry in graph.entries.values() for side in entry)
    named = (value for side in sides for value in side.values() if entries)
    values = [v for v in (*graph.results, *named) if v is not None]
    outputs = [op for op in graph if is_control_output(op)]
    needed = _with_order(graph, values, outputs)
    return [
        op
        for op in graph
        if op not in needed
        and (op.type not in PLACEHOLDERS or op.inputs or is_left_by_lowering(op))
    ]


def is_control_output(op: Op) -> bool:
    """Whether an op runs in every call, also where no result needs it."""
    return op.has_attrs and CONTROL_OUTPUT in op.attrs


def _with_order(graph: Graph, values: list[OutputPort], ops: list[Op]) -> set[Op]:
    """The ops, those that values depend on, and those that all these wait for."""
    needed: set[Op] = set(ops)
    waiting = [*values, *(v for op in ops for v in op.inputs if v is not None)]
    for op in ops:
        waiting += [v for body in op.bodies.values() for v in body.captures]
        waiting += _add_firsts(graph, op, needed)
    while waiting:
        found = [op for op in graph.upstream(*waiting) if op not in needed]
        needed.update(found)
        waiting = [v for op in found for v in _add_firsts(graph, op, needed)]
    return needed


def _add_firsts(graph: Graph, op: Op, needed: set[Op]) -> list[OutputPort]:
    """Add all ops that an op waits for to the needed ones; returns what they read."""
    values: list[OutputPort] = []
    waiting = [op]
    while waiting:
        for first in waiting.pop().control_inputs:
            if first.graph is graph and first not in needed:
                needed.add(first)
                waiting.append(first)
                values += [v for v in first.inputs if v is not None]
    return values
