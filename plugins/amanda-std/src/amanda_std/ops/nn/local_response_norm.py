"""Normalization over neighborhoods and axes: LRN, mean-variance, Lp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import UsageError
from amanda_std.engine.annotations import RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp, reduce_by_loop
from amanda_std.engine.values import dims_of
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import add, divide, subtract
from amanda_std.ops.math.arithmetic import pow as pow_
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.elementary import sqrt, square
from amanda_std.ops.math.reduction import mean, sum_
from amanda_std.ops.tensor.creation import scalar_like
from amanda_std.ops.tensor.manipulation import pad, slice_

_MOST_NEIGHBORS = 1 << 14


@composite
def lrn(
    x: RealFloating, *, size: int, alpha: float = 1e-4, beta: float = 0.75,
    bias: float = 1.0, axis: int = 1,
) -> RealFloating:  # fmt: skip
    """Local response normalization across channels

    x / (bias + alpha / size * sum of squares of `size` neighboring channels)**beta. For
    an even size, one more channel after than before."""
    before, after = (size - 1) // 2, size // 2
    axis = axis % x.ndim
    channels = dims_of(x)[axis]
    if isinstance(channels, int):  # there are no neighbors further away
        before, after = min(before, channels), min(after, channels)
    if before + after > _MOST_NEIGHBORS:
        raise UsageError("too many neighboring channels", got=f"size={size}")
    squares = pad(square(x), ((before, after),), None, (axis,))
    total: Any = None
    for i in range(before + after + 1):
        stop = x.shape[axis] + i
        part = slice_(squares, [i], [stop], [axis])
        total = part if total is None else add(total, part)
    return divide(x, pow_(total * (alpha / size) + bias, scalar_like(beta, x)))


@lrn.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for size, axis in ((1, 1), (3, 1), (4, 1), (2, -1)):
            x = ramp(2, 5, 3, dtype=dtype)
            y = np.zeros(x.shape)
            before = (size - 1) // 2
            for at in np.ndindex(x.shape):
                total = 0.0
                for c in range(at[axis] - before, at[axis] - before + size):
                    where = list(at)
                    where[axis] = c
                    if 0 <= c < x.shape[axis]:
                        total += float(x[tuple(where)]) ** 2
                y[at] = float(x[at]) / (0.7 + 0.5 / size * total) ** 0.6
            attrs = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 0.7, "axis": axis}
            yield Sample((x,), y.astype(dtype), attrs)
    yield Sample((ramp(0, 2, 3),), ramp(0, 2, 3), {"size": 3}, smooth=False)


@composite
def mean_variance_norm(
    x: RealFloating, *, axes: tuple[int, ...] = (0, 2, 3), epsilon: float = 1e-9
) -> RealFloating:
    """Subtract the mean over axes, divide by the standard deviation plus epsilon"""
    difference = subtract(x, mean(x, axes, keepdims=True))
    spread = sqrt(mean(square(difference), axes, keepdims=True))
    return divide(difference, spread + epsilon)


@mean_variance_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, 2, 2, dtype=dtype)
        for axes, epsilon in (((0, 2, 3), 1e-9), ((1,), 0.1)):
            average = reduce_by_loop(
                lambda n: math.fsum(n) / len(n), x, axes, True, "float64"
            )
            difference = x.astype("float64") - average
            spread = reduce_by_loop(
                lambda n: math.sqrt(math.fsum(v * v for v in n) / len(n)),
                difference, axes, True,
            )  # fmt: skip
            y = (difference / (spread + epsilon)).astype(dtype)
            yield Sample((x,), y, {"axes": axes, "epsilon": epsilon})
    yield Sample((ramp(0, 2),), ramp(0, 2), {"axes": (1,)}, smooth=False)


@composite
def lp_norm(x: RealFloating, *, p: float = 2, axis: int = -1) -> RealFloating:
    """Divide by the p-norm along an axis; 0 where the norm is 0"""
    if p in (1, 2):
        powers = square(x) if p == 2 else abs_(x)
    else:
        powers = pow_(abs_(x), scalar_like(p, x))
    total = sum_(powers, (axis,), keepdims=True)
    empty = equal(total, scalar_like(0, x))
    norm = where_(empty, scalar_like(1, x), total)  # so that roots have a gradient
    if p != 1:
        norm = sqrt(norm) if p == 2 else pow_(norm, scalar_like(1 / p, x))
    return where_(empty, scalar_like(0, x), divide(x, norm))


@lp_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, dtype=dtype)
        for p in (1, 2, 3):
            for axis in (0, -1):

                def size(n: list[float], p: int = p) -> float:
                    return float(sum(abs(v) ** p for v in n) ** (1 / p))

                norm = reduce_by_loop(size, x, (axis,), True, "float64")
                yield Sample((x,), (x / norm).astype(dtype), {"p": p, "axis": axis})
    yield Sample((np.zeros((2, 2)),), np.zeros((2, 2)), smooth=False)
    yield Sample((ramp(2, 0),), ramp(2, 0), smooth=False)
