"""Primitives that reduce windows, or select an element of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from amanda_jax.formats.jaxprs.neural_network import permute
from amanda_jax.formats.jaxprs.reductions import combine_by, fold
from amanda_jax.formats.jaxprs.shapes import expect, interleave, pad_ends
from amanda_jax.formats.jaxprs.sizes import has_symbols, shape_argument
from amanda_std import ops
from amanda_std.backends import inverse_permutation

__all__ = ["READ"]


class _ChannelsFirst(NamedTuple):
    """Data as NC*: its first axes are two that no window moves along, or new ones."""

    order: tuple[int, ...]
    """The axes of the data in that order."""
    added: int
    """The number of new axes, of size 1, before them."""

    def arrange(self, x: Any) -> Any:
        x = permute(x, self.order)
        return ops.expand_dims(x, tuple(range(self.added))) if self.added else x

    def restore(self, y: Any) -> Any:
        y = ops.squeeze(y, tuple(range(self.added))) if self.added else y
        return permute(y, inverse_permutation(self.order))

    def attributes(
        self, window: Any, strides: Any, padding: Any, dilations: Any = None
    ) -> dict[str, Any]:
        """The attributes of a pool of the hub, from those for each axis of the data."""
        moved = self.order[2 - self.added :]
        return {
            "window": tuple(window[axis] for axis in moved),
            "strides": tuple(strides[axis] for axis in moved),
            "padding": tuple(tuple(padding[axis]) for axis in moved),
            "dilations": dilations and tuple(dilations[axis] for axis in moved),
        }


def _channels_first(window: Any, strides: Any, padding: Any) -> _ChannelsFirst:
    rows = zip(window, strides, padding, strict=True)
    is_unmoved = [w == s == 1 and tuple(p) == (0, 0) for w, s, p in rows]
    unmoved = [axis for axis, unmoved in enumerate(is_unmoved) if unmoved][:2]
    others = [axis for axis in range(len(is_unmoved)) if axis not in unmoved]
    return _ChannelsFirst((*unmoved, *others), 2 - len(unmoved))


# -- reductions ------------------------------------------------------------------------


def _reduce_windows(
    pool: Callable[..., Any],
    reduction: Callable[..., Any],
    identity: Callable[[np.dtype[Any]], Any],
) -> Callable[..., Any]:
    """A reduction by a pool of the hub; of integers, by a reduction of axes."""

    def read(
        x: Any, *sizes: Any, window_dimensions: Any, window_strides: Any, padding: Any,
        base_dilation: Any, window_dilation: Any,
    ) -> Any:  # fmt: skip
        is_logical = x.dtype.kind == "bool"
        x = ops.astype(x, dtype="uint8") if is_logical else x
        unit = identity(x.dtype.numpy)
        for axis, dilation in enumerate(base_dilation):
            x = interleave(x, axis, dilation - 1, unit)
        if has_symbols(padding):
            x, padding = pad_ends(x, unit, padding, sizes), [(0, 0)] * x.ndim
        windows = (window_dimensions, window_strides, padding, window_dilation)
        if x.dtype.kind not in ("int", "uint"):
            return _pool_floats(pool, x, windows)
        for axis, row in enumerate(zip(*windows, strict=True)):
            x = _reduce_along_axis(reduction, x, axis, unit, *row)
        return ops.astype(x, dtype="bool") if is_logical else x

    return read


def _pool_floats(pool: Callable[..., Any], x: Any, windows: Sequence[Any]) -> Any:
    layout = _channels_first(*windows[:3])
    attributes = layout.attributes(*windows)
    if not layout.added and layout.order == (0, x.ndim - 1, *range(1, x.ndim - 1)):
        return pool(x, layout="N*C", **attributes)
    return layout.restore(pool(layout.arrange(x), **attributes))


def reduce_window(
    *operands: Any, jaxpr: Any, consts: Any = (), window_dimensions: Any,
    window_strides: Any, padding: Any, base_dilation: Any, window_dilation: Any,
) -> Any:  # fmt: skip
    """A reduction by a function: the elements of windows are combined two by two."""
    expect(not consts, "the function has constants")
    expect(not has_symbols(padding), "the padding is symbolic")
    count = len(operands) // 2
    xs, initial = list(operands[:count]), operands[count:]
    combine = partial(combine_by, jaxpr)
    windows = (window_dimensions, window_strides, padding, window_dilation)
    for axis, dilation in enumerate(base_dilation):
        rows = zip(xs, initial, strict=True)
        xs = [interleave(x, axis, dilation - 1, unit) for x, unit in rows]
    for axis, row in enumerate(zip(*windows, strict=True)):
        rows = zip(xs, initial, strict=True)
        folded = [_windows_along_axis(x, axis, unit, *row) for x, unit in rows]
        xs = list(fold(folded, [axis + 1], combine))
    return tuple(combine(initial, xs))


def _reduce_along_axis(
    reduction: Callable[..., Any], x: Any, axis: int, unit: Any, width: int,
    stride: int, pads: Sequence[int], dilation: int,
) -> Any:  # fmt: skip
    """The reduced windows along one axis; pads have the value `unit`."""
    if width == stride == 1 and not any(pads):
        return x
    windows = _windows_along_axis(x, axis, unit, width, stride, pads, dilation)
    return reduction(windows, [axis + 1])


def _windows_along_axis(
    x: Any, axis: int, unit: Any, width: int, stride: int, pads: Sequence[int],
    dilation: int,
) -> Any:  # fmt: skip
    """The elements of the windows along an axis, as an axis behind it."""
    x = ops.pad(x, [tuple(pads) if i == axis else (0, 0) for i in range(x.ndim)], unit)
    size = int(x.type.shape[axis])
    count = max(0, (size - (width - 1) * dilation - 1) // stride + 1)
    starts = np.arange(count) * stride
    places = starts[:, None] + np.arange(width) * dilation
    return ops.gather(x, places, axis)


def _zero(dtype: np.dtype[Any]) -> Any:
    """The identity of sums."""
    return np.zeros((), dtype)


def _lowest(dtype: np.dtype[Any]) -> Any:
    """The identity of maxima."""
    return np.asarray(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)


def _highest(dtype: np.dtype[Any]) -> Any:
    """The identity of minima."""
    return np.asarray(np.iinfo(dtype).max if dtype.kind in "iu" else np.inf, dtype)


def _min_pool(x: Any, **attributes: Any) -> Any:
    return -ops.max_pool(-x, **attributes)


def _sum_pool(x: Any, *, window: Any, **attributes: Any) -> Any:
    mean = ops.avg_pool(x, window=window, count_pads=True, **attributes)
    return mean * float(prod(window))


# -- selections ------------------------------------------------------------------------


def select_and_scatter_add(
    source: Any, x: Any, *, select_prim: Any, window_dimensions: Any,
    window_strides: Any, padding: Any,
) -> Any:  # fmt: skip
    """The gradient of max pooling: each window's value at its first largest element."""
    windows = (window_dimensions, window_strides, padding)
    layout = _channels_first(*windows)
    x = layout.arrange(_comparable(x, select_prim))
    indices = _indices_of_maxima(x, layout.attributes(*windows))
    zeros = ops.reshape(ops.zeros_like(x), [-1])
    values = ops.reshape(layout.arrange(source), [-1])
    total = ops.scatter_elements(
        zeros, ops.reshape(indices, [-1]), values, axis=0, reduction="add"
    )
    return layout.restore(ops.reshape(total, shape_argument(x.shape)))


