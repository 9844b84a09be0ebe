"""Ops that hold graphs: choices, loops, calls. Bodies may read values around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import Sym, TensorType, Type, same
from amanda_std.engine.annotations import Anything, Bodies, Body, Host, Index, Logical
from amanda_std.engine.operation import Operation, composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import Operators, Value
from amanda_std.inference.shape_arguments import Open, index_of, is_data
from amanda_std.ops._late import late
from amanda_std.ops.control.bodies import (
    agreed,
    both,
    branch_back,
    carried_types,
    many,
    pasted,
    plain,
    result_types,
    stacked_type,
)
from amanda_std.ops.control.loop_gradient import Rounds

_SCALAR_INT = TensorType("int64", [])
_SCALAR_BOOL = TensorType("bool", [])


# -- choices -------------------------------------------------------------------


@primitive(name="if")
def if_(
    condition: Logical, then: Body, otherwise: Body, *xs: Anything
) -> tuple[Anything, ...]:
    """The results of one of two bodies, which get xs"""
    return many((then if np.all(condition) else otherwise)(*xs))


@if_.infer
def _(then: Any, otherwise: Any, *xs: Any) -> Any:
    found = [
        ("then", result_types(then, xs)),
        ("otherwise", result_types(otherwise, xs)),
    ]
    return agreed(found)


@if_.bodies
def _(*xs: Any) -> Any:
    return {"then": xs, "otherwise": xs}


@if_.gradient
def _(g: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    """The same choice, between bodies that give gradients."""
    backs = _backs(op, g, wanted)
    return dict(zip(wanted, if_(_first(op), *backs), strict=True))


def _backs(op: Op, g: Any, wanted: Sequence[OutputPort]) -> list[Callable[[], Any]]:
    return [branch_back(b, op.inputs[1:], g, wanted) for b in op.bodies.values()]


def _first(op: Op) -> Value:
    assert op.inputs[0] is not None
    return Value(op.inputs[0])


@if_.samples
def _() -> Samples:
    for c, want in ((True, [4.0]), (False, [3.0])):
        args = (array(c, "bool"), _double, _add_one, array([2.0]))
        yield Sample(args, [array(want)])
        both_ = (array(c, "bool"), late.add, late.multiply, array([2.0]), array([5.0]))
        yield Sample(both_, [array([7.0 if c else 10.0])])


def _double(x: Any) -> Any:
    return x + x


def _add_one(x: Any) -> Any:
    return late.add(x, 1.0)


def _square(x: Any) -> Any:
    return late.multiply(x, x)


@composite
def case(index: Index, branches: Bodies, *xs: Anything) -> tuple[Anything, ...]:
    """The results of the body at a place of a list; of the last, if there is no such"""
    if not isinstance(index, Operators):
        return chosen(index, branches, *xs)
    first, *others = branches
    if not others:
        return pasted(first, xs)
    here = late.equal(late.reshape(index, ()), late.zeros((), dtype=index.dtype))
    made: tuple[Any, ...] = if_(
        here,
        lambda: pasted(first, xs),
        lambda: case(late.subtract(index, 1), [_free(b) for b in others], *xs),
    )
    return made


def _free(body: Any) -> Callable[..., Any]:
    """A function that does what a body does: an op holds the body itself."""
    return lambda *xs: pasted(body, xs)


def chosen(index: Any, branches: Sequence[Any], *xs: Any) -> tuple[Any, ...]:
    """The kernel of `case`: a number chooses."""
    place = int(np.asarray(index).reshape(()))
    inside = 0 <= place < len(branches)
    return many(branches[place if inside else -1](*xs))


@case.infer
def _(branches: Any, *xs: Any) -> Any:
    return agreed(
        [(f"branches{i}", result_types(b, xs)) for i, b in enumerate(branches)]
    )


@case.bodies
def _(*xs: Any) -> Any:
    return {"branches": xs}


@case.gradient
def _(g: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    return dict(zip(wanted, case(_first(op), _backs(op, g, wanted)), strict=True))


@case.samples
def _() -> Samples:
    x = array([3.0, -4.0])
    results = ([6.0, -8.0], [4.0, -3.0], [9.0, 16.0])
    for at, want in ((0, 0), (1, 1), (2, 2), (3, 2), (-1, 2)):
        place = array(at, "int32" if at else "int64")
        args = (place, (_double, _add_one, _square), x)
        yield Sample(args, [array(results[want])])


# -- rounds until a condition fails ----------------------------------------------


@primitive()
def loop(
    trips: Index | None, condition: Logical | None, body: Body, *init: Anything
) -> tuple[Anything, ...]:
    """Rounds of body(round, condition, *carried) -> (condition, *carried, *scanned)

    At most `trips`, while the condition holds. Returns what was carried last, then what
    was scanned, stacked along a new first axis."""
    most = None if trips is None else int(np.asarray(trips).reshape(()))
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
        return (*now, *map(_stacked, zip(*rows, strict=True)))
    start = (np.asarray(0, "int64"), np.asarray(True), *init)
    return (*now, *_no_rows(body, len(init) + 1, start))


def _stacked(column: Sequence[Any], axis: int = 0) -> Any:
    shapes = {np.shape(row) for row in column}
    if len(shapes) > 1:
        raise InvalidTypeError(
            "rows of one shape are stacked",
            expected=f"{column[0].shape} in every round",
            got=", ".join(map(str, sorted(shapes))),
            hint="gradients of a loop stack what it carries; pad it to one shape",
        )
    return np.stack(column, axis)


def _no_rows(body: Any, skip: int, start: Sequence[Any]) -> list[Any]:
    """Scans of no round: of the types that the body tells, else of what it would make.

    A dim that only a run tells is looked up in a round that counts for nothing."""
    known = list(getattr(body, "result_types", ()))[skip:]
    if not known or any(not _is_static(t) for t in known):
        made = [np.asarray(row) for row in many(body(*start))[skip:]]
        return [np.zeros((0, *row.shape), row.dtype) for row in made]
    return [np.zeros((0, *map(int, t.shape)), t.dtype.numpy) for t in known]


def _is_static(type: Any) -> bool:
    return isinstance(type, TensorType) and type.shape.is_static


@loop.bodies
def _(body: Any, *init: Any) -> Any:
    before = (_SCALAR_INT, _SCALAR_BOOL)
    return {"body": [*before, *carried_types(body, init, before, (), 1)]}


@loop.infer
def _(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    before = (_SCALAR_INT, _SCALAR_BOOL)
    kept = carried_types(body, init, before, (), 1)
    _, *rest = result_types(body, [*before, *kept])
    count: Any = Sym.unknown()
    if condition is None and trips is not None and isinstance(trips.value, int | Sym):
        count = trips.value if _always(body) and not is_data(trips.value) else count
    rows = [stacked_type(t, count) for t in rest[len(init) :]]
    return [*_finals(init, kept, rest), *rows]


def _finals(
    init: Sequence[Type], kept: Sequence[Type], after: Sequence[Type]
) -> list[Type]:
    """What is carried last: the start, where there was no round, or from a round."""
    return [
        both(both(k, plain(a)), plain(i))
        for i, k, a in zip(init, kept, after, strict=False)
    ]


def _always(body: Any) -> bool:
    """Whether a body hands on its condition as it is, or says true."""
    if not isinstance(body, Graph):
        return False
    flag = body.results[0]
    known = None if flag is None else getattr(flag.type, "value", None)
    return flag is body.parameters[1] or known is True


@loop.gradient
def _(g: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    """The rounds that were made, from the last to the first, with what was carried."""
    body, count = op.bodies["body"], len(op.inputs) - 2
    rounds = Rounds(op, body, g, wanted, count=count, lead=1, first=2)
    number = rounds.remembered(0)
    return rounds.back({0: number}, {1: array(True, "bool")}, {})


@loop.samples
def _() -> Samples:
    yes = array(True, "bool")
    args = (array(3, "int64"), yes, _grow, array([1.0]))
    yield Sample(args, [array([8.0]), array([[2.0], [4.0], [8.0]])])
    short = (array(9, "int64"), yes, _until_four, array([1.25]))
    yield Sample(short, [array([5.0])])
    never = (array(3, "int64"), array(False, "bool"), _until_four, array([1.0]))
    yield Sample(never, [array([1.0])])
    none = (array(0, "int64"), yes, _grow, array([1.0, 2.0]))
    yield Sample(none, [array([1.0, 2.0]), np.zeros((0, 2))], smooth=False)
    endless = (None, yes, _until_four, array([1.25]))
    yield Sample(endless, [array([5.0])])
    # 1 * 0 + 3, then 3 * 1 + 3, then 6 * 2 + 3
    counted = (array(3, "int64"), None, _times_round, array(1.0), array(3.0))
    rows = [array(15.0), array(3.0), array([1.0, 3.0, 6.0])]
    yield Sample(counted, rows)


def _grow(_: Any, condition: Any, x: Any) -> Any:
    return condition, x + x, x + x


def _until_four(_: Any, __: Any, x: Any) -> Any:
    return late.all(late.less(x + x, 4.0)), x + x


def _times_round(i: Any, condition: Any, x: Any, step: Any) -> Any:
    return condition, x * late.astype(i, dtype="float64") + step, step, x


def _while(
    condition: Body, body: Body, *init: Anything, max_trips: int | None = None
) -> tuple[Anything, ...]:
    """body(*carried) -> carried, as long as condition(*carried) holds

    At most `max_trips` times where that is told: then there are gradients."""

    def once(_: Any, __: Any, *now: Any) -> Any:
        made = pasted(body, now)
        return (pasted(condition, made)[0], *made)

    go = late.all(pasted(condition, init)[0])
    most = None if max_trips is None else np.asarray(max_trips, "int64")
    made: tuple[Any, ...] = late.loop(most, go, once, *init)
    return made


while_ = Operation(_while, composite=True, name="while")


@while_.bodies
def _(body: Any, *init: Any) -> Any:
    kept = carried_types(body, init, (), (), 0)
    return {"condition": kept, "body": kept}


@while_.infer
def _(condition: Any, body: Any, *init: Any) -> Any:
    kept = carried_types(body, init, (), (), 0)
    if isinstance(condition, Graph):
        result_types(condition, kept)
    return _finals(init, kept, result_types(body, kept))


while_.not_differentiable(
    "an unbounded loop keeps no trace of its rounds; with max_trips= it does",
    unless="max_trips",
)


@while_.samples
def _() -> Samples:
    def below(x: Any) -> Any:
        return late.all(late.less(x, 5.0))

    yield Sample((below, _double, array([1.0, 2.0])), [array([4.0, 8.0])])
    yield Sample((below, _double, array(9.0)), [array(9.0)])
    for most, last in ((0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0), (9, 8.0)):
        now = array([last, last], "float32")
        start = array([1.0, 1.0], "float32")
        yield Sample((below, _double, start), [now], {"max_trips": most})


# -- rounds over rows ------------------------------------------------------------


@primitive()
def scan(
    body: Body, length: Host = None, *values: Anything, carried: int,
    axes: tuple[int, ...] | None = None, reverse: tuple[bool, ...] | None = None,
    out_axes: tuple[int, ...] | None = None,
    out_reverse: tuple[bool, ...] | None = None,
) -> tuple[Anything, ...]:  # fmt: skip
    """Rounds of body(*carried, *rows) -> (*carried, *rows), for every row of tensors

    The first `carried` values start what is carried, the others are scanned: along
    `axes` (0), from the end where `reverse` says so. What the rounds give is stacked in
    the same way, by `out_axes` and `out_reverse`. `length`, how many rounds there are,
    has to be told where nothing is scanned."""
    now, xs = values[:carried], values[carried:]
    at, back = each(axes, len(xs), 0), each(reverse, len(xs), False)
    sizes = {x.shape[a] for x, a in zip(xs, at, strict=True)}
    sizes |= set() if length is None else {length}
    if len(sizes) != 1:
        raise InvalidTypeError(
            "what is scanned has one length", expected=length, got=sorted(sizes)
        )
    (count,) = sizes
    rows = []
    for i in range(count):
        row = [
            x[(slice(None),) * (a % x.ndim) + (count - 1 - i if r else i,)]
            for x, a, r in zip(xs, at, back, strict=True)
        ]
        made = many(body(*now, *row))
        now = made[:carried]
        rows.append(made[carried:])
    if rows:
        return (*now, *_placed(rows, out_axes, out_reverse))
    blank = [
        np.zeros(_without(x.shape, a), x.dtype) for x, a in zip(xs, at, strict=True)
    ]
    empty = _no_rows(body, carried, (*now, *blank))
    to = each(out_axes, len(empty), 0)
    return (*now, *(np.moveaxis(y, 0, a) for y, a in zip(empty, to, strict=True)))


def each(told: Any, count: int, default: Any) -> tuple[Any, ...]:
    """One setting for each of `count` tensors."""
    if told is None:
        return (default,) * count
    if len(told) != count:
        raise InvalidTypeError("a setting for each tensor", expected=count, got=told)
    return tuple(told)


def _placed(rows: Sequence[Sequence[Any]], axes: Any, reverse: Any) -> list[Any]:
    columns = list(zip(*rows, strict=True))
    to, back = each(axes, len(columns), 0), each(reverse, len(columns), False)
    parts = zip(columns, to, back, strict=True)
    return [_stacked(column[:: -1 if r else 1], a) for column, a, r in parts]


def _without(shape: Sequence[int], axis: int) -> list[int]:
    at = axis % len(shape)
    return [d for i, d in enumerate(shape) if i != at]


def _row_types(xs: Sequence[Any], axes: Any) -> list[TensorType]:
    return [
        TensorType(x.dtype, _without(x.shape.dims, index_of(a, x.shape.rank)))
        if x.shape.has_rank
        else TensorType(x.dtype)
        for x, a in zip(xs, each(axes, len(xs), 0), strict=True)
    ]


def _count(length: Any, xs: Sequence[Any], axes: Any) -> Any:
    """How many rounds there are: the dim that says most."""
    found = None if length is None or isinstance(length, Open) else length
    found = None if isinstance(found, Sym) and is_data(found) else found
    for x, a in zip(xs, each(axes, len(xs), 0), strict=True):
        if not x.shape.has_rank:
            continue
        dim = x.shape.dims[index_of(a, x.shape.rank)]
        if found is not None and same(found, dim) is False:
            raise InvalidTypeError(
                "what is scanned has one length", expected=found, got=dim
            )
        if found is None or (isinstance(found, Sym) and isinstance(dim, int)):
            found = dim
    if found is None and length is None and not xs:
        raise InvalidTypeError(
            "nothing is scanned, so the number of rounds has to be told", hint="length="
        )
    return Sym.unknown() if found is None else found


@scan.bodies
def _(body: Any, *values: Any, carried: int, axes: Any) -> Any:
    rows = _row_types(values[carried:], axes)
    return {"body": [*carried_types(body, values[:carried], (), rows, 0), *rows]}


@scan.infer
def _(
    body: Any, length: Any, *values: Any, carried: int, axes: Any, out_axes: Any
) -> Any:
    init, xs = values[:carried], values[carried:]
    rows = _row_types(xs, axes)
    kept = carried_types(body, init, (), rows, 0)
    made = result_types(body, [*kept, *rows])
    count = _count(length, xs, axes)
    outs = made[carried:]
    to = each(out_axes, len(outs), 0)
    stacks = [stacked_type(t, count, a) for t, a in zip(outs, to, strict=True)]
    return [*_finals(init, kept, made), *stacks]


@scan.gradient
def _(
    g: Any, op: Op, wanted: Sequence[OutputPort], *, carried: int, axes: Any,
    reverse: Any, out_axes: Any, out_reverse: Any,
) -> Any:  # fmt: skip
    """The same rows from the other end, with what was carried and the gradients."""
    rounds = Rounds(op, op.bodies["body"], g, wanted, count=carried, lead=0, first=1)
    xs = op.inputs[1 + carried :]
    found = len(op.outputs) - carried
    rounds.outs = list(
        zip(each(out_axes, found, 0), each(out_reverse, found, False), strict=True)
    )
    ways = zip(each(axes, len(xs), 0), each(reverse, len(xs), False), strict=True)
    rows = {
        carried + i: (x, way) for i, (x, way) in enumerate(zip(xs, ways, strict=True))
    }
    return rounds.back({}, {}, rows)


@scan.samples
def _() -> Samples:
    x = ramp(4)
    sums = array([float(sum(x[: i + 1])) for i in range(4)])
    start = array(0.0)
    args = (_add_up, None, start, x)
    yield Sample(args, [sums[3], sums * 2.0], {"carried": 1})
    back = array([float(sum(x[i:])) for i in range(4)])
    flags: dict[str, Any] = {"reverse": (True,), "out_reverse": (True,)}
    yield Sample(args, [back[0], back * 2.0], {"carried": 1, **flags})
    wide = ramp(2, 3)
    from_side = [array([float(sum(row)) for row in wide]), None]
    from_side[1] = np.cumsum(wide, 1) * 2.0
    sideways: dict[str, Any] = {"carried": 1, "axes": (-1,), "out_axes": (1,)}
    yield Sample((_add_up, None, array([0.0, 0.0]), wide), from_side, sideways)
    nothing = (_add_up, None, array([0.0, 1.0]), np.zeros((2, 0)))
    yield Sample(nothing, [array([0.0, 1.0]), np.zeros((2, 0))], sideways, smooth=False)
    yield Sample((_powers, 3, array(2.0)), [array(16.0), array([2.0, 4, 8])],
                 {"carried": 1})  # fmt: skip
    pairs = (_products, None, x, x[::-1].copy())
    products = array([float(a * b) for a, b in zip(x, x[::-1], strict=True)])
    yield Sample(pairs, [products], {"carried": 0})
    none = (_add_up, None, start, x[:0])
    yield Sample(none, [start, x[:0]], {"carried": 1}, smooth=False)
    single = (_add_up, None, array(0, "float32"), array([1, 2], "float32"))
    yield Sample(
        single, [array(3, "float32"), array([2, 6], "float32")], {"carried": 1}
    )


def _add_up(total: Any, x: Any) -> Any:
    total = total + x
    return total, total + total


def _powers(x: Any) -> Any:
    return late.multiply(x, 2.0), x


def _products(a: Any, b: Any) -> Any:
    return a * b
