"""From PyTorch: sorting, order statistics, histograms and searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import axis_of, integer
from amanda_torch.mapping.type_promotion import (
    as_value,
    is_number,
    number,
    result_type,
)

__all__ = ["READ"]


def _with_axis(x: Any) -> Any:
    """A tensor of at least one axis."""
    return x if rank_of(x) else ops.reshape(x, [1])


def read_sort(x: Any, dim: int = -1, descending: bool = False, *,
              stable: bool | None = None) -> Any:  # fmt: skip
    del stable
    y, axis = _with_axis(x), axis_of(dim, x)
    order = _argsort(y, axis, descending)
    values = ops.gather_elements(y, order, axis=axis)
    if rank_of(x):
        return values, order
    return ops.reshape(values, []), ops.reshape(order, [])


def read_sort_stable(x: Any, *, stable: bool | None = None, dim: int = -1,
                     descending: bool = False) -> Any:  # fmt: skip
    return read_sort(x, dim, descending, stable=stable)


def _argsort(x: Any, axis: int, descending: bool) -> Any:
    x = cast_to(x, _sortable(x.dtype))
    return ops.argsort(x, axis=axis, descending=bool(descending))


def _sortable(dtype: Any) -> Any:
    from amanda.types import DType

    return DType("uint8") if dtype.kind == "bool" else dtype


def read_argsort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return read_sort(x, dim, descending)[1]


def read_argsort_stable(x: Any, *, stable: bool = True, dim: int = -1,
                        descending: bool = False) -> Any:  # fmt: skip
    del stable
    return read_sort(x, dim, descending)[1]


def read_msort(x: Any) -> Any:
    return read_sort(x, 0)[0]


def read_topk(x: Any, k: Any, dim: int = -1, largest: bool = True,
              sorted: bool = True) -> Any:  # fmt: skip
    del sorted
    if not rank_of(x):
        return ops.identity(x), np.asarray(0, "int64")
    axis = axis_of(dim, x)
    return tuple(ops.topk(x, [k] if isinstance(k, int) else ops.reshape(k, [1]),
                          axis=axis, largest=largest))  # fmt: skip


def read_kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not rank_of(x):
        return ops.identity(x), np.asarray(0, "int64")
    axis = axis_of(dim, x)
    at = integer(k, "k")
    return tuple(_item(y, axis, at - 1, keepdim) for y in read_sort(x, axis))


def _item(x: Any, axis: int, at: Any, keepdim: bool) -> Any:
    """The slice at an index along an axis."""
    y = ops.gather(x, np.asarray(at, "int64") if isinstance(at, int) else at, axis)
    return ops.expand_dims(y, [axis]) if keepdim else y


def read_median(x: Any) -> Any:
    """The lower one of two in the middle; NaN if any element is NaN."""
    flat = ops.reshape(x, [-1])
    return read_median_along(flat, 0)[0]


def read_nanmedian(x: Any) -> Any:
    return read_nanmedian_along(ops.reshape(x, [-1]), 0)[0]


def read_median_along(x: Any, dim: int, keepdim: bool = False) -> Any:
    if not rank_of(x):
        return ops.identity(x), np.asarray(0, "int64")
    axis = axis_of(dim, x)
    values, order = read_sort(x, axis)
    middle = (ops.dim(x, axis=axis) - np.int64(1)) // np.int64(2)
    found = _item(values, axis, middle, True), _item(order, axis, middle, True)
    if x.dtype.kind == "float":
        isnan = ops.isnan(x)
        some = ops.any(isnan, [axis], keepdims=True)
        first = ops.argmax(ops.astype(isnan, dtype="uint8"), axis, keepdims=True)
        found = (ops.where(some, number(float("nan"), x.dtype), found[0]),
                 ops.where(some, first, found[1]))  # fmt: skip
    return tuple(v if keepdim else ops.squeeze(v, [axis]) for v in found)


def read_nanmedian_along(x: Any, dim: int, keepdim: bool = False) -> Any:
    """NaN are last in the order, so the middle of the others is taken."""
    if not rank_of(x):
        return ops.identity(x), np.asarray(0, "int64")
    if x.dtype.kind != "float":
        return read_median_along(x, dim, keepdim)
    axis = axis_of(dim, x)
    values, order = read_sort(x, axis)
    present = ops.astype(ops.logical_not(ops.isnan(x)), dtype="int64")
    size = ops.sum(present, [axis], keepdims=True)
    middle = ops.maximum((size - np.int64(1)) // np.int64(2), np.int64(0))
    found = (ops.gather_elements(v, middle, axis=axis) for v in (values, order))
    return tuple(v if keepdim else ops.squeeze(v, [axis]) for v in found)


def read_mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value, the smallest of several, and its last index."""
    if not rank_of(x):
        return ops.identity(x), np.asarray(0, "int64")
    axis = axis_of(dim, x)
    column, row = ops.expand_dims(x, [axis + 1]), ops.expand_dims(x, [axis])
    same = ops.astype(ops.equal(column, row), dtype="int64")
    number_of = ops.sum(same, [axis + 1])
    most = ops.max(number_of, [axis], keepdims=True)
    values, order = read_sort(x, axis)
    often = ops.equal(ops.gather_elements(number_of, order, axis=axis), most)
    first = ops.argmax(ops.astype(often, dtype="uint8"), axis, keepdims=True)
    value = ops.gather_elements(values, first, axis=axis)
    index = ops.argmax(ops.astype(ops.equal(x, value), dtype="uint8"), axis,
                       keepdims=True, last=True)  # fmt: skip
    return tuple(v if keepdim else ops.squeeze(v, [axis]) for v in (value, index))


