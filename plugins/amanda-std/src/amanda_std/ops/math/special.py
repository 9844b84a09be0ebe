"""Special functions of scipy.special, checked against their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from amanda_std.engine.annotations import Other, RealFloating
from amanda_std.engine.operation import UnaryOperation, primitive
from amanda_std.engine.rule_binding import NoGradient
from amanda_std.engine.samples import Sample, Samples, array, elementwise_by_loop, unary
from amanda_std.inference import shapes
from amanda_std.ops._late import late
from amanda_std.ops._oracles.special_functions import (
    bessel_i,
    bessel_j,
    bessel_k,
    bessel_y,
    dawson,
    digamma_of,
    exponential_integral,
    fresnel,
    incomplete_beta,
    incomplete_gamma,
    polygamma_of,
    solve_increasing,
    spence_of,
    zeta_of,
)
from amanda_std.ops.math.arithmetic import sign, where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.elementary import call_scipy_special, exp, log, log1p

_INF = math.inf


_ANY = (-1.75, -0.5, 0.3, 1.0, 2.25)
_POSITIVE = (0.25, 0.75, 1.5, 2.25, 4.0)
_INSIDE = (-0.875, -0.25, 0.125, 0.5, 0.75)
_PROBABILITIES = (0.0625, 0.25, 0.5, 0.625, 0.9375)
_ROOT_PI = math.sqrt(math.pi)


def _gaussian(x: Any) -> Any:
    return exp(-(x * x))


def _i1_gradient(g: Any, x: Any, y: Any, scaled: bool) -> list[Any]:
    """Derivative of i1 from i0 - i1 / x, which is 1/2 at 0."""
    zero = equal(x, 0.0)
    safe = where(zero, 1.0, x)
    gradient = (i0e(x) if scaled else i0(x)) - y / safe
    gradient = where(zero, 0.5, gradient)
    return [g * (gradient - sign(x) * y if scaled else gradient)]


def _j1_gradient(g: Any, x: Any, y: Any) -> list[Any]:
    zero = equal(x, 0.0)
    return [g * where(zero, 0.5, j0(x) - y / where(zero, 1.0, x))]


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _scipy_function(
    name: str,
    scipy_name: str,
    doc: str,
    oracle: Callable[[float], float],
    points: Sequence[float],
    gradient: Callable[..., Any],
    edges: Sequence[tuple[float, float]] = (),
) -> UnaryOperation:
    """Declare an op that computes a function of scipy.special."""

    def kernel(x: RealFloating) -> RealFloating:
        return call_scipy_special(scipy_name, x)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.pointwise, name=name, numpy_only=True)(kernel)
    op.gradient(gradient)
    op.samples(unary(oracle, points, edges=edges))
    return op


erfc: UnaryOperation = _scipy_function(
    "erfc", "erfc", "Complementary error function, 1 - erf(x)", math.erfc, (*_ANY, 5.0),
    lambda g, x: [g * _gaussian(x) * (-2 / _ROOT_PI)], [(-_INF, 2), (_INF, 0)],
)  # fmt: skip
erfcx: UnaryOperation = _scipy_function(
    "erfcx", "erfcx", "Scaled complementary error function: exp(x * x) * erfc(x)",
    lambda x: math.exp(x * x) * math.erfc(x), (*_ANY, 5.0),
    lambda g, x, y: [g * (x * y * 2.0 - 2 / _ROOT_PI)], [(_INF, 0), (-_INF, _INF)],
)  # fmt: skip
erfinv: UnaryOperation = _scipy_function(
    "erfinv", "erfinv", "Inverse error function",
    partial(solve_increasing, math.erf, -6, 6),
    _INSIDE, lambda g, y: [g * exp(y * y) * (_ROOT_PI / 2)], [(1, _INF), (-1, -_INF)],
)  # fmt: skip
lgamma: UnaryOperation = _scipy_function(
    "lgamma", "gammaln", "Logarithm of the absolute value of the gamma function",
    math.lgamma, (*_POSITIVE, -0.5, -2.25), lambda g, x: [g * digamma(x)],
    [(0, _INF), (_INF, _INF)],
)  # fmt: skip
digamma: UnaryOperation = _scipy_function(
    "digamma", "digamma", "Digamma function: the derivative of lgamma", digamma_of,
    (*_POSITIVE, -0.5, -2.25), lambda g, x: [g * _polygamma(1, x)],
)  # fmt: skip
ndtri: UnaryOperation = _scipy_function(
    "ndtri", "ndtri",
    "Inverse of the standard normal cumulative distribution function (quantile)",
    partial(solve_increasing, _normal_cdf, -9, 9), _PROBABILITIES,
    lambda g, y: [g * exp(y * y * 0.5) * math.sqrt(2 * math.pi)],
    [(0, -_INF), (1, _INF)],
)  # fmt: skip
log_ndtr: UnaryOperation = _scipy_function(
    "log_ndtr", "log_ndtr",
    "Logarithm of the standard normal cumulative distribution function",
    lambda x: math.log(_normal_cdf(x)), (*_ANY, -8.0),
    lambda g, x, y: [g * exp(x * x * -0.5 - y) / math.sqrt(2 * math.pi)],
)  # fmt: skip
i0: UnaryOperation = _scipy_function(
    "i0", "i0", "Modified Bessel function of the first kind, order 0",
    partial(bessel_i, 0), (*_ANY, 0.0), lambda g, x: [g * i1(x)],
)  # fmt: skip
i0e: UnaryOperation = _scipy_function(
    "i0e", "i0e", "exp(-|x|) * i0(x)", partial(bessel_i, 0, scaled=True), (*_ANY, 6.0),
    lambda g, x, y: [g * (i1e(x) - sign(x) * y)],
)  # fmt: skip
i1: UnaryOperation = _scipy_function(
    "i1", "i1", "Modified Bessel function of the first kind, order 1",
    partial(bessel_i, 1), (*_ANY, 0.0), partial(_i1_gradient, scaled=False),
)  # fmt: skip
i1e: UnaryOperation = _scipy_function(
    "i1e", "i1e", "exp(-|x|) * i1(x)", partial(bessel_i, 1, scaled=True), (*_ANY, 6.0),
    partial(_i1_gradient, scaled=True),
)  # fmt: skip
j0: UnaryOperation = _scipy_function(
    "j0", "j0", "Bessel function of the first kind, order 0", partial(bessel_j, 0),
    (*_ANY, 6.0), lambda g, x: [-(g * j1(x))],
)  # fmt: skip
j1: UnaryOperation = _scipy_function(
    "j1", "j1", "Bessel function of the first kind, order 1", partial(bessel_j, 1),
    (*_ANY, 6.0, 0.0), _j1_gradient,
)  # fmt: skip
y0: UnaryOperation = _scipy_function(
    "y0", "y0", "Bessel function of the second kind, order 0", partial(bessel_y, 0),
    _POSITIVE, lambda g, x: [-(g * y1(x))],
)  # fmt: skip
y1: UnaryOperation = _scipy_function(
    "y1", "y1", "Bessel function of the second kind, order 1", partial(bessel_y, 1),
    _POSITIVE, lambda g, x, y: [g * (y0(x) - y / x)],
)  # fmt: skip
k0: UnaryOperation = _scipy_function(
    "k0", "k0", "Modified Bessel function of the second kind, order 0",
    partial(bessel_k, 0), _POSITIVE, lambda g, x: [-(g * k1(x))],
)  # fmt: skip
k0e: UnaryOperation = _scipy_function(
    "k0e", "k0e", "exp(x) * k0(x)", partial(bessel_k, 0, scaled=True), _POSITIVE,
    lambda g, x, y: [g * (y - k1e(x))],
)  # fmt: skip
k1: UnaryOperation = _scipy_function(
    "k1", "k1", "Modified Bessel function of the second kind, order 1",
    partial(bessel_k, 1), _POSITIVE, lambda g, x, y: [-(g * (k0(x) + y / x))],
)  # fmt: skip
k1e: UnaryOperation = _scipy_function(
    "k1e", "k1e", "exp(x) * k1(x)", partial(bessel_k, 1, scaled=True), _POSITIVE,
    lambda g, x, y: [g * (y - k0e(x) - y / x)],
)  # fmt: skip
expi: UnaryOperation = _scipy_function(
    "expi", "expi", "Exponential integral Ei", exponential_integral,
    (*_POSITIVE, -0.5), lambda g, x: [g * exp(x) / x],
)  # fmt: skip
dawsn: UnaryOperation = _scipy_function(
    "dawsn", "dawsn",
    "Dawson's integral: exp(-x**2) times the integral of exp(t**2) from 0 to x",
    dawson, _ANY, lambda g, x, y: [g * (1.0 - x * y * 2.0)],
)  # fmt: skip
spence: UnaryOperation = _scipy_function(
    "spence", "spence",
    "Dilogarithm (Spence's function): the integral of log(t) / (1 - t) from 1 to x",
    spence_of, (0.25, 0.5, 0.9375, 1.25, 1.875), lambda g, x: [g * log(x) / (1.0 - x)],
    [(1, 0)],
)  # fmt: skip


def _fresnel(sine: bool, doc: str, slope: str) -> UnaryOperation:
    def kernel(x: RealFloating) -> RealFloating:
        from scipy import special

        wide = x if x.dtype.char in "fd" else x.astype("float32")
        return special.fresnel(wide)[0 if sine else 1].astype(x.dtype)

    kernel.__doc__ = doc
    name = "fresnel_sin" if sine else "fresnel_cos"
    op = primitive(shape=shapes.pointwise, name=name, numpy_only=True)(kernel)
    op.gradient(lambda g, x: [g * getattr(late, slope)(x * x * (math.pi / 2))])
    op.samples(unary(partial(fresnel, sine=sine), (-1.75, -0.5, 0.3, 1.25)))
    return op


fresnel_cos = _fresnel(
    False,
    "Fresnel cosine integral: the integral of cos(pi * t**2 / 2) from 0 to x",
    "cos",
)
fresnel_sin = _fresnel(
    True, "Fresnel sine integral: the integral of sin(pi * t**2 / 2) from 0 to x", "sin"
)


# -- functions of several operands -----------------------------------------------


def _call_scipy(name: str, *xs: Any) -> Any:
    """Evaluate a function of scipy.special; types narrower than float32 in float32."""
    from scipy import special

    kept = xs[0].dtype
    if kept.char in "fd":
        return getattr(special, name)(*xs)
    return getattr(special, name)(*(x.astype("float32") for x in xs)).astype(kept)


def _table_samples(
    oracle: Callable[..., float], *columns: Sequence[float], fixed: tuple[int, ...]
) -> Callable[[], Samples]:
    """Samples of several operands: each type, broadcast, rank 0, empty."""

    def make() -> Samples:
        for dtype in ("float64", "float32", "float16"):
            xs = [array(c, dtype) for c in columns]
            yield Sample(tuple(xs), elementwise_by_loop(oracle, *xs), fixed=fixed)
        xs = [array(c) for c in columns]
        wide = [xs[0][:, None], *xs[1:]]
        yield Sample(tuple(wide), elementwise_by_loop(oracle, *wide), fixed=fixed)
        one = [x[1] for x in xs]
        yield Sample(tuple(one), elementwise_by_loop(oracle, *one), fixed=fixed)
        empty = tuple(x[:0] for x in xs)
        yield Sample(empty, empty[0], smooth=False)

    return make


def _no_derivative(parameter: str) -> NoGradient:
    return NoGradient(f"its derivative with respect to {parameter} has no closed form")


@primitive(shape=shapes.elementwise, numpy_only=True)
def zeta(x: RealFloating, q: RealFloating) -> RealFloating:
    """Hurwitz zeta function: the sum of (k + q)**-x over k = 0, 1, ..."""
    return _call_scipy("zeta", x, q)


zeta.broadcast_gradient(
    lambda g, x, q: [_no_derivative("x"), -(g * x * zeta(x + 1.0, q))]
)
zeta.samples(_table_samples(zeta_of, (2.0, 3.5, 1.5), (1.0, 0.75, 2.5), fixed=(0,)))


@primitive(shape=shapes.elementwise, numpy_only=True)
def polygamma(n: Other, x: RealFloating) -> RealFloating:
    """Polygamma function: the n-th derivative of digamma"""
    from scipy import special

    wide = x if x.dtype.char in "fd" else x.astype("float32")
    return special.polygamma(n, wide).astype(x.dtype)


def _polygamma(n: int, x: Any) -> Any:
    import numpy as np

    return polygamma(np.asarray(n, "int64"), x)


@polygamma.broadcast_gradient
def _(g: Any, n: Any, x: Any) -> Any:
    return None, g * polygamma(n + 1, x)


@polygamma.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "float16"):
        n, x = array([0, 1, 2, 3], "int64"), array([0.75, 1.5, 2.0, 3.25], dtype)
        yield Sample((n, x), elementwise_by_loop(polygamma_of, n, x))
        yield Sample(
            (n[:, None], x),
            elementwise_by_loop(polygamma_of, n[:, None], x),
            tolerance=1e-2 if dtype == "float16" else None,
        )
    n, x = array(2, "int32"), array(1.25)
    yield Sample((n, x), elementwise_by_loop(polygamma_of, n, x))
    yield Sample((n, array([])), array([]), smooth=False)


def _log_gamma_density(a: Any, x: Any) -> Any:
    """Logarithm of the derivative of gammainc with respect to x."""
    return (a - 1.0) * log(x) - x - lgamma(a)


@primitive(shape=shapes.elementwise, numpy_only=True)
def gammainc(a: RealFloating, x: RealFloating) -> RealFloating:
    """Regularized lower incomplete gamma function"""
    return _call_scipy("gammainc", a, x)


@primitive(shape=shapes.elementwise, numpy_only=True)
def gammaincc(a: RealFloating, x: RealFloating) -> RealFloating:
    """Regularized upper incomplete gamma function, 1 - gammainc(a, x)"""
    return _call_scipy("gammaincc", a, x)


gammainc.broadcast_gradient(
    lambda g, a, x: [_no_derivative("a"), g * exp(_log_gamma_density(a, x))]
)
gammaincc.broadcast_gradient(
    lambda g, a, x: [_no_derivative("a"), -(g * exp(_log_gamma_density(a, x)))]
)
_SHAPES, _PLACES = (0.5, 1.5, 3.0, 2.0), (0.25, 2.5, 1.5, 6.0)
gammainc.samples(_table_samples(incomplete_gamma, _SHAPES, _PLACES, fixed=(0,)))
gammaincc.samples(
    _table_samples(
        lambda a, x: 1 - incomplete_gamma(a, x), _SHAPES, _PLACES, fixed=(0,)
    )
)


@primitive(shape=shapes.elementwise, numpy_only=True)
def betainc(a: RealFloating, b: RealFloating, x: RealFloating) -> RealFloating:
    """Regularized incomplete beta function"""
    return _call_scipy("betainc", a, b, x)


@betainc.broadcast_gradient
def _(g: Any, a: Any, b: Any, x: Any) -> Any:
    whole = lgamma(a) + lgamma(b) - lgamma(a + b)
    gradient = (a - 1.0) * log(x) + (b - 1.0) * log1p(-x) - whole
    return _no_derivative("a"), _no_derivative("b"), g * exp(gradient)


betainc.samples(
    _table_samples(incomplete_beta, (1.5, 2.0, 3.0), (2.5, 1.0, 1.5),
           (0.25, 0.5, 0.875), fixed=(0, 1))
)  # fmt: skip
