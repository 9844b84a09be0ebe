"""Batch normalization by the statistics of the batch itself."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of

__all__ = ["normalize_batch"]


def normalize_batch(
    x: Any, scale: Any, offset: Any, *, axis: int, epsilon: float
) -> tuple[Any, Any, Any, Any]:
    """The result, the mean, the variance, and that of a sample (Bessel's correction).

    Statistics have the element type of the scale.
    """
    axes = [i for i in range(rank_of(x)) if i != axis]
    wide = cast_to(x, scale.dtype)
    mean, variance = ops.mean(wide, axes), ops.var(wide, axes)
    y = ops.batch_norm(wide, scale, offset, mean, variance, axis=axis, epsilon=epsilon)
    return cast_to(y, x.dtype), mean, variance, ops.var(wide, axes, correction=1)
