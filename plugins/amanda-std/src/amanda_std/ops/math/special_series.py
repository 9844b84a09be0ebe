"""Definitions of special functions by series, for targets that lack them.

Chebyshev coefficients are computed from scipy.special when a graph is built, as many as
the element type needs: each function is smooth on its interval, in the variable given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from amanda.types import DType
from amanda_std.ops._late import late as ops
from amanda_std.ops._wide import in_float32
from amanda_std.ops.math import special

_INF, _NAN = math.inf, math.nan
_SHIFT = 8
"""Where asymptotic series of the gamma function start."""
_MOST_TERMS = 1000


# -- the gamma function and its derivatives ----------------------------------------


@cache
def _bernoulli(count: int) -> tuple[Fraction, ...]:
    """The Bernoulli numbers B_2, B_4, ..."""
    rows = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        total = sum((math.comb(n + 1, k) * rows[k] for k in range(n)), Fraction(0))
        rows.append(-total / (n + 1))
    return tuple(rows[2::2])


def polynomial(x: Any, coefficients: Any) -> Any:
    """Horner's method, from the highest power."""
    first, *rest = map(float, coefficients)
    total = ops.number_like(x, value=first)
    for number in rest:
        total = total * x + number
    return total


def _angle(x: Any) -> Any:
    """pi * x less a multiple of pi, exact before the multiplication."""
    return (x - ops.round(x)) * math.pi


def stirling_correction(x: Any) -> Any:
    """The part of log(gamma(x)) that is 0 for large x, for x >= 8."""
    weights = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_bernoulli(8), 1)]
    inverse = 1.0 / x
    return polynomial(inverse * inverse, reversed(weights)) * inverse


@special.lgamma.decomposition
@in_float32
def lgamma_by_stirling(x: Any) -> Any:
    """Stirling's series from 8 on, recurrence below, reflection of negative numbers."""
    mirrored = ops.less(x, 0.0)
    z = ops.where(mirrored, 1.0 - x, x)
    near = ops.less(z, float(_SHIFT))
    product = z
    for k in range(1, _SHIFT):
        product = product * (z + float(k))
    far = ops.where(near, z + float(_SHIFT), z)
    value = (far - 0.5) * (ops.log(far) - 1.0) + (math.log(2 * math.pi) / 2 - 0.5)
    value = value + stirling_correction(far) - ops.log(ops.where(near, product, 1.0))
    reflected = math.log(math.pi) - ops.log(ops.abs(ops.sin(_angle(x)))) - value
    return ops.where(mirrored, ops.where(ops.isinf(x), _INF, reflected), value)


@special.digamma.decomposition
@in_float32
def digamma_by_series(x: Any) -> Any:
    mirrored = ops.less(x, 0.0)
    z = ops.where(mirrored, 1.0 - x, x)
    near = ops.less(z, float(_SHIFT))
    terms = 1.0 / z
    for k in range(1, _SHIFT):
        terms = terms + 1.0 / (z + float(k))
    far = ops.where(near, z + float(_SHIFT), z)
    weights = [b / (2 * k) for k, b in enumerate(_bernoulli(8), 1)]
    inverse = 1.0 / far
    square = inverse * inverse
    value = (
        ops.log(far) - inverse * 0.5 - polynomial(square, reversed(weights)) * square
    )
    value = value - ops.where(near, terms, 0.0)
    whole = ops.equal(ops.floor(x), x)
    angle = _angle(x)
    reflected = value - ops.cos(angle) / ops.sin(angle) * math.pi
    return ops.where(mirrored, ops.where(whole, _NAN, reflected), value)


