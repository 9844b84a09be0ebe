"""From ONNX: functions for ops that work on each element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from amanda_onnx.mapping.known import expect, rank_of
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


def hardmax(x: Any, *, axis: int = -1) -> Any:
    best = ops.argmax(x, axis)
    one, zero = _scalars(x)
    return ops.one_hot(best, x.shape[axis], one, zero, axis=axis)


def old_hardmax(x: Any, *, axis: int = 1) -> Any:
    flat = ops.flatten(x, axis=axis % (rank_of(x) + 1))
    return ops.reshape(hardmax(flat, axis=-1), ops.shape_of(x))


def _scalars(x: Any) -> tuple[Any, Any]:
    import numpy as np

    return np.ones((), x.dtype.numpy), np.zeros((), x.dtype.numpy)


def dropout(x: Any, ratio: Any = None, training: Any = None, *,  # noqa: ARG001
            seed: int | None = None, outputs: int) -> Any:  # fmt: skip  # noqa: ARG001
    """Nothing but where the model trains, which is not mapped."""
    from amanda_onnx.mapping.known import content

    if training is not None:
        expect(content(training) is False, "a Dropout that may train")
    return _dropped(x, outputs, "bool")


def old_dropout(x: Any, *, ratio: float = 0.5, outputs: int) -> Any:  # noqa: ARG001
    return _dropped(x, outputs, "bool")


def _dropped(x: Any, outputs: int, dtype: str) -> Any:
    import numpy as np

    y = ops.identity(x)
    if outputs == 1:
        return (y,)
    return y, ops.full(ops.shape_of(x), np.ones((), dtype))


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
    "Hardmax[13:]": hardmax,
    "Hardmax[:12]": old_hardmax,
    "Dropout[12:]": dropout,
    "Dropout[:11]": old_dropout,
}
