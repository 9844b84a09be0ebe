"""Definitions of elementwise primitives by more common ones, of full precision."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from amanda.types import DType
from amanda_std.ops._late import late as ops
from amanda_std.ops._wide import in_float32
from amanda_std.ops.math.binary_special import (
    copysign,
    hypot,
    logaddexp,
    nextafter,
    signbit,
)
from amanda_std.ops.math.cumulative import (
    cumulative_logsumexp,
    cumulative_max,
    cumulative_min,
    cumulative_prod,
)
from amanda_std.ops.math.elementary import atan2, cbrt, exp2, log10
from amanda_std.ops.math.reduction import extreme_identity

_INF, _NAN = math.inf, math.nan


@exp2.decomposition
def exp2_by_pow(x: Any) -> Any:
    return ops.pow(2.0, x)


@cbrt.decomposition
@in_float32
def cbrt_by_pow(x: Any) -> Any:
    """A power, and a step of Newton's method, which corrects its exponent."""
    if x.dtype.kind == "complex":
        zero = ops.equal(x, 0.0)
        root = ops.exp(ops.log(ops.where(zero, ops.ones_like(x), x)) / 3.0)
        return ops.where(zero, x, root)
    size = ops.abs(x)
    root = ops.pow(size, 1 / 3)
    better = root - (root - size / (root * root)) / 3.0
    edge = ops.logical_or(ops.equal(root, 0.0), ops.equal(root, _INF))
    return ops.copysign(ops.where(edge, root, better), x)


@log10.decomposition
@in_float32
def log10_by_log(x: Any) -> Any:
    return ops.log(x) / math.log(10)


@signbit.decomposition
def signbit_by_reciprocal(x: Any) -> Any:
    """The sign of a NaN is not seen."""
    zero = ops.equal(x, 0.0)
    return ops.less(ops.where(zero, 1.0 / x, x), 0.0)


@copysign.decomposition
def copysign_by_where(a: Any, b: Any) -> Any:
    """By a product, since onnxruntime negates 0 as 0 - 0."""
    size = ops.abs(a)
    return ops.where(ops.signbit(b), size * -1.0, size)


@atan2.decomposition
@in_float32
def atan2_by_atan(a: Any, b: Any) -> Any:
    """The angle in the first quadrant, mirrored; of equal lengths, also infinite."""
    rows, columns = ops.abs(a), ops.abs(b)
    same, zero = ops.equal(rows, columns), ops.equal(rows, 0.0)
    equal = ops.where(zero, ops.zeros_like(rows), ops.ones_like(rows))
    angle = ops.atan(ops.where(same, equal, rows / columns))
    return ops.copysign(ops.where(ops.signbit(b), math.pi - angle, angle), a)


@nextafter.decomposition
def nextafter_by_arithmetic(a: Any, b: Any) -> Any:
    """Rump et al., Computing predecessor and successor in rounding to nearest, 2009.

    The distance is a little over half a unit in the last place, rounded up by the sum.
    Numbers near the smallest normal one are scaled, those below have equal distances.
    """
    info: Any = ml_dtypes.finfo(DType.of(a.dtype).numpy)  # type: ignore[no-untyped-call]
    unit, least = float(info.eps) / 2, float(info.smallest_subnormal)
    tiny, top, scale = float(info.tiny), float(info.max), 2.0**60
    size = ops.abs(a)
    is_low = ops.less(size, tiny * scale)
    scaled = ops.where(is_low, size * scale, ops.minimum(size, top))
    step = scaled * (unit * (1 + 2 * unit))
    up, down = scaled + step, scaled - step
    up, down = (ops.where(is_low, v * (1 / scale), v) for v in (up, down))
    is_equal = ops.less(size, tiny * 2)
    up = ops.where(is_equal, size + least, up)
    down = ops.where(is_equal, size - least, down)
    down = ops.where(ops.equal(size, _INF), top, down)
    inward = ops.equal(ops.greater(b, a), ops.signbit(a))
    found = ops.copysign(ops.where(inward, down, up), a)
    found = ops.where(ops.equal(size, 0.0), ops.copysign(found, b), found)
    found = ops.where(ops.equal(a, b), b, found)
    return ops.where(ops.logical_or(ops.isnan(a), ops.isnan(b)), _NAN, found)


@hypot.decomposition
def hypot_by_sqrt(a: Any, b: Any) -> Any:
    """Scaled by the larger one, so that squares do not overflow."""
    a, b = ops.abs(a), ops.abs(b)
    larger, smaller = ops.maximum(a, b), ops.minimum(a, b)
    ratio = smaller / ops.where(ops.equal(larger, 0.0), 1.0, larger)
    infinite = ops.logical_or(ops.equal(a, _INF), ops.equal(b, _INF))
    return ops.where(infinite, _INF, larger * ops.sqrt(ratio * ratio + 1.0))


@logaddexp.decomposition
def logaddexp_by_log1p(a: Any, b: Any) -> Any:
    """The difference of equal infinities is 0 here."""
    gap = ops.where(ops.equal(a, b), 0.0, a - b)
    return ops.maximum(a, b) + ops.log1p(ops.exp(-ops.abs(gap)))


def _extreme_by_scan(step: Any, x: Any, axis: Any, reverse: bool) -> Any:
    lowest = extreme_identity(DType.of(x.dtype).numpy, low=step is ops.maximum)
    start = _start(x, axis, lowest)

    def body(now: Any, row: Any) -> Any:
        following = step(now, row)
        return [following, following]

    return _scan(body, start, x, axis, reverse)


def _start(x: Any, axis: Any, number: Any) -> Any:
    """One number in the shape of a slice."""
    return ops.zeros_like(ops.sum(x, (axis,))) + number


def _scan(body: Any, start: Any, x: Any, axis: Any, reverse: bool) -> Any:
    at = int(axis)
    found = ops.scan(body, None, start, x, carried=1, axes=(at,), out_axes=(at,),
                     reverse=(reverse,), out_reverse=(reverse,))  # fmt: skip
    return found[1]


@cumulative_max.decomposition
def cumulative_max_by_scan(x: Any, axis: Any, *, reverse: bool) -> Any:
    return _extreme_by_scan(ops.maximum, x, axis, reverse)


@cumulative_min.decomposition
def cumulative_min_by_scan(x: Any, axis: Any, *, reverse: bool) -> Any:
    return _extreme_by_scan(ops.minimum, x, axis, reverse)


@cumulative_logsumexp.decomposition
def cumulative_logsumexp_by_scan(
    x: Any, axis: Any, *, exclusive: bool, reverse: bool
) -> Any:
    start = _start(x, axis, -_INF)
    return _fold_by_scan(ops.logaddexp, start, x, axis, exclusive, reverse)


@cumulative_prod.decomposition
def cumulative_prod_by_scan(
    x: Any, axis: Any, *, exclusive: bool, reverse: bool
) -> Any:
    start = _start(x, axis, 1)
    return _fold_by_scan(ops.multiply, start, x, axis, exclusive, reverse)


def _fold_by_scan(
    step: Any, start: Any, x: Any, axis: Any, exclusive: bool, reverse: bool
) -> Any:
    def body(now: Any, row: Any) -> Any:
        following = step(now, row)
        return [following, ops.identity(now) if exclusive else following]

    return _scan(body, start, x, axis, reverse)
