"""Captures of all ops of a graph, collected in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amanda.graph._contents import Contents
    from amanda.graph._op import Op
    from amanda.graph._port import OutputPort

Captures = dict["Op", dict["OutputPort", None]]


def capture_edges(root: Contents) -> Captures:
    """The values captured by the inner graphs of each op, at any depth.

    Linear in the size of the graph: the current nesting is a stack with the depth of
    each graph, so that no capture searches its way up.
    """
    found: Captures = {}
    depth: dict[Contents, int] = {root: 0}
    holders: list[Op] = []  # the entered op of each open graph, outermost first
    stack = [(root, _references(root))]
    while stack:
        graph, references = stack[-1]
        for reference in references:
            if isinstance(reference, tuple):
                holder, inner = reference
                depth[inner] = len(stack)
                holders.append(holder)
                stack.append((inner, _references(inner)))
                break
            level = depth.get(reference.graph)  # type: ignore[arg-type]
            if level is not None and level < len(holders):
                found.setdefault(holders[level], {})[reference] = None
        else:
            stack.pop()
            del depth[graph]
            if holders:
                holders.pop()
    return found


def _references(graph: Contents) -> Iterator[OutputPort | tuple[Op, Contents]]:
    """The values that `graph` reads from other graphs, and its inner graphs."""
    op = graph._first
    while op is not None:
        for value in op._inputs:
            if value is not None and value.graph is not graph:
                yield value
        if op.side_record is not None or op.is_graph:
            for inner in op._inner_graphs():
                yield op, inner
        op = op._next
    for value in graph._results:
        if value is not None and value.graph is not graph:
            yield value
