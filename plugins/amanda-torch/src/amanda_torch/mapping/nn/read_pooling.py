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
    equal_pairs,
    integer,
    shape_argument,
    spatial,
)
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
    """The sum of each window, of which padding is no part: by ones as a kernel."""
    window, channels = options["window"], x.type.shape.dims[1]
    count = integer(channels, "the number of channels")
    kernel = np.ones((count, 1, *window), x.dtype.numpy)
    pairs = list(options["padding"])
    if ceil_mode:
        sizes = [integer(n, "a size of the data") for n in x.type.shape.dims[2:]]
        rows = zip(sizes, window, options["strides"], pairs, strict=True)
        pairs = [(pad, pad + _overhang(size, length, step, pad))
                 for size, length, step, (pad, _) in rows]  # fmt: skip
    return ops.conv(
        x, kernel, strides=options["strides"], padding=tuple(pairs), groups=count
    )


def _overhang(size: int, length: int, step: int, pad: int) -> int:
    """How far a last, partial window reaches beyond the padded data.

    A window that starts in the padding at the end does not count."""
    whole = size + 2 * pad
    last = -(-(whole - length) // step)
    last -= last * step >= size + pad
    return max(last * step + length - whole, 0)


def _lengths(x: Any, axes: int, size: Sequence[Any]) -> list[Any]:
    """Sizes of the result; None keeps that of the data."""
    dims = x.type.shape.dims[-axes:]
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
    """The maximum of each bin and its index; sizes must be known."""

    def read(x: Any, size: Any) -> Any:
        wanted = _lengths(x, axes, spatial(size, axes))
        given = [integer(n, "a size of the data") for n in x.type.shape.dims[-axes:]]
        tables = [_bins(n, m) for n, m in zip(given, wanted, strict=True)]
        return _bin_maximum(x, given, tables)

    return read


def _bins(size: int, count: int) -> tuple[Any, Any]:
    """Indices of the elements of each bin, and whether they belong to it."""
    starts = [i * size // count for i in range(count)]
    stops = [-(-(i + 1) * size // count) for i in range(count)]
    width = max((b - a for a, b in zip(starts, stops, strict=True)), default=1)
    places = np.array([[a + j for j in range(width)] for a in starts])
    inside = np.array([[a + j < b for j in range(width)]
                       for a, b in zip(starts, stops, strict=True)])  # fmt: skip
    return np.minimum(places, size - 1), inside


def _bin_maximum(
    x: Any, sizes: Sequence[int], tables: Sequence[tuple[Any, Any]]
) -> tuple[Any, Any]:
    axes = len(sizes)
    place, inside = np.zeros((1,) * (2 * axes), int), np.ones((1,) * (2 * axes), bool)
    for i, (at, ok) in enumerate(tables):
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = at.shape
        place = place * sizes[i] + at.reshape(shape)
        inside = inside & ok.reshape(shape)
    counts = [at.shape[0] for at, _ in tables]
    table = np.broadcast_to(place, inside.shape).reshape(*counts, -1).astype("int64")
    mask = inside.reshape(*counts, -1)
    outer = list(x.type.shape.dims[:-axes])
    flat = ops.reshape(x, shape_argument([*_dim_values(x, outer), math.prod(sizes)]))
    bins = ops.gather(flat, table, len(outer))
    low = float("-inf") if x.dtype.kind == "float" else np.iinfo(x.dtype.numpy).min
    bins = ops.where(mask, bins, number(low, x.dtype))
    last = rank_of(bins) - 1
    chosen = ops.argmax(bins, last, keepdims=True)
    index = ops.gather_elements(
        ops.broadcast_to(table, ops.shape_of(bins)), chosen, axis=last
    )
    return ops.max(bins, [last]), ops.squeeze(index, [last])


def _dim_values(x: Any, dims: Sequence[Any]) -> list[Any]:
    return [d if isinstance(d, int) else ops.dim(x, axis=i) for i, d in enumerate(dims)]


def _unpool(axes: int) -> Callable[..., Any]:
    def read(x: Any, indices: Any, size: Any, stride: Any = None,
             padding: Any = None) -> Any:  # fmt: skip
        del stride, padding
        wanted = list(size)[-axes:]
        outer = list(x.type.shape.dims[:-axes])
        total = math.prod(integer(n, "a size") for n in wanted)
        rows = [ops.reshape(v, shape_argument([*_dim_values(x, outer), -1]))
                for v in (x, indices)]  # fmt: skip
        zeros = ops.full(
            shape_argument([*_dim_values(x, outer), total]), number(0, x.dtype)
        )
        y = ops.scatter_elements(zeros, rows[1], rows[0], axis=len(outer))
        return ops.reshape(y, shape_argument([*_dim_values(x, outer), *wanted]))

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
