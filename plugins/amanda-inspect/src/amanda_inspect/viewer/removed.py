"""Differences in the page: ops that only the other graph has, and classes of ops."""

from __future__ import annotations

from amanda.graph import OutputPort
from amanda_inspect.difference import GraphDifference
from amanda_inspect.matching import match_graphs
from amanda_inspect.viewer.nodes import Kind, Node, split_name
from amanda_inspect.viewer.overlays import Overlay

__all__ = ["add_removed_ops", "difference_overlay"]


def add_removed_ops(
    root: Node, difference: GraphDifference
) -> dict[Node, list[OutputPort | None]]:
    """Add the removed ops to a tree, reading values of the graph that is shown.

    Returns what each reads: a value of the graph, or of another removed op.
    """
    if not difference.removed:
        return {}
    matching = match_graphs(*difference.graphs)
    counterparts = {old: new for new, old in matching.values.items()}
    gone = set(difference.removed)
    nodes: dict[Node, list[OutputPort | None]] = {}
    for op in difference.removed:
        label = split_name(op.name or op.type or "op")[-1:]
        node = Node(Kind.REMOVED, "".join(label), op)
        read: list[OutputPort | None] = []
        for value in op.inputs:
            known = value is not None and value.op in gone
            read.append(value if known or value is None else counterparts.get(value))
        nodes[node] = read
    root.children += _in_group(list(nodes))
    return nodes


def _in_group(nodes: list[Node]) -> list[Node]:
    """Many nodes are in a group of their own."""
    if len(nodes) <= 12:
        return nodes
    return [Node(Kind.GROUP, "removed", None, nodes)]


def difference_overlay(difference: GraphDifference) -> Overlay:
    """The ops that are added, removed and changed, as classes."""
    found = Overlay("difference", {}, is_number=False)
    found.ops.update(dict.fromkeys(difference.removed, "removed"))
    for _, inner in difference.walk():
        found.ops.update(dict.fromkeys(inner.added, "added"))
        for each in inner.changed:
            found.ops[each.op] = "changed"
            found.notes[each.op] = "; ".join(each.texts)
        for weight in inner.weights:
            for op in (weight.op, *weight.op.outputs[0].user_ops):
                found.ops.setdefault(op, "changed")
                found.notes.setdefault(op, str(weight))
    return found
