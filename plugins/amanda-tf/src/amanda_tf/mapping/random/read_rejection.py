"""From TensorFlow: gamma and Poisson distributed numbers, by rejection.

Each number has 256 blocks of a Philox stream, and draws from them until one is
accepted. With a seed, the numbers are those of the kernels of TensorFlow; without, of
the same distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from amanda_std import ops
from amanda_std.mappings import expect, required_content
from amanda_tf.mapping.random.read_random import explicit_key, key_of, stateless_key

__all__ = ["READ"]

_BLOCKS: Final = 256
"""The blocks of the stream that each number has."""


class _Draws:
    """Numbers drawn from blocks of a stream, for each element of a vector.

    A block gives two numbers; the second is used first.
    """

    def __init__(self, key: Any, first: Any, state: tuple[Any, ...]) -> None:
        self._key, self._first = key, first
        self._used, *rest = state
        self._pairs = {"uniform": rest[:3], "normal": rest[3:]}

    @staticmethod
    def start(count: int) -> tuple[Any, ...]:
        """The blocks used; two numbers and how many are left, of each distribution."""
        number, left = np.zeros(count), np.zeros(count, "int64")
        return (left, *2 * (number, number, left))

    @property
    def state(self) -> tuple[Any, ...]:
        return (self._used, *self._pairs["uniform"], *self._pairs["normal"])

    def draw(self, kind: str, where: Any) -> Any:
        """A number for each element of a mask; any number for others."""
        first, second, left = self._pairs[kind]
        is_new = ops.logical_and(where, ops.equal(left, np.int64(0)))
        pair = self._block()
        if kind == "normal":
            pair = _normal_pair(*pair)
        first, second = (
            ops.where(is_new, new, old)
            for new, old in zip(pair, (first, second), strict=True)
        )
        self._used = self._used + ops.astype(is_new, dtype="int64")
        left = ops.where(is_new, np.int64(2), left)
        left = left - ops.astype(where, dtype="int64")
        self._pairs[kind] = [first, second, left]
        return ops.where(ops.equal(left, np.int64(1)), second, first)

    def _block(self) -> tuple[Any, Any]:
        """Two uniform numbers from the next block of each element."""
        at = ops.astype(self._first + self._used, dtype="uint64")
        low, rest = (ops.slice_(self._key, [i], [j]) for i, j in ((0, 2), (4, 6)))
        start, over = (
            ops.astype(ops.gather(self._key, np.int64(i)), dtype="uint64")
            for i in (2, 3)
        )
        moved = at + (start + over * np.uint64(2**32))
        halves = (moved, ops.bitwise_right_shift(moved, np.uint64(32)))
        count = ops.concat(
            ops.stack(*(ops.astype(h, dtype="uint32") for h in halves), axis=1),
            ops.broadcast_to(rest, [int(at.shape[0]), 2]),
            axis=1,
        )
        words = ops.philox4x32(low, count)
        top, bottom = (
            ops.astype(ops.slice_(words, [i], [4], [1], [2]), dtype="float64")
            for i in (0, 1)
        )
        high = ops.remainder(top, np.float64(2**20))
        both = (high * np.float64(2.0**32) + bottom) * np.float64(2.0**-52)
        return tuple(ops.gather(both, np.int64(i), axis=1) for i in (0, 1))


def _normal_pair(a: Any, b: Any) -> tuple[Any, Any]:
    """By Box and Muller."""
    radius = ops.sqrt(np.float64(-2) * ops.log(ops.maximum(a, np.float64(1e-7))))
    angle = np.float64(2 * np.pi) * b
    return ops.sin(angle) * radius, ops.cos(angle) * radius


def _reject(
    key: Any, count: int, start: Any, done: Any,
    attempt: Callable[[_Draws, Any], tuple[Any, Any]],
) -> Any:  # fmt: skip
    """Attempts until each number is accepted; `done` are those that need none."""
    first = np.arange(count, dtype="int64") * _BLOCKS

    def goes_on(done: Any, *_: Any) -> Any:
        return ops.logical_not(ops.all(done))

    def step(done: Any, found: Any, *state: Any) -> Any:
        draws = _Draws(key, first, state)
        accepted, number = attempt(draws, ops.logical_not(done))
        done = ops.logical_or(done, accepted)
        return done, ops.where(accepted, number, found), *draws.state

    return ops.while_(goes_on, step, done, start, *_Draws.start(count))[1]


def _gamma(key: Any, alpha: Any, count: int) -> Any:
    """By Marsaglia and Tsang; one parameter for each number."""
    one = np.float64(1)
    is_small = ops.less(alpha, one)
    third = ops.where(is_small, np.float64(2 / 3), np.float64(-1 / 3))
    d = alpha + third
    c = np.float64(1 / 3) / ops.sqrt(d)

    def attempt(draws: _Draws, active: Any) -> tuple[Any, Any]:
        x = draws.draw("normal", active)
        v = one + c * x
        valid = ops.logical_and(active, ops.greater(v, np.float64(0)))
        v = ops.where(valid, v, one)
        v = v * v * v
        u = draws.draw("uniform", valid)
        square = x * x
        near = ops.less(u, one - np.float64(0.0331) * square * square)
        limit = np.float64(0.5) * square + d * (one - v + ops.log(v))
        far = ops.less(ops.log(u), limit)
        accepted = ops.logical_and(valid, ops.logical_or(near, far))
        b = draws.draw("uniform", ops.logical_and(accepted, is_small))
        number = d * v
        return accepted, ops.where(is_small, number * ops.pow(b, one / alpha), number)

    is_one = ops.equal(alpha, one)
    draws = _Draws(key, np.arange(count, dtype="int64") * _BLOCKS, _Draws.start(count))
    exponential = ops.negative(ops.log1p(ops.negative(draws.draw("uniform", is_one))))
    return _reject(key, count, exponential, is_one, attempt)


def _poisson(key: Any, rate: Any, count: int) -> Any:
    """By Knuth for rates below 10, else by Hörmann's transformed rejection."""
    is_low = ops.less(rate, np.float64(10))
    low = ops.where(is_low, rate, np.float64(1))
    high = ops.where(is_low, np.float64(10), rate)
    found = _knuth(key, low, count, ops.logical_not(is_low))
    return _reject(key, count, found, is_low, _transformed_rejection(high))


