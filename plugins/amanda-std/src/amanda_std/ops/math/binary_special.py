"""Special elementwise functions: of two operands, and formulas of one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import Logical, RealFloating
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import BinaryOperation, composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, binary, unary
from amanda_std.inference import shapes
from amanda_std.ops.math.arithmetic import clip, multiply, sign, subtract, where
from amanda_std.ops.math.comparison import equal, isnan
from amanda_std.ops.math.elementary import log as log_
from amanda_std.ops.math.elementary import log1p, sigmoid, sin, square
from amanda_std.ops.math.logic import logical_and, logical_not
from amanda_std.ops.math.special import erfc

_FLOATS = ("float32", "float64", "bfloat16")
_INF = math.inf


def _binary_function(
    name: str,
    doc: str,
    oracle: Callable[[float, float], float],
    gradient: Callable[..., Any] | str,
    left: tuple[float, ...] = (1.5, -2.0, 0.5, 3.0),
    right: tuple[float, ...] = (2.0, -0.5, -1.0, 0.25),
) -> BinaryOperation:
    """Declare an op that array namespaces provide under this name."""

    def kernel(a: RealFloating, b: RealFloating) -> RealFloating:
        return getattr(xp(a, b), name)(a, b)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.elementwise, name=name)(kernel)
    if isinstance(gradient, str):
        op.not_differentiable(gradient)
    else:
        op.broadcast_gradient(gradient)
    op.samples(binary(oracle, left, right, dtypes=_FLOATS))
    return op


hypot: BinaryOperation = _binary_function(
    "hypot", "sqrt(a * a + b * b), without overflow", math.hypot,
    lambda g, a, b, y: (g * a / y, g * b / y),
)  # fmt: skip
copysign: BinaryOperation = _binary_function(
    "copysign", "Magnitude of a with the sign of b", math.copysign,
    lambda g, a, b: (g * sign(a) * copysign(1.0, b), g * 0.0),
)  # fmt: skip
logaddexp: BinaryOperation = _binary_function(
    "logaddexp", "log(exp(a) + exp(b)), without overflow",
    lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))),
    lambda g, a, b: (g * sigmoid(a - b), g * sigmoid(b - a)),
)  # fmt: skip


@primitive(shape=shapes.elementwise)
def nextafter(a: RealFloating, b: RealFloating) -> RealFloating:
    """Next representable number after a in the direction of b"""
    return xp(a, b).nextafter(a, b)


nextafter.not_differentiable("it depends on the floating-point representation")


@nextafter.samples
def _() -> Samples:
    for dtype, digits in (("float32", 23), ("float64", 52)):
        least = 2.0**-digits  # between 1 and 2
        a, b = array([1.0, 1.0, 2.0, 1.5], dtype), array([2.0, 0.0, 0.0, 1.5], dtype)
        expected = array([1 + least, 1 - least / 2, 2 - least, 1.5], dtype)
        yield Sample((a, b), expected, tolerance=least / 8)
        column = array(
            [[expected[0]], [expected[1]], [expected[1]], [expected[0]]], dtype
        )
        yield Sample((a[:1], b[:, None]), column, tolerance=least / 8)
    yield Sample((array(0.0, "float32"), array(1.0, "float32")),
                 array(2.0**-149, "float32"), tolerance=1e-60)  # fmt: skip
    yield Sample((array([]), array([])), array([]))


@composite
def xlogy(a: RealFloating, b: RealFloating) -> RealFloating:
    """a * log(b), with 0 where a is 0"""
    return _zero_where_a_is_zero(a, b, log_(b))


@composite
def xlog1py(a: RealFloating, b: RealFloating) -> RealFloating:
    """a * log(1 + b), with 0 where a is 0"""
    return _zero_where_a_is_zero(a, b, log1p(b))


def _zero_where_a_is_zero(a: Any, b: Any, log: Any) -> Any:
    empty = logical_and(equal(a, 0.0), logical_not(isnan(b)))
    return where(empty, 0.0, multiply(a, log))


xlogy.broadcast_gradient(lambda g, a, b: (g * log_(b), g * a / b))
xlog1py.broadcast_gradient(lambda g, a, b: (g * log1p(b), g * a / (b + 1.0)))


def _xlog_samples(log: Callable[[float], float]) -> Callable[[], Samples]:
    def make() -> Samples:
        left, right = (1.5, -2.0, 0.0, 3.0), (2.0, 0.5, 1.25, 0.25)
        yield from binary(lambda a, b: a * log(b), left, right, dtypes=_FLOATS)()
        lowest = array([0.0 if log is math.log else -1.0])
        yield Sample((array([0.0]), lowest), array([0.0]), smooth=False)
        yield Sample((array([0.0]), array([math.nan])), array([math.nan]), smooth=False)

    return make


xlogy.samples(_xlog_samples(math.log))
xlog1py.samples(_xlog_samples(math.log1p))


@composite
def squared_difference(a: RealFloating, b: RealFloating) -> RealFloating:
    """(a - b) * (a - b)"""
    return square(subtract(a, b))


squared_difference.samples(
    binary(lambda a, b: (a - b) ** 2, (1.5, -2.0, 0.5), (2.0, -0.5, -1.0),
           dtypes=_FLOATS)
)  # fmt: skip


@composite
def divide_no_nan(a: RealFloating, b: RealFloating) -> RealFloating:
    """a / b, with 0 where b is 0"""
    zero = equal(b, 0.0)
    return where(zero, 0.0, a / where(zero, 1.0, b))


@divide_no_nan.samples
def _() -> Samples:
    yield from binary(lambda a, b: a / b, (1.5, -2.0, 0.5), (2.0, -0.5, -1.0),
                      dtypes=_FLOATS)()  # fmt: skip
    a, b = array([1.0, 0.0, _INF]), array([0.0, 0.0, 0.0])
    yield Sample((a, b), b, smooth=False)


@composite
def sinc(x: RealFloating) -> RealFloating:
    """Normalized sinc: sin(pi * x) / (pi * x), with 1 at x = 0"""
    zero = equal(x, 0.0)
    transposed = where(zero, 1.0, x) * math.pi
    return where(zero, 1.0, sin(transposed) / transposed)


sinc.samples(
    unary(lambda x: math.sin(math.pi * x) / (math.pi * x), (-1.75, -0.5, 0.3, 2.25),
          edges=[(0, 1)])
)  # fmt: skip


@composite
def logit(x: RealFloating, *, epsilon: float | None = None) -> RealFloating:
    """log(x / (1 - x)); x is clamped to [epsilon, 1 - epsilon] if epsilon is given"""
    if epsilon is not None:
        x = clip(x, epsilon, 1.0 - epsilon)
    return log_(x) - log1p(-x)


@logit.samples
def _() -> Samples:
    yield from unary(lambda x: math.log(x / (1 - x)), (0.125, 0.5, 0.75),
                     dtypes=("float64", "float32"),
                     edges=[(0, -_INF), (1, _INF)])()  # fmt: skip
    x = array([0.0, 0.25, 1.0])
    far = math.log(0.125 / 0.875)
    y = array([far, math.log(0.25 / 0.75), -far])
    yield Sample((x,), y, {"epsilon": 0.125}, smooth=False)


@composite
def ndtr(x: RealFloating) -> RealFloating:
    """Cumulative distribution function of the standard normal distribution"""
    return erfc(x * -math.sqrt(0.5)) * 0.5


ndtr.samples(
    unary(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2, (-1.75, -0.5, 0.3, 2.25),
          edges=[(-_INF, 0), (_INF, 1)])
)  # fmt: skip


@composite
def radians(x: RealFloating) -> RealFloating:
    """Convert degrees to radians"""
    return x * (math.pi / 180)


@composite
def degrees(x: RealFloating) -> RealFloating:
    """Convert radians to degrees"""
    return x * (180 / math.pi)


radians.samples(unary(math.radians, (-90.0, 30.0, 200.0)))
degrees.samples(unary(math.degrees, (-1.5, 0.3, 3.0)))


@primitive(shape=shapes.pointwise)
def signbit(x: RealFloating) -> Logical:
    """Whether the sign bit is set; it is for -0.0"""
    return xp(x).signbit(x)


signbit.not_differentiable("its results are booleans")
signbit.samples(
    unary(lambda x: math.copysign(1, x) < 0, (-1.5, -0.0, 0.0, 3.0), result="bool",
          dtypes=("float32", "float64", "float16"), smooth=False)
)  # fmt: skip


@composite
def nan_to_num(
    x: RealFloating, *, nan: float = 0.0, high: float | None = None,
    low: float | None = None,
) -> RealFloating:  # fmt: skip
    """Replace NaN, infinity and -infinity with numbers (default: the largest finite)"""
    top, bottom = finite_range(x.dtype)
    x = where(isnan(x), nan, x)
    x = where(equal(x, _INF), top if high is None else high, x)
    return where(equal(x, -_INF), bottom if low is None else low, x)


def finite_range(dtype: Any) -> tuple[float, float]:
    """Largest and lowest finite number of a float type."""
    import ml_dtypes

    own = DType.of(dtype)
    info: Any = ml_dtypes.finfo(own.numpy)  # type: ignore[no-untyped-call]
    return float(info.max), float(info.min)


@nan_to_num.samples
def _() -> Samples:
    for dtype, top in (("float64", (2 - 2.0**-52) * 2.0**1023),
                       ("float32", (2 - 2.0**-23) * 2.0**127)):  # fmt: skip
        x = array([math.nan, _INF, -_INF, 1.5], dtype)
        yield Sample((x,), array([0, top, -top, 1.5], dtype), smooth=False)
        attrs = {"nan": 1.0, "high": 2.0, "low": -3.0}
        yield Sample((x,), array([1, 2, -3, 1.5], dtype), attrs, smooth=False)
    yield Sample((array([0.5, -2.0]),), array([0.5, -2.0]))
    yield Sample((array(math.nan),), array(0.0), smooth=False)
    yield Sample((np.zeros((0, 2)),), np.zeros((0, 2)), smooth=False)
