"""Order of effects: control edges between ops that touch one variable.

An op that reads a variable runs after the last op that wrote it; an op that writes
it runs after all that touched it since. The control edges are added together with
the op, so they survive every pass and every file, and graphs without state have
none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cmp_to_key

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import FunctionRef
from amanda.types import RefType
from amanda_std.engine.links import NAMESPACE, get_operation

__all__ = [
    "add_control_edges",
    "effect_of",
    "has_effects",
    "is_pure",
    "may_hold_state",
    "ops_inside",
]


def effect_of(op: Op) -> str | None:
    """The effect of an op of the hub, or None: see `operation.Effect`."""
    operation = get_operation(op.type or "")
    if operation is None or isinstance(op, Graph) or op.namespace != NAMESPACE:
        return None
    effect: str | None = operation.effect
    return effect


def has_effects(op: Op) -> bool:
    """Whether an op, or one in its bodies, must not be removed."""
    return any(effect_of(each) in ("writes", "shows") for each in ops_inside(op))


def is_pure(op: Op) -> bool:
    """Whether an op and all that it calls only compute, so that equal ops are one."""
    return all(effect_of(each) in (None, "holds") for each in ops_inside(op))


def ops_inside(op: Op) -> Iterable[Op]:
    """An op and the ops of its bodies and of functions that it names, at any depth."""
    if op.is_graph or op.bodies:
        return _walk_inner(op)
    for value in op.attrs.values() if op.has_attrs else ():
        if isinstance(value, FunctionRef):
            return _walk_inner(op)
    return (op,)


def _walk_inner(op: Op) -> Iterator[Op]:
    """The same, for an op that has bodies or names functions."""
    seen: set[int] = set()
    waiting = [op]
    while waiting:
        at = waiting.pop()
        yield at
        inner = (
            [at]
            if isinstance(at, Graph)
            else [*at.bodies.values(), *_named_functions(at)]
        )
        fresh = [body for body in inner if id(body) not in seen]
        seen.update(map(id, fresh))
        waiting += [each for body in fresh for each in body]


def _named_functions(op: Op) -> Iterator[Graph]:
    """The functions of the root that an op names."""
    if op.graph is None or not op.has_attrs:
        return

    for ref in op.attrs.values():
        if not isinstance(ref, FunctionRef):
            continue
        found = op.graph.root.functions.get(ref.name)
        if found is not None:
            yield found


def add_control_edges(op: Op) -> None:
    """Add control edges from the ops that must run before this one."""
    graph = op.graph
    assert graph is not None
    for ref, writes in _touched_refs(op).items():
        since: list[Op] = []
        for placed in _users_before(op, ref):
            if _writes(placed, ref):
                since = [placed]
            elif placed not in since:
                since.append(placed)
        for first in since:
            if (writes or _writes(first, ref)) and first not in op.control_inputs:
                graph.control(first, op)


def _users_before(op: Op, ref: OutputPort) -> list[Op]:
    """The ops of a graph before `op` that use a reference, in their order."""
    graph = op.graph
    assert graph is not None
    held = dict.fromkeys(_holder_in(graph, user) for user in ref.user_ops)
    found = [user for user in held if user is not None and user is not op]

    def compare(a: Op, b: Op) -> int:
        return -1 if graph.is_before(a, b) else 1

    return sorted((u for u in found if graph.is_before(u, op)), key=cmp_to_key(compare))


def _touched_refs(op: Op) -> dict[OutputPort, bool]:
    """The references that an op or its bodies read, and whether it may write there."""
    found = {v: _writes(op, v) for v in op.inputs if v is not None and _is_ref(v)}
    for body in op.bodies.values():
        found.update((v, _writes(op, v)) for v in body.captures if _is_ref(v))
    return found


def _is_ref(value: OutputPort) -> bool:
    return isinstance(value.type, RefType)


def _writes(op: Op, ref: OutputPort) -> bool:
    """Whether an op may write to a reference; one that is passed on may be written
    to."""
    if ref in op.inputs:
        return effect_of(op) != "reads"
    return any(
        _writes(user, ref)
        for user in ref.user_ops
        if user is not op and _is_inside(user, op)
    )


def _is_inside(op: Op, holder: Op) -> bool:
    graph = op.graph
    return (
        graph is not None
        and graph is not holder.graph
        and (_holder_in(holder.graph, op) is holder)
    )


def _holder_in(graph: Graph | None, op: Op) -> Op | None:
    """The op of `graph` that is this op or holds it; None before it is placed."""
    at: Op | None = op
    while at is not None and at.graph is not graph:
        home = at.graph
        if home is None:
            return None
        at = home.holder if home.holder is not None else home
    return at


def may_hold_state(op: Op) -> bool:
    """Whether the op receives a variable, or a body of it captures one."""
    for v in op.inputs:
        if v is not None and isinstance(v.type, RefType):
            return True
    if not op.bodies:
        return False
    bodies = op.bodies.values()
    return any(isinstance(v.type, RefType) for body in bodies for v in body.captures)
