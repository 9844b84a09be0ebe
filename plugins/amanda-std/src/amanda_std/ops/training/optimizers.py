"""Steps of optimisers: a parameter, its gradient and what is remembered, made anew.

The rate, and the number of the step, change from step to step and are tensors; the
other numbers are attributes. Every op gives the parameter first, then its memories in
the order in which they came.
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


def _times(x: Any, number: Any) -> Any:
    return multiply(x, number)


def _decayed(x: Any, g: Any, decay: float) -> Any:
    """The gradient with that of the squares of the parameters, decay / 2 of them."""
    return add(g, _times(x, decay)) if decay else g


def _towards(old: Any, new: Any, keep: float) -> Any:
    """A running mean that keeps so much of the old."""
    return add(_times(old, keep), _times(new, 1 - keep))


def _root(x: Any, epsilon: float, inside: bool) -> Any:
    if inside:
        return sqrt(add(x, epsilon))
    return add(sqrt(x), epsilon)


@composite
def sgd_step(
    x: RealFloating, g: RealFloating, rate: RealFloating, *, decay: float = 0.0
) -> RealFloating:
    """x - rate * g; `decay` is that of the squares of x, in the gradient"""
    return subtract(x, multiply(_decayed(x, g, decay), rate))


@composite
def momentum_step(
    x: RealFloating, g: RealFloating, v: RealFloating, rate: RealFloating, *,
    momentum: float = 0.9, share: float = 1.0, nesterov: bool = False,
    decay: float = 0.0, scaled: bool = False,
) -> Two:  # fmt: skip
    """A step along v, which keeps `momentum` of itself and takes `share` of g

    `scaled`: v has the rate in it, and is added, as Keras keeps it."""
    g = _decayed(x, g, decay)
    taken = _times(g, share)
    if scaled:
        step = multiply(taken, rate)
        v = subtract(_times(v, momentum), step)
        move = subtract(_times(v, momentum), step) if nesterov else v
        return add(x, move), v
    v = add(_times(v, momentum), taken)
    move = add(g, _times(v, momentum)) if nesterov else v
    return subtract(x, multiply(move, rate)), v


def _correction(beta: float, step: Any, like: Any) -> Any:
    """1 - beta**step, and 1 before the first step."""
    number = astype(step, dtype=like.dtype)
    power = exp(_times(number, math.log(beta)))
    return where(greater(number, 0.0), subtract(1.0, power), 1.0)


@composite
def adam_step(
    x: RealFloating, g: RealFloating, m: RealFloating, v: RealFloating,
    rate: RealFloating, step: Index, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8, decay: float = 0.0, weight_decay: float = 0.0,
    corrected: bool = True,
) -> Three:  # fmt: skip
    """A step along the mean of gradients in units of the root of their squares' mean

    `step` counts from 1. `corrected`: epsilon is added to the root without its bias, as
    torch has it; else to the root as it is remembered, as Keras and ONNX do.
    `weight_decay` is apart from the gradient (AdamW), `decay` within it."""
    g = _decayed(x, g, decay)
    m, v = _towards(m, g, beta1), _towards(v, square(g), beta2)
    first, second = _correction(beta1, step, x), _correction(beta2, step, x)
    if corrected:
        low = add(sqrt(divide(v, second)), epsilon)
        size = divide(rate, first)
    else:
        low = add(sqrt(v), epsilon)
        size = divide(multiply(rate, sqrt(second)), first)
    if weight_decay:
        x = subtract(x, multiply(_times(x, weight_decay), rate))
    return subtract(x, multiply(divide(m, low), size)), m, v


@composite
def adamax_step(
    x: RealFloating, g: RealFloating, m: RealFloating, u: RealFloating,
    rate: RealFloating, step: Index, *, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> Three:  # fmt: skip
    """adam_step in units of the largest gradient, which fades"""
    m = _towards(m, g, beta1)
    u = maximum(_times(u, beta2), abs_(g))
    size = divide(rate, _correction(beta1, step, x))
    move = divide(multiply(m, size), add(u, epsilon))
    return subtract(x, move), m, u


@composite
def adagrad_step(
    x: RealFloating, g: RealFloating, h: RealFloating, rate: RealFloating, *,
    epsilon: float = 1e-6, decay: float = 0.0, inside: bool = False,
) -> Two:  # fmt: skip
    """A step in units of the root of the sum of all squares; epsilon `inside` the root

    as Keras has it, or beside it as ONNX, torch and TensorFlow's ops do"""
    g = _decayed(x, g, decay)
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
    """A step in units of the root of the squares' mean, or of the variance if centered

    The rate is in the memory m; epsilon is `inside` the root or beside it."""
    v = _towards(v, square(g), rho)
    spread = v
    if centered:
        mean = _towards(mean, g, rho)
        spread = subtract(v, square(mean))
    step = divide(multiply(g, rate), _root(spread, epsilon, inside))
    m = add(_times(m, momentum), step)
    return subtract(x, m), v, m, mean


@composite
def adadelta_step(
    x: RealFloating, g: RealFloating, v: RealFloating, d: RealFloating,
    rate: RealFloating, *, rho: float = 0.95, epsilon: float = 1e-7,
) -> Three:  # fmt: skip
    """A step in units of the root of squares, as long as the steps before it were"""
    v = _towards(v, square(g), rho)
    scale = divide(_root(d, epsilon, True), _root(v, epsilon, True))
    move = multiply(scale, g)
    d = _towards(d, square(move), rho)
    return subtract(x, multiply(move, rate)), v, d


@composite
def lion_step(
    x: RealFloating, g: RealFloating, m: RealFloating, rate: RealFloating, *,
    beta1: float = 0.9, beta2: float = 0.99,
) -> Two:  # fmt: skip
    """A step along the signs of a mean of gradients"""
    move = sign_(_towards(m, g, beta1))
    return subtract(x, multiply(move, rate)), _towards(m, g, beta2)


@composite
def ftrl_step(
    x: RealFloating, g: RealFloating, n: RealFloating, z: RealFloating,
    rate: RealFloating, *, l1: float = 0.0, l2: float = 0.0, shrinkage: float = 0.0,
    power: float = -0.5,
) -> Three:  # fmt: skip
    """The regularised leader: the best x for all gradients so far, 0 where |z| <= l1"""
    total = add(n, square(g))
    old, new = (pow_(v, full((), _like(-power, v))) for v in (n, total))
    moved = multiply(divide(subtract(new, old), rate), x)
    own = add(g, _times(x, 2 * shrinkage)) if shrinkage else g
    z = subtract(add(z, own), moved)
    low = add(divide(new, rate), 2 * l2)
    ends = subtract(_times(sign_(z), l1), z)
    x = where(greater(abs_(z), l1), divide(ends, low), 0.0)
    return x, total, z


def _like(number: float, x: Any) -> Any:
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


def _samples(
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
                    want = y[0] if single else y
                    yield Sample((*xs, rate, *extra), want, attrs)
        none = [x[:0] for x in xs]
        count = len(y)
        extra = (array(1, "int64"),) if counted else ()
        want = none[0] if single else [none[0]] * count
        yield Sample((*none, rate, *extra), want, smooth=False)

    return make


for _op, _oracle, _columns, _counted, _choices in _FORMS:
    _op.samples(_samples(_oracle, _columns, _counted, _choices))
