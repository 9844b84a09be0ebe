"""A graph cut into pieces, each run by one party: as few as the order of ops allows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort

__all__ = ["Piece", "extract_graph", "partition"]


FEW = 4
"""Parties up to which every order of turns is tried."""


class Piece(NamedTuple):
    """Some ops of a graph as a graph of their own, and who runs it."""

    who: Hashable
    graph: Graph
    ops: tuple[Op, ...]
    """Of the graph that was cut, in order; what is copied stands before its reader."""
    reads: tuple[OutputPort, ...]
    """What it is fed: values of the graph that was cut, or around it."""
    gives: tuple[OutputPort, ...]
    """What it gives, to other pieces and as results."""


def partition(
    graph: Graph,
    who: Callable[[Op], Hashable],
    *,
    copied: Callable[[Op], bool],
    later: Mapping[Op, Collection[OutputPort]] | None = None,
) -> list[Piece]:
    """The pieces in the order in which they run.

    `who` says who runs an op. What is `copied` stands in every piece that reads it
    (constants, say, which nobody wants to hand over). `later` names values that have to
    be there before the piece of an op begins, though the same party makes them.
    """
    ops = list(graph)
    asked = {v.op for v in graph.results if v is not None and v.op is not graph}
    free = {op for op in ops if copied(op) and op not in asked}
    parties = {op: who(op) for op in ops if op not in free}
    labels = list(dict.fromkeys(parties.values())) or [None]
    few = len(labels) <= FEW
    turns = [labels[i:] + labels[:i] for i in range(len(labels) if few else 1)]
    if len(labels) == 1:
        turns = [[*labels, object()]]  # a pause, for what has to be there before
    placed = min(
        (_grow_pieces(ops, free, parties, turn, later or {}) for turn in turns),
        key=lambda found: len({found[op] for op in parties}),
    )
    stages: dict[int, list[Op]] = {}
    for op in ops:
        if op not in free:
            stages.setdefault(placed[op], []).append(op)
    wanted = _exported_values(graph, stages.values(), free)
    return [
        _make_piece(graph, stages[at], free, parties, wanted) for at in sorted(stages)
    ]


def _grow_pieces(
    ops: Sequence[Op],
    free: Collection[Op],
    parties: Mapping[Op, Hashable],
    turn: Sequence[Hashable],
    later: Mapping[Op, Collection[OutputPort]],
) -> dict[Op, int]:
    """The turn in which each op runs: the first one of its party's that is possible."""
    at: dict[Op, int] = {}
    places = {label: i for i, label in enumerate(turn)}
    for op in ops:
        first = max((at.get(before, 0) for before in op.depends_on()), default=0)
        for value in later.get(op, ()):
            first = max(first, at.get(value.op, -1) + 1)
        if op not in free:
            first += (places[parties[op]] - first) % len(turn)
        at[op] = first
    return at


def _add_free_ops(ops: Sequence[Op], free: Collection[Op]) -> list[Op]:
    """The ops, before each the free ones that it needs and that are not yet there."""
    found: dict[Op, None] = {}
    for op in ops:
        waiting = [op]
        while waiting:
            last = waiting[-1]
            needed = [b for b in last.depends_on() if b in free and b not in found]
            waiting += needed[::-1]
            if not needed:
                found[waiting.pop()] = None
    return list(found)


def _reads(ops: Sequence[Op]) -> Iterator[OutputPort]:
    """Each value from elsewhere that some ops or their bodies read; maybe repeated."""
    own = set(ops)
    for op in ops:
        inner = (*op.bodies.values(), *([op] if op.is_graph else ()))
        captured = (v for body in inner for v in body.captures)
        for value in (*op.inputs, *captured):
            if value is not None and value.op not in own:
                yield value


def _exported_values(
    graph: Graph, stages: Any, free: Collection[Op]
) -> dict[OutputPort, None]:
    """What the pieces have to give."""
    wanted = dict.fromkeys(v for v in graph.results if v is not None)
    for ops in stages:
        wanted.update(dict.fromkeys(_reads(_add_free_ops(ops, free))))
    return wanted


def _make_piece(
    graph: Graph,
    own: Sequence[Op],
    free: Collection[Op],
    parties: Mapping[Op, Hashable],
    wanted: Collection[OutputPort],
) -> Piece:
    ops = _add_free_ops(own, free)
    gives = [port for op in own for port in op.outputs if port in wanted]
    made, reads = extract_graph(graph, ops, gives)
    return Piece(parties[own[0]], made, tuple(ops), tuple(reads), tuple(gives))


def extract_graph(
    graph: Graph, ops: Sequence[Op], gives: Sequence[OutputPort | None]
) -> tuple[Graph, list[OutputPort]]:
    """Some ops as a root graph that gives these values; and what it has to be fed.

    The ops stand in order. What bodies captured from around is fed, too.
    """
    from amanda.graph import copy_ops

    memo: dict[Any, Any] = {}
    made = graph.__class__(graph.namespace, graph.name)
    made.imports.update(graph.imports)
    chosen = set(ops)
    straight = [v for v in gives if v is not None and v.op not in chosen]
    for value in (*_reads(ops), *straight):
        if value not in memo:
            memo[value] = made.parameter(value.type, _free_name(made, value.name))
    reads = list(memo)
    copy_ops(graph, made, list(ops), memo)
    for given in gives:
        made.result(None if given is None else memo[given])
    for name, function in _functions(graph):
        made.add_function(name, function.clone())
    return made, reads


def _free_name(graph: Graph, name: str | None) -> str | None:
    return None if any(p.name == name for p in graph.parameters) else name


def _functions(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The functions of the root that a graph is in: bodies may be told by name."""
    root: Graph | None = graph
    while root is not None and not root.functions:
        root = root.graph or (root.holder.graph if root.holder else root.outer)
    if root is not None:
        yield from root.functions.items()
