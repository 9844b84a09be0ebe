"""To nd4j: shapes, joins, reductions, indexing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_nd4j.lenses import TYPE_CODES
from amanda_std.mappings import rank_of, static_value

__all__ = ["WRITE", "as_input", "known_list"]


def as_input(value: Any) -> Any:
    """A shape argument as an input of int64."""
    if isinstance(value, OutputPort):
        return value
    return Tensor.of(np.asarray(value, "int64"))


def known_list(value: Any, what: str) -> list[int]:
    """A shape argument as numbers; Decline where it is computed."""
    found = static_value(value)
    if found is None:
        raise Decline(f"{what} is known at run time only")
    return [int(n) for n in np.atleast_1d(found)]


def _one(value: Any, what: str) -> int:
    return known_list(value, what)[0]


def _dtype_of(value: Any) -> DType:
    found = value.type.dtype if isinstance(value.type, TensorType) else None
    if not isinstance(found, DType) or found.kind == "unknown":
        raise Decline(f"the element type of {value} is unknown")
    return found


def write_identity(o: Any, x: Any, **_label: Any) -> Any:
    """probe, whose observers nd4j does not have, to identity."""
    return o.identity(x)


def write_cast(o: Any, x: Any, *, dtype: Any) -> Any:
    if str(dtype) not in TYPE_CODES:
        raise Decline(f"nd4j has no element type {dtype}")
    return o.cast(x, dtype=DType(str(dtype)))


def write_clip(o: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    """Limits as tensors: ClipByValue has numbers only."""
    y = x if low is None else o.maximum(x, low)
    y = y if high is None else o.minimum(y, high)
    return o.identity(x) if low is None and high is None else y


def write_reshape(o: Any, x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    if copy_zero:
        raise Decline("a 0 that copies a dim")
    return o.reshape(x, as_input(shape))


def write_transpose(o: Any, x: Any, *, perm: Any = None) -> Any:
    order = list(range(rank_of(x)))[::-1] if perm is None else list(perm)
    return o.transpose(x, as_input(order))


def write_squeeze(o: Any, x: Any, axes: Any = None) -> Any:
    return o.squeeze(x, _a=None if axes is None else known_list(axes, "axes"))


def write_expand_dims(o: Any, x: Any, axes: Any) -> Any:
    rank = rank_of(x)
    found = known_list(axes, "axes")
    for axis in sorted(a % (rank + len(found)) for a in found):
        x = o.expand_dims(x, dimensions=axis)
    return x


def write_concat(o: Any, *xs: Any, axis: int = 0) -> Any:
    at = axis % max(rank_of(xs[0]), 1)
    return o.concat(*xs, isDynamicAxis=False, concatDimension=at)


def write_stack(o: Any, *xs: Any, axis: int = 0) -> Any:
    return o.stack(*xs, dimensions=axis)


def write_split(o: Any, x: Any, sizes: Any = None, *, axis: int = 0,
                outputs: int) -> Any:  # fmt: skip
    at = axis % rank_of(x)
    if sizes is None:
        whole = x.type.shape.dims[at]
        if not isinstance(whole, int) or whole % outputs:
            raise Decline("parts of different lengths")
        return o.split(as_input(at), x, numSplit=outputs, outputs=outputs)
    found = as_input(sizes)
    return o.split_v(
        x, found, as_input(at), numSplit=outputs, dimensions=at, outputs=outputs
    )


def write_slice(o: Any, x: Any, starts: Any, stops: Any, axes: Any = None,
                steps: Any = None) -> Any:  # fmt: skip
    """slice to strided_slice, with all axes before the last one that is cut."""
    first, last = known_list(starts, "starts"), known_list(stops, "stops")
    where = list(range(len(first))) if axes is None else known_list(axes, "axes")
    step = [1] * len(first) if steps is None else known_list(steps, "steps")
    rank = rank_of(x)
    count = max((a % rank for a in where), default=-1) + 1
    begin, end, by = [0] * count, [0] * count, [1] * count
    begin_mask = end_mask = (1 << count) - 1
    for a, b, e, s in zip(where, first, last, step, strict=True):
        at = a % rank
        begin[at], end[at], by[at] = b, e, s
        begin_mask &= ~(1 << at)
        end_mask &= ~(1 << at)
        if s < 0 and e < -(2**31):
            end[at], end_mask = 0, end_mask | 1 << at
        end[at] = min(end[at], 2**31 - 1)
    return o.strided_slice(
        x, *(as_input(v) for v in (begin, end, by)), begin_mask=begin_mask,
        end_mask=end_mask, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0,
    )  # fmt: skip


def write_tile(o: Any, x: Any, repeats: Any) -> Any:
    return o.tile(x, as_input(repeats), is_static_reps=True)


def write_pad(o: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *,
              mode: str = "constant") -> Any:  # fmt: skip
    rows = static_value(pads)
    if rows is None or np.asarray(rows).min(initial=0) < 0:
        raise Decline("pads that are negative, or known at run time only")
    rank = rank_of(x)
    where = range(rank) if axes is None else known_list(axes, "axes")
    whole = np.zeros((rank, 2), "int64")
    for axis, pair in zip(where, np.asarray(rows).reshape(-1, 2), strict=True):
        whole[axis % rank] = pair
    if mode == "reflect":
        return o.mirror_pad(x, as_input(whole), mode=0, isSymmetric=True)
    if mode != "constant":
        raise Decline(f"padding of the mode {mode}")
    number = 0.0 if value is None else static_value(value)
    if number is None:
        raise Decline("a padding value that is known at run time only")
    return o.pad(x, as_input(whole), mode=0, padValue=float(number))


def write_flip(o: Any, x: Any, axes: Any = None) -> Any:
    found = range(rank_of(x)) if axes is None else known_list(axes, "axes")
    return o.reverse(x, as_input([a % rank_of(x) for a in found]))


def write_broadcast(o: Any, x: Any, shape: Any) -> Any:
    return o.broadcast_to(x, as_input(shape))


def write_full(o: Any, shape: Any, value: Any) -> Any:
    if not isinstance(value, OutputPort):
        value = Tensor.of(np.asarray(value))
        return o.fill(as_input(shape), value, dtype=value.dtype)
    return o.fill(as_input(shape), value, dtype=_dtype_of(value))


def write_range(o: Any, start: Any, stop: Any, step: Any = None) -> Any:
    ends = (start, stop, 1 if step is None else step)
    return o.range(*(as_input(v) for v in ends))


def write_shape(o: Any, x: Any) -> Any:
    return o.shape_of(x, dtype=DType("int64"))


def write_size(o: Any, x: Any) -> Any:
    return o.size(x, dtype=DType("int64"))


# -- reductions ------------------------------------------------------------------------


def _reduction(type: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        found = None if axes is None else as_input(axes)
        if found is None:
            return o.op(type, x, keepDims=keepdims)
        return o.op(type, x, found, keepDims=keepdims)

    return write


def _extremum(type: str) -> Callable[..., Any]:
    def write(
        o: Any, x: Any, axis: Any = 0, *, keepdims: bool = False, last: bool = False
    ) -> Any:
        if last:
            raise Decline("the last of several extrema")
        return o.op(type, x, as_input(_one(axis, "the axis")), keepDims=keepdims)

    return write


def _cumulative(type: str) -> Callable[..., Any]:
    def write(
        o: Any, x: Any, axis: Any = 0, *, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        at = as_input(_one(axis, "the axis"))
        flags = {"exclusive.int64": int(exclusive), "reverse.int64": int(reverse)}
        return o.op(type, x, at, **flags)

    return write


def write_topk(o: Any, x: Any, k: Any, *, axis: int = -1, largest: bool = True) -> Any:
    if axis % rank_of(x) != rank_of(x) - 1 or not largest:
        raise Decline("the smallest elements, or another axis than the last one")
    number = {"k.int64": _one(k, "k")}
    return o.top_k(x, needSort=True, outputs=2, **number)


# -- indexing --------------------------------------------------------------------------


def write_gather(o: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
    return o.gather(x, as_input(indices), dimensions=_one(axis, "the axis"))


def write_gather_nd(o: Any, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    if batch_dims:
        raise Decline("batch dims")
    return o.gather_nd(x, indices)


def write_one_hot(o: Any, indices: Any, depth: Any, on: Any, off: Any, *,
                  axis: int = -1, wrap: bool = False) -> Any:  # fmt: skip
    numbers = [static_value(v) for v in (on, off)]
    if wrap or None in numbers:
        raise Decline("values that are known at run time only, or negative indices")
    return o.onehot(
        indices, depth=_one(depth, "the depth"), on=float(numbers[0]),
        off=float(numbers[1]), dimensions=axis, dtype=_dtype_of(o.source.output),
    )  # fmt: skip


def write_scatter_nd(
    o: Any, x: Any, indices: Any, updates: Any, *, reduction: str = "none"
) -> Any:
    types = {"none": "scatter_nd_update", "add": "scatter_nd_add"}
    if reduction not in types:
        raise Decline(f"the reduction {reduction} of slices at coordinates")
    return o.op(types[reduction], x, indices, updates)


def write_triu(o: Any, x: Any, k: Any = 0) -> Any:
    return o.triu(x, diag=_one(k, "the diagonal"))


def write_tril(o: Any, x: Any, k: Any = 0) -> Any:
    """tril to triu of the transposed matrices."""
    rank = rank_of(x)
    order = as_input([*range(rank - 2), rank - 1, rank - 2])
    upper = o.triu(o.transpose(x, order), diag=-_one(k, "the diagonal"))
    return o.transpose(upper, order)


def write_trunc(o: Any, x: Any) -> Any:
    return o.multiply(o.sign(x), o.floor(o.abs(x)))


def write_eye(o: Any, rows: Any, columns: Any = None, *, k: int = 0,
              dtype: Any) -> Any:  # fmt: skip
    if k or str(dtype) not in TYPE_CODES:
        raise Decline(f"a diagonal beside the main one, or elements of {dtype}")
    height = _one(rows, "the number of rows")
    width = height if columns is None else _one(columns, "the number of columns")
    return o.eye(numRows=height, numCols=width, dtype=DType(str(dtype)))


def write_log2(o: Any, x: Any) -> Any:
    factor = np.asarray(1 / math.log(2), _dtype_of(x).numpy)
    return o.multiply(o.log(x), Tensor.of(factor))


def write_nonzero(o: Any, x: Any) -> Any:
    """nonzero to Where, which has a row for each element."""
    if not rank_of(x):
        raise Decline("a scalar, which has no coordinates")
    return o.transpose(o.Where(x), as_input([1, 0]))


def write_dim(o: Any, x: Any, *, axis: int) -> Any:
    return o.size_at(x, dimensions=axis, dtype=DType("int64"))


def write_bitcast(o: Any, x: Any, *, dtype: Any) -> Any:
    if str(dtype) not in TYPE_CODES:
        raise Decline(f"nd4j has no element type {dtype}")
    code = TYPE_CODES[str(dtype)]
    return o.bitcast(x, newType=code, dtype=DType(str(dtype)))


WRITE: dict[str, Any] = {
    "scatter_nd": write_scatter_nd,
    "triu": write_triu,
    "tril": write_tril,
    "trunc": write_trunc,
    "eye": write_eye,
    "log2": write_log2,
    "nonzero": write_nonzero,
    "dim": write_dim,
    "bitcast": write_bitcast,
    "probe": write_identity,
    "astype": write_cast,
    "clip": write_clip,
    "reshape": write_reshape,
    "transpose": write_transpose,
    "squeeze": write_squeeze,
    "expand_dims": write_expand_dims,
    "concat": write_concat,
    "stack": write_stack,
    "split": write_split,
    "slice": write_slice,
    "tile": write_tile,
    "pad": write_pad,
    "flip": write_flip,
    "broadcast_to": write_broadcast,
    "full": write_full,
    "arange": write_range,
    "range": write_range,
    "shape_of": write_shape,
    "size": write_size,
    "sum": _reduction("reduce_sum"),
    "prod": _reduction("reduce_prod"),
    "max": _reduction("reduce_max"),
    "min": _reduction("reduce_min"),
    "mean": _reduction("reduce_mean"),
    "all": _reduction("all"),
    "any": _reduction("any"),
    "argmax": _extremum("argmax"),
    "argmin": _extremum("argmin"),
    "cumulative_sum": _cumulative("cumsum"),
    "cumulative_prod": _cumulative("cumprod"),
    "topk": write_topk,
    "gather": write_gather,
    "gather_nd": write_gather_nd,
    "one_hot": write_one_hot,
}
