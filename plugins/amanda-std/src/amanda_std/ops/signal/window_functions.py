"""Window functions: Hann, Hamming, Blackman."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import Cast, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import add, maximum, multiply, subtract, where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.elementary import cos
from amanda_std.ops.tensor.creation import arange, zeros_like
from amanda_std.ops.tensor.shape import astype
from amanda_std.ops.tensor.shape import size as size_

_FLOAT32 = DType("float32")


@composite
def cosine_window(
    size: ShapeArg, *, shares: tuple[float, ...], periodic: bool = True,
    dtype: Any = _FLOAT32,
) -> Cast:  # fmt: skip
    """Generalized cosine window: a sum of cosines with alternating signs; 1 for size 1

    `periodic`: a window one element longer without its last element."""
    number = arange(0, size)
    length = size_(number)
    single = equal(length, 1)
    steps = length if periodic else maximum(subtract(length, 1), 1)
    wide = DType("float64") if dtype.name == "float64" else _FLOAT32
    turns = astype(number, dtype=wide) / astype(steps, dtype=wide)
    total = zeros_like(turns)
    for k, weight in enumerate(shares):
        wave = multiply(cos(multiply(turns, 2 * math.pi * k)), weight)
        total = subtract(total, wave) if k % 2 else add(total, wave)
    return astype(where(single, 1.0, total), dtype=dtype)


@composite
def hann_window(
    size: ShapeArg, *, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """Hann window"""
    return cosine_window(size, shares=(0.5, 0.5), periodic=periodic, dtype=dtype)


@composite
def hamming_window(
    size: ShapeArg, *, alpha: float = 0.54, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """Hamming window; ONNX uses alpha = 25/46"""
    weights = (alpha, 1 - alpha)
    return cosine_window(size, shares=weights, periodic=periodic, dtype=dtype)


@composite
def blackman_window(
    size: ShapeArg, *, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """Blackman window"""
    return cosine_window(size, shares=(0.42, 0.5, 0.08), periodic=periodic, dtype=dtype)


def _cosine_window_by_loop(
    coefficients: tuple[float, ...], size: int, periodic: bool
) -> list[float]:
    if size == 1:
        return [1.0]
    steps = size if periodic else size - 1
    return [
        math.fsum(
            (-1) ** k * a * math.cos(2 * math.pi * k * i / steps)
            for k, a in enumerate(coefficients)
        )
        for i in range(size)
    ]


def _window_samples(attrs: dict[str, Any], coefficients: tuple[float, ...]) -> Any:
    def make() -> Samples:
        for dtype, tolerance in (
            ("float32", None),
            ("float64", None),
            ("float16", 2e-3),
        ):
            for size in (5, 6, 1):
                for periodic in (True, False):
                    y = array(
                        _cosine_window_by_loop(coefficients, size, periodic), dtype
                    )
                    given = {**attrs, "periodic": periodic, "dtype": DType(dtype)}
                    yield Sample((size,), y, given, tolerance)
        yield Sample((0,), np.zeros(0, "float32"), attrs)

    return make


cosine_window.samples(_window_samples({"shares": (0.4, 0.35, 0.25)}, (0.4, 0.35, 0.25)))


hann_window.samples(_window_samples({}, (0.5, 0.5)))


hamming_window.samples(_window_samples({"alpha": 25 / 46}, (25 / 46, 21 / 46)))


blackman_window.samples(_window_samples({}, (0.42, 0.5, 0.08)))


for _op in (cosine_window, hann_window, hamming_window, blackman_window):
    _op.not_differentiable("it depends on integers only")
