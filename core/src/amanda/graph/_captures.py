"""Which op of which graph reads what from around its bodies, in one pass for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amanda.graph._contents import Contents
    from amanda.graph._op import Op
    from amanda.graph._port import OutputPort

Captures = dict["Op", dict["OutputPort", None]]


def capture_edges(root: Contents) -> Captures:
    """For every op at any depth that holds graphs: the values these read from around.

    Linear in what there is: the way down is kept at hand, so no capture walks up.
    """
    found: Captures = {}
    depth: dict[Contents, int] = {root: 0}
    holders: list[Op] = []  # the op on the way in each graph, outermost first
    stack = [(root, _places(root))]
    while stack:
        graph, places = stack[-1]
        for place in places:
            if isinstance(place, tuple):
                holder, inner = place
                depth[inner] = len(stack)
                holders.append(holder)
                stack.append((inner, _places(inner)))
                break
            level = depth.get(place.graph)  # type: ignore[arg-type]
            if level is not None and level < len(holders):
                found.setdefault(holders[level], {})[place] = None
        else:
            stack.pop()
            del depth[graph]
            if holders:
                holders.pop()
    return found


def _places(graph: Contents) -> Iterator[OutputPort | tuple[Op, Contents]]:
    """The values that `graph` reads from elsewhere, and the graphs it holds."""
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
