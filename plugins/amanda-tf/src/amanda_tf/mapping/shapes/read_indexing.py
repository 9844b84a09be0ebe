"""From TensorFlow: gather, scatter, one-hot, partition, unique."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.dataflow import (
    coordinates_of_nonzero,
    elements_not_in,
    partition_rows,
    scatter_into_zeros,
    stitch_rows,
    strided_slice,
)
from amanda_std.mappings import (
    Value,
    cast_to,
    expect,
    known_or_value,
    known_scalar,
    rank_of,
    required_content,
)
from amanda_tf.mapping.shapes.read_computed_axes import gather_along, integer_or_none

__all__ = ["READ", "read_strided_slice_update", "repeat_each"]


def read_gather(x: Any, indices: Any, *, validate_indices: bool = True) -> Any:  # noqa: ARG001
    """Gather to `gather`."""
    return ops.gather(x, indices, axis=0)


def read_gather_v2(x: Any, indices: Any, axis: Any, *, batch_dims: int = 0) -> Any:
    """GatherV2 to `gather`, with batch dims to `gather_nd`."""
    at = integer_or_none(axis)
    if at is None:
        expect(not batch_dims, "axis is not constant, and there are batch dims")
        return gather_along(x, indices, axis)
    rank = rank_of(x)
    at %= max(rank, 1)
    batch = batch_dims % max(rank_of(indices), 1) if batch_dims < 0 else batch_dims
    if not batch:
        return ops.gather(x, indices, axis=at)
    order = [*range(batch), at, *(i for i in range(batch, rank) if i != at)]
    found = ops.gather_nd(
        ops.transpose(x, perm=tuple(order)), ops.expand_dims(indices, [-1]),
        batch_dims=batch,
    )  # fmt: skip
    inner = rank_of(indices) - batch
    lead = at - batch
    count = rank_of(found)
    taken = list(range(batch, batch + inner))
    rest = list(range(batch + inner, count))
    perm = [*range(batch), *rest[:lead], *taken, *rest[lead:]]
    if perm == list(range(count)):
        return found
    return ops.transpose(found, perm=tuple(perm))


def read_one_hot(indices: Any, depth: Any, on: Any, off: Any, *, axis: int = -1) -> Any:
    """OneHot to `one_hot`."""
    known = known_scalar(depth)
    count = ops.astype(depth, dtype="int64") if known is None else int(known)
    return ops.one_hot(indices, count, on, off, axis=axis)


def read_where(x: Any, *_: Any) -> Any:
    """The coordinates of the elements that are not zero, a row for each."""
    return coordinates_of_nonzero(x)


def _tensor_scatter(reduction: str) -> Any:
    def read(x: Any, indices: Any, updates: Any) -> Any:
        return ops.scatter_nd(x, indices, updates, reduction=reduction)

    return read


def read_tensor_scatter_subtract(x: Any, indices: Any, updates: Any) -> Any:
    """TensorScatterSub to `scatter_nd` of negatives."""
    return ops.scatter_nd(x, indices, ops.negative(updates), reduction="add")


def read_dynamic_partition(x: Any, parts: Any, *, num_partitions: int) -> Any:
    """The slices of x with each number of a part."""
    return partition_rows(x, parts, num_partitions)


def read_dynamic_stitch(*xs: Any) -> Any:
    """Data interleaved at indices; the last of equal indices wins."""
    half = len(xs) // 2
    return stitch_rows(xs[:half], xs[half:])


def read_unique(x: Any, *, out_idx: Any = None) -> Any:
    """Unique to `unique`."""
    values, _, inverse, _ = ops.unique(x, sorted=False)
    return values, cast_to(inverse, out_idx or "int32")


def read_unique_with_counts(x: Any, *, out_idx: Any = None) -> Any:
    """UniqueWithCounts to `unique`."""
    values, _, inverse, counts = ops.unique(x, sorted=False)
    index = out_idx or "int32"
    return values, cast_to(inverse, index), cast_to(counts, index)


def read_unique_v2(x: Any, axis: Any, *, out_idx: Any = None) -> Any:
    """UniqueV2 to `unique` along an axis."""
    at = required_content(axis, "axis")
    values, _, inverse, _ = ops.unique(x, axis=at[0] if at else None, sorted=False)
    return values, cast_to(inverse, out_idx or "int32")


def read_unique_with_counts_v2(x: Any, axis: Any, *, out_idx: Any = None) -> Any:
    """UniqueWithCountsV2 to `unique` along an axis."""
    at = required_content(axis, "axis")
    values, _, inverse, counts = ops.unique(x, axis=at[0] if at else None, sorted=False)
    index = out_idx or "int32"
    return values, cast_to(inverse, index), cast_to(counts, index)


def _in_place(reduction: str) -> Any:
    """Rows of a tensor updated, added to or subtracted from."""

    def read(x: Any, at: Any, rows: Any) -> Any:
        places = ops.reshape(at, [-1, 1])
        if not rank_of(at):
            rows = ops.expand_dims(rows, [0])
        if reduction == "subtract":
            return ops.scatter_nd(x, places, ops.negative(rows), reduction="add")
        return ops.scatter_nd(x, places, rows, reduction=reduction)

    return read


def read_strided_slice_update(
    x: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: Any
) -> Any:
    """The tensor with a strided slice replaced."""
    numbers = ops.reshape(ops.arange(0, ops.size(x)), ops.shape_of(x))
    if not isinstance(numbers, Value):
        numbers = Value(x.port.graph.constant(Tensor.of(numbers)).output)
    places = strided_slice(numbers, begin, end, strides, **masks)
    rows = ops.broadcast_to(value, ops.shape_of(places))
    flat = ops.scatter_nd(
        ops.reshape(x, [-1]), ops.reshape(places, [-1, 1]), ops.reshape(rows, [-1])
    )
    return ops.reshape(flat, ops.shape_of(x))


def read_unravel_index(indices: Any, dims: Any) -> Any:
    """UnravelIndex to `unravel_index`."""
    found = ops.unravel_index(indices, known_or_value(dims))
    return cast_to(found, indices.dtype)


def read_list_diff(x: Any, y: Any, *, out_idx: Any = None) -> Any:
    """The elements of x that are not in y, and their indices."""
    return elements_not_in(x, y, out_idx or "int32")


def read_sparse_dense_add(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    """SparseTensorDenseAdd to `scatter_nd`."""
    del shape
    return ops.scatter_nd(dense, indices, values, reduction="add")


def read_sparse_to_dense(
    indices: Any, shape: Any, values: Any, default: Any, *,
    validate_indices: bool = True,
) -> Any:  # fmt: skip
    """SparseToDense to `scatter_nd` into the default value."""
    del validate_indices
    base = ops.full(known_or_value(shape), default)
    at = ops.reshape(indices, [-1, rank_of(base)])
    rows = ops.slice_(ops.shape_of(at), [0], [1])
    return ops.scatter_nd(base, at, ops.broadcast_to(values, known_or_value(rows)))


def repeat_each(x: Any, counts: Any) -> Any:
    """The elements of a vector, each as often as a vector of counts says.

    Without a known length, counts may be one for all, so the rank is not inferred.
    """
    found = ops.repeat(x, counts, axis=0)
    return found if found.type.shape.has_rank else ops.reshape(found, [-1])


def read_ragged_range(starts: Any, limits: Any, deltas: Any, *,
                      Tsplits: Any = None) -> Any:  # fmt: skip  # noqa: N803
    """Row splits, and the numbers of all ranges, one after the other."""
    wide = [ops.astype(v, dtype="float64") for v in (starts, limits, deltas)]
    count = ops.maximum(ops.ceil((wide[1] - wide[0]) / wide[2]), np.float64(0))
    sizes = ops.reshape(ops.astype(count, dtype="int64"), [-1])
    ends = ops.cumulative_sum(sizes, 0)
    splits = ops.pad(ends, [[1, 0]])
    first = ops.slice_(splits, [0], [-1], [0])

    def for_each(value: Any) -> Any:
        rows = ops.broadcast_to(ops.reshape(value, [-1]), ops.shape_of(sizes))
        return repeat_each(rows, sizes)

    at = ops.arange(0, ops.sum(sizes)) - repeat_each(first, sizes)
    numbers = for_each(starts) + ops.astype(at, dtype=starts.dtype) * for_each(deltas)
    return cast_to(splits, Tsplits or "int64"), numbers


READ: dict[str, Any] = {
    "Gather": read_gather,
    "GatherV2": read_gather_v2,
    "OneHot": read_one_hot,
    "Where": read_where,
    "ScatterNd": scatter_into_zeros,
    "TensorScatterUpdate": _tensor_scatter("none"),
    "TensorScatterAdd": _tensor_scatter("add"),
    "TensorScatterMax": _tensor_scatter("max"),
    "TensorScatterMin": _tensor_scatter("min"),
    "TensorScatterSub": read_tensor_scatter_subtract,
    "ScatterNdNonAliasingAdd": _tensor_scatter("add"),
    "DynamicPartition": read_dynamic_partition,
    "DynamicStitch": read_dynamic_stitch,
    "ParallelDynamicStitch": read_dynamic_stitch,
    "Unique": read_unique,
    "UniqueV2": read_unique_v2,
    "UniqueWithCounts": read_unique_with_counts,
    "UniqueWithCountsV2": read_unique_with_counts_v2,
    "InplaceUpdate": _in_place("none"),
    "InplaceAdd": _in_place("add"),
    "InplaceSub": _in_place("subtract"),
    "TensorStridedSliceUpdate": read_strided_slice_update,
    "UnravelIndex": read_unravel_index,
    "ListDiff": read_list_diff,
    "SparseTensorDenseAdd": read_sparse_dense_add,
    "SparseToDense": read_sparse_to_dense,
    "RaggedRange": read_ragged_range,
}
