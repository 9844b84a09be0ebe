"""Removal of what rules built and nothing holds.

A rule may have traced a body before it declined. Such a graph is held by no op, but
still reads values of the graphs around it.
"""

from __future__ import annotations

from amanda.graph import Graph, Op

__all__ = ["discard_op", "empty_graph"]


def empty_graph(graph: Graph) -> None:
    """Remove the results and ops of a graph that nothing holds."""
    for i in range(len(graph.results) - 1, -1, -1):
        graph.remove_result(i)
    for op in reversed(graph):
        discard_op(graph, op)


def discard_op(graph: Graph, op: Op) -> None:
    """Remove an op that only graphs which nothing holds may read, and empty these."""
    readers = [user for port in op.outputs for user in port.user_ops]
    for reader in readers:
        top = _outermost(reader)
        if top is not None and top is not graph and top.outer is not None:
            empty_graph(top)
    graph.remove(op)


def _outermost(op: Op) -> Graph | None:
    """The graph around an op that is in no other graph, of no op and no function."""
    graph = op if isinstance(op, Graph) else op.graph
    while graph is not None:
        holder = graph.holder
        around = graph.graph if holder is None else holder.graph
        if around is None:
            return graph if graph.owner is None else None
        graph = around
    return None
