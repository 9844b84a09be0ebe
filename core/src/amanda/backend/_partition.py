"""Partitioning of a graph into as few pieces as the order of ops allows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort

__all__ = ["Piece", "extract_graph", "partition"]


FEW = 4
"""Number of parties up to which every order is tried."""


class Piece(NamedTuple):
    """Some ops of a graph, as a graph, with the party that runs it."""

    who: Hashable
    graph: Graph
    ops: tuple[Op, ...]
    """Ops of the original graph, in order; copied ones come before their reader."""
    reads: tuple[OutputPort, ...]
    """Inputs: values of the original graph, or of graphs around it."""
    gives: tuple[OutputPort, ...]
    """Outputs, for other pieces and as results."""


def partition(
    graph: Graph,
    who: Callable[[Op], Hashable],
    *,
    copied: Callable[[Op], bool],
    later: Mapping[Op, Collection[OutputPort]] | None = None,
) -> list[Piece]:
    """Cut a graph into pieces, in the order in which they run.

    `who` returns the party of an op. Ops for which `copied` is true, such as constants,
    are in every piece that reads them. `later` returns values that must be complete
    before the piece of an op begins, even if the same party computes them.
    """
    ops = list(graph)
    asked = {v.op for v in graph.results if v is not None and v.op is not graph}
    free = {op for op in ops if copied(op) and op not in asked}
    parties = {op: who(op) for op in ops if op not in free}
    labels = list(dict.fromkeys(parties.values())) or [None]
    few = len(labels) <= FEW
    turns = [labels[i:] + labels[:i] for i in range(len(labels) if few else 1)]
    if len(labels) == 1:
        turns = [
            [*labels, object()]
        ]  # no party: waits for values that must be complete
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
    """The turn of each op: the first possible one of its party."""
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
    """The ops, each after the copied ops that it needs."""
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
    """Values from outside that ops or their bodies read, with repetitions."""
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
    """Values that pieces must return."""
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
    """Some ops as a root graph with these values as results; and its inputs.

    The ops are in order. Values that bodies capture become inputs, too.
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
    """The functions of the root graph, which bodies may call by name."""
    root: Graph | None = graph
    while root is not None and not root.functions:
        root = root.graph or (root.holder.graph if root.holder else root.outer)
    if root is not None:
        yield from root.functions.items()
