"""Definitions of the incomplete gamma functions, for targets that lack them.

As in Cephes and SciPy, each region has its own expansion: a series for x < a, another
one for small x and a, and a continued fraction. They are computed for all elements, in
loops that end when all elements of the region have converged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from amanda.types import DType
from amanda_std.ops._late import late as ops
from amanda_std.ops._wide import in_float32
from amanda_std.ops.math import special
from amanda_std.ops.math.special_series import polynomial, stirling_correction

_INF, _NAN = math.inf, math.nan
_MOST_STEPS: Final = 10_000
"""Enough for a up to 1e6, where steps are proportional to the root of a."""
_SMALL: Final = 1e-30
"""What denominators of 0 are replaced by."""


def _epsilon(x: Any) -> float:
    return float(_info(x).eps)


def _info(x: Any) -> Any:
    return ml_dtypes.finfo(DType.of(x.dtype).numpy)  # type: ignore[no-untyped-call]


def _converge(step: Callable[..., Any], *start: Any) -> Sequence[Any]:
    """Repeat `values, goes_on = step(n, *values)` while some element goes on."""

    def is_unfinished(n: Any, goes_on: Any, *values: Any) -> Any:
        del values
        return ops.logical_and(ops.any(goes_on), ops.less(n, _MOST_STEPS))

    def advance(n: Any, goes_on: Any, *values: Any) -> Any:
        del goes_on
        values, goes_on = step(ops.astype(n, dtype=start[0].dtype), *values)
        return (n + 1, goes_on, *values)

    first = np.asarray(1, "int64")
    goes_on = ops.equal(start[0], start[0])
    found: Sequence[Any] = ops.while_(is_unfinished, advance, first, goes_on, *start)
    return found[2:]


def _lower_series(a: Any, x: Any) -> Any:
    """1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..."""

    def add(n: Any, term: Any, total: Any) -> Any:
        term = term * x / (a + n)
        total = total + term
        return (term, total), ops.greater(term, total * (_epsilon(a) / 4))

    one = a * 0.0 + 1.0
    return _converge(add, one, one)[1]


def _upper_fraction(a: Any, x: Any) -> Any:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) by Lentz's method."""

    def multiply(n: Any, c: Any, d: Any, found: Any) -> Any:
        numerator = n * (a - n)
        b = x + 1.0 - a + n * 2.0
        c, d = _not_zero(b + numerator / c), 1.0 / _not_zero(b + numerator * d)
        change = c * d
        goes_on = ops.greater(ops.abs(change - 1.0), _epsilon(a) * 2)
        return (c, d, ops.where(goes_on, found * change, found)), goes_on

    first = 1.0 / _not_zero(x + 1.0 - a)
    return _converge(multiply, a * 0.0 + 1.0 / _SMALL, first, first)[2]


def _not_zero(x: Any) -> Any:
    return ops.where(ops.less(ops.abs(x), _SMALL), _SMALL, x)


def _density(a: Any, x: Any) -> Any:
    """x^a exp(-x) / gamma(a + 1), by Stirling's series for large a."""
    is_small = ops.less(a, 8.0)
    low, place = ops.where(is_small, a, 1.0), ops.minimum(x, 1e3)
    small = ops.pow(place, low) * ops.exp(-place - ops.lgamma(low + 1.0))
    high = ops.where(is_small, 8.0, a)
    exponent = -(high * _log_gap((x - high) / high)) - stirling_correction(high)
    large = ops.exp(exponent) / ops.sqrt(high * (2 * math.pi))
    return ops.where(is_small, small, large)


def _log_gap(x: Any) -> Any:
    """x - log(1 + x), without cancellation near 0."""
    is_near = ops.less(ops.abs(x), 0.5)
    near = ops.where(is_near, x, 0.0)
    ratio = near / (near + 2.0)
    square = ratio * ratio
    terms = 10 if _info(x).bits == 32 else 20
    series = polynomial(square, [1 / (2 * k + 1) for k in range(terms, 0, -1)])
    inside = ratio * (near - square * series * 2.0)
    far = ops.where(is_near, 1.0, x)
    return ops.where(is_near, inside, far - ops.log1p(far))


