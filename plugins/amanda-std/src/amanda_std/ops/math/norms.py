"""Reductions composed of others: norms, standard deviation, log of sums."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from amanda_std.engine.annotations import Floating, Real, RealFloating, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import (
    Sample,
    Samples,
    array,
    ramp,
    reduce_by_loop,
    reductions,
)
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.elementary import log, sqrt, square
from amanda_std.ops.math.reduction import sum_, var


@composite
def std(
    x: Floating, axes: ShapeArg = None, *, correction: int = 0, keepdims: bool = False
) -> Floating:
    """Standard deviation over axes"""
    return sqrt(var(x, axes, correction=correction, keepdims=keepdims))


@composite
def norm_l1(
    x: RealFloating, axes: ShapeArg = None, *, keepdims: bool = False
) -> RealFloating:
    """L1 norm over axes: the sum of absolute values"""
    return sum_(abs_(x), axes, keepdims=keepdims)


@composite
def sum_squares(x: Real, axes: ShapeArg = None, *, keepdims: bool = False) -> Real:
    """Sum of squares over axes"""
    return sum_(square(x), axes, keepdims=keepdims)


@composite
def norm_l2(
    x: RealFloating, axes: ShapeArg = None, *, keepdims: bool = False
) -> RealFloating:
    """L2 norm over axes: the square root of the sum of squares"""
    return sqrt(sum_squares(x, axes, keepdims=keepdims))


@composite
def log_sum(
    x: RealFloating, axes: ShapeArg = None, *, keepdims: bool = False
) -> RealFloating:
    """Logarithm of the sum over axes"""
    return log(sum_(x, axes, keepdims=keepdims))


def _standard_deviation(numbers: list[float], correction: int = 0) -> float:
    mean = math.fsum(numbers) / len(numbers)
    difference = math.fsum((n - mean) ** 2 for n in numbers)
    return math.sqrt(difference / (len(numbers) - correction))


@std.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for correction in (0, 1):
            for axes in (None, (0,), (-1, 0)):
                x = ramp(3, 4, dtype=dtype)
                find = partial(_standard_deviation, correction=correction)
                attrs = {"correction": correction}
                yield Sample((x, axes), reduce_by_loop(find, x, axes, False), attrs)
                attrs |= {"keepdims": True}
                yield Sample((x, axes), reduce_by_loop(find, x, axes, True), attrs)
    yield Sample((np.zeros((0, 2)), (1,)), np.zeros(0), smooth=False)


@log_sum.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = array([[0.5, 2.0, 1.25], [3.0, 0.25, 4.0]], dtype)
        for axes in (None, (0,), (-1,), (0, 1)):
            y = reduce_by_loop(lambda n: math.log(math.fsum(n)), x, axes, False)
            yield Sample((x, axes), y)
            y = reduce_by_loop(lambda n: math.log(math.fsum(n)), x, axes, True)
            yield Sample((x, axes), y, {"keepdims": True})
    yield Sample((array(2.0),), array(math.log(2)))
    yield Sample((np.zeros((0, 2)), (1,)), np.zeros(0), smooth=False)


_FLOATS = ("float32", "float64")


norm_l1.samples(reductions(lambda n: math.fsum(map(abs, n)), dtypes=_FLOATS))


sum_squares.samples(reductions(lambda n: math.fsum(v * v for v in n)))


norm_l2.samples(reductions(lambda n: math.hypot(*n), dtypes=_FLOATS))
