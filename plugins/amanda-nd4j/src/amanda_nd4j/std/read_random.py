"""From nd4j: random numbers.

nd4j has generators of its own, whose numbers these are not; they have the same
distribution. Ops without a seed are seeded by a stream of keys, which advances by call
and iteration.
"""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from amanda_nd4j.std.arguments import dtype_of_code, numbers_of
from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_or_value,
    known_scalar,
    rank_of,
    required_integer,
)

__all__ = ["READ"]


def _key(context: Any, seed: Any = None) -> Any:
    """The key of a seed, or the next one of the stream of an op."""
    words = numbers_of(seed)
    if any(words):
        return np.array([words[0] & 0xFFFFFFFF, words[-1] & 0xFFFFFFFF], "uint32")
    name = context.source.name or ""
    return ops.next_random_key((), stream=crc32(name.encode()))


def read_uniform(
    shape: Any, low: Any = None, high: Any = None, *, dtype: Any = None,
    dataType: Any = None, seed: Any = None, context: Any, **limits: Any,
) -> Any:  # fmt: skip
    """Uniform numbers from `min` up to `max`; integers where that is the type."""
    kind = str(dataType or (dtype_of_code(int(dtype)) if dtype else "float32"))
    ends = [
        limits.get(name, default) if value is None else known_scalar(value)
        for name, value, default in (("min", low, 0.0), ("max", high, 1.0))
    ]
    expect(None not in ends, "limits that are known at run time only")
    key, size = _key(context, seed), known_or_value(shape)
    if kind.startswith(("int", "uint")):
        return ops.random_integers(key, size, int(ends[0]), int(ends[1]), dtype=kind)
    y = ops.random_uniform(key, size, dtype=kind)
    low, high = (ops.number_like(y, value=v) for v in ends)
    return y * (high - low) + low


def _normal(
    shape: Any, *, dtype: Any = None, mean: Any = 0.0, stdev: Any = 1.0, context: Any
) -> Any:
    """Normal numbers."""
    y = ops.random_normal(
        _key(context), known_or_value(shape), dtype=dtype or "float32"
    )
    return y * ops.number_like(y, value=stdev) + ops.number_like(y, value=mean)


def read_random_normal(shape: Any, *, dtype: Any = None, context: Any) -> Any:
    """Normal numbers of mean 0 and deviation 1."""
    return _normal(shape, dtype=dtype, context=context)


def read_normal_of(
    shape: Any, *, mean: Any = 0.0, stdev: Any = 1.0, context: Any
) -> Any:
    """Normal numbers of a mean and a deviation."""
    return _normal(shape, mean=mean, stdev=stdev, context=context)


def read_bernoulli(
    shape: Any, *, f: float = 0.5, dtype: Any = None, context: Any
) -> Any:
    """1 with a probability, else 0."""
    size = known_or_value(shape)
    found = ops.random_bernoulli(_key(context), np.float32(f), size)
    return ops.astype(found, dtype=dtype or "float32")


def read_shuffle(x: Any, *, seeds: Any = None, context: Any) -> Any:
    """Rows in a random order."""
    size = x.shape[0] if rank_of(x) else 1
    expect(isinstance(size, int), "the number of rows is not static")
    return ops.gather(x, ops.random_permutation(_key(context, seeds), int(size)))


def read_multinomial(
    logits: Any,
    count: Any,
    *,
    dtype: Any = None,
    dimC: Any = None,
    context: Any,
) -> Any:
    """Samples of each row's categorical distribution."""
    expect(dimC in (None, 0, -1), "samples of rows")
    number = required_integer(count, "the number of samples")
    narrow = cast_to(logits, "float32")
    found = ops.random_categorical(_key(context), narrow, (number,))
    return cast_to(ops.transpose(found, perm=(1, 0)), dtype or "int64")


def read_random_crop(x: Any, size: Any, *, seed: Any = None, context: Any) -> Any:
    """A slice at a random place."""
    sizes = known_or_value(size)
    expect(isinstance(sizes, list), "the size of the slice is known at run time only")
    uniform = ops.random_uniform(_key(context, seed), [rank_of(x)], dtype="float32")
    room = ops.shape_of(x) - np.array(sizes, "int64") + np.int64(1)
    start = ops.floor(uniform * ops.astype(room, dtype="float32"))
    return ops.dynamic_slice(x, ops.astype(start, dtype="int64"), sizes)


