"""Cumulative (scan) ops along an axis: sum, product, maximum, minimum, logsumexp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Number, Real, RealFloating, ShapeArg
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.control.scan import scan
from amanda_std.ops.math.arithmetic import maximum, multiply, where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.elementary import exp, log
from amanda_std.ops.math.reduction import accumulation_type, sum_
from amanda_std.ops.tensor.creation import arange, zeros_like
from amanda_std.ops.tensor.scatter import scatter_elements
from amanda_std.ops.tensor.shape import reshape


def _flip_if(np_: Any, x: Any, axis: int, reverse: bool) -> Any:
    return np_.flip(x, axis=axis) if reverse else x


def _shift_by_one(np_: Any, y: Any, axis: int, first: Any) -> Any:
    """Shift elements by one position along an axis and put `first` at the start."""
    at = [slice(None)] * y.ndim
    at[axis] = slice(0, 1)
    head = np_.full_like(y[tuple(at)], first)
    at[axis] = slice(0, -1)
    return np_.concat([head, y[tuple(at)]], axis=axis)


def _scan(
    x: Any, axis: int, exclusive: bool, reverse: bool, function: Any, first: Any
) -> Any:
    np_ = xp(x)
    if x.shape[axis] == 0:
        return x
    y = function(np_, _flip_if(np_, x, axis, reverse))
    if exclusive:
        y = _shift_by_one(np_, y, axis, first)
    return _flip_if(np_, y, axis, reverse)


@primitive(shape=shapes.same_as_first)
def cumulative_sum(
    x: Number, axis: ShapeArg = 0, *, exclusive: bool = False, reverse: bool = False
) -> Number:
    """Cumulative sum along an axis

    With `exclusive`, of the preceding elements only, from zero."""

    def run(np_: Any, x: Any) -> Any:
        return np_.cumsum(x, axis=axis, dtype=accumulation_type(x)).astype(x.dtype)

    return _scan(x, axis, exclusive, reverse, run, 0)


cumulative_sum.trait(Trait.PARTWISE)


@cumulative_sum.gradient
def _(g: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    return [cumulative_sum(g, axis, exclusive=exclusive, reverse=not reverse)]


@primitive(shape=shapes.same_as_first)
def cumulative_prod(
    x: Number, axis: ShapeArg = 0, *, exclusive: bool = False, reverse: bool = False
) -> Number:
    """Cumulative product along an axis"""

    def run(np_: Any, x: Any) -> Any:
        return np_.cumulative_prod(x, axis=axis, dtype=x.dtype)

    return _scan(x, axis, exclusive, reverse, run, 1)


@cumulative_prod.gradient
def _(g: Any, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Run backwards one factor at a time: no division, so zeros are allowed.

    The carry is the gradient of the product of all preceding factors."""
    at = normalize_axis(axis, x.ndim)

    def step(rest: Any, factor: Any, gradient: Any) -> Any:
        if exclusive:
            return rest * factor + gradient, rest
        return (rest + gradient) * factor, rest + gradient

    start = sum_(zeros_like(x), (at,))
    back = not reverse
    _, result = scan(
        step, None, start, x, g, carried=1, axes=(at, at), reverse=(back, back),
        out_axes=(at,), out_reverse=(back,),
    )  # fmt: skip
    before = cumulative_prod(x, at, exclusive=True, reverse=reverse)
    return [result * before, None]


def _by_doubling(np_: Any, x: Any, axis: int, join: Any) -> Any:
    """Inclusive scan by doubling: each step combines elements twice as far apart."""
    length, step = x.shape[axis], 1
    at = [slice(None)] * x.ndim

    def part(start: int, stop: int) -> Any:
        at[axis] = slice(start, stop)
        return x[tuple(at)]

    while step < length:
        further = join(part(step, length), part(0, length - step))
        x = np_.concat([part(0, step), further], axis=axis)
        step *= 2
    return x


def _cumulative_extreme(x: Any, axis: int, reverse: bool, name: str) -> Any:
    def run(np_: Any, x: Any) -> Any:
        return _by_doubling(np_, x, axis % x.ndim, getattr(np_, name))

    return _scan(x, axis, False, reverse, run, None)


@primitive(shape=shapes.same_as_first)
def cumulative_max(x: Real, axis: ShapeArg = 0, *, reverse: bool = False) -> Real:
    """Cumulative maximum along an axis; NaN from the first NaN on"""
    return _cumulative_extreme(x, axis, reverse, "maximum")


@primitive(shape=shapes.same_as_first)
def cumulative_min(x: Real, axis: ShapeArg = 0, *, reverse: bool = False) -> Real:
    """Cumulative minimum along an axis; NaN from the first NaN on"""
    return _cumulative_extreme(x, axis, reverse, "minimum")


