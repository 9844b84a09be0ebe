"""From Keras: pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amanda_keras.mapping.layer_calls import cast_to, expect, layers, rank_of
from amanda_keras.mapping.layouts import layout_of, per_axis, same_or_valid
from amanda_std import ops

__all__ = ["READ"]


def _pool(rank: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def read_pool(
        inputs: Any, *, pool_size: Any = 2, strides: Any = None,
        padding: str = "valid", data_format: Any = None,
    ) -> Any:  # fmt: skip
        window = per_axis(pool_size, rank)
        steps = window if strides is None else per_axis(strides, rank)
        return function(
            inputs, window=window, strides=steps, padding=same_or_valid(padding),
            layout=layout_of(data_format),
        )  # fmt: skip

    return read_pool


def _spatial_axes(x: Any, data_format: Any) -> tuple[int, ...]:
    rank = rank_of(x)
    is_first = layout_of(data_format) == "NC*"
    return tuple(range(2, rank) if is_first else range(1, rank - 1))


def _global_pool(function: Callable[..., Any]) -> Callable[..., Any]:
    def read_global_pool(
        inputs: Any, *, data_format: Any = None, keepdims: bool = False
    ) -> Any:
        axes = _spatial_axes(inputs, data_format)
        return function(inputs, axes, keepdims=bool(keepdims))

    return read_global_pool


def read_global_average_pool_1d(
    inputs: Any, *, data_format: Any = None, keepdims: bool = False, mask: Any = None
) -> Any:
    """The mean of the steps that a mask includes."""
    axes, keepdims = _spatial_axes(inputs, data_format), bool(keepdims)
    if mask is None:
        return ops.mean(inputs, axes, keepdims=keepdims)
    axis = 1 if data_format == "channels_first" else 2
    mask = cast_to(ops.expand_dims(mask, [axis]), "bool")
    counts = ops.sum_(cast_to(mask, inputs.dtype), axes, keepdims=keepdims)
    kept = ops.where(mask, inputs, ops.number_like(inputs, value=0))
    return ops.sum_(kept, axes, keepdims=keepdims) / counts


def _adaptive_pool(rank: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def read_adaptive_pool(
        inputs: Any, *, output_size: Any, data_format: Any = None
    ) -> Any:
        expect(rank_of(inputs) == rank + 2, f"data of rank {rank + 2} is expected")
        size = list(per_axis(output_size, rank))
        if layout_of(data_format) == "NC*":
            return function(inputs, size)
        y = function(
            ops.transpose(inputs, perm=(0, rank + 1, *range(1, rank + 1))), size
        )
        return ops.transpose(y, perm=(0, *range(2, rank + 2), 1))

    return read_adaptive_pool


READ: Final = layers(
    {f"MaxPooling{n}D": _pool(n, ops.max_pool) for n in (1, 2, 3)}
    | {f"AveragePooling{n}D": _pool(n, ops.avg_pool) for n in (1, 2, 3)}
    | {f"GlobalMaxPooling{n}D": _global_pool(ops.max_) for n in (1, 2, 3)}
    | {f"GlobalAveragePooling{n}D": _global_pool(ops.mean) for n in (2, 3)}
    | {f"AdaptiveMaxPooling{n}D": _adaptive_pool(n, ops.adaptive_max_pool)
       for n in (1, 2, 3)}
    | {f"AdaptiveAveragePooling{n}D": _adaptive_pool(n, ops.adaptive_avg_pool)
       for n in (1, 2, 3)}
    | {"GlobalAveragePooling1D": read_global_average_pool_1d}
)  # fmt: skip
