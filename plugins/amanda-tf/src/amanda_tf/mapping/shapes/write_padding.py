"""To TensorFlow: padding of every mode, and negative padding, which crops."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std.mappings import rank_of, static_value
from amanda_tf.mapping.operands import (
    INT64,
    as_wide,
    axes_from_start,
    dims_of,
    int_tensor,
)
from amanda_tf.mapping.shapes.write_shapes import write_strided_slice

__all__ = ["WRITE"]

_ZERO = int_tensor(0, "int64")


def write_pad(o: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *,
              mode: str = "constant") -> Any:  # fmt: skip
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise Decline(f"TensorFlow has no padding of mode {mode}")
    known, at = static_value(pads), None if axes is None else static_value(axes)
    if known is None or (axes is not None and at is None):
        return _pad_computed(o, x, _pairs_of_every_axis(o, pads, axes, rank_of(x)),
                             value, mode)  # fmt: skip
    pairs = [[0, 0] for _ in range(rank_of(x))]
    for place, pair in zip(range(len(pairs)) if at is None else at, known, strict=True):
        pairs[place] = list(pair)
    if mode == "reflect" and _is_one_reflection(pairs, dims_of(x)):
        return o.MirrorPad(x, int_tensor(pairs), mode="REFLECT")
    if mode != "constant":
        return _pad_by_indices(o, x, pairs, mode)
    y = _pad_constant(o, x, int_tensor(np.maximum(pairs, 0)), value)
    if np.min(pairs, initial=0) >= 0:
        return y
    starts = [max(-low, 0) for low, _ in pairs]
    stops = [min(high, 0) or 2**31 - 1 for _, high in pairs]
    every = list(range(len(pairs)))
    return write_strided_slice(o, y, starts, stops, every, [1] * len(pairs))


def _is_one_reflection(pairs: list[list[int]], dims: tuple[Any, ...]) -> bool:
    """Whether every axis is padded by less than its own elements."""
    return all(
        n == 0 or (n > 0 and (not isinstance(size, int) or n < size))
        for pair, size in zip(pairs, dims, strict=True)
        for n in pair
    )


def _pad_constant(o: Any, x: Any, pads: Any, value: Any) -> Any:
    return o.Pad(x, pads) if value is None else o.PadV2(x, pads, value)


def _pairs_of_every_axis(o: Any, pads: Any, axes: Any, rank: int) -> Any:
    """Pairs known at run time, zeros for the axes that are not named."""
    wide = as_wide(o, pads)
    if axes is None:
        return wide
    places = o.ExpandDims(axes_from_start(o, axes, rank), int_tensor(1))
    return o.ScatterNd(places, wide, int_tensor([rank, 2], "int64"))


def _pad_computed(o: Any, x: Any, pairs: Any, value: Any, mode: str) -> Any:
    """Padding by pairs that are known at run time only, negative ones among them."""
    rank = rank_of(x)
    if mode != "constant":
        ends = [
            [o.GatherNd(pairs, int_tensor([i, j])) for j in range(2)]
            for i in range(rank)
        ]
        return _pad_by_indices(o, x, ends, mode)
    y = _pad_constant(o, x, o.Maximum(pairs, _ZERO), value)
    low, high = o.Unpack(o.Minimum(pairs, _ZERO), num=2, axis=1, outputs=2)
    stops = o.AddV2(o.Shape(y, out_type=INT64), high)
    return o.StridedSlice(y, o.Neg(low), stops, int_tensor([1] * rank, "int64"))


def _pad_by_indices(o: Any, x: Any, pairs: Any, mode: str) -> Any:
    """Along each axis, the elements at places before, in and after what is kept."""
    dims, shape = dims_of(x), o.Shape(x, out_type=INT64)
    for axis, (low, high) in enumerate(pairs):
        if isinstance(low, int) and low == high == 0:
            continue
        size = dims[axis]
        if isinstance(size, int) and isinstance(low, int):
            first, last = max(-low, 0), size + min(high, 0)
            known = np.arange(-max(low, 0), last - first + max(high, 0))
            places: Any = int_tensor(first + _indices(known, last - first, mode))
        else:
            length = o.GatherNd(shape, int_tensor([axis]))
            places = _computed_indices(o, length, low, high, mode)
        x = o.GatherV2(x, places, int_tensor(axis))
    return o.Identity(x)


def _indices(places: Any, size: int, mode: str) -> Any:
    """The places of an axis that places beyond its ends stand for."""
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    period = max(2 * (size - 1), 1)
    return np.minimum(places % period, period - places % period) if size > 1 else (
        np.zeros_like(places)
    )  # fmt: skip


def _computed_indices(o: Any, size: Any, low: Any, high: Any, mode: str) -> Any:
    """As `_indices`, of a size or of pads that are known at run time only."""
    low, high = (int_tensor(v, "int64") if isinstance(v, int) else v
                 for v in (low, high))  # fmt: skip
    one, two = int_tensor(1, "int64"), int_tensor(2, "int64")
    first = o.Maximum(o.Sub(_ZERO, low), _ZERO)
    size = o.Sub(o.AddV2(size, o.Minimum(high, _ZERO)), first)
    stop = o.AddV2(size, o.Maximum(high, _ZERO))
    places = o.Range(o.Minimum(o.Sub(_ZERO, low), _ZERO), stop, one)
    last = o.Sub(size, one)
    if mode == "edge":
        found = o.Minimum(o.Maximum(places, _ZERO), last)
    elif mode == "wrap":
        found = o.FloorMod(places, size)
    else:
        period = o.Maximum(o.Mul(two, last), one)
        inside = o.FloorMod(places, period)
        found = o.Minimum(o.Minimum(inside, o.Sub(period, inside)), last)
    return o.AddV2(first, found)


WRITE: dict[str, Any] = {"pad": write_pad}
