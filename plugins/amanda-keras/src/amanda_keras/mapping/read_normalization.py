"""From Keras: normalization."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda_keras.mapping.layer_calls import (
    Weights,
    as_axes,
    cast_to,
    expect,
    layers,
    rank_of,
)
from amanda_std import ops

__all__ = ["READ"]


def _axes_of(axis: Any, x: Any) -> list[int]:
    return sorted(as_axes(axis, x))


def _along(value: Any, axes: list[int], x: Any) -> Any:
    """A variable of some axes with the rank of the data."""
    dims = [x.shape[i] if i in axes else 1 for i in range(rank_of(x))]
    expect(all(isinstance(d, int) for d in dims), "the normalized axes are not static")
    return ops.reshape(value, dims)


def read_batch_norm(
    inputs: Any, *, weights: Weights, axis: Any = -1, epsilon: float = 1e-3,
    center: bool = True, scale: bool = True, renorm: bool = False,
) -> Any:  # fmt: skip
    del renorm  # of training only
    axes = _axes_of(axis, inputs)
    expect(len(axes) == 1, "normalization of several axes")
    mean, variance = weights["moving_mean"], weights["moving_variance"]
    gamma = weights["gamma"] if scale else ops.ones_like(mean)
    beta = weights["beta"] if center else ops.zeros_like(mean)
    wide = "float32" if str(inputs.dtype) in ("float16", "bfloat16") else inputs.dtype
    values = (cast_to(v, wide) for v in (inputs, gamma, beta, mean, variance))
    y = ops.batch_norm(*values, axis=axes[0], epsilon=float(epsilon))
    return cast_to(y, inputs.dtype)


def read_layer_norm(
    inputs: Any, *, weights: Weights, axis: Any = -1, epsilon: float = 1e-3,
    center: bool = True, scale: bool = True, rms_scaling: bool = False,
) -> Any:  # fmt: skip
    axes = _axes_of(axis, inputs)
    gamma = weights["gamma"] if scale or rms_scaling else None
    beta = weights["beta"] if center and not rms_scaling else None
    if axes == [rank_of(inputs) - 1] and not rms_scaling:
        return ops.layer_norm(inputs, gamma, beta, axis=-1, epsilon=float(epsilon))
    return _normalize(inputs, axes, epsilon, gamma, beta, is_rms=rms_scaling)


def _normalize(
    x: Any, axes: list[int], epsilon: float, gamma: Any, beta: Any, *, is_rms: bool
) -> Any:
    """Normalization over any axes; `is_rms` divides by the deviation only."""
    mean = ops.mean(x, tuple(axes), keepdims=True)
    variance = ops.mean(ops.square(x - mean), tuple(axes), keepdims=True)
    centered = x if is_rms else x - mean
    y = centered * ops.rsqrt(variance + float(epsilon))
    if gamma is not None:
        y = y * _along(gamma, axes, x)
    return y if beta is None else y + _along(beta, axes, x)


def read_rms_norm(
    inputs: Any, *, weights: Weights, axis: Any = -1, epsilon: float = 1e-6
) -> Any:
    axes = _axes_of(axis, inputs)
    if axes == [rank_of(inputs) - 1]:
        return ops.rms_norm(inputs, weights["scale"], axis=-1, epsilon=float(epsilon))
    squares = ops.mean(ops.square(inputs), tuple(axes), keepdims=True)
    y = inputs * ops.rsqrt(squares + float(epsilon))
    return y * _along(weights["scale"], axes, inputs)


def read_group_norm(
    inputs: Any, *, weights: Weights, groups: int = 32, axis: int = -1,
    epsilon: float = 1e-3, center: bool = True, scale: bool = True,
) -> Any:  # fmt: skip
    rank = rank_of(inputs)
    channel = axis % rank
    dims = list(inputs.shape)
    expect(isinstance(dims[channel], int), "the number of channels is not static")
    count = dims[channel] if groups == -1 else groups
    order = [0, channel, *(i for i in range(1, rank) if i != channel)]
    y = inputs if channel == 1 else ops.transpose(inputs, perm=tuple(order))
    gamma = weights["gamma"] if scale else None
    beta = weights["beta"] if center else None
    y = ops.group_norm(y, gamma, beta, groups=int(count), epsilon=float(epsilon))
    back = tuple(int(i) for i in np.argsort(order))
    return y if channel == 1 else ops.transpose(y, perm=back)


def read_layer_scale(
    inputs: Any, *, weights: Weights, init_values: Any = None, projection_dim: int = 0
) -> Any:
    """A factor for each channel, as in ConvNeXt of `keras.applications`."""
    del init_values, projection_dim
    return inputs * weights["gamma"]


def read_unit_norm(inputs: Any, *, axis: Any = -1) -> Any:
    axes = tuple(_axes_of(axis, inputs))
    total = ops.sum_squares(inputs, axes, keepdims=True)
    return inputs * ops.rsqrt(ops.maximum(total, 1e-12))


READ: Final = layers(
    {
        "BatchNormalization": read_batch_norm,
        "SyncBatchNormalization": read_batch_norm,
        "LayerNormalization": read_layer_norm,
        "RMSNormalization": read_rms_norm,
        "GroupNormalization": read_group_norm,
        "UnitNormalization": read_unit_norm,
        "LayerScale": read_layer_scale,
    }
)
