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
    as_value,
    as_vector,
    dims_of,
    dtype_of,
    int_tensor,
    required_static,
)
from amanda_tf.mapping.reductions.write_reductions import reverse_order

__all__ = ["WRITE"]

_INT64 = DType("int64")


def write_shape_of(o: Any, x: Any) -> Any:
    return o.Shape(x, out_type=_INT64)


def write_size(o: Any, x: Any) -> Any:
    return o.Size(x, out_type=_INT64)


def write_dim(o: Any, x: Any, *, axis: int) -> Any:
    place = int_tensor(axis % rank_of(x))
    return o.GatherV2(o.Shape(x, out_type=_INT64), place, int_tensor(0))


def write_reshape(o: Any, x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    known = static_value(shape)
    if not copy_zero or (known is not None and 0 not in known):
        return o.Reshape(x, as_value(shape))
    if known is not None:
        dims = dims_of(x)
        filled = [dims[i] if n == 0 else n for i, n in enumerate(known)]
        if all(isinstance(n, int) for n in filled):
            return o.Reshape(x, int_tensor(filled))
    raise Decline("zeros in a shape copy dims that are not static")


def write_squeeze(o: Any, x: Any, axes: Any = None) -> Any:
    if axes is None:
        return o.Squeeze(x)
    known = required_static(axes, "the axes")
    return o.Squeeze(x, squeeze_dims=known) if known else o.Identity(x)


def write_expand_dims(o: Any, x: Any, axes: Any) -> Any:
    known = required_static(axes, "the axes")
    known = known if isinstance(known, list) else [known]
    total = rank_of(x) + len(known)
    for axis in sorted(axis % total for axis in known):
        x = o.ExpandDims(x, int_tensor(axis))
    return x if known else o.Identity(x)


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
    known = None if axes is None else required_static(axes, "the axes")
    step = [1] * rank
    if known is None:
        count = _count(starts, stops, rank)
        known = list(range(count))
    places = [axis % rank for axis in known]
    given = (
        required_static(steps, "the steps") if steps is not None else [1] * len(places)
    )
    for place, one in zip(places, given, strict=True):
        step[place] = one
    return _write_strided_slice(o, x, starts, stops, places, step)


def _count(starts: Any, stops: Any, rank: int) -> int:
    for value in (starts, stops):
        known = static_value(value)
        if known is not None:
            return len(known)
    size = dims_of(starts)[0]
    return size if isinstance(size, int) else rank


def _write_strided_slice(o: Any, x: Any, starts: Any, stops: Any, places: list[int],
             step: list[int]) -> Any:  # fmt: skip
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
    if not isinstance(value, OutputPort):
        value = int_tensor(value, "int64")
    elif dtype_of(value) != _INT64:
        value = o.Cast(value, DstT=_INT64)
    if places == list(range(rank)):
        return value if isinstance(value, OutputPort) else o.Identity(value)
    at = int_tensor([[p] for p in places])
    return o.ScatterNd(at, value, int_tensor([rank]))


def write_pad(o: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *,
              mode: str = "constant") -> Any:  # fmt: skip
    """Negative pads crop."""
    rank = rank_of(x)
    known = static_value(pads)
    if known is None:
        if mode == "wrap":
            raise Decline("pads known at run time only, of mode wrap")
        operand, crop = _pads_of_every_axis(o, pads, axes, rank), None
    else:
        places = range(rank) if axes is None else required_static(axes, "the axes")
        every = [[0, 0] for _ in range(rank)]
        for place, pair in zip(places, known, strict=True):
            every[place % rank] = list(pair)
        crop = [[min(low, 0), min(high, 0)] for low, high in every]
        operand = int_tensor([[max(low, 0), max(high, 0)] for low, high in every])
    y = _pad_outwards(o, x, operand, value, mode)
    if crop is None or not any(any(pair) for pair in crop):
        return y
    starts = [-low for low, _ in crop]
    stops = [high or 2**31 - 1 for _, high in crop]
    return _write_strided_slice(o, y, starts, stops, list(range(rank)), [1] * rank)


def _pads_of_every_axis(o: Any, pads: Any, axes: Any, rank: int) -> Any:
    """Pairs known at run time, zeros for the axes that are not named."""
    if axes is None:
        return pads
    at = [[axis % rank] for axis in required_static(axes, "the axes")]
    return o.ScatterNd(int_tensor(at), pads, int_tensor([rank, 2]))


def _pad_outwards(o: Any, x: Any, pads: Any, value: Any, mode: str) -> Any:
    if mode == "reflect":
        return o.MirrorPad(x, pads, mode="REFLECT")
    if mode != "constant":
        raise Decline(f"TensorFlow has no padding of mode {mode}")
    return o.Pad(x, pads) if value is None else o.PadV2(x, pads, value)


def _triangle(o: Any, x: Any, k: Any, compare: Any) -> Any:
    """Elements on one side of a diagonal that is known at run time only."""
    rows, columns = (_range_of(o, x, axis) for axis in (-2, -1))
    offset = o.Sub(columns, o.ExpandDims(rows, int_tensor(1)))
    keep = compare(offset, o.Cast(o.Reshape(k, int_tensor([])), DstT=_INT64))
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


def write_tril(o: Any, x: Any, k: Any = 0) -> Any:
    upper = static_value(k)
    if upper is None:
        return _triangle(o, x, k, o.LessEqual)
    if upper < 0:
        below = o.MatrixBandPart(x, int_tensor(-1), int_tensor(0))
        keep = o.MatrixBandPart(x, int_tensor(-upper - 1), int_tensor(0))
        return o.Sub(below, keep)
    return o.MatrixBandPart(x, int_tensor(-1), int_tensor(upper))


def write_triu(o: Any, x: Any, k: Any = 0) -> Any:
    lower = static_value(k)
    if lower is None:
        return _triangle(o, x, k, o.GreaterEqual)
    if lower > 0:
        above = o.MatrixBandPart(x, int_tensor(0), int_tensor(-1))
        return o.Sub(above, o.MatrixBandPart(x, int_tensor(0), int_tensor(lower - 1)))
    return o.MatrixBandPart(x, int_tensor(-lower), int_tensor(-1))


# -- casts -----------------------------------------------------------------------------


def write_astype(o: Any, x: Any, *, dtype: Any) -> Any:
    if "string" in (dtype_of(x).kind, dtype.kind):
        raise Decline("Cast does not support strings")
    return o.Cast(x, DstT=dtype)


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
    dims = dims_of(indices)
    if not all(isinstance(n, int) for n in dims):
        raise Decline("indices of a shape that is not static")
    dtype = dtype_of(indices).numpy
    grid = np.indices(dims).astype(dtype)
    rows: list[Any] = [Tensor.of(g) for g in grid]
    rows[axis] = at
    return o.Pack(*rows, axis=len(dims))


_REDUCTIONS = {
    "none": "TensorScatterUpdate", "add": "TensorScatterAdd",
    "max": "TensorScatterMax", "min": "TensorScatterMin",
}  # fmt: skip


def write_scatter_nd(o: Any, x: Any, indices: Any, updates: Any, *,
                     reduction: str = "none") -> Any:  # fmt: skip
    if reduction not in _REDUCTIONS:
        raise Decline(f"TensorFlow has no scatter with reduction {reduction}")
    return o.op(_REDUCTIONS[reduction], x, _positive(o, x, indices), updates)


def _positive(o: Any, x: Any, indices: Any) -> Any:
    """Coordinates counted from the start."""
    known = static_value(indices)
    if known is not None and (not np.size(known) or np.min(known) >= 0):
        return indices
    count = dims_of(indices)[-1]
    sizes = dims_of(x)[:count]
    if not all(isinstance(n, int) for n in sizes):
        shape = o.Cast(o.Shape(x, out_type=_INT64), DstT=dtype_of(indices))
        limit: Any = o.StridedSlice(
            shape, int_tensor([0]), int_tensor([count]), int_tensor([1])
        )
    else:
        limit = Tensor.of(np.array(sizes).astype(dtype_of(indices).numpy))
    below = o.Less(indices, scalar_like(0, indices))
    return o.SelectV2(below, o.AddV2(indices, limit), indices)


def write_scatter_elements(o: Any, x: Any, indices: Any, updates: Any, *,
                           axis: int = 0, reduction: str = "none") -> Any:  # fmt: skip
    if reduction not in _REDUCTIONS:
        raise Decline(f"TensorFlow has no scatter with reduction {reduction}")
    at = _from_start(o, indices, dims_of(x)[axis], x, axis)
    return o.op(_REDUCTIONS[reduction], x, _coordinates(o, at, indices, axis), updates)


def write_nonzero(o: Any, x: Any) -> Any:
    if dtype_of(x).kind != "bool":
        x = o.NotEqual(x, scalar_like(0, x))
    return o.Transpose(o.Where(x), int_tensor([1, 0]))


def write_arange(o: Any, start: Any, stop: Any, step: Any = 1) -> Any:
    ends = [
        v if isinstance(v, OutputPort) else int_tensor(v, "int64")
        for v in (start, stop, step)
    ]
    return o.Range(*ends)


def write_range(o: Any, start: Any, stop: Any, step: Any) -> Any:
    return o.Range(start, stop, step)


def write_unique(o: Any, x: Any, *, axis: Any = None, sorted: bool = True) -> Any:
    if axis is not None:
        raise Decline("unique slices along an axis")
    flat = o.Reshape(x, int_tensor([-1]))
    values, inverse, counts = o.UniqueWithCounts(flat, out_idx=_INT64)
    if sorted:
        size = o.Size(values, out_type=DType("int32"))
        _, order = o.TopKV2(reverse_order(o, values, x), size)
        values, counts = (o.GatherV2(v, order, int_tensor(0)) for v in (values, counts))
        ranks = o.Cast(o.InvertPermutation(order), DstT=_INT64)
        inverse = o.GatherV2(ranks, inverse, int_tensor(0))
    places = o.Range(
        int_tensor(0, "int64"), o.Size(flat, out_type=_INT64), int_tensor(1, "int64")
    )
    first = o.UnsortedSegmentMin(places, inverse, o.Size(values, out_type=_INT64))
    return values, first, inverse, counts


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
    "pad": write_pad,
    "tril": write_tril,
    "view": write_view,
    "triu": write_triu,
    "astype": write_astype,
    "bitcast": write_bitcast,
    "gather": write_gather,
    "gather_elements": write_gather_elements,
    "scatter_nd": write_scatter_nd,
    "scatter_elements": write_scatter_elements,
    "nonzero": write_nonzero,
    "arange": write_arange,
    "range": write_range,
    "unique": write_unique,
    "broadcast_to": write_broadcast_to,
}
