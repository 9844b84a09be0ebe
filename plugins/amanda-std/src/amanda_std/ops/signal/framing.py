"""Signals as overlapping frames, and overlap-add."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import Array, Real, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.tensor.creation import arange, zeros
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.scatter import scatter_nd
from amanda_std.ops.tensor.shape import expand_dims, transpose


def _frame_indices(count: Any, length: ShapeArg, step: ShapeArg) -> Any:
    """Indices of the elements of each frame, one row each."""
    first = multiply(arange(0, count), _as_int64(step))
    return add(expand_dims(first, (1,)), arange(0, length))


def _as_int64(argument: Any) -> Any:
    return np.asarray(argument, "int64") if isinstance(argument, int) else argument


@composite
def frames(x: Array, length: ShapeArg, step: ShapeArg) -> Array:
    """Overlapping frames of the last axis, every `step` elements; no partial frame"""
    count = (x.shape[-1] - length) // step + 1
    return gather(x, _frame_indices(count, length, step), -1)


@composite
def overlap_add(x: Real, step: ShapeArg) -> Real:
    """Overlap-add: sum frames placed every `step` elements"""
    if isinstance(step, int) and step < 0:
        raise InvalidTypeError("the step between frames is negative", got=step)
    count, length = x.shape[-2:]
    rank = len(dims_of(x))
    order = (rank - 2, rank - 1, *range(rank - 2))
    front = transpose(x, perm=order)
    whole = (count - 1) * step + length
    zero = zeros([whole, *front.shape[2:]], dtype=x.dtype)
    indices = expand_dims(_frame_indices(count, length, step), (-1,))
    added = scatter_nd(zero, indices, front, reduction="add")
    return transpose(added, perm=(*range(1, rank - 1), 0))


@frames.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = (ramp(2, 7) * 8).astype(dtype)
        for length, step in ((3, 2), (2, 3), (7, 1)):
            starts = range(0, 7 - length + 1, step)
            y = [[row[s : s + length] for s in starts] for row in x.tolist()]
            yield Sample((x, length, step), array(y, dtype))
            yield Sample((x[0], length, step), array(y[0], dtype))
    yield Sample((x[:0], 3, 2), np.zeros((0, 3, 3), "int32"))


@overlap_add.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = (ramp(2, 3, 4) * 8).astype(dtype)
        for step in (1, 2, 4, 5):
            y = np.zeros((2, 2 * step + 4), x.dtype)
            for b, i, j in np.ndindex(x.shape):
                y[b, i * step + j] += x[b, i, j]
            yield Sample((x, step), y)
    yield Sample((x[:0], 2), np.zeros((0, 8), "int32"))
