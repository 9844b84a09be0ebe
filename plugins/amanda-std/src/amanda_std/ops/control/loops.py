"""Loops: loop (for) and while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.types import Sym, TensorType
from amanda_std.engine.annotations import Anything, Body, Index, Logical
from amanda_std.engine.operation import Operation, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.inference.shape_arguments import may_be_negative
from amanda_std.ops.control.bodies import (
    as_results,
    carried_types,
    holds_containers,
    inline,
    result_types,
    stacked_type,
)
from amanda_std.ops.control.conditionals import double
from amanda_std.ops.control.loop_gradient import LoopGradient
from amanda_std.ops.control.stacking import empty_rows, final_types, stack_rows
from amanda_std.ops.math.comparison import less
from amanda_std.ops.math.reduction import all_
from amanda_std.ops.tensor.shape import astype

_SCALAR_INT = TensorType("int64", [])


_SCALAR_BOOL = TensorType("bool", [])


@primitive()
def loop(
    trips: Index | None, condition: Logical | None, body: Body, *init: Anything
) -> tuple[Anything, ...]:
    """Iterate body(i, condition, *carried) -> (condition, *carried, *scanned)

    At most `trips` iterations, while the condition holds. Returns the final carried
    values, then the scanned ones, stacked along a new first axis."""
    limit = None if trips is None else int(np.asarray(trips).reshape(()))
    running = condition is None or bool(np.all(condition))
    now: tuple[Any, ...] = init
    rows: list[tuple[Any, ...]] = []
    done = 0
    while running and (limit is None or done < limit):
        flag, *rest = as_results(
            body(np.asarray(done, "int64"), np.asarray(running), *now)
        )
        now, row = tuple(rest[: len(init)]), tuple(rest[len(init) :])
        rows.append(row)
        running = bool(np.all(flag))
        done += 1
    if rows:
        return (*now, *map(stack_rows, zip(*rows, strict=True)))
    start = (np.asarray(0, "int64"), np.asarray(True), *init)
    return (*now, *empty_rows(body, len(init) + 1, start))


@loop.compile_time
def _(op: Op) -> Sequence[str]:
    """The number of iterations, if it decides a shape or the content of containers."""
    stacks = len(op.outputs) > len(op.inputs) - 2
    return ("trips", "condition") if stacks or holds_containers(op) else ()


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
        count = (
            trips.value
            if _is_always_true(body) and not may_be_negative(trips.value)
            else count
        )
    rows = [stacked_type(t, count) for t in rest[len(init) :]]
    return [*final_types(init, kept, rest), *rows]


def _is_always_true(body: Any) -> bool:
    """Whether the condition is never false: passed through, or constant true."""
    if not isinstance(body, Graph):
        return False
    flag = body.results[0]
    known = None if flag is None else getattr(flag.type, "value", None)
    return flag is body.parameters[1] or known is True


@loop.gradient
def _(g: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    """Iterate backwards over the stacked carried values."""
    body, count = op.bodies["body"], len(op.inputs) - 2
    backward = LoopGradient(op, body, g, wanted, count=count, lead=1, first=2)
    number = backward.stack_parameter(0)
    return backward.gradients({0: number}, {1: array(True, "bool")}, {})


@loop.explicit_state
def _(values: Any, trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    keys, count = values.written_by(body), len(init)
    iterate = values.body_on_values(body, keys, 1 + count, 2 + count)
    outputs = loop(trips, condition, iterate, *init, *values.of_keys(keys))
    return values.take(keys, outputs, count)


@loop.samples
def _() -> Samples:
    yes = array(True, "bool")
    args = (array(3, "int64"), yes, _grow, array([1.0]))
    yield Sample(args, [array([8.0]), array([[2.0], [4.0], [8.0]])])
    short = (array(9, "int64"), yes, _until_four, array([1.25]))
    yield Sample(short, [array([5.0])])
    never = (array(3, "int64"), array(False, "bool"), _until_four, array([1.0]))
    yield Sample(never, [array([1.0])])
    empty = (array(0, "int64"), yes, _grow, array([1.0, 2.0]))
    yield Sample(empty, [array([1.0, 2.0]), np.zeros((0, 2))], smooth=False)
    endless = (None, yes, _until_four, array([1.25]))
    yield Sample(endless, [array([5.0])])
    # 1 * 0 + 3, then 3 * 1 + 3, then 6 * 2 + 3
    counted = (array(3, "int64"), None, _times_round, array(1.0), array(3.0))
    rows = [array(15.0), array(3.0), array([1.0, 3.0, 6.0])]
    yield Sample(counted, rows)


def _grow(_: Any, condition: Any, x: Any) -> Any:
    return condition, x + x, x + x


def _until_four(_: Any, __: Any, x: Any) -> Any:
    return all_(less(x + x, 4.0)), x + x


def _times_round(i: Any, condition: Any, x: Any, step: Any) -> Any:
    return condition, x * astype(i, dtype="float64") + step, step, x


def _while(
    condition: Body, body: Body, *init: Anything, max_trips: int | None = None
) -> tuple[Anything, ...]:
    """Iterate body(*carried) -> carried, while condition(*carried) holds

    At most `max_trips` iterations, if given; then it is differentiable."""

    def iterate(_: Any, __: Any, *now: Any) -> Any:
        outputs = inline(body, now)
        return (inline(condition, outputs)[0], *outputs)

    running = all_(inline(condition, init)[0])
    limit = None if max_trips is None else np.asarray(max_trips, "int64")
    outputs: tuple[Any, ...] = loop(limit, running, iterate, *init)
    return outputs


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
    return final_types(init, kept, result_types(body, kept))


while_.not_differentiable(
    "an unbounded loop stores no carried values; set max_trips=",
    unless="max_trips",
)


@while_.samples
def _() -> Samples:
    def below(x: Any) -> Any:
        return all_(less(x, 5.0))

    yield Sample((below, double, array([1.0, 2.0])), [array([4.0, 8.0])])
    yield Sample((below, double, array(9.0)), [array(9.0)])
    for limit, last in ((0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0), (9, 8.0)):
        now = array([last, last], "float32")
        start = array([1.0, 1.0], "float32")
        yield Sample((below, double, start), [now], {"max_trips": limit})
