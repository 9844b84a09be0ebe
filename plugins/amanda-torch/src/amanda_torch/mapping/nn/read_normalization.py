"""From PyTorch: normalization of batches, layers, groups and instances; dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import shape_argument
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ"]


def _channels(x: Any, values: Any, axis: int = 1) -> Any:
    """One value for each channel, along that axis of x."""
    shape = [1] * rank_of(x)
    shape[axis] = -1
    return ops.reshape(values, shape)


def _scale(y: Any, weight: Any, bias: Any, dtype: Any) -> Any:
    y = y if weight is None else y * _channels(y, cast_to(weight, y.dtype))
    y = y if bias is None else y + _channels(y, cast_to(bias, y.dtype))
    return cast_to(y, dtype)


def read_batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any,
                    training: bool, momentum: float, eps: float) -> Any:  # fmt: skip
    if training or mean is None:
        return _normalize_batch(x, weight, bias, mean, var, momentum, eps)[0]
    one, zero = ops.ones_like(mean), ops.zeros_like(mean)
    weight, bias = one if weight is None else weight, zero if bias is None else bias
    return ops.batch_norm(x, weight, bias, mean, var, epsilon=eps)


def _normalize_batch(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    momentum: float, eps: float,
) -> list[Any]:  # fmt: skip
    """By the statistics of the batch; also these, and the new running ones."""
    axes = [i for i in range(rank_of(x)) if i != 1]
    mean = ops.mean(x, axes)
    apart = x - _channels(x, mean)
    var = ops.mean(apart * apart, axes)
    inverse = number(1, var.dtype) / ops.sqrt(var + number(eps, var.dtype))
    y = _scale(apart * _channels(x, inverse), weight, bias, x.dtype)
    if running_mean is None:
        return [y, mean, inverse]
    count = cast_to(ops.size(x), x.dtype) / cast_to(ops.dim(x, axis=1), x.dtype)
    unbiased = var * (count / (count - number(1, x.dtype)))
    share = number(momentum, mean.dtype)
    rest = number(1 - momentum, mean.dtype)
    return [y, mean, inverse, running_mean * rest + mean * share,
            running_var * rest + unbiased * share]  # fmt: skip


def read_native_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if training or mean is None:
        return tuple(_normalize_batch(x, weight, bias, None, None, momentum, eps))
    y = read_batch_norm(x, weight, bias, mean, var, False, momentum, eps)
    none = np.zeros(0, x.dtype.numpy)
    return y, none, none


def read_functional_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if training:
        return tuple(_normalize_batch(x, weight, bias, mean, var, momentum, eps))
    return (*read_native_batch_norm(x, weight, bias, mean, var, False, momentum, eps),
            ops.identity(mean), ops.identity(var))  # fmt: skip


def read_batch_norm_of_batch(x: Any, weight: Any, bias: Any, training: bool,
                             momentum: float, eps: float) -> Any:  # fmt: skip
    del training
    return tuple(_normalize_batch(x, weight, bias, None, None, momentum, eps))


def read_batch_norm_with_update(x: Any, weight: Any, bias: Any, mean: Any, var: Any,
                                momentum: float, eps: float) -> Any:  # fmt: skip
    y, *saved, new_mean, new_var = _normalize_batch(
        x, weight, bias, mean, var, momentum, eps
    )
    return y, *saved, np.zeros(0, "uint8"), new_mean, new_var


def read_inference_batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any,
                              momentum: float, eps: float) -> Any:  # fmt: skip
    return read_native_batch_norm(x, weight, bias, mean, var, False, momentum, eps)


def _moments(x: Any, axes: list[int], eps: float) -> tuple[Any, Any, Any]:
    """Normalized over axes, with the mean and the inverse deviation."""
    mean = ops.mean(x, axes, keepdims=True)
    apart = x - mean
    var = ops.mean(apart * apart, axes, keepdims=True)
    inverse = number(1, x.dtype) / ops.sqrt(var + number(eps, x.dtype))
    return apart * inverse, mean, inverse


def read_layer_norm(x: Any, shape: Sequence[Any], weight: Any = None, bias: Any = None,
                    eps: float = 1e-5) -> Any:  # fmt: skip
    axis = rank_of(x) - len(shape)
    return ops.layer_norm(x, weight, bias, axis=axis, epsilon=eps)


def read_native_layer_norm(x: Any, shape: Sequence[Any], weight: Any, bias: Any,
                           eps: float) -> Any:  # fmt: skip
    y, mean, inverse = _moments(x, list(range(-len(shape), 0)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, inverse


def read_group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None,
                    eps: float = 1e-5) -> Any:  # fmt: skip
    dims = [d if isinstance(d, int) else ops.dim(x, axis=i)
            for i, d in enumerate(x.type.shape.dims[:2])]  # fmt: skip
    rows = ops.reshape(x, shape_argument([dims[0], groups, -1]))
    y = ops.reshape(_moments(rows, [2], eps)[0], ops.shape_of(x))
    return _scale(y, weight, bias, x.dtype)


def read_native_group_norm(x: Any, weight: Any, bias: Any, n: Any, c: Any, hw: Any,
                           groups: int, eps: float) -> Any:  # fmt: skip
    del c, hw
    rows = ops.reshape(x, shape_argument([n, groups, -1]))
    y, mean, inverse = _moments(rows, [2], eps)
    y = _scale(ops.reshape(y, ops.shape_of(x)), weight, bias, x.dtype)
    return y, ops.squeeze(mean, [2]), ops.squeeze(inverse, [2])


def read_instance_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    if not use_input_stats:
        return read_batch_norm(x, weight, bias, mean, var, False, momentum, eps)
    y = _moments(x, list(range(2, rank_of(x))), eps)[0]
    return _scale(y, weight, bias, x.dtype)


def read_rms_norm(x: Any, shape: Sequence[Any], weight: Any = None,
                  eps: float | None = None) -> Any:  # fmt: skip
    if eps is None:
        eps = float(np.finfo(x.dtype.numpy).eps)
    axes = list(range(-len(shape), 0))
    square = ops.mean(x * x, axes, keepdims=True)
    y = x * ops.rsqrt(square + number(eps, x.dtype))
    return y if weight is None else y * weight


def _draw_kept(x: Any, p: float, shape: Any) -> Any:
    """1 with probability 1 - p, else 0."""
    share = np.asarray(1 - p, "float32")
    drawn = ops.random_bernoulli(ops.next_random_key(), share, shape)
    return ops.astype(drawn, dtype=x.dtype)


def read_dropout(x: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return ops.identity(x)
    if p == 1:
        return ops.zeros_like(x)
    return x * _draw_kept(x, p, ops.shape_of(x)) / number(1 - p, x.dtype)


def read_native_dropout(x: Any, p: float, train: bool | None) -> Any:
    if train is False or p == 0:
        return ops.identity(x), ops.astype(ops.ones_like(x), dtype="bool")
    kept = _draw_kept(x, p, ops.shape_of(x))
    return x * kept / number(1 - p, x.dtype), ops.astype(kept, dtype="bool")


def read_native_dropout_backward(g: Any, mask: Any, scale: float) -> Any:
    return g * cast_to(mask, g.dtype) * number(scale, g.dtype)


def read_feature_dropout(x: Any, p: float, train: bool) -> Any:
    """Whole channels are dropped."""
    if not train or p == 0:
        return ops.identity(x)
    return x * _draw_kept(x, p, _channel_shape(x)) / number(1 - p, x.dtype)


def _channel_shape(x: Any) -> Any:
    dims = [d if isinstance(d, int) else ops.dim(x, axis=i)
            for i, d in enumerate(x.type.shape.dims[:2])]  # fmt: skip
    return shape_argument([*dims, *([1] * (rank_of(x) - 2))])


_ALPHA = -1.7580993408473766
"""What SELU tends to for small numbers."""


def _alpha_dropout(x: Any, p: float, kept: Any) -> Any:
    if p == 1:
        return x * number(0, x.dtype)
    a = ((_ALPHA**2 * p + 1) * (1 - p)) ** -0.5
    dropped = number(1, x.dtype) - kept
    y = x * kept + dropped * number(_ALPHA, x.dtype)
    return y * number(a, x.dtype) - number(a * _ALPHA * p, x.dtype)


def read_alpha_dropout(x: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return ops.identity(x)
    return _alpha_dropout(x, p, _draw_kept(x, p, ops.shape_of(x)))


def read_feature_alpha_dropout(x: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return ops.identity(x)
    return _alpha_dropout(x, p, _draw_kept(x, p, _channel_shape(x)))


def read_weight_norm(v: Any, g: Any, dim: int = 0) -> tuple[Any, Any]:
    """v with the norms g over all axes but one, and its own norms."""
    kept = rank_of(v) if dim == -1 else dim % rank_of(v)
    axes = [axis for axis in range(rank_of(v)) if axis != kept]
    norms = ops.sqrt(ops.sum(v * v, axes, keepdims=True))
    return v * (g / norms), norms


READ = torch_functions(
    {
        "batch_norm": read_batch_norm,
        "native_batch_norm": read_native_batch_norm,
        "_native_batch_norm_legit_functional": read_functional_batch_norm,
        "_native_batch_norm_legit.no_stats": read_batch_norm_of_batch,
        "_native_batch_norm_legit_no_training": read_inference_batch_norm,
        "_batch_norm_with_update_functional": read_batch_norm_with_update,
        "layer_norm": read_layer_norm,
        "native_layer_norm": read_native_layer_norm,
        "group_norm": read_group_norm,
        "_weight_norm": lambda v, g, dim=0: read_weight_norm(v, g, dim)[0],
        "_weight_norm_interface": read_weight_norm,
        "native_group_norm": read_native_group_norm,
        "instance_norm": read_instance_norm,
        "rms_norm _fused_rms_norm": read_rms_norm,
        "dropout": read_dropout,
        "native_dropout": read_native_dropout,
        "native_dropout_backward": read_native_dropout_backward,
        "feature_dropout": read_feature_dropout,
        "alpha_dropout": read_alpha_dropout,
        "feature_alpha_dropout": read_feature_alpha_dropout,
    }
)
