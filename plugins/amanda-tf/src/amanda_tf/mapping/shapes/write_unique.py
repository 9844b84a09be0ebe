"""To TensorFlow: unique elements, and unique slices along an axis."""

from __future__ import annotations

from typing import Any

from amanda.types import DType
from amanda_std.mappings import rank_of
from amanda_tf.mapping.operands import INT64, int_tensor
from amanda_tf.mapping.reductions.write_reductions import reverse_order

__all__ = ["WRITE"]

_ONE = int_tensor(1, "int64")


def write_unique(o: Any, x: Any, *, axis: Any = None, sorted: bool = True) -> Any:
    rank = 1 if axis is None else rank_of(x)
    flat = o.Reshape(x, int_tensor([-1])) if axis is None else x
    axis = (axis or 0) % rank
    values, inverse, counts = o.UniqueWithCountsV2(
        flat, int_tensor([axis]), out_idx=INT64
    )
    if sorted:
        order = (
            _order_of(o, values, x)
            if rank == 1
            else _order_of_slices(o, values, axis, rank)
        )
        values = o.GatherV2(values, order, int_tensor(axis))
        counts = o.GatherV2(counts, order, int_tensor(0))
        ranks = o.Cast(o.InvertPermutation(order), DstT=INT64)
        inverse = o.GatherV2(ranks, inverse, int_tensor(0))
    count = o.Size(inverse, out_type=INT64)
    places = o.Range(int_tensor(0, "int64"), count, _ONE)
    first = o.UnsortedSegmentMin(places, inverse, o.Size(counts, out_type=INT64))
    return values, first, inverse, counts


def _order_of(o: Any, values: Any, x: Any) -> Any:
    """The permutation that sorts a vector whose elements are those of x."""
    size = o.Size(values, out_type=DType("int32"))
    return o.TopKV2(reverse_order(o, values, x), size)[1]


def _order_of_slices(o: Any, values: Any, axis: int, rank: int) -> Any:
    """The permutation that sorts different slices: by the first element that differs.

    The rank of a slice is the number of those that are less.
    """
    order = [axis, *(i for i in range(rank) if i != axis)]
    count = o.GatherNd(o.Shape(values), int_tensor([axis]))
    shape = o.Pack(count, int_tensor(-1), axis=0)
    rows = o.Reshape(o.Transpose(values, int_tensor(order)), shape)
    a, b = (o.ExpandDims(rows, int_tensor(i)) for i in (1, 0))
    differs = o.Cast(o.NotEqual(a, b), DstT=DType("int32"))
    at = o.ArgMax(differs, int_tensor(2), output_type=INT64)
    column = o.ExpandDims(at, int_tensor(2))
    less = o.GatherV2(o.Less(a, b), column, int_tensor(2), batch_dims=2)
    ranks = o.Sum(o.Cast(less, DstT=DType("int32")), int_tensor([0, 2]))
    return o.InvertPermutation(ranks)


WRITE: dict[str, Any] = {"unique": write_unique}
