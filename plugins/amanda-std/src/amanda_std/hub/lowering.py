"""Composites expanded: one by one, or all that a target does not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from amanda.errors import AmandaError, Undecided
from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda_std.engine.values import Value, lift, tracing
from amanda_std.hub.op_access import is_std, op_arguments, operation_of

Rules = Mapping[str, Callable[..., Any]]

__all__ = ["UndecomposedOp", "expand", "expand_graph", "lower", "is_not_composite"]


class UndecomposedOp(NamedTuple):
    """An op that a target does not take and that could not be decomposed."""

    op: Op
    why: str

    def __str__(self) -> str:
        return f"{self.op.label}: {self.why}"


def is_not_composite(op: Op) -> bool:
    """A target's `takes` that leaves no composite."""
    return not is_std(op) or not operation_of(op).is_composite


def expand(
    op: Op, rule: Callable[..., Any] | None = None, by: str = "expand"
) -> list[Op]:
    """Replaces a composite by its meaning, one level down; the ops that were made.

    Raises Undecided, with the graph as it was, when the meaning asks for what the types
    do not tell. The op that gives a result takes its name."""
    graph, operation = op.graph, operation_of(op)
    assert graph is not None
    function = rule or operation.function
    args, attrs = op_arguments(op, Value)
    old = op.provenance
    source = old.sources if old else (op.name or op.type or "?",)
    with tracing(graph, op, Provenance(source, by)) as into:
        try:
            made = function(*args, **attrs)
            many = made if isinstance(made, tuple | list) else (made,)
            values = [lift(value, into) for value in many]
        except BaseException:
            for extra in reversed(into.made):
                graph.remove(extra, by)
            raise
    _hand_over(graph, op, values, set(into.made), by)
    return into.made


def expand_graph(inner: Graph, by: str = "expand") -> list[Op]:
    """Replaces a graph that stands as an op by what is in it; the ops made."""
    graph = inner.graph
    assert graph is not None
    memo: dict[Any, Any] = {}
    with graph.before(inner):
        values = graph.paste(inner, inner.inputs, memo=memo)
    made = [memo[op] for op in inner]
    graph.replace(inner, values, by)
    return made


def _hand_over(
    graph: Graph, op: Op, values: list[OutputPort], made: set[Op], by: str
) -> None:
    """The new values in place of the old, under their names."""
    name, names = op.name, [port.name for port in op.outputs]
    graph.replace(op, values, by)
    for value, own in zip(values, names, strict=True):
        if value.op in made and value.name is None:
            value.name = own
    heirs = dict.fromkeys(v.op for v in values if v.op in made)
    if name is not None and len(heirs) == 1 and name not in graph:
        graph.rename(next(iter(heirs)), name)


def lower(
    graph: Graph,
    takes: Callable[[Op], object],
    rules: Rules | None = None,
) -> list[UndecomposedOp]:
    """Decomposes what a target does not take, and leaves whole what it takes.

    `takes` gives True, or anything else for no (a reason, say). `rules` are the
    target's own meanings of ops, primitives too, tried before those of the hub. What
    could not be decomposed stays as it is, and is returned with the reason."""
    left: list[UndecomposedOp] = []
    for part in graph.graphs():
        for op in list(part):
            _lower_one(op, takes, rules or {}, left)
    return left


def _lower_one(
    start: Op, takes: Callable[[Op], object], rules: Rules, left: list[UndecomposedOp]
) -> None:
    waiting = [start]
    while waiting:
        op = waiting.pop()
        if not is_std(op) or takes(op) is True:
            continue
        rule = rules.get(op.type or "")
        if rule is None and not operation_of(op).is_composite:
            answer = takes(op)
            why = (
                answer
                if isinstance(answer, str)
                else "a primitive has no decomposition"
            )
            left.append(UndecomposedOp(op, why))
            continue
        try:
            waiting += reversed(expand(op, rule, "lower"))
        except Undecided as error:
            left.append(UndecomposedOp(op, str(error.message)))
        except AmandaError as error:
            error.who = error.who or op.label
            raise
