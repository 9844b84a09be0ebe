"""Graphs as the JSON that libraries get: without names, weights by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.backend import extract_graph
from amanda.files import dumps_without_weights
from amanda.graph import Graph, Op, is_note, is_record

if TYPE_CHECKING:
    from amanda.tensors import Tensor

__all__ = ["graph_text", "op_text"]


def graph_text(graph: Graph) -> tuple[str, list[Tensor]]:
    """The JSON of a graph, and its weights.

    Ops, values and graphs are without names, so that edges refer to ops and ports by
    number; notes of attributes are left out, and what ops come from.
    """
    plain = graph.clone()
    _remove_names(plain)
    return dumps_without_weights(plain)


def op_text(op: Op) -> str:
    """The JSON of a graph with one op and the constants that it reads.

    Its other inputs are inputs of the graph, with their types.
    """
    assert op.graph is not None
    constants = {v.op: None for v in op.inputs if v is not None and v.op.is_constant}
    found, _ = extract_graph(op.graph, [*constants, op], list(op.outputs))
    _remove_names(found)
    return dumps_without_weights(found)[0]


def _remove_names(graph: Graph) -> None:
    """Remove names, notes and records from a graph and the graphs in it."""
    for name in list(graph.entries):
        graph.remove_entry(name)
    graphs = [graph, *graph.functions.values()]
    while graphs:
        each = graphs.pop()
        _remove_names_of_graph(each)
        for op in each:
            graphs += op.bodies.values()
            if isinstance(op, Graph):
                graphs.append(op)


def _remove_names_of_graph(graph: Graph) -> None:
    for op in (graph, *graph):
        op.provenance = None
        for port in op.outputs:
            port.name = None
        keys = [*op.attrs] if op.has_attrs else []
        for key in filter(_is_not_for_libraries, keys):
            del op.attrs[key]
    for port in graph.parameters:
        port.name = None
    for op in graph:
        if op.name is not None:
            graph.rename(op, None)
    if graph.name is not None and graph.graph is None:
        graph.name = None


def _is_not_for_libraries(key: str) -> bool:
    return is_note(key) or is_record(key)
