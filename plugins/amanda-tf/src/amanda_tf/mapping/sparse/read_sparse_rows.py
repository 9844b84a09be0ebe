"""From TensorFlow: rows and regions of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import expect, known_content

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


READ: dict[str, Any] = {
    "SparseSlice": read_slice,
    "SparseFillEmptyRows": read_fill_empty_rows,
}
