"""Scan: a loop over slices of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.graph import Op, OutputPort
from amanda.types import Sym, TensorType, dims_equal
from amanda_std.engine.annotations import Anything, Body, ShapeArg
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.inference.shape_arguments import (
    UnknownShapeArg,
    may_be_negative,
    normalize_axis,
)
from amanda_std.ops.control.bodies import (
    as_results,
    carried_types,
    result_types,
    stacked_type,
)
from amanda_std.ops.control.loop_gradient import LoopGradient
from amanda_std.ops.control.stacking import empty_rows, final_types, stack_rows
from amanda_std.ops.math.arithmetic import multiply


@primitive()
def scan(
    body: Body, length: ShapeArg = None, *values: Anything, carried: int,
    axes: tuple[int, ...] | None = None, reverse: tuple[bool, ...] | None = None,
    out_axes: tuple[int, ...] | None = None,
    out_reverse: tuple[bool, ...] | None = None,
) -> tuple[Anything, ...]:  # fmt: skip
    """Scan body(*carried, *rows) -> (*carried, *rows) over slices of tensors

    The first `carried` values are the initial carry, the others are scanned: along
    `axes` (default 0), backwards where `reverse`. Results are stacked in the same way,
    by `out_axes` and `out_reverse`. `length`, the number of iterations, is required if
    nothing is scanned."""
    now, xs = values[:carried], values[carried:]
    at, back = one_for_each(axes, len(xs), 0), one_for_each(reverse, len(xs), False)
    sizes = {x.shape[a] for x, a in zip(xs, at, strict=True)}
    sizes |= set() if length is None else {length}
    if len(sizes) != 1:
        raise InvalidTypeError(
            "the scanned values have different lengths",
            expected=length,
            got=sorted(sizes),
        )
    (count,) = sizes
    rows = []
    for i in range(count):
        row = [
            x[(slice(None),) * (a % x.ndim) + (count - 1 - i if r else i,)]
            for x, a, r in zip(xs, at, back, strict=True)
        ]
        outputs = as_results(body(*now, *row))
        now = outputs[:carried]
        rows.append(outputs[carried:])
    if rows:
        return (*now, *_stack_results(rows, out_axes, out_reverse))
    blank = [
        np.zeros(_remove_axis(x.shape, a), x.dtype) for x, a in zip(xs, at, strict=True)
    ]
    empty = empty_rows(body, carried, (*now, *blank))
    to = one_for_each(out_axes, len(empty), 0)
    return (*now, *(np.moveaxis(y, 0, a) for y, a in zip(empty, to, strict=True)))


def one_for_each(
    given: Sequence[Any] | None, count: int, default: Any
) -> tuple[Any, ...]:
    """One setting for each of `count` tensors."""
    if given is None:
        return (default,) * count
    if len(given) != count:
        raise InvalidTypeError(
            "expected one setting for each tensor", expected=count, got=given
        )
    return tuple(given)


def _stack_results(rows: Sequence[Sequence[Any]], axes: Any, reverse: Any) -> list[Any]:
    columns = list(zip(*rows, strict=True))
    to, back = (
        one_for_each(axes, len(columns), 0),
        one_for_each(reverse, len(columns), False),
    )
    parts = zip(columns, to, back, strict=True)
    return [stack_rows(column[:: -1 if r else 1], a) for column, a, r in parts]


def _remove_axis(shape: Sequence[int], axis: int) -> list[int]:
    at = axis % len(shape)
    return [d for i, d in enumerate(shape) if i != at]


def _row_types(xs: Sequence[Any], axes: Any) -> list[TensorType]:
    return [
        TensorType(x.dtype, _remove_axis(x.shape.dims, normalize_axis(a, x.shape.rank)))
        if x.shape.has_rank
        else TensorType(x.dtype)
        for x, a in zip(xs, one_for_each(axes, len(xs), 0), strict=True)
    ]


def _trip_count(length: Any, xs: Sequence[Any], axes: Any) -> Any:
    """Number of iterations: the most specific of the dims."""
    result = None if length is None or isinstance(length, UnknownShapeArg) else length
    result = None if isinstance(result, Sym) and may_be_negative(result) else result
    for x, a in zip(xs, one_for_each(axes, len(xs), 0), strict=True):
        if not x.shape.has_rank:
            continue
        dim = x.shape.dims[normalize_axis(a, x.shape.rank)]
        if result is not None and dims_equal(result, dim) is False:
            raise InvalidTypeError(
                "the scanned values have different lengths", expected=result, got=dim
            )
        if result is None or (isinstance(result, Sym) and isinstance(dim, int)):
            result = dim
    if result is None and length is None and not xs:
        raise InvalidTypeError(
            "length= is required where nothing is scanned", hint="length="
        )
    return Sym.unknown() if result is None else result


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
    outputs = result_types(body, [*kept, *rows])
    count = _trip_count(length, xs, axes)
    outs = outputs[carried:]
    to = one_for_each(out_axes, len(outs), 0)
    stacks = [stacked_type(t, count, a) for t, a in zip(outs, to, strict=True)]
    return [*final_types(init, kept, outputs), *stacks]


@scan.gradient
def _(
    g: Any, op: Op, wanted: Sequence[OutputPort], *, carried: int, axes: Any,
    reverse: Any, out_axes: Any, out_reverse: Any,
) -> Any:  # fmt: skip
    """Scan backwards over the carried values and the gradients."""
    backward = LoopGradient(
        op, op.bodies["body"], g, wanted, count=carried, lead=0, first=1
    )
    xs = op.inputs[1 + carried :]
    result = len(op.outputs) - carried
    backward.outs = list(
        zip(
            one_for_each(out_axes, result, 0),
            one_for_each(out_reverse, result, False),
            strict=True,
        )
    )
    layouts = zip(
        one_for_each(axes, len(xs), 0),
        one_for_each(reverse, len(xs), False),
        strict=True,
    )
    rows = {
        carried + i: (x, layout)
        for i, (x, layout) in enumerate(zip(xs, layouts, strict=True))
    }
    return backward.gradients({}, {}, rows)


@scan.explicit_state
def _(
    values: Any, body: Any, length: Any, *xs: Any, carried: int, **options: Any
) -> Any:
    keys = values.written_by(body)
    step = values.body_on_values(body, keys, carried, carried)
    init = (*xs[:carried], *values.of_keys(keys))
    outputs = scan(
        step, length, *init, *xs[carried:], carried=len(init), **options
    )  # fmt: skip
    return values.take(keys, outputs, carried)


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
    empty = (_add_up, None, start, x[:0])
    yield Sample(empty, [start, x[:0]], {"carried": 1}, smooth=False)
    single = (_add_up, None, array(0, "float32"), array([1, 2], "float32"))
    yield Sample(
        single, [array(3, "float32"), array([2, 6], "float32")], {"carried": 1}
    )


def _add_up(total: Any, x: Any) -> Any:
    total = total + x
    return total, total + total


def _powers(x: Any) -> Any:
    return multiply(x, 2.0), x


def _products(a: Any, b: Any) -> Any:
    return a * b
