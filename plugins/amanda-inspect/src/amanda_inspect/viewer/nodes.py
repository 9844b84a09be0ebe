"""The ops of a graph as a tree of nodes, folded by scopes, bodies and long levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from amanda.graph import (
    VALUE_NOTE,
    Graph,
    InputPort,
    Op,
    OutputPort,
    ScopeTable,
)
from amanda.tensors import Tensor
from amanda_inspect.viewer.levels import fold_scopes, split_level

__all__ = ["Kind", "Node", "build_tree", "walk", "weight_of"]

MAX_DEPTH: Final = 24
"""Components of a name that become groups; the rest stays in the label."""
MANY_PORTS: Final = 30
"""Inputs or results of a graph that are more than this are in a group."""


class Kind(IntEnum):
    """What a node stands for; the page knows these numbers."""

    GROUP = 0
    OP = 1
    CONSTANT = 2
    PARAMETER = 3
    RESULT = 4
    BODY = 5
    GRAPH = 6
    FUNCTION = 7
    REMOVED = 8
    """An op that only the other graph of a difference has."""


@dataclass(slots=True, eq=False)
class Node:
    """An op, a port or a group of nodes."""

    kind: Kind
    label: str
    subject: Op | OutputPort | InputPort | None = None
    children: list[Node] = field(default_factory=list)
    path: tuple[str, ...] = ()
    """The scopes around it within its graph."""
    is_placed: bool = True
    """Whether `path` is what a name or the framework says."""

    @property
    def is_constant(self) -> bool:
        """Whether the page hides it at first."""
        return self.kind is Kind.CONSTANT

    @property
    def key(self) -> str:
        """What it has in common with nodes of equal structure."""
        subject = self.subject
        return (subject.type or "") if isinstance(subject, Op) else f"group {self.kind}"


def build_tree(graph: Graph, scopes: ScopeTable | None = None) -> Node:
    """The tree of a root graph, with its functions."""
    root = Node(Kind.GRAPH, graph.name or "graph", graph)
    waiting: list[tuple[Node, Graph]] = [(root, graph)]
    functions = [
        Node(Kind.FUNCTION, name, body) for name, body in graph.functions.items()
    ]
    waiting += [(n, n.subject) for n in functions if isinstance(n.subject, Graph)]
    while waiting:
        node, inner = waiting.pop()
        leaves = list(_leaves(inner, scopes))
        node.children = fold_level(leaves)
        waiting += _inner_graphs(leaves)
    if functions:
        group = Node(Kind.GROUP, "functions", None, split_level(functions, _group))
        root.children.append(group)
    return root


def fold_level(leaves: Sequence[Node]) -> list[Node]:
    """The ops and ports of one graph in groups: by scope, and where they are many."""
    _place_unnamed(leaves)
    return fold_scopes(_place_constants(leaves), _group)


def walk(root: Node) -> Iterator[Node]:
    """The nodes of a tree, parents first."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _group(label: str, children: list[Node]) -> Node:
    return Node(Kind.GROUP, label, None, children)


def _leaves(graph: Graph, scopes: ScopeTable | None) -> Iterator[Node]:
    """Parameters, ops and results of a graph as nodes."""
    ports = graph.parameters
    path = ("inputs",) if len(ports) > MANY_PORTS else ()
    for port in ports:
        name = port.name or f"input {port.index}"
        yield Node(Kind.PARAMETER, name, port, path=path)
    for op in graph:
        yield _op_node(op, scopes)
    results = graph.result_ports
    path = ("results",) if len(results) > MANY_PORTS else ()
    for result in results:
        name = result.name or f"result {result.index}"
        yield Node(Kind.RESULT, name, result, path=path)


