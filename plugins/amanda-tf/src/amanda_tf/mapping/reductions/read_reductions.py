"""From TensorFlow: reductions, cumulative ops, arguments of extrema, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    known_or_value,
    known_scalar,
    rank_of,
    required_integer,
)

__all__ = ["READ", "axes_of"]


def axes_of(value: Any) -> Any:
    """Axes as a list where they are known, else as a vector."""
    found = known_content(value)
    if found is None:
        return ops.reshape(value, [-1])
    return found if isinstance(found, list) else [found]


def _reduction_reader(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, axes: Any, *, keep_dims: bool = False) -> Any:
        return op(x, axes_of(axes), keepdims=keep_dims)

    return read


def read_mean(x: Any, axes: Any, *, keep_dims: bool = False) -> Any:
    """The mean of integers is an integer, rounded towards zero, of a sum in 64 bits."""
    if x.dtype.kind in ("int", "uint"):
        axes = axes_of(axes)
        wide = x if str(x.dtype) == "uint64" else cast_to(x, DType("int64"))
        total = ops.sum(wide, axes, keepdims=keep_dims)
        count = ops.sum(ops.ones_like(wide), axes, keepdims=keep_dims)
        return cast_to(ops.divide(total, count), x.dtype)
    return ops.mean(x, axes_of(axes), keepdims=keep_dims)


def _extremum_reader(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, axis: Any, *, output_type: Any = None) -> Any:
        at = op(x, required_integer(axis, "dimension"))
        return at if output_type is None else cast_to(at, output_type)

    return read


def _cumulative_reader(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(
        x: Any, axis: Any, *, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        at, rank = known_scalar(axis), rank_of(x)
        if at is not None or rank == 1:
            return op(x, int(at or 0), exclusive=exclusive, reverse=reverse)
        expect(rank > 0, "an axis of a scalar")
        chosen = ops.remainder(ops.reshape(axis, []), ops.number_like(axis, value=rank))
        y = op(x, 0, exclusive=exclusive, reverse=reverse)
        for i in range(1, rank):
            other = op(x, i, exclusive=exclusive, reverse=reverse)
            y = ops.where(ops.equal(chosen, ops.number_like(axis, value=i)), other, y)
        return y

    return read


def read_top_k(x: Any, k: Any, *, sorted: bool = True, index_type: Any = None) -> Any:  # noqa: ARG001
    """TopKV2 to `topk`."""
    values, at = ops.topk(x, required_integer(k, "k"))
    return values, cast_to(at, index_type or "int32")


def read_top_k_1(x: Any, *, k: int, sorted: bool = True) -> Any:  # noqa: ARG001
    """TopK to `topk`."""
    values, at = ops.topk(x, k)
    return values, cast_to(at, "int32")


def read_in_top_k(scores: Any, targets: Any, *, k: int) -> Any:
    """InTopK to `in_top_k`."""
    return ops.in_top_k(scores, targets, np.int64(k))


def read_approx_top_k(
    x: Any, *, k: int, reduction_dimension: int = -1, is_max_k: bool = True,
    aggregate_to_topk: bool = True, **_: Any,
) -> Any:  # fmt: skip
    """The exact answer, which an approximate one may be."""
    expect(aggregate_to_topk, "candidates that are not aggregated")
    values, at = ops.topk(x, k, axis=reduction_dimension, largest=is_max_k)
    return values, cast_to(at, "int32")


def read_dense_bincount(
    x: Any, size: Any, weights: Any, *, binary_output: bool = False
) -> Any:
    """Counts of a vector, or of each row of a matrix."""
    known = known_scalar(size)
    limit = ops.reshape(ops.astype(size, dtype="int64"), [])
    values = ops.arange(0, limit if known is None else int(known))
    empty = weights.type.shape.is_static and 0 in weights.type.shape.dims
    hits = ops.equal(ops.expand_dims(ops.astype(x, dtype="int64"), [-1]), values)
    if binary_output:
        return ops.astype(ops.any(hits, [-2]), dtype=weights.dtype)
    ones = ops.astype(hits, dtype=weights.dtype)
    return ops.sum(ones if empty else ones * ops.expand_dims(weights, [-1]), [-2])


def read_nth_element(x: Any, n: Any, *, reverse: bool = False) -> Any:
    """NthElement to `sort` and `gather`."""
    return ops.gather(ops.sort(x, descending=reverse), n, axis=-1)


def read_histogram(x: Any, limits: Any, bins: Any, *, dtype: Any = None) -> Any:
    """HistogramFixedWidth to `histogram`."""
    low, high = ops.split(limits, axis=0, outputs=2)
    count = required_integer(bins, "nbins")
    found = ops.histogram(x, ops.reshape(low, []), ops.reshape(high, []), count)
    return cast_to(found, dtype or "int32")


def read_bincount(x: Any, size: Any, weights: Any) -> Any:
    """Elements beyond the size are not counted; no weights are an empty tensor."""
    empty = weights.type.shape.is_static and 0 in weights.type.shape.dims
    x = ops.reshape(x, [-1])
    given = None if empty else ops.reshape(weights, [-1])
    found = ops.bincount(x, known_or_value(size), given)
    return cast_to(found, weights.dtype)


def read_euclidean_norm(x: Any, axes: Any, *, keep_dims: bool = False) -> Any:
    """EuclideanNorm to `sqrt` of the `sum` of squares."""
    return ops.sqrt(ops.sum(x * x, axes_of(axes), keepdims=keep_dims))


def read_lower_bound(xs: Any, values: Any, *, out_type: Any = None) -> Any:
    """LowerBound to `searchsorted`."""
    return cast_to(ops.searchsorted(xs, values), out_type or "int32")


def read_upper_bound(xs: Any, values: Any, *, out_type: Any = None) -> Any:
    """UpperBound to `searchsorted`."""
    return cast_to(ops.searchsorted(xs, values, right=True), out_type or "int32")


def read_bucketize(x: Any, *, boundaries: Any) -> Any:
    """Bucketize to `searchsorted`."""
    edges = np.asarray(boundaries, np.float32)
    found = ops.searchsorted(edges, ops.astype(x, dtype="float32"), right=True)
    return ops.astype(found, dtype="int32")


def read_invert_permutation(x: Any) -> Any:
    """InvertPermutation to `argsort`."""
    expect(rank_of(x) == 1, "a vector is expected")
    return cast_to(ops.argsort(x), x.dtype)


READ: dict[str, Any] = {
    "Sum": _reduction_reader(ops.sum),
    "Prod": _reduction_reader(ops.prod),
    "Max": _reduction_reader(ops.max),
    "Min": _reduction_reader(ops.min),
    "All": _reduction_reader(ops.all),
    "Any": _reduction_reader(ops.any),
    "Mean": read_mean,
    "EuclideanNorm": read_euclidean_norm,
    "ArgMax": _extremum_reader(ops.argmax),
    "ArgMin": _extremum_reader(ops.argmin),
    "Cumsum": _cumulative_reader(ops.cumulative_sum),
    "Cumprod": _cumulative_reader(ops.cumulative_prod),
    "CumulativeLogsumexp": _cumulative_reader(ops.cumulative_logsumexp),
    "TopKV2": read_top_k,
    "TopK": read_top_k_1,
    "InTopK": read_in_top_k,
    "ApproxTopK": read_approx_top_k,
    "DenseBincount": read_dense_bincount,
    "NthElement": read_nth_element,
    "HistogramFixedWidth": read_histogram,
    "Bincount": read_bincount,
    "LowerBound": read_lower_bound,
    "UpperBound": read_upper_bound,
    "Bucketize": read_bucketize,
    "InvertPermutation": read_invert_permutation,
}
