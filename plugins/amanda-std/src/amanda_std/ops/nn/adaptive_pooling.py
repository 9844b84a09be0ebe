"""Adaptive pooling: windows chosen for an output of a given size."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Floating, Real, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    floor_divide,
    minimum,
    multiply,
    negative,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import less
from amanda_std.ops.math.reduction import max_, sum_
from amanda_std.ops.tensor.creation import arange, scalar_like
from amanda_std.ops.tensor.index_arithmetic import (
    as_int64,
    dtype_of,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import astype, expand_dims


def _window_indices(old: Any, new: Any) -> tuple[Any, Any, Any]:
    """Element indices [new, longest] of each window, their mask, and their number."""
    i = arange(0, new)
    old_, new_ = as_int64(old), as_int64(new)
    start = floor_divide(multiply(i, old_), new_)
    last = multiply(add(i, 1), old_)
    end = negative(floor_divide(negative(last), new_))
    most = old // new + 2
    if isinstance(old, int) and isinstance(new, int):
        most = _longest_window(old, new)
    at = add(expand_dims(start, (1,)), arange(0, most))
    stop = expand_dims(end, (1,))
    there = less(at, stop)
    return minimum(at, subtract(stop, 1)), there, subtract(end, start)


def _longest_window(old: int, new: int) -> int:
    """The most elements in a window: its start is rounded down, its end up."""
    if not new:
        return 1
    length, rest = divmod(old, new)
    return length + (0 if not rest else 2 if new % rest else 1)


def _pool_adaptively(x: Any, size: Any, fold: Any) -> Any:
    rank = x.ndim
    for i, new in enumerate(unpack_shape_argument(size, rank - 2)):
        axis = i + 2
        at, there, count = _window_indices(x.shape[axis], new)
        x = fold(gather(x, at, axis), there, count, axis, rank - axis - 1)
    return x


@composite
def adaptive_max_pool(x: Real, size: ShapeArg) -> Real:
    """Adaptive max pooling of NC* data to the given spatial size

    Window lengths are as even as possible; neighbors may overlap by one element."""
    return _pool_adaptively(
        x, size, lambda seen, _, __, axis, ___: max_(seen, (axis + 1,))
    )


@composite
def adaptive_avg_pool(x: Floating, size: ShapeArg) -> Floating:
    """Adaptive average pooling of NC* data to the given spatial size"""

    def fold(seen: Any, there: Any, count: Any, axis: int, after: int) -> Any:
        rest = tuple(range(2, 2 + after))
        mask = expand_dims(there, rest) if rest else there
        total = sum_(where(mask, seen, scalar_like(0, x)), (axis + 1,))
        rest = tuple(range(1, 1 + after))
        many = astype(count, dtype=dtype_of(x))
        return divide(total, expand_dims(many, rest) if rest else many)

    return _pool_adaptively(x, size, fold)


def _adaptive_samples(fold_: Any, dtypes: Any) -> Any:
    def make() -> Samples:
        for dtype in dtypes:
            for data, size in (((1, 2, 7, 5), (3, 2)), ((2, 1, 4), (6,)),
                               ((1, 1, 6, 6), (2, 6))):  # fmt: skip
                x = ramp(*data, dtype=dtype)
                y = np.zeros((*data[:2], *size))
                for i, c, *at in np.ndindex(y.shape):
                    spans = [
                        range(math.floor(p * n / m), math.ceil((p + 1) * n / m))
                        for p, n, m in zip(at, data[2:], size, strict=True)
                    ]
                    seen = [float(x[(i, c, *w)]) for w in itertools.product(*spans)]
                    y[(i, c, *at)] = fold_(seen)
                yield Sample((x, size), y.astype(dtype))
        yield Sample((ramp(0, 1, 4), (2,)), np.zeros((0, 1, 2)), smooth=False)

    return make


adaptive_max_pool.samples(_adaptive_samples(max, ("float64", "float32")))


adaptive_avg_pool.samples(
    _adaptive_samples(lambda n: math.fsum(n) / len(n), ("float64", "float32"))
)
