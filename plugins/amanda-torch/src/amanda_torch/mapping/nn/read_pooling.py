"""From PyTorch: pooling, adaptive pooling, and unpooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.nn.read_conv import with_batch
from amanda_torch.mapping.shape_arguments import (
    count_up,
    dims_of,
    equal_pairs,
    larger,
    shape_argument,
    smaller,
    spatial,
)
from amanda_torch.mapping.shapes.read_joins import pad
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ", "read_adaptive_average", "read_average_pool"]


def _options(count: int, window: Any, stride: Any, padding: Any) -> dict[str, Any]:
    window = spatial(window, count)
    return {
        "window": window,
        "strides": spatial(stride, count) if stride else window,
        "padding": equal_pairs(padding, count),
    }


def _max_pool(axes: int, *, indices: bool) -> Callable[..., Any]:
    op = ops.max_pool_with_indices if indices else ops.max_pool

    def read(x: Any, window: Any, stride: Any = None, padding: Any = 0,
             dilation: Any = 1, ceil_mode: bool = False) -> Any:  # fmt: skip
        options = _options(axes, window, stride, padding)
        options |= {"dilations": spatial(dilation, axes), "ceil": ceil_mode}
        return with_batch(lambda x: op(x, **options), x, axes)

    return read


def read_average_pool(axes: int) -> Callable[..., Any]:
    def read(x: Any, window: Any, stride: Any = None, padding: Any = 0,
             ceil_mode: bool = False, count_include_pad: bool = True,
             divisor_override: int | None = None) -> Any:  # fmt: skip
        options = _options(axes, window, stride, padding)
        if divisor_override is not None:
            scale = number(1 / divisor_override, x.dtype)
            return scale * with_batch(
                lambda x: _window_sums(x, options, ceil_mode), x, axes
            )
        return with_batch(
            lambda x: ops.avg_pool(
                x, ceil=ceil_mode, count_pads=count_include_pad, **options
            ), x, axes,
        )  # fmt: skip

    return read


def _window_sums(x: Any, options: Mapping[str, Any], ceil_mode: bool) -> Any:
    """The sum of each window, where padding is zeros: as many times the average."""
    window, strides, pairs = (options[k] for k in ("window", "strides", "padding"))
    if ceil_mode:
        rows = zip(dims_of(x)[2:], window, strides, pairs, strict=True)
        ends = [(low, low + _overhang(size, length, step, low))
                for size, length, step, (low, _) in rows]  # fmt: skip
        x = pad(x, [n for pair in reversed(ends) for n in pair])
        options = {**options, "padding": equal_pairs(0, len(window))}
    return ops.avg_pool(x, count_pads=True, **options) * number(
        math.prod(window), x.dtype
    )


def _overhang(size: Any, length: int, step: int, pad: int) -> Any:
    """How far a last, partial window reaches beyond the padded data.

    A window that starts in the padding at the end does not count."""
    whole = size + 2 * pad
    last = smaller(-((length - whole) // step), -(-(size + pad) // step) - 1)
    return larger(last * step + length - whole, 0)


def _lengths(x: Any, axes: int, size: Sequence[Any]) -> list[Any]:
    """Sizes of the result; None keeps that of the data."""
    dims = dims_of(x)[-axes:]
    return [d if s is None else s for s, d in zip(size, dims, strict=True)]


def read_adaptive_average(axes: int) -> Callable[..., Any]:
    def read(x: Any, size: Any) -> Any:
        wanted = _lengths(x, axes, spatial(size, axes))
        if all(isinstance(n, int) and n == 1 for n in wanted):
            return ops.mean(
                x, list(range(rank_of(x) - axes, rank_of(x))), keepdims=True
            )
        return with_batch(
            lambda x: ops.adaptive_avg_pool(x, shape_argument(wanted)), x, axes
        )

    return read


def _adaptive_max(axes: int) -> Callable[..., Any]:
    """The maximum of each bin and its index."""

    def read(x: Any, size: Any) -> Any:
        wanted = _lengths(x, axes, spatial(size, axes))
        return _bin_maximum(x, dims_of(x)[-axes:], wanted)

    return read


def _bins(size: Any, count: Any) -> tuple[Any, Any]:
    """Indices [count, width] of the elements of each bin, and which belong to it."""
    i = count_up(0, count)
    starts, stops = i * size // count, -(-(i + 1) * size // count)
    if isinstance(starts, np.ndarray):
        width = int((stops - starts).max(initial=1))
    else:
        width = -(-size // count) + 1
    places = starts[:, None] + count_up(0, width)
    return places.clip(0, size - 1), places < stops[:, None]


def _bin_maximum(x: Any, sizes: Sequence[Any], counts: Sequence[Any]) -> Any:
    axes = len(sizes)
    place, inside = np.zeros((), "int64"), np.ones((), bool)
    for i, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        others = [j for j in range(2 * axes) if j not in (i, axes + i)]
        at, belongs = (ops.expand_dims(v, others) for v in _bins(size, count))
        place, inside = place * size + at, inside & belongs
    rows = shape_argument([*counts, -1])
    table, mask = ops.reshape(place, rows), ops.reshape(inside, rows)
    outer = list(dims_of(x)[:-axes])
    flat = ops.reshape(x, shape_argument([*outer, math.prod(sizes)]))
    bins = ops.gather(flat, table, len(outer))
    low = float("-inf") if x.dtype.kind == "float" else np.iinfo(x.dtype.numpy).min
    bins = ops.where(mask, bins, number(low, x.dtype))
    last = rank_of(bins) - 1
    chosen = ops.argmax(bins, last, keepdims=True)
    index = ops.gather_elements(
        ops.broadcast_to(table, ops.shape_of(bins)), chosen, axis=last
    )
    return ops.max(bins, [last]), ops.squeeze(index, [last])


def _unpool(axes: int) -> Callable[..., Any]:
    def read(x: Any, indices: Any, size: Any, stride: Any = None,
             padding: Any = None) -> Any:  # fmt: skip
        del stride, padding
        wanted = list(size)[-axes:]
        outer = list(dims_of(x)[:-axes])
        total = math.prod(wanted)
        flat = shape_argument([*outer, -1])
        zeros = ops.full(shape_argument([*outer, total]), number(0, x.dtype))
        y = ops.scatter_elements(zeros, ops.reshape(indices, flat),
                                 ops.reshape(x, flat), axis=len(outer))  # fmt: skip
        return ops.reshape(y, shape_argument([*outer, *wanted]))

    return read


READ = torch_functions(
    {
        **{f"max_pool{n}d": _max_pool(n, indices=False) for n in (1, 2, 3)},
        **{f"max_pool{n}d_with_indices": _max_pool(n, indices=True) for n in (1, 2, 3)},
        **{f"avg_pool{n}d": read_average_pool(n) for n in (1, 2, 3)},
        **{f"adaptive_avg_pool{n}d": read_adaptive_average(n) for n in (1, 2, 3)},
        **{f"_adaptive_avg_pool{n}d": read_adaptive_average(n) for n in (2, 3)},
        **{f"adaptive_max_pool{n}d": _adaptive_max(n) for n in (1, 2, 3)},
        **{f"max_unpool{n}d": _unpool(n) for n in (2, 3)},
    }
)