def _knuth(key: Any, rate: Any, count: int, done: Any) -> Any:
    first, goal = np.arange(count, dtype="int64") * _BLOCKS, ops.exp(ops.negative(rate))

    def goes_on(done: Any, *_: Any) -> Any:
        return ops.logical_not(ops.all(done))

    def step(done: Any, product: Any, number: Any, *state: Any) -> Any:
        draws = _Draws(key, first, state)
        active = ops.logical_not(done)
        product = product * ops.where(
            active, draws.draw("uniform", active), np.float64(1)
        )
        ends = ops.logical_and(active, ops.less_equal(product, goal))
        more = ops.logical_and(active, ops.logical_not(ends))
        number = number + ops.astype(more, dtype="float64")
        return ops.logical_or(done, ends), product, number, *draws.state

    start = np.ones(count), np.zeros(count), *_Draws.start(count)
    return ops.while_(goes_on, step, done, *start)[2]


def _transformed_rejection(rate: Any) -> Callable[[_Draws, Any], tuple[Any, Any]]:
    b = np.float64(0.931) + np.float64(2.53) * ops.sqrt(rate)
    a = np.float64(-0.059) + np.float64(0.02483) * b
    inverse = np.float64(1.1239) + np.float64(1.1328) / (b - np.float64(3.4))
    limit = np.float64(0.9277) - np.float64(3.6224) / (b - np.float64(2))

    def attempt(draws: _Draws, active: Any) -> tuple[Any, Any]:
        u = draws.draw("uniform", active) - np.float64(0.5)
        v = draws.draw("uniform", active)
        shifted = np.float64(0.5) - ops.abs(u)
        k = ops.floor((np.float64(2) * a / shifted + b) * u + rate + np.float64(0.43))
        inside = ops.logical_and(
            ops.greater_equal(shifted, np.float64(0.07)), ops.less_equal(v, limit)
        )
        outside = ops.logical_and(
            ops.less(shifted, np.float64(0.013)), ops.greater(v, shifted)
        )
        valid = ops.logical_not(ops.logical_or(ops.less(k, np.float64(0)), outside))
        left = ops.log(v * inverse / (a / (shifted * shifted) + b))
        safe = ops.maximum(k, np.float64(0))
        right = k * ops.log(rate) - rate - ops.lgamma(safe + np.float64(1))
        tested = ops.logical_and(valid, ops.less_equal(left, right))
        return ops.logical_and(active, ops.logical_or(inside, tested)), k

    return attempt


