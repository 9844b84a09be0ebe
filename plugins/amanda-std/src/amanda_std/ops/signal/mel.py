"""Mel filter banks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import UsageError
from amanda.types import DType, TensorType
from amanda_std.engine.annotations import Cast, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import divide, subtract, where
from amanda_std.ops.math.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
)
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.tensor.shape import astype, expand_dims

_FLOAT32, _FLOAT64 = DType("float32"), DType("float64")
_MOST = 1 << 22


@composite
def mel_weights(
    bins: ShapeArg, length: ShapeArg, *, rate: int, low: float, high: float,
    dtype: Any = _FLOAT32,
) -> Cast:  # fmt: skip
    """Mel filter bank: weight of each frequency of a transform of `length` in each bin

    Triangles between whole frequencies, equidistant on the mel scale, as in ONNX."""
    count, size = int(bins.__index__()), int(length.__index__())
    if max(count, size) > _MOST:
        raise UsageError("too many mel bins or frequencies", got=f"{count}, {size}")
    ends = [2595 * math.log10(1 + f / 700) for f in (low, high)]
    step = (ends[1] - ends[0]) / (count + 2)
    mels = ends[0] + step * np.arange(count + 2)
    positions = np.floor((size + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate)
    left, top, right = (expand_dims(positions[i : i + count], (0,)) for i in range(3))
    at = expand_dims(np.arange(size // 2 + 1, dtype="float64"), (1,))
    flat = top == left
    steep = divide(subtract(at, left), np.where(flat, 1, top - left))
    rising = where(flat, astype(equal(at, top), dtype=_FLOAT64), steep)
    falling = divide(subtract(right, at), np.where(right == top, 1, right - top))
    up = logical_and(greater_equal(at, left), less_equal(at, top))
    down = logical_and(greater(at, top), less(at, right))
    zero = np.zeros((), "float64")
    return astype(where(up, rising, where(down, falling, zero)), dtype=dtype)


@mel_weights.infer
def _(bins: Any, length: Any, *, dtype: Any) -> list[TensorType]:
    return [TensorType(dtype, (length.__index__() // 2 + 1, bins.__index__()))]


mel_weights.not_differentiable("it depends on integers only")


@mel_weights.samples
def _() -> Samples:
    for dtype in ("float32", "float64"):
        attrs = {"rate": 8192, "low": 0.0, "high": 4096.0, "dtype": DType(dtype)}
        yield Sample(
            (8, 16), array(_mel_weights_by_loops(8, 16, 8192, 0, 4096), dtype), attrs
        )
        attrs = {"rate": 16000, "low": 125.0, "high": 7500.0, "dtype": DType(dtype)}
        y = _mel_weights_by_loops(10, 64, 16000, 125, 7500)
        yield Sample((10, 64), array(y, dtype), attrs)
    attrs = {"rate": 16000, "low": 20.0, "high": 8000.0}
    y = _mel_weights_by_loops(40, 4000, 16000, 20, 8000)
    yield Sample((40, 4000), y.astype("float32"), attrs)
    attrs = {"rate": 100, "low": 0.0, "high": 50.0}
    yield Sample((0, 4), np.zeros((3, 0), "float32"), attrs)


def _mel_weights_by_loops(
    bins: int, length: int, rate: int, low: float, high: float
) -> Any:
    """As in the ONNX specification, element by element."""
    least, most = (2595 * math.log10(1 + f / 700) for f in (low, high))
    step = (most - least) / (bins + 2)
    mels = [least + i * step for i in range(bins + 2)]
    hertz = [700 * (10 ** (m / 2595) - 1) for m in mels]
    at = [math.floor((length + 1) * f / rate) for f in hertz]
    y = np.zeros((length // 2 + 1, bins))
    for i in range(bins):
        left, top, right = at[i : i + 3]
        if top == left:
            y[top, i] = 1
        for j in range(left, top + 1):
            if top != left:
                y[j, i] = (j - left) / (top - left)
        for j in range(top, right):
            if right != top:
                y[j, i] = (right - j) / (right - top)
    return y
