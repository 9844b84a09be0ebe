"""Optimizer steps: (parameter, gradient, state) -> (new parameter, new state).

The learning rate and the step number are tensors, as they change between steps; other
hyperparameters are attributes. Results: the parameter, then the state in the order of
the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import Operation, composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    maximum,
    multiply,
    subtract,
    where,
)
from amanda_std.ops.math.arithmetic import pow as pow_
from amanda_std.ops.math.arithmetic import sign as sign_
from amanda_std.ops.math.comparison import greater
from amanda_std.ops.math.elementary import exp, sqrt, square
from amanda_std.ops.tensor.creation import full
from amanda_std.ops.tensor.shape import astype

Two = tuple[RealFloating, RealFloating]
Three = tuple[RealFloating, RealFloating, RealFloating]
Four = tuple[RealFloating, RealFloating, RealFloating, RealFloating]


def _scale(x: Any, number: Any) -> Any:
    return multiply(x, number)


def _add_decay(x: Any, g: Any, decay: float) -> Any:
    """The gradient with L2 regularization, decay / 2 * x**2."""
    return add(g, _scale(x, decay)) if decay else g


def _moving_average(old: Any, new: Any, keep: float) -> Any:
    """Exponential moving average: `keep` is the weight of the old value."""
    return add(_scale(old, keep), _scale(new, 1 - keep))


def _root(x: Any, epsilon: float, inside: bool) -> Any:
    if inside:
        return sqrt(add(x, epsilon))
    return add(sqrt(x), epsilon)


@composite
def sgd_step(
    x: RealFloating, g: RealFloating, rate: RealFloating, *, decay: float = 0.0
) -> RealFloating:
    """Gradient descent: x - rate * g; `decay` is an L2 penalty within the gradient"""
    return subtract(x, multiply(_add_decay(x, g, decay), rate))


@composite
def momentum_step(
    x: RealFloating, g: RealFloating, v: RealFloating, rate: RealFloating, *,
    momentum: float = 0.9, share: float = 1.0, nesterov: bool = False,
    decay: float = 0.0, scaled: bool = False,
) -> Two:  # fmt: skip
    """Momentum (heavy ball or Nesterov): v = momentum * v + share * g

    `scaled`: v includes the rate and is added to x, as in Keras."""
    g = _add_decay(x, g, decay)
    taken = _scale(g, share)
    if scaled:
        step = multiply(taken, rate)
        v = subtract(_scale(v, momentum), step)
        move = subtract(_scale(v, momentum), step) if nesterov else v
        return add(x, move), v
    v = add(_scale(v, momentum), taken)
    move = add(g, _scale(v, momentum)) if nesterov else v
    return subtract(x, multiply(move, rate)), v


def _correction(beta: float, step: Any, like: Any) -> Any:
    """Bias correction 1 - beta**step, and 1 before the first step."""
    number = astype(step, dtype=like.dtype)
    power = exp(_scale(number, math.log(beta)))
    return where(greater(number, 0.0), subtract(1.0, power), 1.0)


@composite
def adam_step(
    x: RealFloating, g: RealFloating, m: RealFloating, v: RealFloating,
    rate: RealFloating, step: Index, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8, decay: float = 0.0, weight_decay: float = 0.0,
    corrected: bool = True,
) -> Three:  # fmt: skip
    """Adam, and AdamW with `weight_decay`

    `step` counts from 1. `corrected`: epsilon is added to the bias-corrected root, as
    in PyTorch; otherwise to the uncorrected one, as in Keras and ONNX. `weight_decay`
    is decoupled from the gradient (AdamW), `decay` is part of it."""
    g = _add_decay(x, g, decay)
    m, v = _moving_average(m, g, beta1), _moving_average(v, square(g), beta2)
    first, second = _correction(beta1, step, x), _correction(beta2, step, x)
    if corrected:
        low = add(sqrt(divide(v, second)), epsilon)
        size = divide(rate, first)
    else:
        low = add(sqrt(v), epsilon)
        size = divide(multiply(rate, sqrt(second)), first)
    if weight_decay:
        x = subtract(x, multiply(_scale(x, weight_decay), rate))
    return subtract(x, multiply(divide(m, low), size)), m, v


@composite
def adamax_step(
    x: RealFloating, g: RealFloating, m: RealFloating, u: RealFloating,
    rate: RealFloating, step: Index, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> Three:  # fmt: skip
    """AdaMax: Adam with the infinity norm of past gradients"""
    m = _moving_average(m, g, beta1)
    u = maximum(_scale(u, beta2), abs_(g))
    size = divide(rate, _correction(beta1, step, x))
    move = divide(multiply(m, size), add(u, epsilon))
    return subtract(x, move), m, u


@composite
def adagrad_step(
    x: RealFloating, g: RealFloating, h: RealFloating, rate: RealFloating, *,
    epsilon: float = 1e-6, decay: float = 0.0, inside: bool = False,
) -> Two:  # fmt: skip
    """AdaGrad; epsilon is `inside` the root (Keras) or added to it (ONNX, PyTorch)"""
    g = _add_decay(x, g, decay)
    h = add(h, square(g))
    move = divide(multiply(g, rate), _root(h, epsilon, inside))
    return subtract(x, move), h


@composite
def rmsprop_step(
    x: RealFloating, g: RealFloating, v: RealFloating, m: RealFloating,
    mean: RealFloating, rate: RealFloating, *, rho: float = 0.9,
    momentum: float = 0.0, epsilon: float = 1e-7, centered: bool = False,
    inside: bool = True,
) -> Four:  # fmt: skip
    """RMSProp; divides by the root of the variance if `centered`

    The momentum state m includes the rate; epsilon is `inside` the root or added to it.
    """
    v = _moving_average(v, square(g), rho)
    spread = v
    if centered:
        mean = _moving_average(mean, g, rho)
        spread = subtract(v, square(mean))
    step = divide(multiply(g, rate), _root(spread, epsilon, inside))
    m = add(_scale(m, momentum), step)
    return subtract(x, m), v, m, mean


@composite
def adadelta_step(
    x: RealFloating, g: RealFloating, v: RealFloating, d: RealFloating,
    rate: RealFloating, *, rho: float = 0.95, epsilon: float = 1e-7,
) -> Three:  # fmt: skip
    """AdaDelta"""
    v = _moving_average(v, square(g), rho)
    scale = divide(_root(d, epsilon, True), _root(v, epsilon, True))
    move = multiply(scale, g)
    d = _moving_average(d, square(move), rho)
    return subtract(x, multiply(move, rate)), v, d


@composite
def lion_step(
    x: RealFloating, g: RealFloating, m: RealFloating, rate: RealFloating, *,
    beta1: float = 0.9, beta2: float = 0.99,
) -> Two:  # fmt: skip
    """Lion: a step along the signs of averaged gradients"""
    move = sign_(_moving_average(m, g, beta1))
    return subtract(x, multiply(move, rate)), _moving_average(m, g, beta2)


@composite
def ftrl_step(
    x: RealFloating, g: RealFloating, n: RealFloating, z: RealFloating,
    rate: RealFloating, *, l1: float = 0.0, l2: float = 0.0, shrinkage: float = 0.0,
    power: float = -0.5,
) -> Three:  # fmt: skip
    """FTRL-Proximal (follow the regularized leader)"""
    total = add(n, square(g))
    old, new = (pow_(v, full((), _scalar_like(-power, v))) for v in (n, total))
    moved = multiply(divide(subtract(new, old), rate), x)
    own = add(g, _scale(x, 2 * shrinkage)) if shrinkage else g
    z = subtract(add(z, own), moved)
    low = add(divide(new, rate), 2 * l2)
    ends = subtract(_scale(sign_(z), l1), z)
    x = where(greater(abs_(z), l1), divide(ends, low), 0.0)
    return x, total, z


def _scalar_like(number: float, x: Any) -> Any:
    from amanda_std.ops.tensor.creation import scalar_like as of_type

    return of_type(number, x)


# -- samples -----------------------------------------------------------------------

_X, _G = (1.5, -2.0, 0.25, 3.0), (0.5, -1.25, 2.0, -0.125)
_M, _V, _D = (0.25, -0.5, 1.0, 0.0), (0.5, 2.0, 0.25, 1.5), (0.0625, 0.5, 1.0, 0.25)
_F = (0.25, -0.5, 0.125, 0.0)


def _momentum(
    x: float, g: float, v: float, r: float, momentum: float = 0.9, share: float = 1.0,
    nesterov: bool = False, decay: float = 0.0, scaled: bool = False,
) -> list[float]:  # fmt: skip
    g += decay * x
    if scaled:
        v = momentum * v - r * share * g
        return [x + (momentum * v - r * share * g if nesterov else v), v]
    v = momentum * v + share * g
    return [x - r * (g + momentum * v if nesterov else v), v]


def _adam(
    x: float, g: float, m: float, v: float, r: float, t: int, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.0,
    weight_decay: float = 0.0, corrected: bool = True,
) -> list[float]:  # fmt: skip
    g += decay * x
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    first, second = (1 - b**t if t else 1.0 for b in (beta1, beta2))
    x -= r * weight_decay * x
    if corrected:
        return [x - r * (m / first) / (math.sqrt(v / second) + epsilon), m, v]
    return [x - r * math.sqrt(second) / first * m / (math.sqrt(v) + epsilon), m, v]


def _adamax(x: float, g: float, m: float, u: float, r: float, t: int) -> list[float]:
    m, u = 0.9 * m + 0.1 * g, max(0.999 * u, abs(g))
    return [x - r / (1 - 0.9**t) * m / (u + 1e-8), m, u]


def _adagrad(
    x: float, g: float, h: float, r: float, epsilon: float = 1e-6, decay: float = 0.0,
    inside: bool = False,
) -> list[float]:  # fmt: skip
    g += decay * x
    h += g * g
    low = math.sqrt(h + epsilon) if inside else math.sqrt(h) + epsilon
    return [x - r * g / low, h]


def _rmsprop(
    x: float, g: float, v: float, m: float, mean: float, r: float, rho: float = 0.9,
    momentum: float = 0.0, epsilon: float = 1e-7, centered: bool = False,
    inside: bool = True,
) -> list[float]:  # fmt: skip
    v = rho * v + (1 - rho) * g * g
    spread = v
    if centered:
        mean = rho * mean + (1 - rho) * g
        spread -= mean * mean
    low = math.sqrt(spread + epsilon) if inside else math.sqrt(spread) + epsilon
    m = momentum * m + r * g / low
    return [x - m, v, m, mean]


def _adadelta(x: float, g: float, v: float, d: float, r: float) -> list[float]:
    v = 0.95 * v + 0.05 * g * g
    move = math.sqrt(d + 1e-7) / math.sqrt(v + 1e-7) * g
    return [x - r * move, v, 0.95 * d + 0.05 * move * move]


def _lion(x: float, g: float, m: float, r: float) -> list[float]:
    sign = math.copysign(1, 0.9 * m + 0.1 * g)
    return [x - r * sign, 0.99 * m + 0.01 * g]


def _ftrl(
    x: float, g: float, n: float, z: float, r: float, l1: float = 0.0, l2: float = 0.0,
    shrinkage: float = 0.0, power: float = -0.5,
) -> list[float]:  # fmt: skip
    total = n + g * g
    z += g + 2 * shrinkage * x - (total**-power - n**-power) / r * x
    low = total**-power / r + 2 * l2
    x = (math.copysign(l1, z) - z) / low if abs(z) > l1 else 0.0
    return [x, total, z]


def _sgd(x: float, g: float, r: float, decay: float = 0.0) -> list[float]:
    return [x - r * (g + decay * x)]


_FORMS: list[tuple[Operation, Any, Any, bool, list[dict[str, Any]]]] = [
    (sgd_step, _sgd, (_X, _G), False, [{}, {"decay": 0.25}]),
    (momentum_step, _momentum, (_X, _G, _M), False,
     [{}, {"nesterov": True}, {"scaled": True}, {"scaled": True, "nesterov": True},
      {"momentum": 0.5, "share": 0.25, "decay": 0.125}]),
    (adam_step, _adam, (_X, _G, _M, _V), True,
     [{}, {"corrected": False}, {"weight_decay": 0.25, "epsilon": 0.5},
      {"decay": 0.125, "beta1": 0.5, "beta2": 0.75, "corrected": False}]),
    (adamax_step, _adamax, (_X, _G, _M, _V), True, [{}]),
    (adagrad_step, _adagrad, (_X, _G, _V), False,
     [{}, {"epsilon": 0.5, "inside": True}, {"decay": 0.25}]),
    (rmsprop_step, _rmsprop, (_X, _G, _V, _M, _F), False,
     [{}, {"centered": True, "momentum": 0.5}, {"inside": False, "epsilon": 0.25}]),
    (adadelta_step, _adadelta, (_X, _G, _V, _D), False, [{}]),
    (lion_step, _lion, (_X, _G, _M), False, [{}]),
    (ftrl_step, _ftrl, (_X, _G, _V, _M), False,
     [{}, {"l1": 0.5, "l2": 0.25}, {"shrinkage": 0.25, "power": -0.75}]),
]  # fmt: skip


def _optimizer_samples(
    oracle: Any, columns: Any, counted: bool, choices: list[dict[str, Any]]
) -> Callable[[], Samples]:
    def make() -> Samples:
        single = oracle is _sgd
        for attrs in choices:
            for dtype in ("float64", "float32"):
                xs = [array(c, dtype) for c in columns]
                for step in (1, 3) if counted else (None,):
                    rate = array(0.125, dtype)
                    extra = () if step is None else (array(step, "int64"),)
                    given = (0.125,) if step is None else (0.125, step)
                    rows = [oracle(*row, *given, **attrs)
                            for row in zip(*columns, strict=True)]  # fmt: skip
                    y = [array(c, dtype) for c in zip(*rows, strict=True)]
                    expected = y[0] if single else y
                    yield Sample((*xs, rate, *extra), expected, attrs)
        empty = [x[:0] for x in xs]
        count = len(y)
        extra = (array(1, "int64"),) if counted else ()
        expected = empty[0] if single else [empty[0]] * count
        yield Sample((*empty, rate, *extra), expected, smooth=False)

    return make


for _op, _oracle, _columns, _counted, _choices in _FORMS:
    _op.samples(_optimizer_samples(_oracle, _columns, _counted, _choices))
