"""Ops that hold graphs: a choice, and loops. Bodies may read values around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.graph import Graph
from amanda.types import Shape, Sym, TensorType, Type, join
from amanda_std.kinds import Array, Body, Index, Logical, Other
from amanda_std.operation import primitive
from amanda_std.ops._late import late
from amanda_std.samples import Sample, Samples, array
from amanda_std.values import UNKNOWN, port_type, trace

_SCALAR_INT = TensorType("int64", [])
_SCALAR_BOOL = TensorType("bool", [])
_NOT_YET = "gradients through bodies are not there yet"


def many(made: Any) -> tuple[Any, ...]:
    """What a body returns, as a tuple."""
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def result_types(body: Any, types: Sequence[Type]) -> tuple[Type, ...]:
    """The types of what a body returns, for parameters of these types.

    A graph keeps them: they are what it will get."""
    if isinstance(body, Graph):
        _retype(body, types)
        return tuple(UNKNOWN if v is None else port_type(v) for v in body.results)
    graph = trace(body, types)
    try:
        return result_types(graph, types)
    finally:
        _discard(graph)


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


def _discard(graph: Graph) -> None:
    """Take a graph apart, so that what it captured has no user in it any more."""
    for i in reversed(range(len(graph.results))):
        graph.remove_result(i)
    for op in reversed(graph):
        graph.remove(op, "typing")


def _both(a: Sequence[Type], b: Sequence[Type]) -> list[Type]:
    if len(a) != len(b):
        raise InvalidTypeError(
            "the branches return different numbers of values",
            expected=f"{len(a)} as from 'then'", got=f"{len(b)} from 'otherwise'",
        )  # fmt: skip
    return [_joined(x, y) for x, y in zip(a, b, strict=True)]


def _joined(a: Type, b: Type) -> Type:
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a if a == b else join(plain(a), plain(b))
    return a if a == b else UNKNOWN


def plain(type: TensorType) -> TensorType:
    """The type without content, which another round may change."""
    return TensorType(type.dtype, type.shape, type.axes)


@primitive(name="if")
def if_(
    condition: Logical, then: Body, otherwise: Body, *xs: Other
) -> tuple[Array, ...]:
    """The results of one of two bodies, which get xs"""
    return many((then if np.all(condition) else otherwise)(*xs))


@if_.infer
def _(then: Any, otherwise: Any, *xs: Any) -> Any:
    return _both(result_types(then, xs), result_types(otherwise, xs))


@if_.bodies
def _(*xs: Any) -> Any:
    return {"then": xs, "otherwise": xs}


if_.not_differentiable(_NOT_YET)


@if_.samples
def _() -> Samples:
    for c, want in ((True, [4.0]), (False, [3.0])):
        args = (array(c, "bool"), _double, _add_one, array([2.0]))
        yield Sample(args, [array(want)], smooth=False)


def _double(x: Any) -> Any:
    return x + x


def _add_one(x: Any) -> Any:
    return late.add(x, 1.0)


# -- loops ---------------------------------------------------------------------


def carried(
    body: Any, init: Sequence[Any], before: Sequence[Type], skip: int
) -> list[Any]:
    """The widest types that a body keeps: a dim that changes becomes unknown."""
    now: list[Any] = [plain(t) if isinstance(t, TensorType) else t for t in init]
    for _ in range(4):
        after = result_types(body, [*before, *now])[skip : skip + len(now)]
        wide = [_joined(a, b) for a, b in zip(now, after, strict=True)]
        if all(_is_wide(w, n) for w, n in zip(wide, now, strict=True)):
            return now
        now = wide
    return [TensorType(t.dtype) if isinstance(t, TensorType) else t for t in now]


def _is_wide(after: Any, before: Any) -> bool:
    """Whether nothing became wider: unknown dims are new ones each time."""
    if not isinstance(after, TensorType) or not isinstance(before, TensorType):
        return bool(after == before)
    if after.dtype != before.dtype or after.shape.has_rank != before.shape.has_rank:
        return False
    if not after.shape.has_rank:
        return True
    pairs = zip(after.shape.dims, before.shape.dims, strict=True)
    return all(_open(b) or (not _open(a)) for a, b in pairs)


def _open(dim: Any) -> bool:
    return isinstance(dim, Sym) and dim.is_anonymous


@primitive()
def loop(
    trips: Index | None, condition: Logical | None, body: Body, *init: Other
) -> tuple[Array, ...]:
    """Rounds of body(round, condition, *carried) -> (condition, *carried, *scanned)

    At most `trips`, while the condition holds. Returns what was carried last, then what
    was scanned, stacked along a new first axis."""
    most = None if trips is None else int(trips)
    go = condition is None or bool(np.all(condition))
    now: tuple[Any, ...] = init
    rows: list[tuple[Any, ...]] = []
    done = 0
    while go and (most is None or done < most):
        flag, *rest = many(body(np.asarray(done, "int64"), np.asarray(go), *now))
        now, row = tuple(rest[: len(init)]), tuple(rest[len(init) :])
        rows.append(row)
        go = bool(np.all(flag))
        done += 1
    if rows:
        return (*now, *(np.stack(column) for column in zip(*rows, strict=True)))
    return (*now, *_no_rows(body, len(init)))


def _no_rows(body: Any, count: int) -> list[Any]:
    """Scans of no round, of the types that the body tells."""
    found = []
    for t in getattr(body, "result_types", ())[count + 1 :]:
        dims = t.shape.dims if t.shape.has_rank else ()
        sizes = [d if isinstance(d, int) else 0 for d in dims]
        found.append(np.zeros((0, *sizes), t.dtype.numpy))
    return found


@loop.bodies
def _(body: Any, *init: Any) -> Any:
    before = (_SCALAR_INT, _SCALAR_BOOL)
    return {"body": [*before, *carried(body, init, before, 1)]}


@loop.infer
def _(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    before = (_SCALAR_INT, _SCALAR_BOOL)
    kept = carried(body, init, before, 1)
    _, *rest = result_types(body, [*before, *kept])
    finals = [
        _joined(_joined(k, a), plain(i) if isinstance(i, TensorType) else i)
        for k, a, i in zip(kept, rest, init, strict=False)
    ]
    count: Any = Sym.unknown()
    if condition is None and trips is not None and isinstance(trips.value, int | Sym):
        count = trips.value if _always(body) else count
    return [*finals, *(_scanned(t, count) for t in rest[len(init) :])]


def _always(body: Any) -> bool:
    """Whether a body hands on its condition as it is, or says true."""
    if not isinstance(body, Graph):
        return False
    flag = body.results[0]
    known = None if flag is None else port_type(flag).value
    return flag is body.parameters[1] or known is True


def _scanned(t: Any, count: Any) -> TensorType:
    shape = Shape([count, *t.shape.dims]) if t.shape.has_rank else Shape(None)
    return TensorType(t.dtype, shape)


loop.not_differentiable(_NOT_YET)


@loop.samples
def _() -> Samples:
    yes = array(True, "bool")
    args = (array(3, "int64"), yes, _grow, array([1.0]))
    yield Sample(args, [array([8.0]), array([[2.0], [4.0], [8.0]])], smooth=False)
    short = (array(9, "int64"), yes, _until_four, array([1.0]))
    yield Sample(short, [array([4.0])], smooth=False)
    never = (array(3, "int64"), array(False, "bool"), _until_four, array([1.0]))
    yield Sample(never, [array([1.0])], smooth=False)
    endless = (None, yes, _until_four, array([1.0]))
    yield Sample(endless, [array([4.0])], smooth=False)


def _grow(_: Any, condition: Any, x: Any) -> Any:
    return condition, x + x, x + x


def _until_four(_: Any, __: Any, x: Any) -> Any:
    return late.all(late.less(x + x, 4.0)), x + x


@primitive(name="while")
def while_(condition: Body, body: Body, *init: Other) -> tuple[Array, ...]:
    """body(*carried) -> carried, as long as condition(*carried) holds"""
    now = init
    while np.all(many(condition(*now))[0]):
        now = many(body(*now))
    return now


@while_.bodies
def _(body: Any, *init: Any) -> Any:
    kept = carried(body, init, (), 0)
    return {"condition": kept, "body": kept}


@while_.infer
def _(body: Any, *init: Any) -> Any:
    kept = carried(body, init, (), 0)
    rest = result_types(body, kept)
    return [
        _joined(_joined(k, a), plain(i))
        for k, a, i in zip(kept, rest, init, strict=True)
    ]


while_.not_differentiable("an unbounded loop keeps no trace of its rounds")


@while_.samples
def _() -> Samples:
    def below(x: Any) -> Any:
        return late.all(late.less(x, 5.0))

    yield Sample((below, _double, array([1.0, 2.0])), [array([4.0, 8.0])], smooth=False)
    yield Sample((below, _double, array(9.0)), [array(9.0)], smooth=False)
