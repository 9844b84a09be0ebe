"""From ONNX: elementwise ops whose arguments decide what is built."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from amanda_std import ops

__all__ = ["READ", "read_clip_10", "read_max", "read_mean", "read_min", "read_sum"]

_FLOAT32_MAX = 3.4e38


def _variadic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A binary op applied from left to right over any number of inputs."""

    def fold(first: Any, *rest: Any) -> Any:
        return reduce(function, rest, first) if rest else ops.identity(first)

    return fold


read_max = _variadic(ops.maximum)
read_min = _variadic(ops.minimum)
read_sum = _variadic(ops.add)


def read_mean(first: Any, *rest: Any) -> Any:
    return read_sum(first, *rest) / float(1 + len(rest))


def read_pow(a: Any, b: Any) -> Any:
    """The result has the dtype of the base, whatever that of the exponent."""
    own = a.dtype
    if a.dtype != b.dtype:
        kinds = {str(a.dtype.kind), str(b.dtype.kind)}
        if kinds <= {"int", "uint"} or str(own.kind) == "float":
            b = ops.astype(b, dtype=own)
        else:
            a, b = ops.astype(a, dtype="float64"), ops.astype(b, dtype="float64")
    y = ops.pow(a, b)
    return y if y.dtype == own else ops.astype(y, dtype=own)


def read_clip_10(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    """Bounds at the limits of float32, the defaults, are no bounds."""
    low = None if min is None or min <= -_FLOAT32_MAX else min
    high = None if max is None or max >= _FLOAT32_MAX else max
    return ops.clip(x, low, high)


def read_swish(x: Any, *, alpha: float = 1.0) -> Any:
    return x * ops.sigmoid(x * alpha)


def read_is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    infinite = ops.isinf(x)
    positive = ops.greater(x, 0.0)
    if detect_positive and detect_negative:
        return infinite
    if detect_positive:
        return ops.logical_and(infinite, positive)
    if detect_negative:
        return ops.logical_and(infinite, ops.logical_not(positive))
    return ops.logical_and(infinite, ops.logical_not(infinite))


def read_prelu(x: Any, slope: Any) -> Any:
    return ops.where(ops.less(x, ops.zeros_like(x)), x * slope, x)


def read_shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    own = x.dtype
    if str(own.kind) != "float":
        x = ops.astype(x, dtype="float64")
    low = ops.where(ops.less(x, -lambd), x + bias, ops.zeros_like(x))
    y = ops.where(ops.greater(x, lambd), x - bias, low)
    return y if y.dtype == own else ops.astype(y, dtype=own)


READ: dict[str, Any] = {
    "Max": read_max,
    "Min": read_min,
    "Sum": read_sum,
    "Mean": read_mean,
    "Pow": read_pow,
    "Clip[:10]": read_clip_10,
    "Swish": read_swish,
    "IsInf": read_is_inf,
    "PRelu": read_prelu,
    "Shrink": read_shrink,
}
