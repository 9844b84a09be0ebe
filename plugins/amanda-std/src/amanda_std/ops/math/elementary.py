"""Elementary functions: exponentials, logarithms, trigonometry, rounding, erf."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Floating, Real, RealFloating
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import UnaryOperation, primitive
from amanda_std.engine.samples import Sample, Samples, binary, unary
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes

_ANY = (-1.75, -0.5, 0.3, 1.0, 2.25)
_POSITIVE = (0.25, 0.5, 1.0, 2.25, 9.0)
_INSIDE = (-0.75, -0.25, 0.1, 0.5, 0.9)


def _function(
    name: str,
    doc: str,
    oracle: Callable[[float], float],
    points: Sequence[float],
    gradient: Callable[..., Any],
    edges: Sequence[tuple[float, float]] = (),
) -> UnaryOperation:
    """Declare an op that array namespaces provide under this name."""

    def kernel(x: Floating) -> Floating:
        return getattr(xp(x), name)(x)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.pointwise, name=name)(kernel)
    op.gradient(gradient)
    op.samples(unary(oracle, points, edges=edges))
    return op


_INF = math.inf

exp: UnaryOperation = _function(
    "exp", "Exponential, e**x", math.exp, _ANY, lambda g, y: [g * y],
    [(-_INF, 0), (_INF, _INF)],
)  # fmt: skip
expm1: UnaryOperation = _function(
    "expm1", "exp(x) - 1, accurate near zero", math.expm1, _ANY,
    lambda g, y: [g * (y + 1.0)],
)  # fmt: skip
log: UnaryOperation = _function(
    "log", "Natural logarithm", math.log, _POSITIVE, lambda g, x: [g / x],
    [(_INF, _INF)],
)  # fmt: skip
log1p: UnaryOperation = _function(
    "log1p", "log(1 + x), accurate near zero", math.log1p, _POSITIVE,
    lambda g, x: [g / (x + 1.0)],
)  # fmt: skip
exp2: UnaryOperation = _function(
    "exp2", "2**x", lambda x: 2.0**x, _ANY,
    lambda g, y: [g * y * math.log(2)], [(-_INF, 0)],
)  # fmt: skip
log10: UnaryOperation = _function(
    "log10", "Base-10 logarithm", math.log10, _POSITIVE,
    lambda g, x: [g / (x * math.log(10))],
)  # fmt: skip
log2: UnaryOperation = _function(
    "log2", "Base-2 logarithm", math.log2, _POSITIVE,
    lambda g, x: [g / (x * math.log(2))],
)  # fmt: skip
sqrt: UnaryOperation = _function(
    "sqrt", "Square root", math.sqrt, _POSITIVE, lambda g, y: [g / (y * 2.0)],
    [(0, 0)],
)  # fmt: skip
sin: UnaryOperation = _function(
    "sin", "Sine", math.sin, _ANY, lambda g, x: [g * cos(x)],
)  # fmt: skip
sin.trait(Trait.KEEPS_FINITE)
cos: UnaryOperation = _function(
    "cos", "Cosine", math.cos, _ANY, lambda g, x: [-(g * sin(x))],
)  # fmt: skip
cos.trait(Trait.KEEPS_FINITE)
tan: UnaryOperation = _function(
    "tan", "Tangent", math.tan, _INSIDE, lambda g, y: [g * (y * y + 1.0)],
)  # fmt: skip
asin: UnaryOperation = _function(
    "asin", "Inverse sine (arcsine)", math.asin, _INSIDE,
    lambda g, x: [g / sqrt(1.0 - x * x)],
)  # fmt: skip
acos: UnaryOperation = _function(
    "acos", "Inverse cosine (arccosine)", math.acos, _INSIDE,
    lambda g, x: [-(g / sqrt(1.0 - x * x))],
)  # fmt: skip
atan: UnaryOperation = _function(
    "atan", "Inverse tangent (arctangent)", math.atan, _ANY,
    lambda g, x: [g / (x * x + 1.0)],
)  # fmt: skip
atan.trait(Trait.KEEPS_FINITE)
sinh: UnaryOperation = _function(
    "sinh", "Hyperbolic sine", math.sinh, _ANY, lambda g, x: [g * cosh(x)],
)  # fmt: skip
cosh: UnaryOperation = _function(
    "cosh", "Hyperbolic cosine", math.cosh, _ANY, lambda g, x: [g * sinh(x)],
)  # fmt: skip
tanh: UnaryOperation = _function(
    "tanh", "Hyperbolic tangent", math.tanh, _ANY,
    lambda g, y: [g * (1.0 - y * y)], [(_INF, 1), (-_INF, -1)],
)  # fmt: skip
tanh.trait(Trait.KEEPS_FINITE)
asinh: UnaryOperation = _function(
    "asinh", "Inverse hyperbolic sine", math.asinh, _ANY,
    lambda g, x: [g / sqrt(x * x + 1.0)],
)  # fmt: skip
acosh: UnaryOperation = _function(
    "acosh", "Inverse hyperbolic cosine", math.acosh, (1.25, 2.0, 5.0),
    lambda g, x: [g / sqrt(x * x - 1.0)],
)  # fmt: skip
atanh: UnaryOperation = _function(
    "atanh", "Inverse hyperbolic tangent", math.atanh, _INSIDE,
    lambda g, x: [g / (1.0 - x * x)],
)  # fmt: skip


@primitive(shape=shapes.pointwise)
def cbrt(x: Floating) -> Floating:
    """Cube root; of complex numbers the principal one"""
    np_ = xp(x)
    if x.dtype.kind != "c":
        return np_.cbrt(x)
    zero = x == 0
    root = np_.exp(np_.log(np_.where(zero, 1, x)) / 3)
    return np_.where(zero, 0, root).astype(x.dtype)


cbrt.gradient(lambda g, y: [g / (y * y * 3.0)])


@cbrt.samples
def _() -> Samples:
    real = unary(lambda x: math.copysign(builtins.abs(x) ** (1 / 3), x),
                 (-8.0, -0.5, 0.3, 2.25), edges=[(0, 0)])  # fmt: skip
    yield from real()
    x = np.array([8 + 0j, 1j, -0.5 - 2j, 0.25 + 1j])
    y = np.array([v ** (1 / 3) for v in x.tolist()])
    yield Sample((x,), y)
    yield Sample((x.astype("complex64"),), y.astype("complex64"))
    root = np.array([1 + 1j * math.sqrt(3)])
    yield Sample((np.array([-8 + 0j]),), root, smooth=False)  # beside the branch cut
    yield Sample((np.zeros(2, complex),), np.zeros(2, complex), smooth=False)


def call_scipy_special(name: str, x: Any) -> Any:
    """Evaluate a function of scipy.special; types narrower than float32 in float32."""
    from scipy import special

    function = getattr(special, name)
    if x.dtype.char in "fd":
        return function(x)
    return function(x.astype("float32")).astype(x.dtype)


@primitive(shape=shapes.pointwise, numpy_only=True)
def erf(x: RealFloating) -> RealFloating:
    """Error function"""
    return call_scipy_special("erf", x)


erf.trait(Trait.KEEPS_FINITE)


erf.gradient(lambda g, x: [g * exp(-(x * x)) * (2 / math.sqrt(math.pi))])
erf.samples(unary(math.erf, _ANY, edges=[(_INF, 1), (-_INF, -1)]))


@primitive(shape=shapes.pointwise, numpy_only=True)
def sigmoid(x: RealFloating) -> RealFloating:
    """Logistic sigmoid, 1 / (1 + exp(-x))"""
    return call_scipy_special("expit", x)


sigmoid.trait(Trait.STABLE_LOGARITHM, Trait.KEEPS_FINITE)
sigmoid.gradient(lambda g, y: [g * y * (1.0 - y)])
sigmoid.samples(
    unary(
        lambda x: 1 / (1 + math.exp(-x)), (*_ANY, -20.0), edges=[(_INF, 1), (-_INF, 0)]
    )
)


def _rounding(name: str, doc: str, oracle: Callable[[float], float]) -> UnaryOperation:
    def kernel(x: Real) -> Real:
        return getattr(xp(x), name)(x)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.pointwise, name=name)(kernel)
    op.gradient(lambda g: [g * 0.0])
    op.samples(
        unary(oracle, (-2.25, -1.4, -0.2, 0.3, 1.75),
              edges=[(x, oracle(x)) for x in (-1.5, 2.5, 3.5)],
              dtypes=("float32", "float64", "float16", "int32"))
    )  # fmt: skip
    return op


floor: UnaryOperation = _rounding(
    "floor", "Round down to an integer (floor)", math.floor
)
floor.trait(Trait.KEEPS_FINITE)
ceil: UnaryOperation = _rounding("ceil", "Round up to an integer (ceiling)", math.ceil)
ceil.trait(Trait.KEEPS_FINITE)
trunc: UnaryOperation = _rounding(
    "trunc", "Round towards zero (truncate)", math.trunc,
)  # fmt: skip
round: UnaryOperation = _rounding(
    "round", "Round to the nearest integer, halves to even", builtins.round,
)  # fmt: skip
round.trait(Trait.KEEPS_FINITE)


@primitive(shape=shapes.elementwise)
def atan2(a: RealFloating, b: RealFloating) -> RealFloating:
    """Angle of the point (b, a): arctan(a / b) in the correct quadrant"""
    return xp(a, b).atan2(a, b)


@atan2.broadcast_gradient
def _(g: Any, a: Any, b: Any) -> Any:
    square = a * a + b * b
    return g * b / square, -(g * a / square)


atan2.samples(binary(math.atan2, (1.5, -2.0, 0.5), (2.0, -0.5, 1.0),
                     dtypes=("float32", "float64")))  # fmt: skip


@primitive(shape=shapes.pointwise)
def square(x: Real) -> Real:
    """Square, x * x"""
    return xp(x).multiply(x, x)


square.trait(Trait.SPREADS_NON_FINITE)


square.gradient(lambda g, x: [g * x * 2.0])
square.samples(unary(lambda x: x * x, _ANY, dtypes=("float32", "float64", "float16")))


@primitive(shape=shapes.pointwise)
def rsqrt(x: RealFloating) -> RealFloating:
    """Reciprocal square root, 1 / sqrt(x)"""
    np_ = xp(x)
    return np_.divide(np_.asarray(1, dtype=x.dtype), np_.sqrt(x))


rsqrt.gradient(lambda g, y, x: [g * y / x * -0.5])
rsqrt.samples(unary(lambda x: 1 / math.sqrt(x), _POSITIVE))