def select_and_gather_add(
    source: Any, x: Any, *, select_prim: Any, window_dimensions: Any,
    window_strides: Any, padding: Any, base_dilation: Any, window_dilation: Any,
) -> Any:  # fmt: skip
    """The elements of `source` where the windows of x have their first largest one."""
    expect(all(d == 1 for d in base_dilation), "the data is dilated")
    windows = (window_dimensions, window_strides, padding)
    layout = _channels_first(*windows)
    x = layout.arrange(_comparable(x, select_prim))
    indices = _indices_of_maxima(x, layout.attributes(*windows, window_dilation))
    values = ops.reshape(layout.arrange(source), [-1])
    return layout.restore(ops.gather(values, indices, 0))


def _comparable(x: Any, comparison: str) -> Any:
    """What has its maxima where a window of x selects an element."""
    expect(comparison in ("ge", "le"), f"windows select by {comparison}")
    if comparison == "ge":
        return x
    # inverted where it is an integer: not every one has a negative
    return ops.bitwise_invert(x) if x.dtype.kind in ("int", "uint") else -x


def _indices_of_maxima(x: Any, attributes: dict[str, Any]) -> Any:
    return ops.max_pool_with_indices(x, whole_tensor=True, **attributes)[1]


READ: Final[dict[str, Callable[..., Any]]] = {
    "reduce_window": reduce_window,
    "reduce_window_max": _reduce_windows(ops.max_pool, ops.max, _lowest),
    "reduce_window_min": _reduce_windows(_min_pool, ops.min, _highest),
    "reduce_window_sum": _reduce_windows(_sum_pool, ops.sum, _zero),
    "select_and_gather_add": select_and_gather_add,
    "select_and_scatter_add": select_and_scatter_add,
}
