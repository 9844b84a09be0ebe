"""From nd4j: gather, scatter, one-hot, partitions, segments, unique."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_nd4j.std.arguments import (
    as_integers,
    axis_of,
    expect_no_other,
    integer_of,
    numbers_of,
    one_of,
)
from amanda_std import ops
from amanda_std.dataflow import (
    coordinates_of_nonzero,
    elements_not_in,
    partition_rows,
    scatter_into_zeros,
    stitch_rows,
)
from amanda_std.mappings import (
    cast_to,
    expect,
    finite_limits,
    known_scalar,
    rank_of,
)

__all__ = ["READ"]


def read_gather(
    x: Any, indices: Any = None, axis: Any = None, *, dimensions: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """gather to `gather`; indices may be attributes, after the axis."""
    del dtype
    numbers = numbers_of(dimensions)
    at = axis_of(axis, numbers[:1], default=0)
    where = np.array(numbers[1:], "int64") if indices is None else as_integers(indices)
    return ops.gather(x, where, axis=at)


def read_gather_nd(x: Any, indices: Any) -> Any:
    """gather_nd to `gather_nd`."""
    return ops.gather_nd(x, indices)


def read_one_hot(
    indices: Any, depth: Any = None, on: Any = None, off: Any = None, /, *,
    dimensions: Any = None, dtype: Any = None, **numbers: Any,
) -> Any:  # fmt: skip
    """onehot to `one_hot`."""
    expect_no_other(numbers, ("depth", "on", "off"))
    kind = str(dtype or (on.dtype if on is not None else "float32"))

    def end_of(value: Any, key: str, default: float) -> Any:
        if value is not None:
            return value
        known = numbers.get(key)
        return np.asarray(default if known is None else known, kind)

    count = numbers.get("depth") if depth is None else known_scalar(depth)
    size = ops.astype(depth, dtype="int64") if count is None else int(count)
    at = axis_of(None, dimensions, default=-1)
    ends = end_of(on, "on", 1), end_of(off, "off", 0)
    return ops.one_hot(indices, size, *ends, axis=at)


def read_where(condition: Any, a: Any = None, b: Any = None) -> Any:
    """Elements of two tensors; of one input the coordinates that are not zero."""
    if a is not None:
        return ops.where(ops.astype(condition, dtype="bool"), a, b)
    return coordinates_of_nonzero(condition)


# -- scatter ---------------------------------------------------------------------------


def _scatter_at(reduction: str, *, negated: bool = False) -> Callable[..., Any]:
    """Slices at coordinates."""

    def read(x: Any, indices: Any, updates: Any) -> Any:
        rows = ops.negative(updates) if negated else updates
        return ops.scatter_nd(x, indices, rows, reduction=reduction)

    return read


def _scatter_rows(
    reduction: str, prepare: Callable[[Any], Any] = ops.identity
) -> Callable[..., Any]:
    """Rows at indices: those of the first axis."""

    def read(x: Any, indices: Any, updates: Any) -> Any:
        at = ops.expand_dims(indices, [-1])
        return ops.scatter_nd(x, at, prepare(updates), reduction=reduction)

    return read


# -- partitions and segments -----------------------------------------------------------


def read_dynamic_partition(x: Any, parts: Any, *, numPartitions: Any) -> Any:
    """The slices of x with each number of a part."""
    return partition_rows(x, as_integers(parts), int(numPartitions))


def read_dynamic_stitch(*xs: Any, numPartitions: Any = None) -> Any:
    """Data interleaved at indices; the last of equal indices wins."""
    half = len(xs) // 2
    expect(int(numPartitions or half) == half, "as many indices as data")
    return stitch_rows([as_integers(x) for x in xs[:half]], xs[half:])


def _segments(reduction: str) -> Callable[..., Any]:
    """Sorted segments; those without a slice are 0 (1 for a product)."""

    def read(x: Any, segments: Any) -> Any:
        last = ops.max(ops.astype(segments, dtype="int64"))
        count = ops.reshape(last, []) + np.int64(1)
        known = known_scalar(count)
        total = count if known is None else int(known)
        y = ops.segment_reduce(x, segments, total, reduction=reduction)
        if reduction not in ("max", "min"):
            return y
        ones = ops.ones_like(segments)
        sizes = ops.segment_reduce(ones, segments, total, reduction="sum")
        empty = ops.equal(sizes, ops.number_like(sizes, value=0))
        if rank_of(x) > 1:
            empty = ops.expand_dims(empty, list(range(1, rank_of(x))))
        return ops.where(empty, ops.number_like(y, value=0), y)

    return read


def _unsorted_segments(reduction: str) -> Callable[..., Any]:
    """Segments of any order and shape; negative ones are dropped."""

    def read(
        x: Any, segments: Any, count: Any = None, *, numSegments: Any = None,
        numOfClasses: Any = None,
    ) -> Any:  # fmt: skip
        given = numSegments if numOfClasses is None else numOfClasses
        inner = rank_of(segments)
        if inner != 1:
            tail = ops.slice_(ops.shape_of(x), [inner], [2**31])
            x = ops.reshape(x, ops.concat(np.array([-1]), tail))
            segments = ops.reshape(segments, [-1])
        known = given if count is None else known_scalar(count)
        outside = ops.less(segments, ops.number_like(segments, value=0))
        if known is None:
            total = ops.reshape(ops.astype(count, dtype="int64"), [])
            beyond = cast_to(total, segments.dtype)
        else:
            total, beyond = int(known), ops.number_like(segments, value=int(known))
        placed = ops.where(outside, beyond, segments)
        y = ops.segment_reduce(x, placed, total + 1, reduction=reduction)
        return _finite(ops.slice_(y, [0], [-1], [0]), reduction)

    return read


def _finite(y: Any, reduction: str) -> Any:
    """Segments without a slice have the least or greatest finite number."""
    if reduction not in ("max", "min") or y.dtype.kind != "float":
        return y
    low, high = (ops.number_like(y, value=v) for v in finite_limits(y.dtype))
    return ops.maximum(y, low) if reduction == "max" else ops.minimum(y, high)


# -- sets ------------------------------------------------------------------------------


def read_unique(x: Any) -> Any:
    """unique to `unique`; indices are of int64."""
    values, _, inverse, _ = ops.unique(x, sorted=False)
    return values, cast_to(inverse, "int64")


def read_unique_with_counts(x: Any) -> Any:
    """unique_with_counts to `unique`; indices and counts are of int64."""
    values, _, inverse, counts = ops.unique(x, sorted=False)
    return values, cast_to(inverse, "int64"), cast_to(counts, "int64")


def read_list_difference(x: Any, y: Any) -> Any:
    """The elements of x that are not in y, and their indices."""
    return elements_not_in(x, y, "int64")


def read_invert_permutation(x: Any) -> Any:
    """invert_permutation to `argsort`."""
    return cast_to(ops.argsort(x), x.dtype)


def read_reverse_sequence(
    x: Any,
    lengths: Any,
    *,
    seqDim: Any = 0,
    batchDim: Any = 0,
) -> Any:
    """reverse_sequence to `reverse_sequence`."""
    return ops.reverse_sequence(
        x, lengths, time_axis=int(seqDim), batch_axis=int(batchDim)
    )


def read_sequence_mask(
    lengths: Any, most: Any = None, *, maxInd: Any = None, dtype: Any = None,
    is_static_maxlen: Any = None,
) -> Any:  # fmt: skip
    """Rows of ones up to each length."""
    del is_static_maxlen
    limit = integer_of(most, maxInd, "the greatest length")
    hits = ops.less(ops.arange(0, limit), ops.expand_dims(
        ops.astype(lengths, dtype="int64"), [-1]))  # fmt: skip
    return ops.astype(hits, dtype=dtype or "bool")


def read_confusion_matrix(
    labels: Any, found: Any, weights: Any = None, *, numClasses: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """Counts, or sums of weights, of each pair of a label and a prediction."""
    size = int(one_of({"n": numClasses}, "n") or 0)
    expect(size > 0, "the number of classes is expected")
    kind = dtype or (weights.dtype if weights is not None else "int32")
    ones = ops.ones_like(labels) if weights is None else weights
    at = ops.stack(labels, ops.astype(found, dtype=labels.dtype), axis=-1)
    empty = ops.zeros([size, size], dtype=kind)
    return ops.scatter_nd(empty, at, ops.astype(ones, dtype=kind), reduction="add")


def read_assign(x: Any, y: Any) -> Any:
    """The second operand, in the shape and the element type of the first."""
    return ops.broadcast_like(cast_to(y, x.dtype), x)


READ: dict[str, Any] = {
    "gather": read_gather,
    "gather_nd": read_gather_nd,
    "onehot": read_one_hot,
    "Where": read_where,
    "where_np": read_where,
    "scatter_nd": scatter_into_zeros,
    "scatter_nd_add": _scatter_at("add"),
    "scatter_nd_sub": _scatter_at("add", negated=True),
    "scatter_nd_update": _scatter_at("none"),
    "scatter_add": _scatter_rows("add"),
    "scatter_sub": _scatter_rows("add", ops.negative),
    "scatter_mul": _scatter_rows("mul"),
    "scatter_div": _scatter_rows("mul", ops.reciprocal),
    "scatter_max": _scatter_rows("max"),
    "scatter_min": _scatter_rows("min"),
    "scatter_upd": _scatter_rows("none"),
    "dynamic_partition": read_dynamic_partition,
    "dynamic_stitch": read_dynamic_stitch,
    "segment_sum": _segments("sum"),
    "segment_mean": _segments("mean"),
    "segment_prod": _segments("prod"),
    "segment_max": _segments("max"),
    "segment_min": _segments("min"),
    "unsorted_segment_sum": _unsorted_segments("sum"),
    "unsorted_segment_prod": _unsorted_segments("prod"),
    "unsorted_segment_max": _unsorted_segments("max"),
    "unsorted_segment_min": _unsorted_segments("min"),
    "unsorted_segment_mean": _unsorted_segments("mean"),
    "unique": read_unique,
    "unique_with_counts": read_unique_with_counts,
    "listdiff": read_list_difference,
    "invert_permutation": read_invert_permutation,
    "reverse_sequence": read_reverse_sequence,
    "sequence_mask": read_sequence_mask,
    "confusion_matrix": read_confusion_matrix,
    "assign": read_assign,
}
