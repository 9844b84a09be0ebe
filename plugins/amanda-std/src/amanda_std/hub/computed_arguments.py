"""Ops whose axes, diagonals or pads are computed, by ops that have none.

For targets whose programs have such arguments as numbers. Ranks are static, and so
is the number of axes; sizes are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std import ops
from amanda_std.engine.values import Value
from amanda_std.hub.mapping_values import known_or_value

__all__ = ["COMPUTED_ARGUMENTS"]

_INT64 = DType("int64")
_UINT8 = DType("uint8")


def _is_computed(value: Any) -> bool:
    return isinstance(value, Value) and isinstance(known_or_value(value), Value)


def _expect_computed(*values: Any) -> None:
    if not any(map(_is_computed, values)):
        raise Decline("the target has the op")


def _axis_mask(axes: Any, rank: int) -> Any:
    """Whether each axis is one of `axes`."""
    column = ops.reshape(ops.remainder(axes, np.int64(rank)), [-1, 1])
    return ops.any(ops.equal(column, np.arange(rank)), [0])


def _count(axes: Any) -> int:
    """How many axes there are."""
    [count] = axes.shape or (1,)
    if not isinstance(count, int):
        raise Decline("the number of axes is known at run time only")
    return count


def _item(vector: Any, i: int) -> Any:
    return ops.slice_(vector, [i], [i + 1])


def _along(vector: Any, axis: int, rank: int) -> Any:
    """A vector as a tensor along one axis of several."""
    return ops.reshape(vector, [-1 if i == axis else 1 for i in range(rank)])


def _other_axes(mask: Any, count: int) -> Any:
    """The first `count` axes of those that are not in a mask, in order."""
    order = ops.argsort(ops.astype(mask, dtype=_INT64))
    return ops.slice_(order, [0], [count])


# -- reductions ----------------------------------------------------------------------

_SCATTERS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""The reductions of `scatter_elements`."""


def _start(reduction: str, dtype: Any) -> Any:
    """The element that a reduction begins with."""
    found: Any = int(reduction == "mul")
    if reduction not in ("add", "mul"):
        is_float = dtype.kind == "float"
        limits = (-np.inf, np.inf) if is_float else _limits(np.iinfo(dtype.numpy))
        found = limits[reduction == "min"]
    return np.asarray(found, dtype.numpy)


def _limits(info: Any) -> tuple[Any, Any]:
    return info.min, info.max


