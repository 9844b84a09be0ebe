"""Effects in their order, and what passes must leave alone because of them.

Ops that touch one variable run in the order in which they were added: an op that reads
it after the last that wrote it, an op that writes it after all since then. This is kept
as control edges, which are made when the op is added, so they hold whatever a pass does
to the order of other ops, stand in every file, and cost nothing without state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import FunctionRef
from amanda.types import RefType
from amanda_std import NAMESPACE

__all__ = ["effect_of", "has_effects", "is_pure", "add_control_edges"]


def effect_of(op: Op) -> str | None:
    """What an op of the hub set does besides computing: see `operation.Effect`."""
    from amanda_std.ops import OPS

    operation = OPS.get(op.type or "")
    if operation is None or isinstance(op, Graph) or op.namespace != NAMESPACE:
        return None
    return operation.effect


def has_effects(op: Op) -> bool:
    """Whether an op, or one in a body of it, does what nobody may leave out."""
    return any(effect_of(each) in ("writes", "shows") for each in _with_inner(op))


def is_pure(op: Op) -> bool:
    """Whether an op, and all in what it calls, only computes: equal ones are one."""
    return all(effect_of(each) in (None, "holds") for each in _with_inner(op))


def _with_inner(op: Op) -> Iterable[Op]:
    """An op, those of its bodies and of functions that it names, at any depth."""
    held = isinstance(op, Graph) or op.bodies
    if held or (op.has_attrs and any(map(_is_named, op.attrs.values()))):
        return _walked(op)
    return (op,)


def _is_named(value: Any) -> bool:
    return isinstance(value, FunctionRef)


def _walked(op: Op) -> Iterator[Op]:
    seen: set[int] = set()
    waiting = [op]
    while waiting:
        at = waiting.pop()
        yield at
        inner = [at] if isinstance(at, Graph) else [*at.bodies.values(), *_named(at)]
        fresh = [body for body in inner if id(body) not in seen]
        seen.update(map(id, fresh))
        waiting += [each for body in fresh for each in body]


def _named(op: Op) -> Iterator[Graph]:
    """The functions of the root that an op names and that are there."""
    if op.graph is None or not op.has_attrs:
        return

    for ref in op.attrs.values():
        if not isinstance(ref, FunctionRef):
            continue
        found = op.graph.root.functions.get(ref.name)
        if found is not None:
            yield found


def add_control_edges(op: Op) -> None:
    """Control edges from the ops that have to run before this one."""
    graph = op.graph
    assert graph is not None
    for ref, writes in _touched(op).items():
        since: list[Op] = []
        for user in ref.user_ops:
            placed = _in(graph, user)
            if placed is None or placed is op:
                continue
            if _writes(placed, ref):
                since = [placed]
            elif placed not in since:
                since.append(placed)
        for first in since:
            if (writes or _writes(first, ref)) and first not in op.control_inputs:
                graph.control(first, op)


def _touched(op: Op) -> dict[OutputPort, bool]:
    """The references that an op or a body of it reads; whether it may write there."""
    found = {v: _writes(op, v) for v in op.inputs if v is not None and _is_ref(v)}
    for body in op.bodies.values():
        found.update((v, _writes(op, v)) for v in body.captures if _is_ref(v))
    return found


def _is_ref(value: OutputPort) -> bool:
    return isinstance(value.type, RefType)


def _writes(op: Op, ref: OutputPort) -> bool:
    """Whether an op may write to a reference. What is handed on may be written to."""
    if ref in op.inputs:
        return effect_of(op) != "reads"
    return any(
        _writes(user, ref)
        for user in ref.user_ops
        if user is not op and _inside(user, op)
    )


def _inside(op: Op, holder: Op) -> bool:
    graph = op.graph
    return (
        graph is not None
        and graph is not holder.graph
        and (_in(holder.graph, op) is holder)
    )


def _in(graph: Graph | None, op: Op) -> Op | None:
    """The op of a graph that is this one, or holds it; None while it is not placed."""
    at: Op | None = op
    while at is not None and at.graph is not graph:
        home = at.graph
        if home is None:
            return None
        at = home.holder if home.holder is not None else home
    return at
