"""Products of groups of rows, each with a matrix of its own (grouped_matmul)."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std.engine.annotations import Index, Number
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import where
from amanda_std.ops.math.comparison import greater_equal, less
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import arange, scalar_like
from amanda_std.ops.tensor.manipulation import concat, slice_
from amanda_std.ops.tensor.shape import expand_dims


@composite
def grouped_matmul(x: Number, weights: Number, ends: Index) -> Number:
    """Product of each group of rows of x with its own matrix

    Rows belong to the first group whose end is beyond them; rows beyond the last end
    are zero. In a mixture of experts a group has the tokens of one expert."""
    rows = expand_dims(arange(0, x.shape[0]), (0,))
    starts = concat(np.zeros(1, "int64"), slice_(ends, [0], [-1], [0]), axis=0)
    own = logical_and(
        greater_equal(rows, expand_dims(starts, (1,))),
        less(rows, expand_dims(ends, (1,))),
    )
    every = matmul(expand_dims(x, (0,)), weights)
    chosen = where(expand_dims(own, (2,)), every, scalar_like(0, every))
    return sum_(chosen, (0,))


@grouped_matmul.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        x, weights = ramp(5, 2, dtype=dtype), ramp(3, 2, 4, start=0.3, dtype=dtype)
        if dtype == "int32":
            x = array([[1, 2], [3, -4], [5, 6], [-7, 8], [9, 1]], dtype)
            weights = np.arange(24, dtype=dtype).reshape(3, 2, 4)
        for numbers in ([2, 3, 5], [0, 5, 5], [1, 1, 3]):
            ends = array(numbers, "int64")
            y = _grouped_matmul_by_loops(x, weights, numbers)
            yield Sample((x, weights, ends), y)
    none = array([0, 0], "int64")
    empty = np.zeros((0, 2)), ramp(2, 2, 3), none
    yield Sample(empty, np.zeros((0, 3)), smooth=False)


def _grouped_matmul_by_loops(x: Any, weights: Any, ends: list[int]) -> Any:
    y = np.zeros((len(x), weights.shape[2]))
    for row in range(ends[-1]):
        group = next(g for g, end in enumerate(ends) if row < end)
        for column in range(y.shape[1]):
            products = (float(x[row, k]) * float(weights[group, k, column])
                        for k in range(x.shape[1]))  # fmt: skip
            y[row, column] = sum(products)
    return y.astype(x.dtype)
