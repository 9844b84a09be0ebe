"""From PyTorch: fractional max pooling, whose windows begin at random places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.nn.read_conv import with_batch
from amanda_torch.mapping.shape_arguments import (
    dims_of,
    integer,
    shape_argument,
    spatial,
)
from amanda_torch.mapping.type_promotion import INT, number

__all__ = ["READ"]


def _starts(sample: Any, size: int, length: int, count: int) -> Any:
    """Where the windows of one axis begin: [N, C, count]."""
    dtype = sample.dtype
    end = cast_to(ops.zeros_like(sample), INT) + np.int64(size - length)
    end = ops.expand_dims(end, [2])
    if count == 1:
        return end
    step = number((size - length) / (count - 1), dtype)
    first = ops.expand_dims(sample, [2])
    at = (first + np.arange(count - 1).astype(dtype.numpy)) * step
    starts = cast_to(ops.floor(at), INT) - cast_to(ops.floor(first * step), INT)
    return ops.concat(starts, end, axis=2)


def _fractional(axes: int) -> Callable[..., Any]:
    def read(x: Any, window: Any, size: Any, samples: Any) -> Any:
        return with_batch(
            lambda x: _pool(x, spatial(window, axes), spatial(size, axes), samples),
            x, axes,
        )  # fmt: skip

    return read


def _pool(x: Any, window: Sequence[int], counts: Sequence[int], samples: Any) -> Any:
    """The largest element of each window, and its index in the data of a channel."""
    axes = len(window)
    sizes = [integer(n, "a size of the data") for n in x.type.shape.dims[2:]]
    order = range(axes) if axes == 3 else reversed(range(axes))  # as PyTorch has them
    place: Any = np.zeros((), "int64")
    for axis, i in enumerate(order):
        sample = ops.squeeze(ops.slice_(samples, [i], [i + 1], [2]), [2])
        starts = _starts(sample, sizes[axis], window[axis], counts[axis])
        others = [2 + j for j in range(2 * axes) if j != axis]
        offsets = np.arange(window[axis]).reshape(
            [-1 if j == axes + axis else 1 for j in range(2 * axes)]
        )
        at = ops.expand_dims(starts, others) + offsets.astype("int64")
        place = place * np.int64(sizes[axis]) + at
    batch = list(dims_of(x)[:2])
    total = math.prod(counts)
    flat = ops.reshape(x, shape_argument([*batch, math.prod(sizes)]))
    rows = ops.reshape(place, shape_argument([*batch, total * math.prod(window)]))
    shape = shape_argument([*batch, total, math.prod(window)])
    values = ops.reshape(ops.gather_elements(flat, rows, axis=2), shape)
    chosen = ops.argmax(values, 3, keepdims=True)
    index = ops.gather_elements(ops.reshape(place, shape), chosen, axis=3)
    results = (ops.max(values, [3]), ops.squeeze(index, [3]))
    return tuple(ops.reshape(y, shape_argument([*batch, *counts])) for y in results)


READ = torch_functions(
    {
        "fractional_max_pool2d": _fractional(2),
        "fractional_max_pool3d": _fractional(3),
    }
)
