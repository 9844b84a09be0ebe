"""From TensorFlow: ragged tensors of one ragged axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, known_content, rank_of
from amanda_tf.mapping.shapes.read_indexing import repeat_each

__all__ = ["READ"]


class _Rows(NamedTuple):
    """For each value its row and its place there; the size of each row."""

    rows: Any
    places: Any
    sizes: Any


def _starts(sizes: Any) -> Any:
    return ops.slice_(ops.pad(ops.cumulative_sum(sizes, 0), [[1, 0]]), [0], [-1], [0])


def _rows_of_splits(splits: Any) -> _Rows:
    wide = ops.astype(splits, dtype="int64")
    sizes = ops.slice_(wide, [1], [2**31], [0]) - ops.slice_(wide, [0], [-1], [0])
    rows = repeat_each(ops.arange(0, ops.size(sizes)), sizes)
    places = ops.arange(0, ops.sum(sizes)) - ops.gather(wide, rows, axis=0)
    return _Rows(rows, places, sizes)


def _rows_of_ids(ids: Any, count: Any) -> _Rows:
    rows = ops.astype(ids, dtype="int64")
    known = known_content(count)
    total = ops.reshape(count, []) if known is None else int(np.asarray(known).item())
    sizes = ops.bincount(rows, total)
    places = ops.arange(0, ops.size(rows)) - ops.gather(_starts(sizes), rows, axis=0)
    return _Rows(rows, places, sizes)


def read_to_tensor(
    shape: Any, values: Any, default: Any, *partitions: Any,
    row_partition_types: Sequence[str], **_types: Any,
) -> Any:  # fmt: skip
    """RaggedTensorToTensor to `scatter_nd` of the values into a dense tensor."""
    kinds = list(row_partition_types)
    if kinds == ["ROW_SPLITS"]:
        rows = _rows_of_splits(partitions[0])
    else:
        expect(kinds == ["FIRST_DIM_SIZE", "VALUE_ROWIDS"], "several ragged axes")
        rows = _rows_of_ids(partitions[1], partitions[0])
    expect(rank_of(default) == 0, "a default that is not a scalar")
    asked = known_content(shape)
    wanted = asked if isinstance(asked, list) else [-1, -1]
    zero = np.zeros(1, "int64")
    longest = ops.max(ops.concat(rows.sizes, zero, axis=0), [0])
    width = longest if wanted[1] < 0 else np.int64(wanted[1])
    count = ops.size(rows.sizes) if wanted[0] < 0 else np.int64(wanted[0])
    inner = ops.slice_(ops.shape_of(values), [1], [2**31])
    lead = [ops.reshape(ops.astype(v, dtype="int64"), [1]) for v in (count, width)]
    base = ops.full(ops.concat(*lead, inner, axis=0), default)
    at = ops.stack(rows.rows, rows.places, axis=1)
    if wanted[0] >= 0 or wanted[1] >= 0:
        inside = ops.logical_and(
            ops.less(rows.places, width), ops.less(rows.rows, count)
        )
        at = ops.compress(at, inside, axis=0)
        values = ops.compress(values, inside, axis=0)
    return ops.scatter_nd(base, at, values)


def read_gather(
    splits: Any, values: Any, indices: Any, *, OUTPUT_RAGGED_RANK: int,  # noqa: N803
    PARAMS_RAGGED_RANK: int = 1, Tvalues: Any = None,  # noqa: N803
    Tindices: Any = None, Tsplits: Any = None,  # noqa: N803
) -> Any:  # fmt: skip
    """RaggedGather to `gather` of the values of the rows."""
    del Tvalues, Tindices, Tsplits
    ranks = OUTPUT_RAGGED_RANK, PARAMS_RAGGED_RANK
    expect(ranks == (1, 1) and rank_of(indices) == 1, "several ragged axes")
    sizes = _rows_of_splits(splits).sizes
    starts = ops.slice_(ops.astype(splits, dtype="int64"), [0], [-1], [0])
    taken = ops.gather(sizes, indices, axis=0)
    ends = ops.pad(ops.cumulative_sum(taken, 0), [[1, 0]])
    rows = _rows_of_splits(ends)
    first = ops.gather(ops.gather(starts, indices, axis=0), rows.rows, axis=0)
    found = ops.gather(values, first + rows.places, axis=0)
    return cast_to(ends, splits.dtype), found


def read_to_sparse(splits: Any, values: Any, **attrs: Any) -> Any:
    """Indices, values and shape."""
    expect(attrs.get("RAGGED_RANK", 1) == 1 and rank_of(values) == 1, "several axes")
    rows = _rows_of_splits(splits)
    longest = ops.max(ops.concat(rows.sizes, np.zeros(1, "int64"), axis=0), [0])
    sizes = ops.size(rows.sizes), longest
    shape = [ops.reshape(ops.astype(v, dtype="int64"), [1]) for v in sizes]
    indices = ops.stack(rows.rows, rows.places, axis=1)
    return indices, ops.identity(values), ops.concat(*shape, axis=0)


READ: dict[str, Any] = {
    "RaggedTensorToTensor": read_to_tensor,
    "RaggedGather": read_gather,
    "RaggedTensorToSparse": read_to_sparse,
}
