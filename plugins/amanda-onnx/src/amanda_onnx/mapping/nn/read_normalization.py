"""From ONNX: batch, layer and group normalization, and Hardmax."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of

__all__ = ["READ"]


def read_batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5,
    momentum: float = 0.9, spatial: int = 1, training_mode: int = 0, is_test: int = 0,
    consumed_inputs: Any = None, outputs: int,  # noqa: ARG001
) -> Any:  # fmt: skip
    """Before opset 14, training mode is implied by more than one output."""
    if not spatial:
        expect(outputs == 1, "no training mode where spatial=0")
        return (_batch_norm_by_element(x, scale, bias, mean, var, epsilon),)
    if training_mode or (outputs > 1 and not is_test):
        return _train_batch_norm(x, scale, bias, mean, var, epsilon, momentum, outputs)
    expect(outputs == 1, "running statistics as outputs need training_mode=1")
    return (_batch_norm(x, scale, bias, mean, var, epsilon),)


def _batch_norm_by_element(x: Any, scale: Any, bias: Any, mean: Any, var: Any,
                           epsilon: float) -> Any:  # fmt: skip
    """Statistics of each element of each channel, not of each channel."""
    return (x - mean) / ops.sqrt(var + epsilon) * scale + bias


def _batch_norm(x: Any, scale: Any, bias: Any, mean: Any, var: Any,
                epsilon: float) -> Any:  # fmt: skip
    """Computed in the dtype of the statistics, which may be wider."""
    own = x.dtype
    scale, bias, x = (cast_to(v, mean.dtype) for v in (scale, bias, x))
    return cast_to(ops.batch_norm(x, scale, bias, mean, var, epsilon=epsilon), own)


def _train_batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float,
    momentum: float, outputs: int,
) -> Any:  # fmt: skip
    axes = (0, *range(2, rank_of(x)))
    batch_mean, batch_var = ops.mean(x, axes), ops.var(x, axes)
    y = _batch_norm(x, scale, bias, batch_mean, batch_var, epsilon)
    if outputs == 1:
        return (y,)
    rest = 1.0 - momentum
    running = (mean * momentum + batch_mean * rest, var * momentum + batch_var * rest)
    return (y, *running, batch_mean, batch_var)[:outputs]


def read_layer_norm(x: Any, scale: Any, bias: Any = None, *, axis: int = -1,
                    epsilon: float = 1e-5, stash_type: int = 1,
                    outputs: int) -> Any:  # fmt: skip
    expect(stash_type == 1, "stash_type other than float32")
    y = ops.layer_norm(x, scale, bias, axis=axis, epsilon=epsilon)
    if outputs == 1:
        return (y,)
    expect(str(x.dtype) == "float32", "the mean as an output needs float32 data")
    axes = tuple(range(axis % rank_of(x), rank_of(x)))
    mean = ops.mean(x, axes, keepdims=True)
    variance = ops.var(x, axes, keepdims=True)
    return (y, mean, 1.0 / ops.sqrt(variance + epsilon))[:outputs]


def read_group_norm_20(x: Any, scale: Any, bias: Any, *, num_groups: int,
                       epsilon: float = 1e-5) -> Any:  # fmt: skip
    """Before opset 21, scale and bias are those of groups, not of channels."""
    y = ops.group_norm(x, None, None, groups=num_groups, epsilon=epsilon)
    rank = rank_of(x)
    grouped = ops.reshape(y, [0, num_groups, -1], copy_zero=True)
    scaled = grouped * ops.reshape(scale, [1, -1, 1]) + ops.reshape(bias, [1, -1, 1])
    expect(rank > 1, "data without a channel axis")
    return ops.reshape(scaled, ops.shape_of(x))


def read_hardmax_12(x: Any, *, axis: int = 1) -> Any:
    """Before opset 13, over all axes from `axis` on."""
    rows = ops.flatten(x, axis=axis % (rank_of(x) + 1))
    return ops.reshape(ops.hardmax(rows), ops.shape_of(x))


READ: dict[str, Any] = {
    "BatchNormalization": read_batch_norm,
    "LayerNormalization": read_layer_norm,
    "GroupNormalization[18:20]": read_group_norm_20,
    "Hardmax[:12]": read_hardmax_12,
}