def _quantile(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str,
              skips_nan: bool) -> Any:  # fmt: skip
    rank = rank_of(x)
    flat = ops.reshape(x, [-1]) if dim is None else _with_axis(x)
    axis = 0 if dim is None else axis_of(dim, x)
    values = read_sort(flat, axis)[0]
    present = ops.astype(ops.logical_not(ops.isnan(flat)), dtype="int64")
    size = ops.sum(present, [axis], keepdims=True)
    if not skips_nan:
        size = ops.zeros_like(size) + ops.dim(flat, axis=axis)
    size = ops.maximum(size, np.int64(1))
    parts = [as_value(q, x.dtype)] if is_number(q) or not rank_of(q) else None
    rows = parts or [ops.gather(q, np.asarray(i)) for i in range(int(q.shape[0]))]
    found = [_quantile_of(values, size, row, axis, interpolation) for row in rows]
    if not skips_nan:
        nan = ops.any(ops.isnan(flat), [axis], keepdims=True)
        found = [ops.where(nan, number(float("nan"), x.dtype), y) for y in found]
    found = [_drop_axis(y, axis, rank, dim, keepdim) for y in found]
    return found[0] if parts else ops.stack(*found, axis=0)


def _drop_axis(y: Any, axis: int, rank: int, dim: int | None, keepdim: bool) -> Any:
    if keepdim:
        return ops.reshape(y, [1] * rank) if dim is None else y
    return ops.reshape(y, []) if dim is None or not rank else ops.squeeze(y, [axis])


def _quantile_of(values: Any, size: Any, q: Any, axis: int, interpolation: str) -> Any:
    place = q * cast_to(size - np.int64(1), values.dtype)
    low = ops.astype(ops.floor(place), dtype="int64")
    high = ops.astype(ops.ceil(place), dtype="int64")
    a, b = (ops.gather_elements(values, v, axis=axis) for v in (low, high))
    if interpolation == "lower":
        return a
    if interpolation == "higher":
        return b
    if interpolation == "nearest":
        near = ops.astype(ops.round(place), dtype="int64")
        return ops.gather_elements(values, near, axis=axis)
    share = number(0.5, values.dtype) if interpolation == "midpoint" else (
        place - cast_to(low, values.dtype)
    )  # fmt: skip
    return a + (b - a) * share


def read_quantile(x: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
                  interpolation: str = "linear") -> Any:  # fmt: skip
    return _quantile(x, q, dim, keepdim, interpolation, False)


def read_nanquantile(x: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
                     interpolation: str = "linear") -> Any:  # fmt: skip
    return _quantile(x, q, dim, keepdim, interpolation, True)