def _reduction_by_scatter(name: str) -> Callable[..., Any]:
    """A definition of a reduction: along each axis in turn, elements are scattered into
    a tensor that has size 1 there if the axis is one of those that are reduced."""

    def define(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        _expect_computed(axes)
        rank = x.ndim
        mask = _axis_mask(axes, rank)
        kept = ops.where(mask, np.int64(1), ops.shape_of(x))
        y = x
        for axis in range(rank):
            y = _reduce_axis(
                y, axis, _item(mask, axis), _item(kept, axis), _SCATTERS[name]
            )
        if keepdims:
            return y
        rest = _other_axes(mask, rank - _count(axes))
        return ops.reshape(y, ops.gather(kept, rest))

    return define


def _logical_reduction(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """A definition of a reduction of flags by an extremum of 0 and 1."""

    def define(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        _expect_computed(axes)
        found = reduce(ops.astype(x, dtype=_UINT8), axes, keepdims=keepdims)
        return ops.astype(found, dtype=DType("bool"))

    return define


def _mean(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """The mean by the sum; as many elements as there are, over those of the result."""
    _expect_computed(axes)
    total = ops.sum(x, axes, keepdims=keepdims)
    counts = (ops.astype(ops.size(y), dtype=x.dtype) for y in (x, total))
    return ops.divide(total, ops.divide(*counts))


def _logsumexp(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """The logarithm of a sum, of which the largest element is a factor."""
    _expect_computed(axes)
    largest = ops.max(x, axes, keepdims=True)
    shift = ops.where(ops.isfinite(largest), largest, np.zeros((), x.dtype.numpy))
    total = ops.sum(ops.exp(ops.subtract(x, shift)), axes, keepdims=True)
    found = ops.add(ops.log(total), shift)
    return found if keepdims else ops.squeeze(found, axes)


def _reduce_axis(x: Any, axis: int, is_reduced: Any, size: Any, reduction: str) -> Any:
    """The reduction along one axis, or the tensor itself, as a flag says."""
    shape = ops.shape_of(x)
    steps = ops.arange(np.int64(0), ops.dim(x, axis=axis), np.int64(1))
    places = _along(ops.where(is_reduced, np.int64(0), steps), axis, x.ndim)
    parts = [
        ops.slice_(shape, [0], [axis]),
        size,
        ops.slice_(shape, [axis + 1], [x.ndim]),
    ]
    sizes = ops.concat(*parts, axis=0)
    first = ops.full(sizes, _start(reduction, x.dtype))
    at = ops.broadcast_to(places, shape)
    return ops.scatter_elements(first, at, x, axis=axis, reduction=reduction)


def _along_each_axis(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A definition of a cumulative op: that along each axis, of which one is taken."""

    def define(x: Any, axis: Any = 0, **attrs: Any) -> Any:
        _expect_computed(axis)
        rank = x.ndim
        place = ops.reshape(ops.remainder(axis, np.asarray(rank, axis.dtype.numpy)), [])
        found = compute(x, rank - 1, **attrs)
        for i in range(rank - 1):
            along = compute(x, i, **attrs)
            here = ops.equal(place, np.asarray(i, axis.dtype.numpy))
            found = ops.where(here, along, found)
        return found

    return define


# -- shapes --------------------------------------------------------------------------


def _expand_dims_by_reshape(x: Any, axes: Any) -> Any:
    """`expand_dims` by the shape that the result has."""
    _expect_computed(axes)
    total = x.ndim + _count(axes)
    mask = _axis_mask(axes, total)
    if not x.ndim:
        return ops.reshape(x, [1] * total)
    others = ops.cumulative_sum(ops.astype(ops.logical_not(mask), dtype=_INT64), 0)
    places = ops.maximum(ops.subtract(others, np.int64(1)), np.int64(0))
    own = ops.gather(ops.shape_of(x), places)
    return ops.reshape(x, ops.where(mask, np.int64(1), own))


def _squeeze_by_reshape(x: Any, axes: Any = None) -> Any:
    """`squeeze` by the shape that the result has."""
    _expect_computed(axes)
    rest = _other_axes(_axis_mask(axes, x.ndim), x.ndim - _count(axes))
    return ops.reshape(x, ops.gather(ops.shape_of(x), rest))


def _slice_by_gather(
    x: Any, starts: Any, stops: Any, axes: Any = None, steps: Any = None
) -> Any:
    """`slice` with computed axes or steps, by the positions along every axis."""
    _expect_computed(axes, steps)
    given = np.arange(_count(starts)) if axes is None else axes
    column = ops.reshape(ops.remainder(given, np.int64(x.ndim)), [-1, 1])
    hits = ops.astype(ops.equal(column, np.arange(x.ndim)), dtype=_INT64)
    is_sliced = ops.any(ops.astype(hits, dtype=DType("bool")), [0])
    sizes = ops.shape_of(x)
    begin, end, step = (
        ops.where(is_sliced, _of_axes(hits, values), other)
        for values, other in (
            (starts, np.int64(0)),
            (stops, sizes),
            (steps, np.int64(1)),
        )
    )
    for axis in range(x.ndim):
        limits = (_item(v, axis) for v in (begin, end, step, sizes))
        x = ops.gather(x, _positions(*limits), axis)
    return x


def _of_axes(hits: Any, values: Any) -> Any:
    """The values that axes are given, in the order of the axes; 0 for others."""
    if values is None:
        return np.int64(1)
    if not hasattr(values, "dtype"):
        values = np.asarray(values, "int64")
    column = ops.reshape(ops.astype(values, dtype=_INT64), [-1, 1])
    return ops.sum(ops.multiply(hits, column), [0])


def _positions(begin: Any, end: Any, step: Any, size: Any) -> Any:
    """The positions of a slice along an axis, as Python's `slice.indices` has them."""
    is_back = ops.less(step, np.int64(0))
    low = ops.where(is_back, np.int64(-1), np.int64(0))
    high = ops.where(is_back, ops.subtract(size, np.int64(1)), size)
    first, last = (
        ops.minimum(ops.maximum(_from_the_start(v, size), low), high)
        for v in (begin, end)
    )
    far = ops.subtract(last, first)
    one = ops.sign(step)
    steps = ops.divide(ops.subtract(ops.add(far, step), one), step)
    count = ops.maximum(steps, np.int64(0))
    own = ops.arange(np.int64(0), ops.reshape(count, []), np.int64(1))
    return ops.add(first, ops.multiply(own, step))


def _from_the_start(value: Any, size: Any) -> Any:
    below = ops.less(value, np.int64(0))
    return ops.where(below, ops.add(value, size), value)


# -- diagonals and padding -----------------------------------------------------------


def _triangle(compare: Callable[..., Any]) -> Callable[..., Any]:
    def define(x: Any, k: Any = 0) -> Any:
        _expect_computed(k)
        height, width = (ops.dim(x, axis=axis) for axis in (x.ndim - 2, x.ndim - 1))
        is_kept = compare(_diagonals(height, width), k)
        return ops.where(is_kept, x, np.zeros((), x.dtype.numpy))

    return define


def _diagonals(height: Any, width: Any) -> Any:
    """The number of the diagonal of each element of a matrix."""
    rows, columns = (_steps(size) for size in (height, width))
    return ops.subtract(columns, ops.reshape(rows, [-1, 1]))


def _steps(size: Any) -> Any:
    return ops.arange(np.int64(0), size, np.int64(1))


def _eye(rows: Any, columns: Any = None, *, k: int = 0, dtype: Any) -> Any:
    _expect_computed(rows, columns)
    width = rows if columns is None else columns
    is_one = ops.equal(_diagonals(rows, width), np.int64(k))
    return ops.astype(is_one, dtype=dtype)


def _pad(
    x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant"
) -> Any:
    """With computed axes, by pads of all axes; with a computed value, by a mask; with
    elements of a tensor of unknown sizes, by their positions."""
    if _is_computed(axes):
        return ops.pad(x, _pads_of_all_axes(pads, axes, x.ndim), value, mode=mode)
    if mode == "constant":
        _expect_computed(value)
        return _pad_by_mask(x, pads, value, axes)
    if not _is_computed(pads) and all(isinstance(n, int) for n in x.shape):
        raise Decline("the target has the op")
    given = range(x.ndim) if axes is None else known_or_value(axes)
    for i, axis in enumerate(given):
        row = ops.slice_(_as_vectors(pads), [i], [i + 1], [0])
        low, high = (
            ops.reshape(ops.slice_(row, [j], [j + 1], [1]), [1]) for j in (0, 1)
        )
        x = ops.gather(
            x, _padded_positions(ops.dim(x, axis=axis), low, high, mode), axis
        )
    return x


def _as_vectors(pads: Any) -> Any:
    return pads if hasattr(pads, "dtype") else np.asarray(pads, "int64").reshape(-1, 2)


def _pads_of_all_axes(pads: Any, axes: Any, rank: int) -> Any:
    column = ops.reshape(ops.remainder(axes, np.int64(rank)), [-1, 1])
    hits = ops.astype(ops.equal(column, np.arange(rank)), dtype=_INT64)
    parts = (ops.reshape(x, shape) for x, shape in
             ((hits, [-1, rank, 1]), (_as_vectors(pads), [-1, 1, 2])))  # fmt: skip
    return ops.sum(ops.multiply(*parts), [0])


def _pad_by_mask(x: Any, pads: Any, value: Any, axes: Any) -> Any:
    ones = ops.full(ops.shape_of(x), np.asarray(True))
    is_inside = ops.pad(ones, pads, np.asarray(False), axes)
    return ops.where(is_inside, ops.pad(x, pads, None, axes), value)


def _padded_positions(size: Any, low: Any, high: Any, mode: str) -> Any:
    """The positions along an axis that padding takes elements of; negative pads crop
    the axis first."""
    zero, one = np.int64(0), np.int64(1)
    crop, end = (ops.maximum(ops.negative(n), zero) for n in (low, high))
    kept = ops.subtract(ops.subtract(size, crop), end)
    before, after = (ops.maximum(n, zero) for n in (low, high))
    total = ops.reshape(ops.add(ops.add(kept, before), after), [])
    place = ops.subtract(_steps(total), before)
    if mode == "edge":
        place = ops.minimum(ops.maximum(place, zero), ops.subtract(kept, one))
    elif mode == "wrap":
        place = ops.remainder(place, kept)
    else:
        last = ops.subtract(kept, one if mode == "reflect" else zero)
        turn = ops.maximum(ops.multiply(last, np.int64(2)), one)
        place = ops.remainder(place, turn)
        back = ops.subtract(turn, place if mode == "reflect" else ops.add(place, one))
        place = ops.minimum(place, back)
    return ops.add(place, crop)


# -- transforms ----------------------------------------------------------------------


def _dft(
    x: Any, size: Any = None, axis: Any = -2, *, inverse: bool = False,
    onesided: bool = False,
) -> Any:  # fmt: skip
    """That along each axis but the last, of which one is taken: all have one shape."""
    _expect_computed(axis)
    if onesided or size is not None:
        raise Decline("the size of the transform depends on an axis that is computed")
    place = ops.reshape(ops.remainder(axis, np.asarray(x.ndim, axis.dtype.numpy)), [])
    found = ops.dft(x, None, 0, inverse=inverse)
    for i in range(1, x.ndim - 1):
        here = ops.equal(place, np.asarray(i, axis.dtype.numpy))
        found = ops.where(here, ops.dft(x, None, i, inverse=inverse), found)
    return found


_CUMULATIVE: dict[str, Callable[..., Any]] = {
    "cumulative_logsumexp": ops.cumulative_logsumexp,
    "cumulative_max": ops.cumulative_max,
    "cumulative_min": ops.cumulative_min,
    "cumulative_prod": ops.cumulative_prod,
    "cumulative_sum": ops.cumulative_sum,
}

COMPUTED_ARGUMENTS: dict[str, Callable[..., Any]] = {
    **{name: _reduction_by_scatter(name) for name in _SCATTERS},
    **{name: _along_each_axis(compute) for name, compute in _CUMULATIVE.items()},
    "all": _logical_reduction(ops.min),
    "any": _logical_reduction(ops.max),
    "dft": _dft,
    "eye": _eye,
    "expand_dims": _expand_dims_by_reshape,
    "logsumexp": _logsumexp,
    "mean": _mean,
    "pad": _pad,
    "slice": _slice_by_gather,
    "squeeze": _squeeze_by_reshape,
    "tril": _triangle(ops.less_equal),
    "triu": _triangle(ops.greater_equal),
}
"""Definitions of ops whose axes, diagonals or pads are computed, by name; Decline for
others."""
