"""Window functions: Hann, Hamming, Blackman"""

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
    """A sum of cosines, the k-th of k turns, with signs in turn; 1 where size is 1

    `periodic`: one step of a longer window is left out, so that it joins itself."""
    number = arange(0, size)
    length = size_(number)
    single = equal(length, 1)
    steps = length if periodic else maximum(subtract(length, 1), 1)
    wide = DType("float64") if dtype.name == "float64" else _FLOAT32
    turns = astype(number, dtype=wide) / astype(steps, dtype=wide)
    total = zeros_like(turns)
    for k, share in enumerate(shares):
        wave = multiply(cos(multiply(turns, 2 * math.pi * k)), share)
        total = subtract(total, wave) if k % 2 else add(total, wave)
    return astype(where(single, 1.0, total), dtype=dtype)


@composite
def hann_window(
    size: ShapeArg, *, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """The window of Hann: one bow of a cosine"""
    return cosine_window(size, shares=(0.5, 0.5), periodic=periodic, dtype=dtype)


@composite
def hamming_window(
    size: ShapeArg, *, alpha: float = 0.54, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """The window of Hamming: the bow stands on a base; ONNX has 25/46 for alpha"""
    shares = (alpha, 1 - alpha)
    return cosine_window(size, shares=shares, periodic=periodic, dtype=dtype)


@composite
def blackman_window(
    size: ShapeArg, *, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """The window of Blackman: two cosines"""
    return cosine_window(size, shares=(0.42, 0.5, 0.08), periodic=periodic, dtype=dtype)


def _window(shares: tuple[float, ...], size: int, periodic: bool) -> list[float]:
    if size == 1:
        return [1.0]
    steps = size if periodic else size - 1
    return [
        math.fsum(
            (-1) ** k * a * math.cos(2 * math.pi * k * i / steps)
            for k, a in enumerate(shares)
        )
        for i in range(size)
    ]


def _windows(attrs: dict[str, Any], shares: tuple[float, ...]) -> Any:
    def make() -> Samples:
        for dtype, loose in (("float32", None), ("float64", None), ("float16", 2e-3)):
            for size in (5, 6, 1):
                for periodic in (True, False):
                    y = array(_window(shares, size, periodic), dtype)
                    given = {**attrs, "periodic": periodic, "dtype": DType(dtype)}
                    yield Sample((size,), y, given, loose)
        yield Sample((0,), np.zeros(0, "float32"), attrs)

    return make


cosine_window.samples(_windows({"shares": (0.4, 0.35, 0.25)}, (0.4, 0.35, 0.25)))


hann_window.samples(_windows({}, (0.5, 0.5)))


hamming_window.samples(_windows({"alpha": 25 / 46}, (25 / 46, 21 / 46)))


blackman_window.samples(_windows({}, (0.42, 0.5, 0.08)))


for _op in (cosine_window, hann_window, hamming_window, blackman_window):
    _op.not_differentiable("it is made of integers")
