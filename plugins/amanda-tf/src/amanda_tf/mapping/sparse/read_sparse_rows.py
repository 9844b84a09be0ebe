"""From TensorFlow: rows and regions of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    expect,
    known_content,
    required_content,
    required_integer,
)

__all__ = ["READ"]


def read_slice(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
    """SparseSlice to `compress` of the elements inside."""
    moved = indices - ops.expand_dims(start, [0])
    left = ops.maximum(ops.minimum(size, shape - start), np.int64(0))
    inside = ops.logical_and(
        ops.greater_equal(moved, np.int64(0)),
        ops.less(moved, ops.expand_dims(left, [0])),
    )
    keep = ops.all(inside, [1])
    return (
        ops.compress(moved, keep, axis=0), ops.compress(values, keep, axis=0), left,
    )  # fmt: skip


def read_fill_empty_rows(indices: Any, values: Any, shape: Any, default: Any) -> Any:
    """With an element in each row without any; which rows, and where elements went."""
    rows = ops.reshape(ops.slice_(indices, [0], [1], [1]), [-1])
    count = ops.gather(shape, np.int64(0), axis=0)
    known = known_content(count)
    counts = ops.bincount(rows, count if known is None else int(known))
    empty = ops.equal(counts, np.int64(0))
    added = ops.reshape(ops.nonzero(empty), [-1])
    rank = indices.type.shape[1]
    expect(isinstance(rank, int), "the rank is not static")
    first = (np.arange(rank) == 0).astype("int64")
    places = ops.expand_dims(added, [1]) * ops.expand_dims(first, [0])
    order = ops.argsort(ops.concat(rows, added, axis=0))
    filled = ops.broadcast_to(default, ops.shape_of(added))
    every = ops.concat(indices, places, axis=0), ops.concat(values, filled, axis=0)
    back = ops.gather(ops.argsort(order), ops.arange(0, ops.size(rows)), axis=0)
    return (*(ops.gather(each, order, axis=0) for each in every), empty, back)


def read_sparse_add(
    a_indices: Any, a_values: Any, a_shape: Any, b_indices: Any, b_values: Any,
    b_shape: Any, threshold: Any,
) -> Any:  # fmt: skip
    """The elements of both matrices; those at the same place are added, and left out
    where the sum is small."""
    del b_shape
    places = [
        ops.ravel_index(ops.transpose(at, perm=(1, 0)), a_shape)
        for at in (a_indices, b_indices)
    ]
    both = ops.concat(a_values, b_values, axis=0)
    kept, first, where, counts = ops.unique(ops.concat(*places, axis=0), sorted=True)
    sums = ops.segment_reduce(both, where, ops.size(kept), reduction="sum")
    at = ops.gather(ops.concat(a_indices, b_indices, axis=0), first, axis=0)
    is_large = ops.greater_equal(ops.abs(sums), ops.astype(threshold, dtype=sums.dtype))
    stays = ops.logical_or(is_large, ops.equal(counts, np.int64(1)))
    return ops.compress(at, stays, axis=0), ops.compress(sums, stays, axis=0), a_shape


def read_sparse_split(
    axis: Any, indices: Any, values: Any, shape: Any, *, num_split: int
) -> Any:
    """The indices of all parts, then their values, then their shapes."""
    along, sizes = required_integer(axis, "split_dim"), required_content(shape, "shape")
    size, more = divmod(int(sizes[along]), num_split)
    column = ops.gather(indices, np.int64(along), axis=1)
    parts, start = [], 0
    for i in range(num_split):
        stop = start + size + (i < more)
        inside = ops.logical_and(
            ops.greater_equal(column, np.int64(start)), ops.less(column, np.int64(stop))
        )
        offset = np.array([start * (k == along) for k in range(len(sizes))], "int64")
        own = [stop - start if k == along else n for k, n in enumerate(sizes)]
        at = ops.compress(indices, inside, axis=0) - offset
        rows = ops.compress(values, inside, axis=0)
        parts.append((at, rows, np.array(own, "int64")))
        start = stop
    return tuple(part[k] for k in range(3) for part in parts)


READ: dict[str, Any] = {
    "SparseAdd": read_sparse_add,
    "SparseSplit": read_sparse_split,
    "SparseSlice": read_slice,
    "SparseFillEmptyRows": read_fill_empty_rows,
}
