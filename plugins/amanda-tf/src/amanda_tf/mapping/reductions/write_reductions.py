"""To TensorFlow: reductions, cumulative ops, arguments of extrema, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std.mappings import rank_of, scalar_like
from amanda_tf.mapping.operands import (
    INT64,
    as_value,
    dims_of,
    dtype_of,
    int_tensor,
    required_static,
)

__all__ = ["WRITE", "last_size", "reverse_order"]


def _reduction_writer(type: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        operand = _axes(o, x, axes)
        if type not in _SUMS or not _is_narrow(x):
            return o.op(type, x, operand, keep_dims=keepdims)
        y = o.op(type, o.Cast(x, DstT=_WIDE), operand, keep_dims=keepdims)
        return o.Cast(y, DstT=dtype_of(x))

    return write


_WIDE = DType("float32")
_SUMS = ("Sum", "Prod", "Mean")
"""Reductions that round at each step, of narrow floats too in TensorFlow."""


def _is_narrow(x: Any) -> bool:
    dtype = dtype_of(x)
    return dtype.kind == "float" and dtype.bits < 32


def _axes(o: Any, x: Any, axes: Any) -> Any:
    if axes is not None:
        return as_value(axes)
    if getattr(x.type, "shape", None) is not None and x.type.shape.has_rank:
        return int_tensor(list(range(rank_of(x))))
    zero, one = int_tensor(0), int_tensor(1)
    return o.Range(zero, o.Rank(x), one)


def write_logsumexp(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """Without overflow: of the differences to the maximum, where that is finite."""
    places = _axes(o, x, axes)
    most = o.StopGradient(o.Max(x, places, keep_dims=True))
    most = o.SelectV2(o.IsFinite(most), most, o.ZerosLike(most))
    total = o.Sum(o.Exp(o.Sub(x, most)), places, keep_dims=True)
    y = o.AddV2(o.Log(total), most)
    if keepdims:
        return y
    return o.Reshape(y, o.Shape(o.Sum(x, places), out_type=INT64))


def _extremum_writer(type: str) -> Callable[..., Any]:
    def write(
        o: Any, x: Any, axis: Any = 0, *, keepdims: bool = False, last: bool = False
    ) -> Any:
        if last:
            return _last(o, type, x, required_static(axis, "the axis"), keepdims)
        y = o.op(type, x, as_value(axis), output_type=INT64)
        return o.ExpandDims(y, as_value(axis)) if keepdims else y

    return write


def _last(o: Any, type: str, x: Any, axis: int, keepdims: bool) -> Any:
    """The last of several extrema: the first of the reversed axis."""
    size = dims_of(x)[axis]
    if not isinstance(size, int):
        raise Decline("the last extremum along an axis of unknown length")
    turned = o.ReverseV2(x, int_tensor([axis % rank_of(x)]))
    y = o.op(type, turned, int_tensor(axis), output_type=INT64)
    y = o.Sub(int_tensor(size - 1, "int64"), y)
    return o.ExpandDims(y, int_tensor(axis)) if keepdims else y


def _cumulative_writer(type: str) -> Callable[..., Any]:
    def write(
        o: Any, x: Any, axis: Any = 0, *, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        return o.op(type, x, as_value(axis), exclusive=exclusive, reverse=reverse)

    return write


def write_topk(o: Any, x: Any, k: Any, *, axis: int = -1, largest: bool = True) -> Any:
    """Along the last axis; the smallest are the largest of what is negated."""
    rank = rank_of(x)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moved = axis % rank != rank - 1
    y = o.Transpose(x, int_tensor(order)) if moved else x
    y = y if largest else reverse_order(o, y, x)
    count: Any = int_tensor(np.reshape(k, ())) if not isinstance(k, OutputPort) else (
        o.Cast(o.Reshape(k, int_tensor([])), DstT=DType("int32"))
    )  # fmt: skip
    values, at = o.TopKV2(y, count)
    at = o.Cast(at, DstT=INT64)
    values = values if largest else reverse_order(o, values, x)
    if moved:
        values, at = (o.Transpose(v, int_tensor(order)) for v in (values, at))
    return values, at


def reverse_order(o: Any, y: Any, like: Any) -> Any:
    """Values in the reverse order: negative, or inverted for integers."""
    if dtype_of(like).kind in ("int", "uint"):
        return o.Invert(y)
    return o.Neg(y)


def _length(o: Any, x: Any, axis: int) -> Any:
    size = dims_of(x)[axis]
    if isinstance(size, int):
        return int_tensor(size)
    shape = o.Shape(x, out_type=DType("int32"))
    return o.GatherV2(shape, int_tensor(axis % rank_of(x)), int_tensor(0))


def last_size(o: Any, x: Any) -> Any:
    """The size of the last axis."""
    return _length(o, x, -1)


def write_sort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return write_topk(o, x, _length(o, x, axis), axis=axis, largest=descending)[0]


def write_argsort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return write_topk(o, x, _length(o, x, axis), axis=axis, largest=descending)[1]


def write_searchsorted(o: Any, xs: Any, values: Any, *, right: bool = False) -> Any:
    """Rows of sorted numbers; a vector is one row, of all values."""
    shape = o.Shape(values, out_type=DType("int32"))
    rank = rank_of(xs)
    if rank == 1:
        xs = o.ExpandDims(xs, int_tensor(0))
        values = o.Reshape(values, int_tensor([1, -1]))
    elif rank > 2:
        xs, values = (_as_rows(o, v) for v in (xs, values))
    op = "UpperBound" if right else "LowerBound"
    found = o.op(op, xs, values, out_type=INT64)
    return found if rank == 2 else o.Reshape(found, shape)


def _as_rows(o: Any, x: Any) -> Any:
    """All axes but the last as one."""
    shape = o.Shape(x)
    last = o.Slice(shape, int_tensor([rank_of(x) - 1]), int_tensor([1]))
    return o.Reshape(x, o.ConcatV2(int_tensor([-1]), last, int_tensor(0), N=2))


def _running_extremum_writer(type: str) -> Callable[..., Any]:
    """Cumulative extrema, by comparing with all elements before."""

    def write(o: Any, x: Any, axis: Any = 0, *, reverse: bool = False) -> Any:
        at = required_static(axis, "the axis")
        size, rank = dims_of(x)[at], rank_of(x)
        dtype = dtype_of(x)
        if not isinstance(size, int) or dtype.kind not in ("float", "int", "uint"):
            raise Decline(f"of an axis of unknown length, or of {dtype}")
        mask = np.tril(np.ones((size, size), bool))
        mask = mask.T if reverse else mask
        at %= rank
        rows = o.ExpandDims(x, int_tensor(at))
        keep = mask.reshape((1,) * at + (size, size) + (1,) * (rank - at - 1))
        limit = scalar_like(_neutral(type, dtype), x)
        wide = o.SelectV2(Tensor.of(keep), rows, limit)
        return o.op(type, wide, int_tensor(at + 1))

    return write


def _neutral(type: str, dtype: DType) -> Any:
    """The number that every other one is greater than, or less than."""
    if dtype.kind == "float":
        return -np.inf if type == "Max" else np.inf
    limits = np.iinfo(dtype.numpy)
    return limits.min if type == "Max" else limits.max


def write_segment_reduce(
    o: Any, x: Any, segments: Any, count: Any, *, reduction: str
) -> Any:
    """Sums and products; empty segments of others have other values in TensorFlow."""
    types = {"sum": "UnsortedSegmentSum", "prod": "UnsortedSegmentProd"}
    if reduction not in types:
        raise Decline(f"empty segments of reduction {reduction}")
    if isinstance(count, OutputPort):
        number = o.Cast(o.Reshape(count, int_tensor([])), DstT=dtype_of(segments))
    else:
        number = scalar_like(np.ravel(count)[0], segments)
    inside = o.Less(segments, number)
    kept = o.SelectV2(inside, segments, scalar_like(-1, segments))
    return o.op(types[reduction], x, kept, number)


WRITE: dict[str, Any] = {
    "segment_reduce": write_segment_reduce,
    "sum": _reduction_writer("Sum"),
    "prod": _reduction_writer("Prod"),
    "max": _reduction_writer("Max"),
    "min": _reduction_writer("Min"),
    "mean": _reduction_writer("Mean"),
    "any": _reduction_writer("Any"),
    "all": _reduction_writer("All"),
    "logsumexp": write_logsumexp,
    "argmax": _extremum_writer("ArgMax"),
    "argmin": _extremum_writer("ArgMin"),
    "cumulative_sum": _cumulative_writer("Cumsum"),
    "cumulative_prod": _cumulative_writer("Cumprod"),
    "cumulative_logsumexp": _cumulative_writer("CumulativeLogsumexp"),
    "cumulative_max": _running_extremum_writer("Max"),
    "cumulative_min": _running_extremum_writer("Min"),
    "topk": write_topk,
    "sort": write_sort,
    "argsort": write_argsort,
    "searchsorted": write_searchsorted,
}