def _lgamma_of_next(a: Any) -> Any:
    """log(gamma(1 + a)), of relative precision near 0."""
    from scipy.special import zeta

    near = ops.where(ops.less(a, 0.25), a, 0.0)
    terms = 14 if _info(a).bits == 32 else 28
    weights = [(-1) ** k * zeta(k) / k for k in range(terms, 1, -1)]
    series = near * polynomial(near, [*weights, -np.euler_gamma])
    return ops.where(ops.less(a, 0.25), series, ops.lgamma(a + 1.0))


def _upper_series(a: Any, x: Any) -> Any:
    """1 - gammainc(a, x) for small x and a, where gammainc is near 1."""

    def add(n: Any, power: Any, total: Any) -> Any:
        power = power * x / -n
        term = power / (a + n)
        total = total + term
        limit = ops.abs(total) * (_epsilon(a) / 4)
        return (power, total), ops.greater(ops.abs(term), limit)

    total = _converge(add, a * 0.0 + 1.0, a * 0.0)[1]
    exponent = a * ops.log(x) - _lgamma_of_next(a)
    return -ops.expm1(exponent) - a * ops.exp(exponent) * total


def _incomplete_gamma(a: Any, x: Any) -> tuple[Any, Any]:
    """gammainc and gammaincc of numbers in their domain, not at its ends."""
    is_below = ops.logical_or(ops.less_equal(x, 1.0), ops.less_equal(x, a))
    density = _density(a, x)
    # where a region does not hold an element, numbers that converge at once
    lower = density * _lower_series(a, ops.where(is_below, x, 0.0))
    far_a, far_x = ops.where(is_below, 1.0, a), ops.where(is_below, 3.0, x)
    upper = density * a * _upper_fraction(far_a, far_x)
    limit = ops.where(
        ops.less_equal(x, 0.5), -0.4 / ops.log(ops.minimum(x, 0.5)), x * 1.1
    )
    is_corner = ops.logical_and(ops.less_equal(x, 1.1), ops.less_equal(a, limit))
    corner = _upper_series(ops.where(is_corner, a, 0.25), ops.where(is_corner, x, 0.25))
    upper = ops.where(is_corner, corner, ops.where(is_below, 1.0 - lower, upper))
    return ops.where(is_below, lower, 1.0 - upper), upper


def _with_ends(a: Any, x: Any) -> tuple[Any, Any]:
    """gammainc and gammaincc at the ends of their domain, too."""
    zero = ops.zeros_like(a + x)
    a, x = a + zero, x + zero  # both in the shape of the result
    is_open = ops.logical_and(ops.greater(a, 0.0), ops.greater(x, 0.0))
    is_open = ops.logical_and(is_open, ops.less(ops.maximum(a, x), _INF))
    lower, upper = _incomplete_gamma(
        ops.where(is_open, a, 1.0), ops.where(is_open, x, 1.0)
    )
    is_one = ops.logical_or(ops.equal(a, 0.0), ops.equal(x, _INF))
    end = ops.where(is_one, zero + 1.0, zero)
    is_outside = ops.logical_or(ops.less(ops.minimum(a, x), 0.0), ops.isnan(a + x))
    same = ops.logical_and(ops.equal(a, x), ops.logical_not(is_open))
    end = ops.where(ops.logical_or(same, is_outside), _NAN, end)
    return ops.where(is_open, lower, end), ops.where(is_open, upper, 1.0 - end)


@special.gammainc.decomposition
@in_float32
def gammainc_by_expansions(a: Any, x: Any) -> Any:
    return _with_ends(a, x)[0]


@special.gammaincc.decomposition
@in_float32
def gammaincc_by_expansions(a: Any, x: Any) -> Any:
    return _with_ends(a, x)[1]