@special.zeta.decomposition
@in_float32
def zeta_by_summation(x: Any, q: Any) -> Any:
    """Euler and Maclaurin's formula, after as many terms as bring q beyond 9."""

    def goes_on(step: Any, q: Any, total: Any) -> Any:
        del total
        small = ops.sum(ops.astype(ops.less_equal(q, 9.0), dtype="int64"))
        return ops.logical_and(ops.greater(small, 0), ops.less(step, _MOST_TERMS))

    def add(step: Any, q: Any, total: Any) -> Any:
        small = ops.less_equal(q, 9.0)
        term = ops.where(small, ops.pow(q, -x), 0.0)
        return step + 1, ops.where(small, q + 1.0, q), total + term

    start = np.asarray(0, "int64")
    _, far, total = ops.while_(goes_on, add, start, q + x * 0.0, q * 0.0 + x * 0.0)
    last = ops.pow(far, -x)
    total = total + last * far / (x - 1.0) + last * 0.5
    factor, power = x, last / far
    for k, number in enumerate(_bernoulli(10), 1):
        total = total + power * factor * float(number / math.factorial(2 * k))
        factor = factor * (x + float(2 * k - 1)) * (x + float(2 * k))
        power = power / (far * far)
    pole = ops.logical_and(ops.less_equal(q, 0.0), ops.equal(ops.floor(q), q))
    total = ops.where(ops.logical_or(pole, ops.equal(x, 1.0)), _INF, total)
    open_ = ops.logical_or(ops.less(x, 1.0), ops.less_equal(far, 9.0))
    fraction = ops.logical_not(ops.equal(ops.floor(x), x))
    complex_ = ops.logical_and(ops.less(q, 0.0), fraction)
    return ops.where(ops.logical_or(open_, complex_), _NAN, total)


@special.polygamma.decomposition
@in_float32
def polygamma_by_zeta(n: Any, x: Any) -> Any:
    order = ops.astype(n, dtype=x.dtype)
    sign = ops.where(ops.equal(ops.remainder(n, 2), 0), -1.0, ops.ones_like(order))
    found = sign * ops.exp(ops.lgamma(order + 1.0)) * ops.zeta(order + 1.0, x)
    return ops.where(ops.equal(n, 0), ops.digamma(x), found)


# -- the normal distribution -------------------------------------------------------


_CENTER = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip
"""Wichura, Algorithm AS 241: The Percentage Points of the Normal Distribution."""


def _ratio(x: Any, table: Any) -> Any:
    return polynomial(x, table[0]) / polynomial(x, table[1])


def _normal_quantile(q: Any, tail: Any) -> Any:
    """The quantile at 1/2 + q, of which the smaller tail is min(p, 1 - p)."""
    center = q * _ratio(0.180625 - q * q, _CENTER)
    r = ops.sqrt(-ops.log(tail))
    end = ops.equal(tail, 0.0)
    r = ops.where(end, 1.0, r)
    far = ops.where(
        ops.less_equal(r, 5.0), _ratio(r - 1.6, _MIDDLE), _ratio(r - 5.0, _TAIL)
    )
    far = ops.where(end, _INF, far)
    far = ops.where(ops.less(q, 0.0), -far, far)
    return ops.where(ops.less_equal(ops.abs(q), 0.425), center, far)


@special.ndtri.decomposition
@in_float32
def ndtri_by_as241(x: Any) -> Any:
    return _normal_quantile(x - 0.5, ops.minimum(x, 1.0 - x))


@special.erfinv.decomposition
@in_float32
def erfinv_by_as241(x: Any) -> Any:
    return _normal_quantile(x * 0.5, (1.0 - ops.abs(x)) * 0.5) * math.sqrt(0.5)


@special.log_ndtr.decomposition
@in_float32
def log_ndtr_by_series(x: Any) -> Any:
    """By the scaled erfc, since the probability would be 0 far on the left."""
    z = ops.abs(x) * math.sqrt(0.5)
    half, square = ops.erfcx(z) * 0.5, z * z
    right = ops.log1p(-(half * ops.exp(-square)))
    return ops.where(ops.less(x, 0.0), ops.log(half) - square, right)


@special.erfcx.decomposition
@in_float32
def erfcx_by_series(x: Any) -> Any:
    """A series in 2 / (2 + |x|), and the reflection of negative numbers."""
    t = 2.0 / (ops.abs(x) + 2.0)
    found = t * _series(_scaled_erfcx, 0.0, 1.0, t)
    return ops.where(ops.less(x, 0.0), ops.exp(x * x) * 2.0 - found, found)


# -- Bessel functions --------------------------------------------------------------


def _scaled_erfcx(t: Any) -> Any:
    from scipy.special import erfcx

    return erfcx(2 / t - 2) / t


