"""Special functions by their definitions: series and sums in double precision.

Slow, and accurate for arguments of moderate size: references for samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

_EULER = 0.57721566490153286061  # Euler's constant
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)  # B2, B4, ...


def series(term: Callable[[int], float]) -> float:
    """Sum of a series from k = 0 until the terms are negligible."""
    terms: list[float] = []
    for k in count():
        terms.append(term(k))
        if k > 4 and abs(terms[-1]) < 1e-20 * abs(math.fsum(terms)):
            return math.fsum(terms)
    raise AssertionError


def _sign(k: int) -> float:
    return -1.0 if k % 2 else 1.0


def solve_increasing(function: Callable[[float], float], low: float, high: float,
            y: float) -> float:  # fmt: skip
    """Solve function(x) = y for an increasing function, by bisection."""
    for _ in range(200):
        mean = (low + high) / 2
        low, high = (low, mean) if function(mean) > y else (mean, high)
    return (low + high) / 2


def zeta_of(x: float, q: float) -> float:
    """Terms up to the 20th, and the Euler-Maclaurin formula for the rest."""
    most = 20
    result = [(q + k) ** -x for k in range(most)]
    end = q + most
    result += [end ** (1 - x) / (x - 1), end**-x / 2]
    factor = x * end ** (-x - 1)
    for j, number in enumerate(_BERNOULLI, 1):
        result.append(number / math.factorial(2 * j) * factor)
        factor *= (x + 2 * j - 1) * (x + 2 * j) / end**2
    return math.fsum(result)


def digamma_of(x: float) -> float:
    """Recurrence up to 20, then the asymptotic series."""
    before = []
    while x < 20:
        before.append(1 / x)
        x += 1
    rest = [n / (2 * j * x ** (2 * j)) for j, n in enumerate(_BERNOULLI, 1)]
    return math.fsum([math.log(x), -1 / (2 * x), *(-r for r in (*before, *rest))])


def polygamma_of(n: int, x: float) -> float:
    if n == 0:
        return digamma_of(x)
    return -_sign(n) * math.factorial(n) * zeta_of(n + 1, x)


def _periodic_mean(function: Callable[[float], float]) -> float:
    """Mean of a periodic function; equidistant sums converge exponentially."""
    steps = 64
    return (
        math.fsum(function(math.pi * (i + 0.5) / steps) for i in range(steps)) / steps
    )


def bessel_i(order: int, x: float, scaled: bool = False) -> float:
    less = abs(x) if scaled else 0
    return _periodic_mean(
        lambda t: math.exp(x * math.cos(t) - less) * math.cos(order * t)
    )


def bessel_j(order: int, x: float) -> float:
    return _periodic_mean(lambda t: math.cos(order * t - x * math.sin(t)))


def bessel_k(order: int, x: float, scaled: bool = False) -> float:
    """Integral of exp(-x cosh t) cosh(order t), which decays fast."""
    step = 1 / 64
    less = x if scaled else 0
    total = [
        math.exp(less - x * math.cosh(t)) * math.cosh(order * t)
        for t in (i * step for i in range(64 * 8))
    ]
    return step * (math.fsum(total) - total[0] / 2)


def bessel_y(order: int, x: float) -> float:
    """The series around 0, with harmonic numbers."""

    def harmonic(n: int) -> float:
        return math.fsum(1 / i for i in range(1, n + 1))

    half = x / 2

    def term(k: int) -> float:
        weight = harmonic(k) + harmonic(k + order)
        scale = math.factorial(k) * math.factorial(k + order)
        return _sign(k) * weight * math.pow(half, 2 * k + order) / scale

    whole = 2 * (math.log(half) + _EULER) * bessel_j(order, x)
    first = 1 / half if order else 0.0
    return (whole - first - series(term)) / math.pi


def exponential_integral(x: float) -> float:
    more = series(lambda k: x ** (k + 1) / ((k + 1) * math.factorial(k + 1)))
    return _EULER + math.log(abs(x)) + more


def dawson(x: float) -> float:
    def term(k: int) -> float:
        odd = math.prod(range(1, 2 * k + 2, 2))
        return _sign(k) * math.ldexp(math.pow(x, 2 * k + 1), k) / odd

    return series(term)


def fresnel(x: float, sine: bool) -> float:
    def term(k: int) -> float:
        n = 2 * k + sine
        turn = _sign(k) * math.pow(math.pi / 2, n) / math.factorial(n)
        return turn * math.pow(x, 2 * n + 1) / (2 * n + 1)

    return series(term)


def spence_of(x: float) -> float:
    """Li2(1 - x) as a series, for x between 0 and 2."""
    return math.fsum((1 - x) ** k / k**2 for k in range(1, 1500))


def incomplete_gamma(a: float, x: float) -> float:
    def term(k: int) -> float:
        return math.exp((a + k) * math.log(x) - x - math.lgamma(a + k + 1))

    return series(term)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Binomial series of (1 - t)**(b - 1), integrated term by term."""
    terms, factor = [], 1.0
    for k in range(1500):
        terms.append(factor * x ** (a + k) / (a + k))
        factor *= (k + 1 - b) / (k + 1)
    whole = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.fsum(terms) * math.exp(-whole)