def _gradient_to_extreme(g: Any, y: Any, x: Any, axis: Any, *, reverse: bool) -> Any:
    """Route each gradient to the element that holds the extreme at that position.

    It is the last one up to there that equals the running extreme."""
    rank = x.ndim
    at = axis % rank
    row = [-1 if i == at else 1 for i in range(rank)]
    positions = reshape(arange(0, x.shape[at]), row)
    far = np.asarray(np.iinfo("int64").max if reverse else -1)
    held = where(equal(x, y), positions, far)
    if reverse:
        owner = cumulative_min(held, at, reverse=True)
    else:
        owner = cumulative_max(held, at)
    zero = zeros_like(x)
    return [scatter_elements(zero, owner, g, axis=at, reduction="add"), None]


cumulative_max.gradient(_gradient_to_extreme)


cumulative_min.gradient(_gradient_to_extreme)


@primitive(shape=shapes.same_as_first)
def cumulative_logsumexp(
    x: RealFloating,
    axis: ShapeArg = 0,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> RealFloating:
    """Cumulative logsumexp along an axis"""

    def run(np_: Any, x: Any) -> Any:
        return _by_doubling(np_, x, axis % x.ndim, np_.logaddexp)

    return _scan(x, axis, exclusive, reverse, run, -math.inf)


@cumulative_logsumexp.gradient
def _(g: Any, y: Any, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Computed in logarithms, positive and negative parts separately."""
    empty = equal(y, -math.inf)

    def part(sign: float) -> Any:
        size = log(maximum(multiply(g, sign), 0.0))
        size = where(empty, -math.inf, size - where(empty, 0.0, y))
        after = cumulative_logsumexp(
            size, axis, exclusive=exclusive, reverse=not reverse
        )
        return exp(after + x)

    return [part(1.0) - part(-1.0), None]


def _scan_samples(
    function: Callable[[list[Any]], Any], first: Any, *, exclusive: bool = True
) -> Callable[[], Samples]:
    """Samples whose oracle folds the preceding elements in a loop."""

    def make() -> Samples:
        for dtype in ("float32", "float64", "int32"):
            if dtype == "int32" and first == -math.inf:
                dtype = "float16"
            x = array([[1, -2, 3, 3], [-4, 5, 2, -6]], dtype)
            if dtype != "int32":
                x = x + array([[0.5, 0.25, 0.125, 0.0], [0.75, 0, 0.5, 0.25]], dtype)
            for axis in (0, 1, -1):
                for reverse in (False, True):
                    for skip in (False, True)[: 1 + exclusive]:
                        y = _scan_by_loop(x, axis, reverse, skip, function, first)
                        attrs = {"reverse": reverse} | (
                            {"exclusive": skip} if exclusive else {}
                        )
                        yield Sample((x, axis), y, attrs)
        x = ramp(5, dtype="float32")
        y = _scan_by_loop(x, 0, False, False, function, first)
        yield Sample((x, 0), y)
        yield Sample((np.zeros((0, 2)), 0), np.zeros((0, 2)), smooth=False)
        yield Sample((np.zeros((2, 0)), 0), np.zeros((2, 0)), smooth=False)
        if exclusive:
            before = {"exclusive": True}
            empty = np.zeros((0, 2), "float32")
            yield Sample((empty, 0), empty, before)
            alone = array([[first, first]], "float32")
            yield Sample((array([[2, 3]], "float32"), 0), alone, before)

    return make


def _scan_by_loop(
    x: Any, axis: int, reverse: bool, skip: bool, function: Any, first: Any
) -> Any:
    source = np.moveaxis(x, axis, -1)
    rows = np.zeros(source.shape, x.dtype)
    for at in np.ndindex(source.shape[:-1]):
        numbers = [n.item() for n in source[at]][:: -1 if reverse else 1]
        for i in range(len(numbers)):
            before = numbers[: i + (not skip)]
            to = len(numbers) - 1 - i if reverse else i
            rows[(*at, to)] = function(before) if before else first
    return np.moveaxis(rows, -1, axis)


def _logsumexp_of(numbers: list[float]) -> float:
    return math.log(math.fsum(map(math.exp, numbers)))


@cumulative_sum.samples
def _() -> Samples:
    yield from _scan_samples(sum, 0)()
    half = array([0.5, 1, -2], "float16")
    yield Sample((half, 0), array([0.5, 1.5, -0.5], "float16"))
    x = array([1.0, 1e8, 1.0, 1.0], "float32")
    before = array([0.0, 1.0, 1e8, 1e8], "float32")
    yield Sample((x, 0), before, {"exclusive": True}, smooth=False)
    after = array([1e8, 2.0, 1.0, 0.0], "float32")
    attrs = {"exclusive": True, "reverse": True}
    yield Sample((x, 0), after, attrs, smooth=False)
    spoilt = array([1.0, math.nan, 2.0], "float32")
    before = array([0.0, 1.0, math.nan], "float32")
    yield Sample((spoilt, 0), before, {"exclusive": True}, smooth=False)


cumulative_prod.samples(_scan_samples(math.prod, 1))


cumulative_max.samples(_scan_samples(max, None, exclusive=False))


cumulative_min.samples(_scan_samples(min, None, exclusive=False))


cumulative_logsumexp.samples(_scan_samples(_logsumexp_of, -math.inf))