@cache
def _coefficients(function: Any, low: float, high: float, epsilon: float) -> Any:
    """Chebyshev coefficients of a function on an interval, to a precision."""
    from numpy.polynomial.chebyshev import chebinterpolate

    def on_interval(t: Any) -> Any:
        return function(low + (t + 1) * (high - low) / 2)

    found = chebinterpolate(on_interval, 48)
    needed = np.nonzero(np.abs(found) > epsilon * np.abs(found).max() / 4)[0]
    return found[: needed[-1] + 1]


def _series(function: Callable[[Any], Any], low: float, high: float, x: Any) -> Any:
    """A smooth function on an interval by Clenshaw's recurrence."""
    info: Any = ml_dtypes.finfo(DType.of(x.dtype).numpy)  # type: ignore[no-untyped-call]
    first, *rest = map(float, _coefficients(function, low, high, float(info.eps)))
    t = x * (2 / (high - low)) - (high + low) / (high - low)
    twice = t * 2.0
    before: Any = 0.0
    now: Any = ops.number_like(t, value=rest[-1])
    for number in reversed(rest[:-1]):
        before, now = now, twice * now - before + number
    return t * now - before + first


def _of_scipy(name: str, change: Callable[[Any, Any], Any], place: Any) -> Any:
    """A function of scipy.special at places, changed by a factor."""

    def function(t: Any) -> Any:
        from scipy import special as scipy_special

        x = place(t)
        return change(getattr(scipy_special, name)(x), x)

    return function


def _identity(t: Any) -> Any:
    return t


def _times_root(y: Any, x: Any) -> Any:
    return y * np.sqrt(x)


def _as_is(y: Any, x: Any) -> Any:
    del x
    return y


def _over_place(y: Any, x: Any) -> Any:
    return y / x


_I_SERIES = {
    name: (
        _of_scipy(name, change, _identity),
        _of_scipy(name, _times_root, lambda t: 8 / t),
    )
    for name, change in (("i0e", _as_is), ("i1e", _over_place))
}


def _modified_first(name: str, x: Any) -> Any:
    """exp(-|x|) times a modified Bessel function of the first kind."""
    near_series, far_series = _I_SERIES[name]
    size = ops.abs(x)
    near = ops.less_equal(size, 8.0)
    inside = _series(near_series, 0.0, 8.0, ops.where(near, size, 0.0))
    outside = ops.where(near, 8.0, size)
    far = _series(far_series, 0.0, 1.0, 8.0 / outside) / ops.sqrt(outside)
    if name == "i0e":
        return ops.where(near, inside, far)
    return ops.where(near, inside * x, far * ops.sign(x))


def _times_exponential(scaled: Any, x: Any) -> Any:
    """exp(|x|) * scaled, without overflow before the product."""
    half = ops.exp(ops.abs(x) * 0.5)
    return scaled * half * half


special.i0e.decomposition(in_float32(lambda x: _modified_first("i0e", x)))
special.i1e.decomposition(in_float32(lambda x: _modified_first("i1e", x)))
special.i0.decomposition(in_float32(lambda x: _times_exponential(ops.i0e(x), x)))
special.i1.decomposition(in_float32(lambda x: _times_exponential(ops.i1e(x), x)))


def _k_near(order: int) -> Any:
    """What is left of K on (0, 2] without its logarithm, in x squared."""

    def function(t: Any) -> Any:
        from scipy import special as scipy_special

        x = np.sqrt(t)
        if not order:
            return scipy_special.k0(x) + np.log(x / 2) * scipy_special.i0(x)
        return (scipy_special.k1(x) - np.log(x / 2) * scipy_special.i1(x)) * x

    return function


_K_SERIES = {
    order: (_k_near(order), _of_scipy(f"k{order}e", _times_root, lambda t: 2 / t))
    for order in (0, 1)
}


def _modified_second(order: int, x: Any) -> Any:
    """exp(x) times a modified Bessel function of the second kind."""
    near_series, far_series = _K_SERIES[order]
    near = ops.less_equal(x, 2.0)
    z = ops.where(near, x, 1.0)
    inside = _series(near_series, 0.0, 4.0, z * z)
    logarithm = ops.log(z * 0.5)
    if order:
        inside = inside / z + logarithm * ops.i1(z)
    else:
        inside = inside - logarithm * ops.i0(z)
    outside = ops.where(near, 2.0, x)
    far = _series(far_series, 0.0, 1.0, 2.0 / outside) / ops.sqrt(outside)
    found = ops.where(near, inside * ops.exp(z), far)
    return ops.where(ops.equal(x, 0.0), _INF, found)


