"""Lp pooling: the p-norm of each window."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std.engine.annotations import Floating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import pow as pow_
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.nn.convolution import Pairs
from amanda_std.ops.nn.sliding_windows import (
    SlidingWindows,
    extract_windows,
    window_samples,
)
from amanda_std.ops.tensor.creation import scalar_like


@composite
def lp_pool(
    x: Floating, *, window: tuple[int, ...], p: float = 2.0,
    strides: tuple[int, ...] | None = None, padding: Pairs | str | None = None,
    dilations: tuple[int, ...] | None = None, ceil: bool = False,
) -> Floating:  # fmt: skip
    """Lp pooling: the p-norm of each window of NC* data"""
    cut = SlidingWindows(x.shape[2:], window, strides, padding, dilations, ceil)
    cut = cut.clip_to_data()
    n = len(cut.window)
    seen = extract_windows(
        pow_(abs_(x), scalar_like(p, x)), cut, scalar_like(0, x), ceil
    )
    total = sum_(seen, tuple(range(n + 2, 2 * n + 2)))
    return pow_(total, scalar_like(1 / p, x))


@composite
def global_lp_pool(x: Floating, *, p: float = 2.0) -> Floating:
    """Global Lp pooling: the p-norm of each channel of NC* data"""
    powered = pow_(abs_(x), scalar_like(p, x))
    total = sum_(powered, tuple(range(2, x.ndim)), keepdims=True)
    return pow_(total, scalar_like(1 / p, x))


@lp_pool.samples
def _() -> Samples:
    def make(x: Any) -> Any:
        for p in (1.0, 2.0, 3.0):

            def of(x: Any, plane: Any, seen: Any, p: float = p) -> Any:
                total = sum(abs(float(x[plane + w])) ** p for w in seen)
                return (total ** (1 / p),)

            yield {"of": of, "p": p}, (x.dtype,)

    yield from window_samples(make)
    yield Sample((np.zeros((0, 1, 3)),), np.zeros((0, 1, 2)), {"window": (2,)},
                 smooth=False)  # fmt: skip


@global_lp_pool.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, 2, 2, dtype=dtype)
        for p in (1.0, 2.0, 3.0):
            y = np.zeros((2, 3, 1, 1))
            for i, c in np.ndindex(2, 3):
                numbers = [abs(float(v)) ** p for v in x[i, c].reshape(-1)]
                y[i, c] = sum(numbers) ** (1 / p)
            yield Sample((x,), y.astype(dtype), {"p": p})
    yield Sample((np.zeros((0, 3, 2)),), np.zeros((0, 3, 1)), smooth=False)
