"""Conditionals: if and case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda.graph import Op, OutputPort
from amanda_std.engine.annotations import Anything, Bodies, Body, Index, Logical
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Operators, Value
from amanda_std.ops.control.bodies import (
    as_results,
    common_types,
    holds_containers,
    inline,
    result_types,
)
from amanda_std.ops.control.body_gradient import gradient_branch
from amanda_std.ops.math.arithmetic import add, multiply, subtract
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.tensor.creation import zeros
from amanda_std.ops.tensor.shape import reshape


@primitive(name="if")
def if_(
    condition: Logical, then: Body, otherwise: Body, *xs: Anything
) -> tuple[Anything, ...]:
    """Results of `then(*xs)` or `otherwise(*xs)`, chosen by a condition"""
    return as_results((then if np.all(condition) else otherwise)(*xs))


if_.trait(Trait.BRANCHES)
if_.compile_time(lambda op: ("condition",) if holds_containers(op) else ())


@if_.infer
def _(then: Any, otherwise: Any, *xs: Any) -> Any:
    result = [
        ("then", result_types(then, xs)),
        ("otherwise", result_types(otherwise, xs)),
    ]
    return common_types(result)


@if_.bodies
def _(*xs: Any) -> Any:
    return {"then": xs, "otherwise": xs}


@if_.gradient
def _(g: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    """The same choice between bodies that compute gradients."""
    backs = _gradient_branches(op, g, wanted)
    return dict(zip(wanted, if_(_condition_of(op), *backs), strict=True))


def _gradient_branches(
    op: Op, g: Any, wanted: Sequence[OutputPort]
) -> list[Callable[[], Any]]:
    return [gradient_branch(b, op.inputs[1:], g, wanted) for b in op.bodies.values()]


def _condition_of(op: Op) -> Value:
    assert op.inputs[0] is not None
    return Value(op.inputs[0])


@if_.explicit_state
def _(values: Any, condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    keys, count = values.written_by(then, otherwise), len(then.results)
    branches = [values.body_on_values(body, keys, count) for body in (then, otherwise)]
    return values.take(keys, if_(condition, *branches, *xs), count)


@if_.samples
def _() -> Samples:
    for c, expected in ((True, [4.0]), (False, [3.0])):
        args = (array(c, "bool"), double, _add_one, array([2.0]))
        yield Sample(args, [array(expected)])
        both_ = (array(c, "bool"), add, multiply, array([2.0]), array([5.0]))
        yield Sample(both_, [array([7.0 if c else 10.0])])


def _add_one(x: Any) -> Any:
    return add(x, 1.0)


def _square(x: Any) -> Any:
    return multiply(x, x)


@composite
def case(index: Index, branches: Bodies, *xs: Anything) -> tuple[Anything, ...]:
    """Results of the branch with the given index; the last one if out of range"""
    if not isinstance(index, Operators):
        return select_branch(index, branches, *xs)
    first, *others = branches
    if not others:
        return inline(first, xs)
    here = equal(reshape(index, ()), zeros((), dtype=index.dtype))
    outputs: tuple[Any, ...] = if_(
        here,
        lambda: inline(first, xs),
        lambda: case(subtract(index, 1), [_as_function(b) for b in others], *xs),
    )
    return outputs


case.trait(Trait.BRANCHES)
case.compile_time(lambda op: ("index",) if holds_containers(op) else ())


def _as_function(body: Any) -> Callable[..., Any]:
    """A callable that runs a body, when the op itself holds the body."""
    return lambda *xs: inline(body, xs)


def select_branch(index: Any, branches: Sequence[Any], *xs: Any) -> tuple[Any, ...]:
    """Kernel of `case`: select by a number."""
    position = int(np.asarray(index).reshape(()))
    inside = 0 <= position < len(branches)
    return as_results(branches[position if inside else -1](*xs))


@case.infer
def _(branches: Any, *xs: Any) -> Any:
    return common_types(
        [(f"branches{i}", result_types(b, xs)) for i, b in enumerate(branches)]
    )


@case.bodies
def _(*xs: Any) -> Any:
    return {"branches": xs}


@case.gradient
def _(g: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    return dict(
        zip(
            wanted,
            case(_condition_of(op), _gradient_branches(op, g, wanted)),
            strict=True,
        )
    )


@case.samples
def _() -> Samples:
    x = array([3.0, -4.0])
    results = ([6.0, -8.0], [4.0, -3.0], [9.0, 16.0])
    for at, expected in ((0, 0), (1, 1), (2, 2), (3, 2), (-1, 2)):
        position = array(at, "int32" if at else "int64")
        args = (position, (double, _add_one, _square), x)
        yield Sample(args, [array(results[expected])])


def double(x: Any) -> Any:
    return x + x