special.k0e.decomposition(in_float32(lambda x: _modified_second(0, x)))
special.k1e.decomposition(in_float32(lambda x: _modified_second(1, x)))
special.k0.decomposition(in_float32(lambda x: ops.k0e(x) * ops.exp(-x)))
special.k1.decomposition(in_float32(lambda x: ops.k1e(x) * ops.exp(-x)))


def _phase(order: int, sine: bool) -> Any:
    """The factor of the cosine or sine in J and Y beyond 8, in (8 / x) squared."""

    def function(t: Any) -> Any:
        from scipy import special as scipy_special

        x = 8 / np.sqrt(t)
        j = getattr(scipy_special, f"j{order}")(x)
        y = getattr(scipy_special, f"y{order}")(x)
        angle = x - (math.pi / 4 if not order else 3 * math.pi / 4)
        root = np.sqrt(math.pi * x / 2)
        if sine:
            return (y * np.cos(angle) - j * np.sin(angle)) * root * x
        return (j * np.cos(angle) + y * np.sin(angle)) * root

    return function


def _j_near(order: int) -> Any:
    def function(t: Any) -> Any:
        from scipy import special as scipy_special

        x = np.sqrt(t)
        return scipy_special.j0(x) if not order else scipy_special.j1(x) / x

    return function


def _y_near(order: int) -> Any:
    """What is left of Y on (0, 8] without its logarithm and pole, in x squared."""

    def function(t: Any) -> Any:
        from scipy import special as scipy_special

        x, factor = np.sqrt(t), 2 / math.pi
        if not order:
            return scipy_special.y0(x) - factor * np.log(x) * scipy_special.j0(x)
        found = scipy_special.y1(x) - factor * (np.log(x) * scipy_special.j1(x) - 1 / x)
        return found / x

    return function


_PHASES = {
    (order, sine): _phase(order, sine) for order in (0, 1) for sine in (False, True)
}
_NEAR = {
    name: make(order)
    for order in (0, 1)
    for name, make in ((f"j{order}", _j_near), (f"y{order}", _y_near))
}


def _oscillation(order: int, x: Any, second: bool) -> Any:
    """J or Y beyond 8, by amplitude and phase."""
    place = 64.0 / (x * x)
    cosine = _series(_PHASES[order, False], 0.0, 1.0, place)
    sine = _series(_PHASES[order, True], 0.0, 1.0, place) / x
    angle = x - (math.pi / 4 if not order else 3 * math.pi / 4)
    c, s = ops.cos(angle), ops.sin(angle)
    found = cosine * s + sine * c if second else cosine * c - sine * s
    return found * ops.sqrt((2 / math.pi) / x)


def _bessel_j(order: int, x: Any) -> Any:
    size = ops.abs(x)
    near = ops.less_equal(size, 8.0)
    z = ops.where(near, size, 0.0)
    inside = _series(_NEAR[f"j{order}"], 0.0, 64.0, z * z)
    far = _oscillation(order, ops.where(near, 8.0, size), False)
    far = ops.where(ops.isinf(size), 0.0, far)
    if not order:
        return ops.where(near, inside, far)
    return ops.where(near, inside * x, far * ops.sign(x))


def _bessel_y(order: int, x: Any) -> Any:
    near = ops.less_equal(x, 8.0)
    z = ops.where(near, x, 1.0)
    inside, logarithm = _series(_NEAR[f"y{order}"], 0.0, 64.0, z * z), ops.log(z)
    if order:
        inside = inside * z + (logarithm * ops.j1(z) - 1.0 / z) * (2 / math.pi)
    else:
        inside = inside + logarithm * ops.j0(z) * (2 / math.pi)
    far = _oscillation(order, ops.where(near, 8.0, x), True)
    far = ops.where(ops.isinf(x), 0.0, far)
    found = ops.where(near, inside, far)
    return ops.where(ops.equal(x, 0.0), -_INF, found)


special.j0.decomposition(in_float32(lambda x: _bessel_j(0, x)))
special.j1.decomposition(in_float32(lambda x: _bessel_j(1, x)))
special.y0.decomposition(in_float32(lambda x: _bessel_y(0, x)))
special.y1.decomposition(in_float32(lambda x: _bessel_y(1, x)))
