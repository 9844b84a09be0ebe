"""From TensorFlow: reductions of slices by the segment that they are in."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import finite_limits, known_scalar, rank_of, required_integer

__all__ = ["READ"]


def _count(segments: Any) -> Any:
    """The number of segments: one more than the last, which is the greatest."""
    found = ops.reshape(ops.max(ops.astype(segments, dtype="int64")), []) + np.int64(1)
    known = known_scalar(found)
    return found if known is None else int(known)


def _sorted_reduction(reduction: str) -> Any:
    """Sorted segments; those without a slice are 0 (1 for a product)."""

    def read(x: Any, segments: Any) -> Any:
        count = _count(segments)
        y = ops.segment_reduce(x, segments, count, reduction=reduction)
        return _fill_empty(x, y, segments, count, reduction)

    return read


def _fill_empty(x: Any, y: Any, segments: Any, count: Any, reduction: str) -> Any:
    if reduction not in ("max", "min"):
        return y
    sizes = ops.segment_reduce(
        ops.ones_like(segments), segments, count, reduction="sum"
    )
    empty = ops.equal(sizes, ops.number_like(sizes, value=0))
    if rank_of(x) > 1:
        empty = ops.expand_dims(empty, list(range(1, rank_of(x))))
    return ops.where(empty, ops.number_like(y, value=0), y)


def _unsorted_reduction(reduction: str) -> Any:
    """Segments of any order and shape; negative ones are dropped."""

    def read(x: Any, segments: Any, count: Any) -> Any:
        inner = rank_of(segments)
        if inner != 1:
            tail = ops.slice_(ops.shape_of(x), [inner], [2**31])
            x = ops.reshape(x, ops.concat(np.array([-1]), tail))
            segments = ops.reshape(segments, [-1])
        total = known_scalar(count)
        if total is None:
            total = ops.reshape(ops.astype(count, dtype="int64"), [])
        outside = ops.less(segments, ops.number_like(segments, value=0))
        placed = ops.where(outside, ops.astype(count, dtype=segments.dtype), segments)
        y = ops.segment_reduce(x, placed, total + 1, reduction=reduction)
        return _finite(ops.slice_(y, [0], [-1], [0]), reduction)

    return read


def _counted_reduction(reduction: str) -> Any:
    """Sorted segments, as many as the last input says."""

    def read(x: Any, segments: Any, count: Any) -> Any:
        total = required_integer(count, "num_segments")
        return ops.segment_reduce(x, segments, total, reduction=reduction)

    return read


def _finite(y: Any, reduction: str) -> Any:
    """Segments without a slice have the least or greatest finite number."""
    if reduction not in ("max", "min") or y.dtype.kind != "float":
        return y
    limits = finite_limits(y.dtype)
    if reduction == "max":
        return ops.maximum(y, ops.number_like(y, value=limits[0]))
    return ops.minimum(y, ops.number_like(y, value=limits[1]))


def _sparse_reduction(reduction: str, *, counted: bool = False) -> Any:
    """Reductions of slices at indices."""

    def read(
        x: Any, indices: Any, segments: Any, count: Any = None, *,
        sparse_gradient: bool = False,
    ) -> Any:  # fmt: skip
        del sparse_gradient
        rows = ops.gather(x, indices, axis=0)
        total = required_integer(count, "num_segments") if counted else _count(segments)
        if reduction != "sqrt_n":
            return ops.segment_reduce(rows, segments, total, reduction=reduction)
        y = ops.segment_reduce(rows, segments, total, reduction="sum")
        ones = ops.astype(ops.ones_like(segments), dtype=x.dtype)
        sizes = ops.segment_reduce(ones, segments, total, reduction="sum")
        root = ops.sqrt(ops.maximum(sizes, ops.number_like(sizes, value=1)))
        return y / ops.reshape(root, [-1, *(1,) * (rank_of(x) - 1)])

    return read


READ: dict[str, Any] = {
    "SegmentSum": _sorted_reduction("sum"),
    "SegmentMean": _sorted_reduction("mean"),
    "SegmentProd": _sorted_reduction("prod"),
    "SegmentMax": _sorted_reduction("max"),
    "SegmentMin": _sorted_reduction("min"),
    "SegmentSumV2": _counted_reduction("sum"),
    "SegmentProdV2": _counted_reduction("prod"),
    "SegmentMaxV2": _counted_reduction("max"),
    "SegmentMinV2": _counted_reduction("min"),
    "UnsortedSegmentSum": _unsorted_reduction("sum"),
    "UnsortedSegmentProd": _unsorted_reduction("prod"),
    "UnsortedSegmentMax": _unsorted_reduction("max"),
    "UnsortedSegmentMin": _unsorted_reduction("min"),
    "SparseSegmentSum": _sparse_reduction("sum"),
    "SparseSegmentMean": _sparse_reduction("mean"),
    "SparseSegmentSqrtN": _sparse_reduction("sqrt_n"),
    "SparseSegmentSumWithNumSegments": _sparse_reduction("sum", counted=True),
    "SparseSegmentMeanWithNumSegments": _sparse_reduction("mean", counted=True),
    "SparseSegmentSqrtNWithNumSegments": _sparse_reduction("sqrt_n", counted=True),
}
