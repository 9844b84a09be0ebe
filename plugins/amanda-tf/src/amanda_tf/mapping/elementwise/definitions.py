"""Special functions by others that TensorFlow has."""

from __future__ import annotations

import math
from typing import Any

from amanda_std import ops

__all__ = ["log_ndtr_by_erfc"]

_SERIES_FROM = -12.0
"""Below, the asymptotic series has float64's precision; above, erfc is no 0."""


def _number(x: Any, value: float) -> Any:
    return ops.number_like(x, value=value)


def log_ndtr_by_erfc(x: Any) -> Any:
    """By log1p where the probability is near 1, by a series where it is near 0."""
    root = _number(x, math.sqrt(0.5))
    near_one = ops.log1p(
        _number(x, -0.5) * ops.erfc(ops.maximum(x, _number(x, 0)) * root)
    )
    middle = ops.maximum(ops.minimum(x, _number(x, 0)), _number(x, _SERIES_FROM))
    small = ops.log(_number(x, 0.5) * ops.erfc(ops.negative(middle * root)))
    y = ops.where(ops.greater(x, _number(x, 0)), near_one, small)
    return ops.where(ops.less(x, _number(x, _SERIES_FROM)), _series(x), y)


def _series(x: Any) -> Any:
    """-x^2/2 - log(-x sqrt(2 pi)) + log(1 - 1/x^2 + 3/x^4 - ...): NIST DLMF 7.12.1."""
    far = ops.minimum(x, _number(x, _SERIES_FROM))
    inverse = ops.reciprocal(ops.square(far))
    total = _number(x, 1)
    for n in range(14, 0, -1):
        total = _number(x, 1) - _number(x, 2 * n - 1) * inverse * total
    scale = ops.log(ops.negative(far)) + _number(x, 0.5 * math.log(2 * math.pi))
    return ops.log(total) - ops.square(far) * _number(x, 0.5) - scale
