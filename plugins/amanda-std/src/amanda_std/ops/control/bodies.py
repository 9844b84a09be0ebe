"""Bodies of ops: what they return, what they keep from round to round, their slopes.

A body is a Python function, a graph, or (while a program runs) something to call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from amanda.errors import InvalidTypeError, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import (
    OptionalType,
    SequenceType,
    Shape,
    Sym,
    TensorType,
    TupleType,
    Type,
    join,
)
from amanda_std.engine.values import (
    UNKNOWN,
    Operators,
    Typed,
    Value,
    is_types_only,
    lift,
    require_tracing,
    trace,
    value_type,
)
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.runtime.containers import join_types, type_of, without_content

_open: list[Graph] = []
"""The functions that are being pasted, each in the one before."""


def many(made: Any) -> tuple[Any, ...]:
    """What a body returns, as a tuple."""
    return tuple(made) if isinstance(made, tuple | list) else (made,)


# -- types ---------------------------------------------------------------------


def result_types(body: Any, types: Sequence[Type]) -> tuple[Type, ...]:
    """The types of what a body returns, for parameters of these types.

    A graph keeps them: they are what it will get."""
    if isinstance(body, Graph):
        _retype(body, types)
        return tuple(UNKNOWN if v is None else value_type(v) for v in body.results)
    if is_types_only():
        given = [Typed(t) if isinstance(t, TensorType) else t for t in types]
        return tuple(map(_type_of, many(body(*given))))
    graph = trace(body, types)
    try:
        return result_types(graph, types)
    finally:
        discard(graph)


def _type_of(value: Any) -> Type:
    """The type of what a function returns: a type, a value of a graph, or an array."""
    if isinstance(value, Operators):
        return value.type
    if isinstance(value, OutputPort):
        return value_type(value)
    return value if isinstance(value, Type) else type_of(value)


def _retype(body: Graph, types: Sequence[Type]) -> None:
    from amanda_std.passes.infer import infer

    if len(types) != len(body.parameters):
        raise InvalidTypeError(
            f"{body.label} gets another number of values than it has parameters",
            expected=len(body.parameters),
            got=len(types),
        )
    changed = False
    for parameter, told in zip(body.parameters, types, strict=True):
        if parameter.type != told and (told != UNKNOWN or parameter.type is None):
            parameter.type = told
            changed = True
    if changed:
        infer(body)


def discard(graph: Graph) -> None:
    """Take a graph apart, so that what it captured has no user in it any more."""
    for i in reversed(range(len(graph.results))):
        graph.remove_result(i)
    for op in reversed(graph):
        graph.remove(op, "typing")


def agreed(branches: Sequence[tuple[str, Sequence[Type]]]) -> list[Type]:
    """The types of which those of every branch are."""
    (first, found), *others = branches
    for name, types in others:
        if len(types) != len(found):
            raise InvalidTypeError(
                "the branches return different numbers of values",
                expected=f"{len(found)} as from {first!r}",
                got=f"{len(types)} from {name!r}",
            )
        found = [both(a, b) for a, b in zip(found, types, strict=True)]
    return list(found)


def both(a: Type, b: Type) -> Type:
    """The narrowest type that both are of, without content where they differ."""
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return join(plain(a), plain(b))
    return join_types([a, b]) if type(a) is type(b) else UNKNOWN


def plain(type: Type) -> Any:
    """The type without content, which another round may change."""
    return without_content(type)


def carried_types(
    body: Any, init: Sequence[Any], before: Sequence[Type], after: Sequence[Type],
    skip: int,
) -> list[Any]:  # fmt: skip
    """The widest types that a body keeps: a dim that changes becomes unknown.

    Each round widens something, and no type can be widened more often than it has
    dims and two times, so there is an end."""
    now: list[Any] = [plain(t) for t in init]
    most = 2 + sum(3 + _dims(t) for t in now)
    for _ in range(most):
        got = result_types(body, [*before, *now, *after])[skip : skip + len(now)]
        if len(got) != len(now):
            raise InvalidTypeError(
                "a body returns what it carries first",
                expected=f"{skip + len(now)} results or more",
                got=skip + len(got),
            )
        wide = [both(a, plain(b)) for a, b in zip(now, got, strict=True)]
        if all(_is_wide(w, n) for w, n in zip(wide, now, strict=True)):
            return now
        now = wide
    return [TensorType(t.dtype) if isinstance(t, TensorType) else t for t in now]


def _dims(type: Any) -> int:
    known = isinstance(type, TensorType) and type.shape.has_rank
    return len(type.shape.dims) if known else 0


def _is_wide(after: Any, before: Any) -> bool:
    """Whether nothing became wider: unknown dims are new ones each time."""
    if not isinstance(after, TensorType) or not isinstance(before, TensorType):
        return bool(after == before)
    if after.dtype != before.dtype or after.shape.has_rank != before.shape.has_rank:
        return False
    if not after.shape.has_rank:
        return True
    if after.shape.rank != before.shape.rank:
        return False
    pairs = zip(after.shape.dims, before.shape.dims, strict=True)
    return all(_is_open(b) or (not _is_open(a)) for a, b in pairs)


def _is_open(dim: Any) -> bool:
    return isinstance(dim, Sym) and dim.is_anonymous


def stacked_type(row: Any, count: Any, axis: int = 0) -> TensorType:
    """The type of rows, `count` of them, along an axis."""
    if not isinstance(row, TensorType):
        raise InvalidTypeError("only tensors are stacked", got=row)
    if not row.shape.has_rank:
        return TensorType(row.dtype)
    dims = list(row.shape.dims)
    at = axis % (len(dims) + 1)
    return TensorType(row.dtype, Shape([*dims[:at], count, *dims[at:]]))


# -- copies ----------------------------------------------------------------------


def holds_containers(op: Op) -> bool:
    """Whether the op or a body of it returns a sequence, an optional or a tuple.

    How many values that holds may differ after each branch and each round."""
    results = (v for body in op.bodies.values() for v in body.results if v is not None)
    containers = SequenceType | OptionalType | TupleType
    return any(isinstance(v.type, containers) for v in (*op.outputs, *results))


def pasted(body: Any, xs: Sequence[Any]) -> tuple[Any, ...]:
    """What a body makes of values: its ops, copied to where ops are being added."""
    if not isinstance(body, Graph):
        return many(body(*xs))
    if body in _open:
        names = " -> ".join(repr(g.name or "?") for g in (*_open, body))
        raise UsageError(
            f"{body.label} calls itself, without an end",
            got=names,
            hint="a loop does what is done again and again: ops.loop, ops.while_",
        )
    into = require_tracing()
    memo: dict[Any, Any] = {}
    made = into.graph.paste(body, [lift(x, into) for x in xs], memo=memo)
    copies = [memo[op] for op in body]
    for copy in copies:
        into.note(copy)
    from amanda_std.passes.infer import infer_ops

    _open.append(body)
    try:
        infer_ops(copies)
    finally:
        _open.pop()
    return tuple(None if port is None else Value(port) for port in made)


def inner_captures(op: Op) -> list[OutputPort]:
    """What the bodies of an op read around them, each value once."""
    found = (v for body in op.bodies.values() for v in body.captures)
    return list(dict.fromkeys(found))


# -- slopes ----------------------------------------------------------------------


def pulled(
    body: Graph, xs: Sequence[Any], seeds: Iterable[Any], wanted: Sequence[OutputPort]
) -> list[Any]:
    """The gradients by some values of what a body makes of xs; None where there is no.

    `seeds`: the gradients of what the body returns, None for some. The body is run
    anew: what it computed before is not kept."""
    from amanda_std.autodiff.gradients import backpropagate

    results = pasted(body, xs)
    given: dict[OutputPort, Any] = {}
    for result, seed in zip(results, seeds, strict=True):
        if seed is not None and result is not None:
            old = given.get(result.port)
            given[result.port] = seed if old is None else old + seed
    return backpropagate(require_tracing().graph, given, wanted)


def filled(gradient: Any, of: Any) -> Any:
    """A gradient; zeros where there is none."""
    return zeros_like(of) if gradient is None else gradient


def branch_back(
    body: Graph, xs: Sequence[OutputPort | None], g: Sequence[Any],
    wanted: Sequence[OutputPort],
) -> Callable[[], list[Any]]:  # fmt: skip
    """A branch that gives gradients, from one that gives values."""

    def back() -> list[Any]:
        given = [None if x is None else Value(x) for x in xs]
        made = pulled(body, given, g, wanted)
        return [filled(m, Value(p)) for m, p in zip(made, wanted, strict=True)]

    return back
