"""To TensorFlow: shapes, slices, joins, indexing and generated tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std.mappings import rank_of, scalar_like, static_value
from amanda_tf.mapping.operands import (
    INT64,
    as_value,
    as_vector,
    as_wide,
    axes_from_start,
    dims_of,
    dtype_of,
    int_tensor,
    required_static,
)

__all__ = ["WRITE", "write_strided_slice"]


def write_shape_of(o: Any, x: Any) -> Any:
    return o.Shape(x, out_type=INT64)


def write_size(o: Any, x: Any) -> Any:
    return o.Size(x, out_type=INT64)


def write_dim(o: Any, x: Any, *, axis: int) -> Any:
    place = int_tensor(axis % rank_of(x))
    return o.GatherV2(o.Shape(x, out_type=INT64), place, int_tensor(0))


def write_reshape(o: Any, x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    known = static_value(shape)
    if not copy_zero or (known is not None and 0 not in known):
        return o.Reshape(x, as_value(shape))
    if known is not None:
        dims = dims_of(x)
        filled = [dims[i] if n == 0 else n for i, n in enumerate(known)]
        if all(isinstance(n, int) for n in filled):
            return o.Reshape(x, int_tensor(filled))
    return o.Reshape(x, _with_copied_dims(o, x, as_wide(o, shape)))


def _with_copied_dims(o: Any, x: Any, shape: Any) -> Any:
    """A shape known at run time, whose zeros are dims of x."""
    count, rank = dims_of(shape)[0], rank_of(x)
    if not isinstance(count, int):
        raise Decline("zeros in a shape of unknown length copy dims")
    own = o.Shape(x, out_type=INT64)
    if count < rank:
        own = o.Slice(own, int_tensor([0]), int_tensor([count]))
    elif count > rank:
        own = o.Pad(own, int_tensor([[0, count - rank]]))
    return o.SelectV2(o.Equal(shape, int_tensor(0, "int64")), own, shape)


def write_squeeze(o: Any, x: Any, axes: Any = None) -> Any:
    if axes is None:
        return o.Squeeze(x)
    known = static_value(axes)
    if known is None:
        rest = _other_axes(o, axes, rank_of(x))
        return o.Reshape(x, o.GatherNd(o.Shape(x, out_type=INT64), rest))
    return o.Squeeze(x, squeeze_dims=known) if known else o.Identity(x)


def _other_axes(o: Any, axes: Any, rank: int) -> Any:
    """The axes that a vector known at run time does not name, as a column."""
    places = o.ExpandDims(axes_from_start(o, axes, rank), int_tensor(1))
    ones = o.OnesLike(axes_from_start(o, axes, rank))
    named = o.ScatterNd(places, ones, int_tensor([rank], "int64"))
    return o.Where(o.Equal(named, int_tensor(0, "int64")))


def write_expand_dims(o: Any, x: Any, axes: Any) -> Any:
    known = static_value(axes)
    if known is None:
        return _expand_computed_axes(o, x, axes)
    known = known if isinstance(known, list) else [known]
    total = rank_of(x) + len(known)
    for axis in sorted(axis % total for axis in known):
        x = o.ExpandDims(x, int_tensor(axis))
    return x if known else o.Identity(x)


def _expand_computed_axes(o: Any, x: Any, axes: Any) -> Any:
    """A reshape to a shape of ones, with the dims of x in the other axes."""
    count = dims_of(axes)[0] if rank_of(axes) else 1
    if not isinstance(count, int):
        raise Decline("the number of axes is known at run time only")
    total = rank_of(x) + count
    ones = int_tensor([1] * total, "int64")
    rest = _other_axes(o, axes, total)
    own = o.Shape(x, out_type=INT64)
    return o.Reshape(x, o.TensorScatterUpdate(ones, rest, own))


def write_transpose(o: Any, x: Any, *, perm: Any = None) -> Any:
    order = list(range(rank_of(x)))[::-1] if perm is None else list(perm)
    return o.Transpose(x, int_tensor(order))


def write_full(o: Any, shape: Any, value: Any) -> Any:
    return o.Fill(as_value(shape), value)


def write_eye(o: Any, rows: Any, columns: Any = None, *, k: int = 0,
              dtype: Any) -> Any:  # fmt: skip
    sizes = [rows, rows if columns is None else columns]
    height, width = (required_static(size, "the size") for size in sizes)
    matrix = Tensor.of(np.eye(height, width, k).astype(dtype.numpy))
    return o.graph.constant(matrix).output


def write_concat(o: Any, *xs: Any, axis: int = 0) -> Any:
    if len(xs) == 1:
        return o.Identity(xs[0])
    return o.ConcatV2(*xs, int_tensor(axis), N=len(xs))


def write_stack(o: Any, *xs: Any, axis: int = 0) -> Any:
    return o.Pack(*xs, axis=axis)


def write_split(o: Any, x: Any, sizes: Any = None, *, axis: int = 0,
                outputs: int) -> Any:  # fmt: skip
    if sizes is None:
        size = dims_of(x)[axis]
        if not isinstance(size, int) or size % outputs == 0:
            parts = o.Split(int_tensor(axis), x, num_split=outputs, outputs=outputs)
            return parts if isinstance(parts, tuple) else (parts,)
        part = -(-size // outputs)
        sizes = [min(part, max(size - i * part, 0)) for i in range(outputs)]
    parts = o.SplitV(
        x, as_value(sizes), int_tensor(axis), num_split=outputs, outputs=outputs
    )
    return parts if isinstance(parts, tuple) else (parts,)


def write_flip(o: Any, x: Any, axes: Any = None) -> Any:
    return o.ReverseV2(
        x, int_tensor(range(rank_of(x))) if axes is None else as_value(axes)
    )


def write_slice(o: Any, x: Any, starts: Any, stops: Any, axes: Any = None,
                steps: Any = None) -> Any:  # fmt: skip
    """A strided slice whose other axes are whole."""
    rank = rank_of(x)
    given = [None if v is None else static_value(v) for v in (axes, steps)]
    if (axes is not None and given[0] is None) or (
        steps is not None and given[1] is None
    ):
        return _slice_computed_axes(o, x, starts, stops, axes, steps)
    known, apart = given
    if known is None:
        known = list(range(_count(starts, stops, rank)))
    places = [axis % rank for axis in known]
    step = [1] * rank
    for place, one in zip(places, apart or [1] * len(places), strict=True):
        step[place] = one
    return write_strided_slice(o, x, starts, stops, places, step)


def _slice_computed_axes(
    o: Any, x: Any, starts: Any, stops: Any, axes: Any, steps: Any
) -> Any:
    """A slice along axes, or with steps, that are known at run time only."""
    rank = rank_of(x)
    if axes is None:
        axes = list(range(_count(starts, stops, rank)))
    places = o.ExpandDims(axes_from_start(o, axes, rank), int_tensor(1))
    ends = []
    for value, other in ((starts, 0), (stops, 2**63 - 1), (steps, 1)):
        every = int_tensor([other] * rank, "int64")
        if value is None:
            ends.append(every)
        else:
            ends.append(o.TensorScatterUpdate(every, places, as_wide(o, value)))
    return o.StridedSlice(x, *ends)


def _count(starts: Any, stops: Any, rank: int) -> int:
    for value in (starts, stops):
        known = static_value(value)
        if known is not None:
            return len(known)
    size = dims_of(starts)[0]
    return size if isinstance(size, int) else rank


def write_strided_slice(o: Any, x: Any, starts: Any, stops: Any, places: list[int],
                        step: list[int]) -> Any:  # fmt: skip
    """A slice along some axes, whose other axes are whole."""
    rank = len(step)
    fixed = [static_value(starts), static_value(stops)]
    mask = sum(1 << i for i in range(rank) if i not in places)
    if None not in fixed:
        first, last, low, high = [0] * rank, [0] * rank, mask, mask
        for place, begin, end in zip(places, *fixed, strict=True):
            first[place], last[place] = begin, end
            if step[place] < 0 and _beyond(begin, dims_of(x)[place]):
                low |= 1 << place
            if (step[place] < 0 and end < -(2**31)) or (
                step[place] > 0 and end >= 2**31 - 1
            ):
                high |= 1 << place
                last[place] = 0
            if begin >= 2**31 - 1:
                first[place] = 2**31 - 1
            if begin < -(2**31):
                low, first[place] = low | 1 << place, 0
        ends: list[Any] = [_clamp_to_int32(first), _clamp_to_int32(last)]
    else:
        ends = [_of_every_axis(o, v, places, rank) for v in (starts, stops)]
        low = high = mask
    dtype = "int64" if any(isinstance(e, OutputPort) for e in ends) else "int32"
    operands = [e if isinstance(e, OutputPort) else int_tensor(e, dtype) for e in ends]
    return o.StridedSlice(
        x, *operands, int_tensor(step, dtype), begin_mask=low, end_mask=high
    )


def _beyond(begin: int, limit: Any) -> bool:
    return begin >= 2**31 - 1 or (isinstance(limit, int) and begin >= limit)


def _clamp_to_int32(values: list[int]) -> list[int]:
    return [max(min(v, 2**31 - 1), -(2**31)) for v in values]


def _of_every_axis(o: Any, value: Any, places: list[int], rank: int) -> Any:
    """A vector of int64 with an element for every axis."""
    value = as_wide(o, value)
    if places == list(range(rank)):
        return value if isinstance(value, OutputPort) else o.Identity(value)
    at = int_tensor([[p] for p in places])
    return o.ScatterNd(at, value, int_tensor([rank]))


def _triangle(o: Any, x: Any, k: Any, compare: Any) -> Any:
    """Elements on one side of a diagonal that is computed, or beside the main one."""
    rows, columns = (_range_of(o, x, axis) for axis in (-2, -1))
    offset = o.Sub(columns, o.ExpandDims(rows, int_tensor(1)))
    keep = compare(offset, o.Cast(o.Reshape(k, int_tensor([])), DstT=INT64))
    return o.SelectV2(keep, x, scalar_like(0, x))


def _range_of(o: Any, x: Any, axis: int) -> Any:
    """0, 1, ... for each place of an axis."""
    size = dims_of(x)[axis]
    stop = (
        int_tensor(size, "int64")
        if isinstance(size, int)
        else write_dim(o, x, axis=axis)
    )
    return o.Range(int_tensor(0, "int64"), stop, int_tensor(1, "int64"))


def write_view(o: Any, x: Any, shape: Any, strides: Any, offset: Any = 0) -> Any:
    """The elements at the places that strides lead to."""
    sizes, steps = (
        required_static(shape, "the shape"),
        required_static(strides, "strides"),
    )
    places = np.full(sizes, required_static(offset, "the offset"))
    for i, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        places = places + (np.arange(size) * step).reshape(
            [-1] + [1] * (len(sizes) - i - 1)
        )
    flat = o.Reshape(x, int_tensor([-1]))
    return o.GatherV2(flat, int_tensor(places), int_tensor(0))


def _band(x: Any, width: int, axis: int) -> Tensor:
    """The width of a band; -1 for all of an axis that has less elements."""
    size = dims_of(x)[axis]
    return int_tensor(-1 if isinstance(size, int) and width > size else width)


def write_tril(o: Any, x: Any, k: Any = 0) -> Any:
    upper = static_value(k)
    if upper is None or upper < 0:
        return _triangle(o, x, k if upper is None else int_tensor(upper), o.LessEqual)
    return o.MatrixBandPart(x, int_tensor(-1), _band(x, upper, -1))


def write_triu(o: Any, x: Any, k: Any = 0) -> Any:
    lower = static_value(k)
    if lower is None or lower > 0:
        known = k if lower is None else int_tensor(lower)
        return _triangle(o, x, known, o.GreaterEqual)
    return o.MatrixBandPart(x, _band(x, -lower, -2), int_tensor(-1))


# -- casts -----------------------------------------------------------------------------


def write_astype(o: Any, x: Any, *, dtype: Any) -> Any:
    if "string" in (dtype_of(x).kind, dtype.kind):
        raise Decline("Cast does not support strings")
    source = dtype_of(x)
    if source.kind == "complex" and dtype.kind == "bool":
        return o.NotEqual(x, scalar_like(0, x))
    has_half_byte = {str(source), str(dtype)} & {"int4", "uint4"}
    if has_half_byte and not {str(source), str(dtype)} <= _OF_HALF_BYTES:
        x = o.Cast(x, DstT=DType("int32"))
    return o.Cast(x, DstT=dtype)


_OF_HALF_BYTES = {"int4", "uint4", "int8", "uint8", "int32", "int64"}
"""The element types with casts from and to elements of 4 bits; others go by int32."""


def write_bitcast(o: Any, x: Any, *, dtype: Any) -> Any:
    return o.side.build(o.graph, "Bitcast", [x], {"type": dtype})[0]


# -- indexing --------------------------------------------------------------------------


def write_gather(o: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
    """Negative indices count from the end."""
    place = required_static(axis, "the axis")
    at = _from_start(o, indices, dims_of(x)[place], x, place)
    return o.GatherV2(x, at, int_tensor(place))


def _from_start(o: Any, indices: Any, size: Any, x: Any, axis: int) -> Any:
    known = static_value(indices)
    if known is not None:
        array = np.asarray(known)
        if not array.size or array.min() >= 0:
            return indices
        if isinstance(size, int):
            return int_tensor(np.where(array < 0, array + size, array))
    if not isinstance(size, int):
        size = o.Cast(write_dim(o, x, axis=axis), DstT=dtype_of(indices))
    else:
        size = scalar_like(size, indices)
    below = o.Less(indices, scalar_like(0, indices))
    return o.SelectV2(below, o.AddV2(indices, size), indices)


def write_gather_elements(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    at = _from_start(o, indices, dims_of(x)[axis], x, axis)
    return o.GatherNd(x, _coordinates(o, at, indices, axis))


def _coordinates(o: Any, at: Any, indices: Any, axis: int) -> Any:
    """Indices along one axis as coordinates of all axes."""
    rank, dtype = rank_of(indices), dtype_of(indices)
    dims = dims_of(indices)
    rows: list[Any]
    if all(isinstance(n, int) for n in dims):
        rows = [Tensor.of(g) for g in np.indices(dims).astype(dtype.numpy)]
    else:
        shape = o.Shape(indices, out_type=INT64)
        rows = [
            o.BroadcastTo(_places_of(o, indices, i, dtype), shape) for i in range(rank)
        ]
    rows[axis] = at
    return o.Pack(*rows, axis=rank)


def write_gather_nd(o: Any, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """Leading axes that both have are coordinates, too."""
    if not batch_dims:
        return o.GatherNd(x, indices)
    count = rank_of(indices)
    column = o.Slice(indices, int_tensor([0] * count),
                     int_tensor([-1] * (count - 1) + [1]))  # fmt: skip
    shape = o.Shape(column, out_type=INT64)
    lead = [
        o.BroadcastTo(_places_of(o, indices, i, dtype_of(indices)), shape)
        for i in range(batch_dims)
    ]
    return o.GatherNd(x, o.ConcatV2(*lead, indices, int_tensor(-1), N=batch_dims + 1))


def _places_of(o: Any, x: Any, axis: int, dtype: DType) -> Any:
    """0, 1, ... along an axis of x, whose other dims are 1."""
    column = [1] * rank_of(x)
    column[axis] = -1
    places = o.Reshape(_range_of(o, x, axis), int_tensor(column))
    return o.Cast(places, DstT=dtype)


_REDUCTIONS = {
    "none": "TensorScatterUpdate", "add": "TensorScatterAdd",
    "max": "TensorScatterMax", "min": "TensorScatterMin",
}  # fmt: skip


def write_scatter_nd(o: Any, x: Any, indices: Any, updates: Any, *,
                     reduction: str = "none") -> Any:  # fmt: skip
    at = _positive(o, x, indices)
    return _scatter(o, x, at, updates, reduction, dims_of(indices)[-1])


def _scatter(o: Any, x: Any, at: Any, updates: Any, reduction: str, width: Any) -> Any:
    """Updates at coordinates, of which each has `width` elements."""
    if any(isinstance(n, int) and n == 0 for n in dims_of(x)):
        return o.Identity(x)
    if reduction in _REDUCTIONS:
        return o.op(_REDUCTIONS[reduction], x, at, updates)
    if reduction != "mul" or not isinstance(width, int):
        raise Decline(f"TensorFlow has no scatter with reduction {reduction}")
    shape = o.Shape(x, out_type=INT64)
    lead = o.Slice(shape, int_tensor([0]), int_tensor([width]))
    tail = o.Slice(shape, int_tensor([width]), int_tensor([-1]))
    steps = o.Cumprod(lead, int_tensor(0), exclusive=True, reverse=True)
    numbers = o.Sum(o.Mul(o.Cast(at, DstT=INT64), steps), int_tensor(-1))
    rows = o.Reshape(updates, o.ConcatV2(int_tensor([-1], "int64"), tail, int_tensor(0),
                                         N=2))  # fmt: skip
    flat = o.Reshape(numbers, int_tensor([-1]))
    factors = o.UnsortedSegmentProd(rows, flat, o.Prod(lead, int_tensor(0)))
    return o.Mul(x, o.Reshape(factors, shape))


def _positive(o: Any, x: Any, indices: Any) -> Any:
    """Coordinates counted from the start."""
    known = static_value(indices)
    if known is not None and (not np.size(known) or np.min(known) >= 0):
        return indices
    count = dims_of(indices)[-1]
    sizes = dims_of(x)[:count]
    if not all(isinstance(n, int) for n in sizes):
        shape = o.Cast(o.Shape(x, out_type=INT64), DstT=dtype_of(indices))
        limit: Any = o.StridedSlice(
            shape, int_tensor([0]), int_tensor([count]), int_tensor([1])
        )
    else:
        limit = Tensor.of(np.array(sizes).astype(dtype_of(indices).numpy))
    below = o.Less(indices, scalar_like(0, indices))
    return o.SelectV2(below, o.AddV2(indices, limit), indices)


def write_scatter_elements(o: Any, x: Any, indices: Any, updates: Any, *,
                           axis: int = 0, reduction: str = "none") -> Any:  # fmt: skip
    at = _from_start(o, indices, dims_of(x)[axis], x, axis)
    places = _coordinates(o, at, indices, axis)
    return _scatter(o, x, places, updates, reduction, rank_of(x))


def write_nonzero(o: Any, x: Any) -> Any:
    if dtype_of(x).kind != "bool":
        x = o.NotEqual(x, scalar_like(0, x))
    return o.Transpose(o.Where(x), int_tensor([1, 0]))


def write_arange(o: Any, start: Any, stop: Any, step: Any = 1) -> Any:
    return o.Range(*(as_wide(o, end) for end in (start, stop, step)))


def write_range(o: Any, start: Any, stop: Any, step: Any) -> Any:
    return o.Range(start, stop, step)


def write_broadcast_to(o: Any, x: Any, shape: Any) -> Any:
    """A 1 in the shape keeps the dim of x."""
    known, dims = static_value(shape), dims_of(x)
    if known is not None and len(known) >= len(dims):
        tail = known[len(known) - len(dims) :]
        if all(n != 1 or d == 1 for n, d in zip(tail, dims, strict=True)):
            return o.BroadcastTo(x, as_value(shape))
    dtype = dtype_of(shape) if isinstance(shape, OutputPort) else DType("int32")
    return o.BroadcastTo(
        x, o.BroadcastArgs(o.Shape(x, out_type=dtype), as_value(shape))
    )


def write_tile(o: Any, x: Any, repeats: Any) -> Any:
    return o.Tile(x, as_vector(o, repeats))


WRITE: dict[str, Any] = {
    "shape_of": write_shape_of,
    "size": write_size,
    "dim": write_dim,
    "reshape": write_reshape,
    "squeeze": write_squeeze,
    "expand_dims": write_expand_dims,
    "transpose": write_transpose,
    "full": write_full,
    "eye": write_eye,
    "concat": write_concat,
    "stack": write_stack,
    "split": write_split,
    "flip": write_flip,
    "slice": write_slice,
    "tril": write_tril,
    "view": write_view,
    "triu": write_triu,
    "astype": write_astype,
    "bitcast": write_bitcast,
    "gather": write_gather,
    "gather_nd": write_gather_nd,
    "gather_elements": write_gather_elements,
    "scatter_nd": write_scatter_nd,
    "scatter_elements": write_scatter_elements,
    "nonzero": write_nonzero,
    "arange": write_arange,
    "range": write_range,
    "broadcast_to": write_broadcast_to,
}
