"""Gradients of pooling where spatial dims are symbolic.

Pooling is written as a gather of all windows and a reduction, whose gradients follow.
It takes the memory of the windows, which pooling of static shapes does not need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.values import require_tracing
from amanda_std.ops.math.arithmetic import add, divide, subtract
from amanda_std.ops.math.reduction import argmax, sum_
from amanda_std.ops.nn.sliding_windows import SlidingWindows, extract_windows
from amanda_std.ops.tensor.creation import scalar_like
from amanda_std.ops.tensor.index_arithmetic import as_int64, in_range
from amanda_std.ops.tensor.indexing import gather_elements
from amanda_std.ops.tensor.shape import astype, expand_dims, reshape, squeeze


def max_pool_gradient(g: Any, x: Any, cut: SlidingWindows, ceil: bool) -> Any:
    """Route g to the maximum of each window, the first of several."""
    low = astype(np.asarray(-math.inf, "float32"), dtype=x.dtype)
    seen = extract_windows(x, cut, low, ceil)
    n = len(cut.window)
    flat = reshape(seen, (*seen.shape[: n + 2], math.prod(cut.window)))
    at = argmax(flat, n + 2, keepdims=True)
    pooled = squeeze(gather_elements(flat, at, axis=n + 2), (n + 2,))
    return _backpropagate(g, pooled, x)


def avg_pool_gradient(
    g: Any, x: Any, cut: SlidingWindows, ceil: bool, count_pads: bool
) -> Any:
    """Divide g by the number of elements of each window, and add it to all of them."""
    n = len(cut.window)
    seen = extract_windows(x, cut, scalar_like(0, x), ceil)
    total = sum_(seen, tuple(range(n + 2, 2 * n + 2)))
    for i in range(n):
        at, inside = cut.at(i)
        low, high = cut.pads[i]
        if count_pads:
            last = subtract(add(as_int64(cut.spatial[i]), high), 1)
            inside = in_range(at, subtract(0, as_int64(low)), last)
        count = sum_(astype(inside, dtype=x.dtype), (1,))
        g = divide(g, expand_dims(count, tuple(range(1, n - i))))
    return _backpropagate(g, total, x)


def _backpropagate(g: Any, y: Any, x: Any) -> Any:
    from amanda_std.autodiff.gradients import backpropagate

    graph = require_tracing().graph
    return backpropagate(graph, {y.port: g}, [x.port])[0]
