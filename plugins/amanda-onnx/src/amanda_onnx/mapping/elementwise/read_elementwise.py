"""From ONNX: functions for ops that work on each element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from amanda_std import ops

__all__ = ["READ"]


def _folded(function: Callable[..., Any]) -> Callable[..., Any]:
    def fold(first: Any, *rest: Any) -> Any:
        return reduce(function, rest, first) if rest else ops.identity(first)

    return fold


maximum = _folded(ops.maximum)
minimum = _folded(ops.minimum)
total = _folded(ops.add)


def mean(first: Any, *rest: Any) -> Any:
    return total(first, *rest) / float(1 + len(rest))


def power(a: Any, b: Any) -> Any:
    """The element type is that of the base, whatever the exponent is."""
    own = a.dtype
    if a.dtype != b.dtype:
        kinds = {str(a.dtype.kind), str(b.dtype.kind)}
        if kinds <= {"int", "uint"} or str(own.kind) == "float":
            b = ops.astype(b, dtype=own)
        else:
            a, b = ops.astype(a, dtype="float64"), ops.astype(b, dtype="float64")
    y = ops.pow(a, b)
    return y if y.dtype == own else ops.astype(y, dtype=own)


def old_clip(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    low = None if min is None or min <= -3.4e38 else min
    high = None if max is None or max >= 3.4e38 else max
    return ops.clip(x, low, high)


def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return x * ops.sigmoid(x * alpha)


def is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    found = ops.isinf(x)
    positive = ops.greater(x, 0.0)
    if detect_positive and detect_negative:
        return found
    if detect_positive:
        return ops.logical_and(found, positive)
    if detect_negative:
        return ops.logical_and(found, ops.logical_not(positive))
    return ops.logical_and(found, ops.logical_not(found))


def prelu(x: Any, slope: Any) -> Any:
    zero = x - x
    return ops.where(ops.less(x, zero), x * slope, x)


def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    own = x.dtype
    if str(own.kind) != "float":
        x = ops.astype(x, dtype="float64")
    low = ops.where(ops.less(x, -lambd), x + bias, x - x)
    y = ops.where(ops.greater(x, lambd), x - bias, low)
    return y if y.dtype == own else ops.astype(y, dtype=own)


READ: dict[str, Any] = {
    "Max": maximum,
    "Min": minimum,
    "Sum": total,
    "Mean": mean,
    "Pow": power,
    "Clip[:10]": old_clip,
    "Swish": swish,
    "IsInf": is_inf,
    "PRelu": prelu,
    "Shrink": shrink,
}
