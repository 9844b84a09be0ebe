"""Activation functions, softmax, log-softmax and hardmax. All are composites."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from amanda.types import dims_equal
from amanda_std.engine.annotations import Floating, Real, RealFloating
from amanda_std.engine.operation import Operation, composite
from amanda_std.engine.samples import Sample, Samples, array, ramp, unary
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import dims_of
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import clip, maximum, minimum, multiply, where
from amanda_std.ops.math.comparison import equal, greater, less
from amanda_std.ops.math.elementary import erf, exp, expm1, log, log1p, sigmoid, tanh
from amanda_std.ops.math.reduction import argmax, max_, sum_
from amanda_std.ops.tensor.creation import arange, scalar_like, zeros_like
from amanda_std.ops.tensor.shape import expand_dims

_POINTS = (-3.5, -1.25, -0.4, -0.05, 0.05, 0.3, 0.9, 4.0)
_DTYPES = ("float32", "float64", "bfloat16")


@composite
def relu(x: Real) -> Real:
    """Rectified linear unit: max(x, 0)"""
    return maximum(x, 0)


relu.trait(Trait.KEEPS_FINITE)


@relu.gradient
def _(g: Any, x: Any) -> Any:
    """The gradient at 0 is 0, as in all frameworks; that of `maximum` would be 1/2."""
    return [where(greater(x, zeros_like(x)), g, g * 0.0)]


relu.samples(
    unary(lambda x: max(x, 0), _POINTS, dtypes=(*_DTYPES, "int32"),
          edges=[(0, 0), (math.inf, math.inf)])
)  # fmt: skip


@composite
def leaky_relu(x: RealFloating, *, slope: float = 0.01) -> RealFloating:
    """Leaky ReLU: x where positive, else x * slope"""
    return where(less(x, 0.0), x * slope, x)


@composite
def prelu(x: RealFloating, slope: RealFloating) -> RealFloating:
    """Parametric ReLU: x where positive, else x * slope, a tensor"""
    return where(less(x, 0.0), multiply(x, slope), x)


@composite
def elu(x: RealFloating, *, alpha: float = 1.0) -> RealFloating:
    """Exponential linear unit: x where positive, else alpha * (exp(x) - 1)"""
    return where(less(x, 0.0), expm1(minimum(x, 0.0)) * alpha, x)


@composite
def selu(
    x: RealFloating,
    *,
    alpha: float = 1.6732632423543772,
    gamma: float = 1.0507009873554805,
) -> RealFloating:
    """Scaled exponential linear unit: gamma * elu(x)"""
    return elu(x, alpha=alpha) * gamma


@composite
def celu(x: RealFloating, *, alpha: float = 1.0) -> RealFloating:
    """Continuous ELU: x where positive, else alpha * (exp(x / alpha) - 1)"""
    return where(less(x, 0.0), expm1(minimum(x, 0.0) / alpha) * alpha, x)


@composite
def softplus(x: RealFloating) -> RealFloating:
    """Softplus: log(1 + exp(x)), without overflow"""
    return maximum(x, 0.0) + log1p(exp(-abs_(x)))


# that of the definition is right at 0, too, but not its own gradient
softplus.gradient(lambda g, x: [g * sigmoid(x)])


@composite
def softsign(x: RealFloating) -> RealFloating:
    """Softsign: x / (1 + |x|)"""
    return x / (abs_(x) + 1.0)


@composite
def silu(x: RealFloating) -> RealFloating:
    """Sigmoid linear unit (SiLU, swish): x * sigmoid(x)"""
    return multiply(x, sigmoid(x))


@composite
def mish(x: RealFloating) -> RealFloating:
    """Mish: x * tanh(softplus(x))"""
    return multiply(x, tanh(softplus(x)))


@composite
def hardsigmoid(
    x: RealFloating, *, alpha: float = 1 / 6, beta: float = 0.5
) -> RealFloating:
    """Hard sigmoid: alpha * x + beta, clipped to [0, 1]"""
    return clip(x * alpha + beta, 0.0, 1.0)


@composite
def hardswish(x: RealFloating) -> RealFloating:
    """Hard swish: x * hardsigmoid(x)"""
    return multiply(x, hardsigmoid(x))


@composite
def gelu(x: RealFloating, *, approximate: bool = False) -> RealFloating:
    """Gaussian error linear unit: x * ndtr(x), or its tanh approximation"""
    if approximate:
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (tanh(inner) + 1.0)  # x * 2 may overflow
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)


@composite
def threshold(x: RealFloating, *, theta: float = 1.0) -> RealFloating:
    """Thresholded ReLU: x where above theta, else 0, also for NaN"""
    return where(greater(x, theta), x, zeros_like(x))


@composite
def shrink(x: RealFloating, *, margin: float = 0.5, bias: float = 0.0) -> RealFloating:
    """Soft or hard shrinkage: 0 within `margin` of 0, else moved by `bias` towards 0

    NaN becomes 0."""
    outside = where(less(x, -margin), x + bias, zeros_like(x))
    return where(greater(x, margin), x - bias, outside)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _elu(x: float, alpha: float = 1.0) -> float:
    return x if x > 0 else alpha * (math.exp(x) - 1)


def _gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def _gelu_by_tanh(x: float) -> float:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / 2 * (1 + math.tanh(inner))


def _shrink(x: float) -> float:
    return x - math.copysign(0.25, x) if abs(x) > 0.1 else 0


_ORACLES: list[tuple[Operation, Callable[[float], float], dict[str, Any]]] = [
    (leaky_relu, lambda x: x if x > 0 else 0.01 * x, {}),
    (leaky_relu, lambda x: x if x > 0 else 0.3 * x, {"slope": 0.3}),
    (elu, _elu, {}),
    (elu, lambda x: _elu(x, 0.7), {"alpha": 0.7}),
    (selu, lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772), {}),
    (celu, lambda x: x if x > 0 else 0.5 * (math.exp(x / 0.5) - 1), {"alpha": 0.5}),
    (softplus, lambda x: math.log1p(math.exp(x)), {}),
    (softsign, lambda x: x / (1 + abs(x)), {}),
    (silu, lambda x: x * _sigmoid(x), {}),
    (mish, lambda x: x * math.tanh(math.log1p(math.exp(x))), {}),
    (hardsigmoid, lambda x: min(max(x / 6 + 0.5, 0), 1), {}),
    (hardsigmoid, lambda x: min(max(0.2 * x + 0.4, 0), 1), {"alpha": 0.2, "beta": 0.4}),
    (hardswish, lambda x: x * min(max(x / 6 + 0.5, 0), 1), {}),
    (gelu, _gelu, {}),
    (gelu, _gelu_by_tanh, {"approximate": True}),
    (threshold, lambda x: x if x > 1 else 0, {}),
    (shrink, lambda x: x if abs(x) > 0.5 else 0, {}),
    (shrink, _shrink, {"margin": 0.1, "bias": 0.25}),
]  # fmt: skip


def _activation_samples(op: Operation) -> Callable[[], Samples]:
    def make() -> Samples:
        for row, oracle, attrs in _ORACLES:
            if row is op:
                for sample in unary(oracle, _POINTS, dtypes=_DTYPES)():
                    yield Sample(
                        sample.args, sample.expected, attrs, smooth=sample.smooth
                    )

    return make


for _op in dict.fromkeys(row[0] for row in _ORACLES):
    _op.samples(_activation_samples(_op))


@prelu.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, gradient = array([[-2, 3], [0.0625, -5]], dtype), array([0.5, 0.25], dtype)
        yield Sample((x, gradient), array([[-1, 3], [0.0625, -1.25]], dtype))
    yield Sample((array([]), array(0.5)), array([]), smooth=False)


# -- softmax -------------------------------------------------------------------


@composite
def softmax(x: Floating, *, axes: tuple[int, ...] = (-1,)) -> Floating:
    """Softmax over axes, without overflow"""
    e = exp(x - max_(x, axes, keepdims=True))
    return e / sum_(e, axes, keepdims=True)


softmax.trait(Trait.ALONG_AXES, Trait.STABLE_LOGARITHM, Trait.KEEPS_FINITE)


@composite
def log_softmax(x: Floating, *, axes: tuple[int, ...] = (-1,)) -> Floating:
    """Log-softmax (log-probabilities) over axes, without loss of precision"""
    low = x - max_(x, axes, keepdims=True)
    return low - log(sum_(exp(low), axes, keepdims=True))


log_softmax.trait(Trait.ALONG_AXES)


def _softmax_samples(logarithm: bool) -> Callable[[], Samples]:
    def make() -> Samples:
        for dtype in ("float64", "float32", "bfloat16"):
            for axes in ((-1,), (0,), (0, 1)):
                x = ramp(2, 3, dtype=dtype)
                total = _sums_of_exponentials(x, axes)
                y = x.astype("float64")
                for at in [(i, j) for i in range(2) for j in range(3)]:
                    weight = math.exp(float(x[at])) / total[at]
                    y[at] = math.log(weight) if logarithm else weight
                yield Sample((x,), y.astype(x.dtype), {"axes": axes})
        big = array([1000.0, 1000.0, -1000.0])
        half = array([0.5, 0.5, 0.0])
        low = array([-math.log(2), -math.log(2), -2000 - math.log(2)])
        yield Sample((big,), low if logarithm else half, smooth=False)
        huge = array([3e38, 3e38, 3e38])
        third = array([math.log(1 / 3) if logarithm else 1 / 3] * 3)
        yield Sample((huge,), third, smooth=False)
        for shape in ((0, 3), (2, 0)):
            yield Sample((ramp(*shape),), ramp(*shape), smooth=False)

    return make


def _sums_of_exponentials(
    x: Any, axes: tuple[int, ...]
) -> dict[tuple[int, int], float]:
    removed = {a % 2 for a in axes}
    result = {}
    for i in range(2):
        for j in range(3):
            rows = range(2) if 0 in removed else [i]
            columns = range(3) if 1 in removed else [j]
            result[i, j] = math.fsum(
                math.exp(float(x[r, c])) for r in rows for c in columns
            )
    return result


softmax.samples(_softmax_samples(False))
log_softmax.samples(_softmax_samples(True))


@composite
def hardmax(x: Real, *, axis: int = -1) -> Real:
    """1 at the first maximum along an axis, 0 elsewhere"""
    axis = axis % x.ndim
    if dims_equal(dims_of(x)[axis], 0):
        return x
    at = argmax(x, axis, keepdims=True)
    steps = arange(0, x.shape[axis])
    rest = tuple(range(1, x.ndim - axis))
    steps = expand_dims(steps, rest) if rest else steps
    return where(equal(at, steps), scalar_like(1, x), scalar_like(0, x))


hardmax.not_differentiable("it is piecewise constant")


@hardmax.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        x = array([[3, 0, 3], [-1, 2, 1]], dtype)
        yield Sample((x,), array([[1, 0, 0], [0, 1, 0]], dtype))
        yield Sample((x,), array([[1, 0, 1], [0, 1, 0]], dtype), {"axis": 0})
    yield Sample((ramp(0, 3),), ramp(0, 3))
    yield Sample((ramp(2, 0),), ramp(2, 0))