def _numbers(
    sample: Callable[..., Any], key: dict[str, Any], samples: list[int], x: Any,
    dtype: Any,
) -> Any:  # fmt: skip
    """Numbers of shape `samples` for each parameter in `x`."""
    inner = [int(d) for d in x.shape if isinstance(d, int)]
    expect(len(inner) == len(x.shape), "the shape of the parameters is not static")
    rows, columns = prod(samples), prod(inner)
    if not rows * columns:
        return ops.zeros([*samples, *inner], dtype=dtype)
    wide = ops.reshape(ops.astype(x, dtype="float64"), [columns, 1])
    each = ops.reshape(ops.broadcast_to(wide, [columns, rows]), [-1])
    found = ops.reshape(sample(_words(key), each, rows * columns), [columns, rows])
    shaped = ops.reshape(ops.transpose(found, perm=(1, 0)), [*samples, *inner])
    return ops.astype(shaped, dtype=dtype)


def _words(key: dict[str, Any]) -> Any:
    """The six words of a Philox stream; a key of two words has no counter."""
    if key["generator"] == "philox":
        return key["key"]
    return ops.concat(ops.reshape(key["key"], [-1]), np.zeros(4, "uint32"), axis=0)


def read_gamma(o: Any, shape: Any, alpha: Any, *, seed: int = 0, seed2: int = 0) -> Any:
    alpha = o.side.value(alpha)
    samples = required_content(o.side.value(shape), "shape")
    return _numbers(_gamma, key_of(o, seed, seed2), samples, alpha, alpha.dtype)


def read_poisson(
    o: Any, shape: Any, rate: Any, *, seed: int = 0, seed2: int = 0, dtype: Any = None
) -> Any:
    rate = o.side.value(rate)
    samples = required_content(o.side.value(shape), "shape")
    return _numbers(
        _poisson, key_of(o, seed, seed2), samples, rate, dtype or rate.dtype
    )


def _outer(shape: Any, x: Any) -> list[int]:
    """The leading dims of a whole shape, without those of the parameters."""
    whole = required_content(shape, "shape")
    return list(whole[: len(whole) - len(x.shape)])


def read_stateless_gamma(shape: Any, seed: Any, alpha: Any) -> Any:
    return _numbers(
        _gamma, stateless_key(seed), _outer(shape, alpha), alpha, alpha.dtype
    )


def read_stateless_gamma_v3(
    shape: Any, key: Any, counter: Any, alg: Any, alpha: Any
) -> Any:
    given = explicit_key(key, counter, alg)
    return _numbers(_gamma, given, _outer(shape, alpha), alpha, alpha.dtype)


def read_stateless_poisson(
    shape: Any, seed: Any, rate: Any, *, dtype: Any = None
) -> Any:
    return _numbers(_poisson, stateless_key(seed), _outer(shape, rate), rate,
                    dtype or rate.dtype)  # fmt: skip


READ: dict[str, Any] = {
    "RandomGamma": read_gamma,
    "RandomPoissonV2": read_poisson,
    "StatelessRandomGammaV2": read_stateless_gamma,
    "StatelessRandomGammaV3": read_stateless_gamma_v3,
    "StatelessRandomPoisson": read_stateless_poisson,
}