def read_histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts in bins of equal width; the range is that of the data if it is empty."""
    flat = ops.reshape(x, [-1])
    if min == max:
        low, high = _data_range(flat, 1)
    else:
        low, high = number(min, x.dtype), number(max, x.dtype)
    place = (flat - low) * number(bins, x.dtype) / (high - low)
    index = ops.astype(ops.floor(place), dtype="int64")
    index = ops.minimum(ops.maximum(index, np.int64(0)), np.int64(bins - 1))
    inside = ops.logical_and(ops.greater_equal(flat, low), ops.less_equal(flat, high))
    weights = ops.astype(inside, dtype=x.dtype)
    return ops.bincount(index, bins, weights)


def _data_range(flat: Any, margin: float) -> tuple[Any, Any]:
    """The smallest and largest element, moved apart by margins if they are equal."""
    low, high = ops.min(flat), ops.max(flat)
    equal, margin = ops.equal(low, high), number(margin, flat.dtype)
    return (ops.where(equal, low - margin, low),
            ops.where(equal, high + margin, high))  # fmt: skip


def read_bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    size = ops.max(ops.concat(x, np.asarray([minlength - 1], str(x.dtype)), axis=0))
    size = ops.astype(size, dtype="int64") + np.int64(1)
    if weights is not None and str(weights.dtype) != "float32":
        weights = ops.astype(weights, dtype="float64")
    return ops.bincount(ops.astype(x, dtype="int64"), size, weights)


def read_searchsorted(
    sorted_sequence: Any, x: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    rank = rank_of(sorted_sequence)
    if sorter is not None:
        sorted_sequence = ops.gather_elements(sorted_sequence, sorter, axis=rank - 1)
    dtype = result_type(sorted_sequence, x)
    row, x = (as_value(v, dtype) for v in (sorted_sequence, x))
    shape = ops.shape_of(x)
    if rank == 1:
        x = ops.reshape(x, [-1])
    y = ops.searchsorted(row, x, right=bool(right or side == "right"))
    y = ops.reshape(y, shape) if rank == 1 else y
    return ops.astype(y, dtype="int32") if out_int32 else ops.astype(y, dtype="int64")


def read_bucketize(x: Any, boundaries: Any, *, out_int32: bool = False,
                   right: bool = False) -> Any:  # fmt: skip
    return read_searchsorted(boundaries, x, out_int32=out_int32, right=right)


def read_unique2(x: Any, sorted: bool = True, return_inverse: bool = False,
                 return_counts: bool = False) -> Any:  # fmt: skip
    del sorted
    flat = ops.reshape(x, [-1])
    values, _, inverse, counts = ops.unique(flat, sorted=True)
    none = np.zeros(0, "int64")
    return (values,
            ops.reshape(inverse, ops.shape_of(x)) if return_inverse else none,
            counts if return_counts else none)  # fmt: skip


def read_unique_dim(x: Any, dim: int, sorted: bool = True, return_inverse: bool = False,
                    return_counts: bool = False) -> Any:  # fmt: skip
    del sorted
    values, _, inverse, counts = ops.unique(x, axis=axis_of(dim, x), sorted=True)
    none = np.zeros(0, "int64")
    return (
        values,
        inverse if return_inverse else none,
        counts if return_counts else none,
    )


def read_unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The first element of each run, the run of each element, and their lengths."""
    axis = 0 if dim is None else axis_of(dim, x)
    row = ops.reshape(x, [-1]) if dim is None else x
    before = ops.slice_(row, [0], [-1], [axis])
    after = ops.slice_(row, [1], [2**62], [axis])
    rest = [i for i in range(rank_of(row)) if i != axis]
    differs = ops.not_equal(before, after)
    differs = ops.any(differs, rest) if rest else differs
    first = ops.concat(np.asarray([True]), differs, axis=0)
    values = ops.compress(row, first, axis=axis)
    run = ops.cumulative_sum(ops.astype(first, dtype="int64"), 0) - np.int64(1)
    none = np.zeros(0, "int64")
    inverse: Any = none
    if return_inverse:
        inverse = ops.reshape(run, ops.shape_of(x)) if dim is None else run
    counts: Any = none
    if return_counts:
        counts = ops.bincount(run, ops.dim(values, axis=axis))
    return values, inverse, counts


def read_nonzero(x: Any) -> Any:
    """A row of coordinates for each nonzero element."""
    return ops.transpose(ops.nonzero(x))


def read_nonzero_static(x: Any, *, size: Any, fill_value: int = -1) -> Any:
    """A fixed number of rows, those beyond the nonzero elements filled."""
    rows = read_nonzero(x)
    rank = rank_of(x)
    fill = ops.full([integer(size, "size"), rank], np.int64(fill_value))
    return ops.slice_(ops.concat(rows, fill, axis=0), [0], [integer(size, "size")], [0])


def read_histogram(x: Any, bins: Any, *, range: Any = None, weight: Any = None,
                   density: bool = False) -> Any:  # fmt: skip
    flat = ops.reshape(x, [-1])
    edges = _edges(flat, bins, range)
    counts = _counts(flat, edges, weight)
    if density:
        widths = _ends(edges, 1) - _ends(edges, 0)
        counts = counts / (ops.sum(counts) * widths)
    return counts, edges


