"""From TensorFlow: normalization."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.dataflow import normalize_batch
from amanda_std.mappings import cast_to, rank_of
from amanda_tf.mapping.layouts import layout_of

__all__ = ["READ"]


def read_fused_batch_norm(
    x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *,
    epsilon: float = 1e-4, exponential_avg_factor: float = 1.0,
    data_format: str = "NHWC", is_training: bool = True, outputs: int,
) -> Any:  # fmt: skip
    """Batch normalization, and the statistics: those of the batch in training.

    The variance that training returns is that of a sample (Bessel's correction).
    """
    axis = 1 if layout_of(data_format) == "NC*" else rank_of(x) - 1
    if not is_training:
        y = ops.batch_norm(
            x, *(cast_to(v, x.dtype) for v in (scale, offset, mean, variance)),
            axis=axis, epsilon=epsilon,
        )  # fmt: skip
        return (y, mean, variance, mean, variance, mean)[:outputs]
    y, m, v, sample = normalize_batch(x, scale, offset, axis=axis, epsilon=epsilon)
    new_mean, new_var = m, sample
    if exponential_avg_factor != 1.0:
        keep = 1.0 - exponential_avg_factor
        new_mean = mean * keep + m * exponential_avg_factor
        new_var = variance * keep + sample * exponential_avg_factor
    return (y, new_mean, new_var, m, v, m)[:outputs]


def read_fused_batch_norm_ex(
    x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *side: Any,
    activation_mode: str = "Identity", outputs: int, **attrs: Any,
) -> Any:  # fmt: skip
    """Batch normalization, plus another input, and Relu."""
    y, *rest = read_fused_batch_norm(
        x, scale, offset, mean, variance, outputs=outputs, **attrs
    )
    for each in side:
        y = y + each
    return (ops.relu(y) if activation_mode == "Relu" else y, *rest)


def read_batch_norm_global(
    x: Any, mean: Any, variance: Any, beta: Any, gamma: Any, *,
    variance_epsilon: float, scale_after_normalization: bool,
) -> Any:  # fmt: skip
    """BatchNormWithGlobalNormalization to `batch_norm`."""
    scale = gamma if scale_after_normalization else ops.ones_like(gamma)
    return ops.batch_norm(
        x, scale, beta, mean, variance, axis=rank_of(x) - 1, epsilon=variance_epsilon
    )


def read_lrn(
    x: Any, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0,
    beta: float = 0.5,
) -> Any:  # fmt: skip
    """TensorFlow sums squares over the window; std takes their mean."""
    size = 2 * depth_radius + 1
    return ops.lrn(x, size=size, alpha=alpha * size, beta=beta, bias=bias, axis=3)


READ: dict[str, Any] = {
    "FusedBatchNorm": read_fused_batch_norm,
    "FusedBatchNormV2": read_fused_batch_norm,
    "FusedBatchNormV3": read_fused_batch_norm,
    "_FusedBatchNormEx": read_fused_batch_norm_ex,
    "BatchNormWithGlobalNormalization": read_batch_norm_global,
    "LRN": read_lrn,
}
