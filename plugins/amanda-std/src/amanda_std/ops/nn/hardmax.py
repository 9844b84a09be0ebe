"""Hardmax: one-hot of the largest element."""

from __future__ import annotations

from amanda_std.engine.annotations import Real
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.math.arithmetic import where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.reduction import argmax
from amanda_std.ops.tensor.creation import arange, scalar_like
from amanda_std.ops.tensor.shape import expand_dims


@composite
def hardmax(x: Real, *, axis: int = -1) -> Real:
    """1 at the first maximum along an axis, 0 elsewhere"""
    axis = axis % x.ndim
    at = argmax(x, axis, keepdims=True)
    steps = arange(0, x.shape[axis])
    rest = tuple(range(1, x.ndim - axis))
    steps = expand_dims(steps, rest) if rest else steps
    return where(equal(at, steps), scalar_like(1, x), scalar_like(0, x))


hardmax.not_differentiable("it is piecewise constant")


@hardmax.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        x = array([[3, 0, 3], [-1, 2, 1]], dtype)
        yield Sample((x,), array([[1, 0, 0], [0, 1, 0]], dtype))
        yield Sample((x,), array([[1, 0, 1], [0, 1, 0]], dtype), {"axis": 0})
    yield Sample((ramp(0, 3),), ramp(0, 3))