def _edges(flat: Any, bins: Any, limits: Any) -> Any:
    """The edges of bins of equal widths, or as they are given."""
    if not isinstance(bins, int):
        return bins
    if limits:
        low, high = (number(v, flat.dtype) for v in limits)
    else:
        low, high = _data_range(flat, 0.5)
    steps = ops.astype(ops.arange(0, bins + 1), dtype=flat.dtype)
    edges = low + steps * ((high - low) / number(bins, flat.dtype))
    return ops.concat(ops.slice_(edges, [0], [bins], [0]), ops.reshape(high, [1]),
                      axis=0)  # fmt: skip


def read_histogram_of_rows(x: Any, bins: Any, range: Any = None, weight: Any = None,
                           density: bool = False) -> Any:  # fmt: skip
    """Rows are points; the bins of each coordinate have equal widths, or are given."""
    width = integer(x.type.shape.dims[-1], "the number of coordinates")
    parts = ops.split(ops.reshape(x, [-1, width]), [1] * width, axis=1, outputs=width)
    columns = [ops.squeeze(part, [1]) for part in parts]
    counts = [bins] * width if isinstance(bins, int) else bins
    limits = [range[i : i + 2] for i in np.arange(0, 2 * width, 2)] if range else None
    edges = [
        _edges(column, count, None if limits is None else limits[i])
        for i, (column, count) in enumerate(zip(columns, counts, strict=True))
    ]
    found = _counts_of_rows(columns, edges, weight)
    if density:
        found = found / ops.sum(found)
        for i, edge in enumerate(edges):
            shape = np.where(np.arange(width) == i, -1, 1).tolist()
            found = found / ops.reshape(_ends(edge, 1) - _ends(edge, 0), shape)
    return (found, *edges)


def _counts_of_rows(columns: Sequence[Any], edges: Sequence[Any], weight: Any) -> Any:
    sizes = [int(each.shape[0]) - 1 for each in edges]
    share = ops.ones_like(columns[0]) if weight is None else ops.reshape(weight, [-1])
    place: Any = np.zeros((), "int64")
    for column, edge, size in zip(columns, edges, sizes, strict=True):
        at, inside = _places(column, edge, size)
        share = share * ops.astype(inside, dtype=column.dtype)
        place = place * np.int64(size) + at
    return ops.reshape(ops.bincount(place, math.prod(sizes), share), sizes)


def _ends(edges: Any, at: int) -> Any:
    return ops.slice_(edges, [at], [2**62 if at else -1], [0])


def _counts(flat: Any, edges: Any, weight: Any) -> Any:
    """Weights of elements between edges; the last bin has both of its ends."""
    size = int(edges.shape[0]) - 1
    place, inside = _places(flat, edges, size)
    share = ops.astype(inside, dtype=flat.dtype)
    if weight is not None:
        share = share * ops.reshape(weight, [-1])
    return ops.bincount(place, size, share)


def _places(flat: Any, edges: Any, size: int) -> tuple[Any, Any]:
    """The bin of each element, and whether it is in one."""
    place = ops.searchsorted(edges, flat, right=True) - np.int64(1)
    last = ops.gather(edges, np.asarray(size))
    place = ops.where(ops.equal(flat, last), np.int64(size - 1), place)
    inside = ops.logical_and(ops.greater_equal(place, np.int64(0)),
                             ops.less(place, np.int64(size)))  # fmt: skip
    return ops.minimum(ops.maximum(place, np.int64(0)), np.int64(size - 1)), inside


READ = torch_functions(
    {
        "sort": read_sort,
        "sort.stable": read_sort_stable,
        "argsort": read_argsort,
        "argsort.stable": read_argsort_stable,
        "msort": read_msort,
        "topk": read_topk,
        "kthvalue": read_kthvalue,
        "median": read_median,
        "nanmedian": read_nanmedian,
        "median.dim": read_median_along,
        "nanmedian.dim": read_nanmedian_along,
        "mode": read_mode,
        "quantile quantile.scalar": read_quantile,
        "nanquantile nanquantile.scalar": read_nanquantile,
        "histc": read_histc,
        "bincount": read_bincount,
        "searchsorted.Tensor searchsorted.Scalar": read_searchsorted,
        "bucketize.Tensor bucketize.Scalar": read_bucketize,
        "_unique2": read_unique2,
        "unique_dim": read_unique_dim,
        "unique_consecutive": read_unique_consecutive,
        "nonzero argwhere": read_nonzero,
        "nonzero_static": read_nonzero_static,
        "histogram.bin_ct histogram.bins_tensor": read_histogram,
        "histogramdd histogramdd.int_bins": read_histogram_of_rows,
        "histogramdd.TensorList_bins": read_histogram_of_rows,
    }
)