def _op_node(op: Op, scopes: ScopeTable | None) -> Node:
    kind = Kind.GRAPH if op.is_graph else Kind.OP
    if weight_of(op) is not None:
        kind = Kind.CONSTANT
    path, label = _scope_path(op, scopes)
    node = Node(kind, label, op, path=path or ())
    node.is_placed = path is not None
    node.children = [Node(Kind.BODY, key, body) for key, body in op.bodies.items()]
    return node


def _inner_graphs(leaves: Iterable[Node]) -> Iterator[tuple[Node, Graph]]:
    for leaf in leaves:
        for node in (leaf, *leaf.children):
            if isinstance(node.subject, Graph):
                yield node, node.subject


def weight_of(op: Op) -> Tensor | None:
    """The tensor of a constant, or of a parameter of a framework's program."""
    if not op.has_attrs or not op.outputs:
        return None
    found = op.attrs.get("value" if op.is_constant else VALUE_NOTE)
    return found if isinstance(found, Tensor) else None


def _scope_path(
    op: Op, scopes: ScopeTable | None
) -> tuple[tuple[str, ...] | None, str]:
    """The scopes around an op, by its module or its name, and what remains of it."""
    sources = op.provenance.sources if op.provenance is not None else ()
    parts = split_name(op.name or next(iter(sources), ""))
    label = parts[-1] if parts else ""
    if scopes is None:
        return (tuple(parts[:-1]) if parts else None), label
    scope = scopes.scope_of(op)
    if scope is None:
        return None, label
    module = scope.modules[-1] if scope.modules else ""
    return tuple(split_name(module)), label


def split_name(name: str) -> list[str]:
    """The scopes in a name, and the last part of it.

    >>> split_name("/layer.0/attention/MatMul"), split_name("layer.0.norm")
    (['layer.0', 'attention', 'MatMul'], ['layer', '0', 'norm'])
    """
    mark = "/" if "/" in name else "."
    parts = [part for part in name.split(mark) if part]
    if len(parts) > MAX_DEPTH:
        parts = [*parts[: MAX_DEPTH - 1], mark.join(parts[MAX_DEPTH - 1 :])]
    return parts


def _place_unnamed(leaves: Sequence[Node]) -> None:
    """Give ops of unknown scope the one that is around all their neighbors."""
    paths: dict[Op, tuple[str, ...]] = {}
    for leaf in leaves:
        if isinstance(leaf.subject, OutputPort | InputPort):
            paths[leaf.subject.op] = ()  # the graph, whose ports are in no scope
        elif leaf.subject is not None and leaf.is_placed:
            paths[leaf.subject] = leaf.path
    for leaf in leaves:
        op = leaf.subject
        if leaf.is_placed or not isinstance(op, Op) or leaf.kind is Kind.CONSTANT:
            continue
        read = (value.op for value in op.inputs if value is not None)
        users = (user for port in op.outputs for user in port.user_ops)
        near = [paths[each] for each in (*read, *users) if each in paths]
        leaf.path = paths[op] = _common_prefix(near)


def _common_prefix(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """
    >>> _common_prefix([("a", "b"), ("a", "c", "d")])
    ('a',)
    """
    found: list[str] = []
    for names in zip(*paths, strict=False):
        if len(set(names)) > 1:
            break
        found.append(names[0])
    return tuple(found)


def _place_constants(leaves: Sequence[Node]) -> list[Node]:
    """The nodes with each constant before its first user, in the same scope."""
    places = {leaf.subject: i for i, leaf in enumerate(leaves) if leaf.subject}
    ranked: list[tuple[int, int, Node]] = []
    for i, leaf in enumerate(leaves):
        at = i
        if leaf.kind is Kind.CONSTANT and isinstance(leaf.subject, Op):
            users = leaf.subject.outputs[0].user_ops
            at = min((places[u] for u in users if u in places), default=i)
            if at != i:
                leaf.path = leaves[at].path
        ranked.append((at, 0 if at != i else 1, leaf))
    ranked.sort(key=lambda row: row[:2])
    return [leaf for *_, leaf in ranked]