def read_dropout(
    x: Any, shape: Any = None, *, probValue: float, seed: Any = None,
    inverted: Any = False, context: Any,
) -> Any:  # fmt: skip
    """Elements kept with a probability, scaled by its inverse if inverted."""
    expect(shape is None, "a shape of the noise")
    key = _key(context, seed)
    keep = ops.random_bernoulli(key, np.float32(probValue), ops.shape_of(x))
    scale = 1.0 / float(probValue) if inverted else 1.0
    return ops.where(keep, x * ops.number_like(x, value=scale), ops.zeros_like(x))


_PROPOSALS = 16
"""At least 95 percent of proposals are accepted: all are rejected once in 1e20."""


def _sizes_with(shape: Any, *parameters: Any) -> Any:
    """A shape, and behind it that of parameters."""
    parts = [ops.astype(shape, dtype="int64"), *map(ops.shape_of, parameters)]
    return _as_list(ops.concat(*parts, axis=0))


def _as_list(shape: Any) -> Any:
    """A shape as a list where it is known."""
    return shape.tolist() if isinstance(shape, np.ndarray) else known_or_value(shape)


def read_gamma(
    shape: Any, alpha: Any, beta: Any = None, *, dtype: Any = None, seed: Any = None,
    context: Any,
) -> Any:  # fmt: skip
    """Gamma numbers: the first accepted of some proposals of Marsaglia and Tsang.

    A shape below 1 is increased by 1, and the number multiplied by u ** (1 / shape).
    """
    size = _sizes_with(shape, alpha)
    wide = ops.broadcast_to(ops.astype(alpha, dtype="float64"), size)
    small = ops.less(wide, ops.number_like(wide, value=1))
    d = ops.where(small, wide + 1.0, wide) - 1.0 / 3.0
    c = 1.0 / ops.sqrt(9.0 * d)
    rows = np.array(size, "int64") if isinstance(size, list) else size
    many = _as_list(ops.concat(np.array([_PROPOSALS]), rows, axis=0))
    key = _key(context, seed)
    keys = [ops.random_fold_in(key, np.uint32(i)) for i in range(3)]
    x = ops.random_normal(keys[0], many, dtype="float64")
    u = ops.random_uniform(keys[1], many, dtype="float64")
    v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x)
    good = ops.greater(v, ops.zeros_like(v))
    limit = 0.5 * x * x + d - d * v + d * ops.log(ops.where(good, v, ops.ones_like(v)))
    good = ops.logical_and(good, ops.less(ops.log(u), limit))
    first = ops.expand_dims(ops.argmax(ops.astype(good, dtype="int32"), 0), [0])
    y = ops.squeeze(ops.gather_elements(d * v, first, axis=0), [0])
    power = ops.random_uniform(keys[2], size, dtype="float64")
    y = ops.where(small, y * ops.pow(power, 1.0 / wide), y)
    y = y if beta is None else y / ops.astype(beta, dtype="float64")
    return cast_to(y, dtype or alpha.dtype)


def read_poisson(
    shape: Any, rate: Any, *, dtype: Any = None, seed: Any = None, context: Any
) -> Any:
    """Poisson numbers: events with exponential times between them, up to the rate."""
    size = _sizes_with(shape, rate)
    limit = ops.broadcast_to(ops.astype(rate, dtype="float64"), size)
    key = _key(context, seed)

    def goes_on(_turn: Any, time: Any, _count: Any) -> Any:
        return ops.any(ops.less(time, limit))

    def step(turn: Any, time: Any, count: Any) -> Any:
        u = ops.random_uniform(ops.random_fold_in(key, turn), size, dtype="float64")
        later = time - ops.log1p(ops.negative(u))
        happens = ops.astype(ops.less(later, limit), dtype="float64")
        return turn + np.uint32(1), later, count + happens

    zero = ops.zeros_like(limit)
    count = ops.while_(goes_on, step, np.uint32(0), zero, zero)[2]
    return cast_to(count, dtype or rate.dtype)


READ: dict[str, Any] = {
    "randomuniform": read_uniform,
    "random_normal": read_random_normal,
    "randomnormal": read_normal_of,
    "random_bernoulli": read_bernoulli,
    "random_shuffle": read_shuffle,
    "random_multinomial": read_multinomial,
    "random_crop": read_random_crop,
    "random_gamma": read_gamma,
    "random_poisson": read_poisson,
    "dropout": read_dropout,
}
