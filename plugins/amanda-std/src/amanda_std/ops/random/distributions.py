"""Random distributions: uniform, normal, Bernoulli, categorical and others.

`threefry` reproduces jax.random for the same key, `philox` TensorFlow's stateless ops.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any, Final

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import DType
from amanda_std.engine.annotations import Cast, Index, Logical, RealFloating, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.values import dims_of
from amanda_std.ops._oracles.prng import (
    box_muller,
    philox_stream,
    threefry_pairs,
    unit_double,
    unit_float,
)
from amanda_std.ops._oracles.special_functions import solve_increasing
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import (
    add,
    clip,
    floor_divide,
    maximum,
    multiply,
    remainder,
    subtract,
)
from amanda_std.ops.math.bits import bitcast
from amanda_std.ops.math.comparison import greater_equal, less
from amanda_std.ops.math.elementary import cos, log, sin, sqrt
from amanda_std.ops.math.logic import (
    bitwise_and,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from amanda_std.ops.math.reduction import argmax
from amanda_std.ops.math.sorting import argsort
from amanda_std.ops.math.special import erfinv
from amanda_std.ops.random.prng import (
    KEY,
    LONG_KEY,
    Words,
    combine_words,
    expect_generator,
    philox_blocks,
    philox_word_pairs,
    random_bits,
    random_split,
    size_of,
    take_column,
)
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.indexing import gather, gather_elements
from amanda_std.ops.tensor.manipulation import slice_, stack
from amanda_std.ops.tensor.shape import astype, reshape

_FLOAT32, _INT32 = DType("float32"), DType("int32")
_BITS: Final = {"float16": (16, 10), "bfloat16": (16, 7), "float32": (32, 23),
                "float64": (64, 52)}  # fmt: skip
"""Bits of each float type, and of its mantissa."""


def _uniform_units(key: Any, shape: Any, dtype: DType, generator: str) -> Any:
    """Uniform in [0, 1): random mantissa bits of a number in [1, 2)."""
    if dtype.name not in _BITS:
        raise InvalidTypeError(
            f"no random numbers of type {dtype}", expected=", ".join(_BITS), got=dtype
        )
    bits, digits = _BITS[dtype.name]
    own = DType(f"uint{bits}")
    one = int(np.asarray(1, dtype.numpy).view(own.numpy))
    if generator == "philox":
        sampled = _low_bits(key, shape, own, digits)
    else:
        sampled = _high_bits(key, shape, own, digits)
    whole = bitwise_or(sampled, one)
    return subtract(bitcast(whole, dtype=dtype), 1.0)


def _high_bits(key: Any, shape: Any, unsigned: DType, digits: int) -> Any:
    narrow = unsigned if digits > 7 else DType("uint8")
    sampled = astype(random_bits(key, shape, dtype=narrow), dtype=unsigned)
    return bitwise_right_shift(sampled, narrow.bits - digits)


def _low_bits(key: Any, shape: Any, unsigned: DType, digits: int) -> Any:
    if unsigned.bits == 64:  # the first word is the high one
        pair = philox_word_pairs(key, size_of(shape))
        sampled = reshape(
            combine_words(take_column(pair, 1), take_column(pair, 0)), shape
        )
    else:
        sampled = random_bits(key, shape, dtype=unsigned, generator="philox")
    return bitwise_and(sampled, (1 << digits) - 1)


@composite
def random_uniform(
    key: Words, shape: ShapeArg, *, dtype: Any = _FLOAT32,
    generator: str = "threefry",
) -> Cast:  # fmt: skip
    """Uniform distribution over [0, 1)"""
    expect_generator(generator)
    return _uniform_units(key, shape, dtype, generator)


def _uniform_between(key: Any, shape: Any, low: Any, high: Any, dtype: DType) -> Any:
    """Uniform over [low, high), as jax.random.uniform computes it."""
    sampled = _uniform_units(key, shape, dtype, "threefry")
    return maximum(sampled * (high - low) + low, low)


@composite
def random_normal(
    key: Words, shape: ShapeArg, *, dtype: Any = _FLOAT32,
    generator: str = "threefry",
) -> Cast:  # fmt: skip
    """Normal distribution: inverse erf as in JAX, Box-Muller as in TensorFlow"""
    expect_generator(generator)
    if generator == "philox":
        count = size_of(shape)
        sampled = _box_muller_normals(key, (count + 1) // 2, dtype)
        return reshape(slice_(sampled, (0,), (count,), (0,)), shape)
    one = np.asarray(1, dtype.numpy)
    low = np.nextafter(-one, np.zeros_like(one))
    wide = _uniform_between(key, shape, low, one, dtype)
    return multiply(erfinv(wide), math.sqrt(2))


def _box_muller_normals(key: Any, pairs: Any, dtype: DType) -> Any:
    """Box-Muller pairs, flattened."""
    inner = dtype if dtype.name == "float64" else DType("float32")
    units = _uniform_units(key, (pairs * 2,), inner, "philox")
    return astype(reshape(_box_muller_transform(units), (-1,)), dtype=dtype)


def _box_muller_transform(units: Any) -> Any:
    """Box-Muller transform of pairs of uniform numbers."""
    pair = reshape(units, (-1, 2))
    far = sqrt(log(maximum(take_column(pair, 0), 1e-7)) * -2.0)
    angle = take_column(pair, 1) * (2 * math.pi)
    return stack(sin(angle) * far, cos(angle) * far, axis=-1)


_CANDIDATES: Final = 32
"""Numbers of which each block of four or two truncated results takes the first.

That fewer than four of them lie within two standard deviations has a probability below
1e-30.
"""


@composite
def random_truncated_normal(
    key: Words, shape: ShapeArg, *, low: float = -2.0, high: float = 2.0,
    dtype: Any = _FLOAT32, generator: str = "threefry",
) -> Cast:  # fmt: skip
    """Truncated normal distribution; Philox supports bounds of -2 and 2 only"""
    expect_generator(generator)
    if generator == "philox":
        if (low, high) != (-2.0, 2.0):
            raise InvalidTypeError(
                "Philox samples truncated normals between -2 and 2 only",
                got=f"{low} and {high}",
            )
        return _truncated_philox(key, shape, dtype)
    ends = [np.asarray(math.erf(e / math.sqrt(2)), dtype.numpy) for e in (low, high)]
    sampled = erfinv(_uniform_between(key, shape, ends[0], ends[1], dtype))
    sampled = multiply(sampled, math.sqrt(2))
    least, most = (np.asarray(e, dtype.numpy) for e in (low, high))
    return clip(sampled, np.nextafter(least, least + 1), np.nextafter(most, most - 1))


def _truncated_philox(key: Any, shape: Any, dtype: DType) -> Any:
    """Blocks of four results, of two in float64, each with counters of its own.

    A block takes the first accepted numbers of its 256, or 128, counters."""
    inner = dtype if dtype.name == "float64" else _FLOAT32
    size = 128 // inner.bits
    tries = _CANDIDATES // size
    count = size_of(shape)
    blocks = (count + size - 1) // size
    rows = arange(0, blocks * tries)
    numbers = floor_divide(rows, tries) * (64 * size) + remainder(rows, tries)
    units = _units_of_words(philox_blocks(key, numbers), inner)
    sampled = reshape(_box_muller_transform(units), (-1, _CANDIDATES))
    outside = greater_equal(abs_(sampled), 2.0)
    order = argsort(astype(outside, dtype=DType("int32")), axis=-1)
    kept = gather_elements(sampled, order, axis=1)
    first = reshape(slice_(kept, (0,), (size,), (1,)), (-1,))
    return astype(reshape(slice_(first, (0,), (count,), (0,)), shape), dtype=dtype)


def _units_of_words(words: Any, dtype: DType) -> Any:
    """Uniform numbers in [0, 1) from words of Philox, as the mantissas of [1, 2)."""
    if dtype.bits == 64:  # the first word is the high one
        pair = reshape(words, (-1, 2))
        words = combine_words(take_column(pair, 1), take_column(pair, 0))
    digits = _BITS[dtype.name][1]
    one = int(np.asarray(1, dtype.numpy).view(f"uint{dtype.bits}"))
    bits = bitwise_or(bitwise_and(words, (1 << digits) - 1), one)
    return bitcast(bits, dtype=dtype) - 1.0


# -- discrete distributions ------------------------------------------------------


@composite
def random_bernoulli(
    key: Words, p: RealFloating, shape: ShapeArg = None, *, generator: str = "threefry"
) -> Logical:
    """Bernoulli distribution: True with probability p"""
    requested = p.shape if shape is None else shape
    dtype = DType.of(p.dtype)
    return less(random_uniform(key, requested, dtype=dtype, generator=generator), p)


@composite
def random_integers(
    key: Words, shape: ShapeArg, low: ShapeArg, high: ShapeArg, *, dtype: Any = _INT32,
    generator: str = "threefry",
) -> Cast:  # fmt: skip
    """Uniform integers in [low, high)"""
    expect_generator(generator)
    inner = _INT32 if dtype.bits < 32 else dtype  # too few bits would be biased
    own, span = DType(f"uint{inner.bits}"), high - low
    if generator == "philox":
        sampled = random_bits(key, shape, dtype=own, generator="philox")
        result = remainder(sampled, _scalar_of(span, own))
    else:
        result = _modulo_span(key, shape, span, own)
    result = add(astype(result, dtype=inner), _scalar_of(low, inner))
    return astype(result, dtype=dtype)


def _modulo_span(key: Any, shape: Any, span: Any, unsigned: DType) -> Any:
    """Twice as many random bits as needed, modulo the span."""
    keys = random_split(key)
    upper, lower = (
        random_bits(gather(keys, np.asarray(i), 0), shape, dtype=unsigned)
        for i in range(2)
    )
    half, top = 1 << (unsigned.bits // 2), (1 << unsigned.bits) - 1
    if isinstance(span, int):
        factor: Any = _scalar_of(((half % span) ** 2 & top) % span, unsigned)
    else:
        factor = remainder(np.asarray(half, unsigned.numpy), _scalar_of(span, unsigned))
        factor = remainder(factor * factor, _scalar_of(span, unsigned))
    whole = _scalar_of(span, unsigned)
    sampled = remainder(upper, whole) * factor + remainder(lower, whole)
    return remainder(sampled, whole)


def _scalar_of(number: Any, dtype: DType) -> Any:
    """A shape argument as a scalar of an element type."""
    if isinstance(number, int):
        return np.asarray(number).astype(dtype.numpy)
    return astype(number, dtype=dtype)


@composite
def random_gumbel(
    key: Words, shape: ShapeArg, *, dtype: Any = _FLOAT32,
    generator: str = "threefry",
) -> Cast:  # fmt: skip
    """Gumbel distribution: -log(-log(uniform))"""
    least = np.finfo(dtype.numpy).tiny if dtype.name != "bfloat16" else 2.0**-126
    low, one = np.asarray(least, dtype.numpy), np.asarray(1, dtype.numpy)
    sampled = random_uniform(key, shape, dtype=dtype, generator=generator)
    sampled = maximum(sampled * (one - low) + low, low)
    return -log(-log(sampled))


@composite
def random_categorical(
    key: Words, logits: RealFloating, shape: ShapeArg = (), *, axis: int = -1,
    generator: str = "threefry",
) -> Index:  # fmt: skip
    """Indices along an axis with probability softmax(logits); `shape` samples each"""
    rank = len(dims_of(logits))
    dtype = DType.of(logits.dtype)
    if not isinstance(shape, tuple | list):
        raise Undecided("the number of samples is unknown until run time")
    sampled = random_gumbel(
        key, [*shape, *logits.shape], dtype=dtype, generator=generator
    )
    return argmax(add(sampled, logits), axis % rank + len(shape))


@composite
def random_permutation(
    key: Words, count: ShapeArg, *, generator: str = "threefry"
) -> Index:
    """Random permutation of 0 ... count - 1

    Sorts by random words, repeatedly to make ties harmless, as JAX does."""
    expect_generator(generator)
    number = int(count.__index__())
    order = arange(0, count)
    rounds = math.ceil(3 * math.log(max(1, number)) / math.log(2**32 - 1))
    for i in range(rounds):
        key, own = _next_key(key, i, generator)
        words = random_bits(own, (number,), generator=generator)
        order = gather(order, argsort(words, axis=0), 0)
    return order


def _next_key(key: Any, turn: int, generator: str) -> Any:
    """The key for the next pass, and one to sample with."""
    if generator == "philox":
        offset = np.array([turn, 0, 0, 0, 0, 0], "uint32")
        return key, bitwise_xor(key, offset)
    keys = random_split(key)
    return (gather(keys, np.asarray(i), 0) for i in range(2))


_OPS = (random_uniform, random_normal, random_truncated_normal, random_bernoulli,
        random_integers, random_gumbel, random_categorical,
        random_permutation)  # fmt: skip
for _op in _OPS:
    _op.not_differentiable("its results are random")


# -- samples -------------------------------------------------------------------


def _mantissas_of_words(dtype: str, count: int, philox: bool) -> list[float]:
    """Mantissas from the words, as both frameworks use them."""
    if philox:
        words = list(islice(philox_stream(LONG_KEY.tolist()), 2 * count))
        if dtype == "float64":
            pairs = zip(words[::2], words[1::2], strict=True)
            return [unit_double(a, b) for a, b in pairs]
        digits = _BITS[dtype][1]
        return [w % 2**digits / 2**digits for w in words[:count]]
    rows = threefry_pairs(KEY.tolist(), count)
    if dtype == "float64":
        return [((a << 32 | b) >> 12) / 2**52 for a, b in rows]
    mixed = [a ^ b for a, b in rows]
    cut = {"float32": (32, 23), "float16": (16, 10), "bfloat16": (8, 7)}[dtype]
    return [(w % 2 ** cut[0] >> (cut[0] - cut[1])) / 2 ** cut[1] for w in mixed]


_BOTH: Final = ((KEY, "threefry"), (LONG_KEY, "philox"))


@random_uniform.samples
def _() -> Samples:
    for key, generator in _BOTH:
        for dtype in _BITS:
            y = array(_mantissas_of_words(dtype, 6, generator == "philox"), dtype)
            attrs = {"dtype": DType(dtype), "generator": generator}
            yield Sample((key, (2, 3)), y.reshape(2, 3), attrs)
    one = array(_mantissas_of_words("float32", 1, False)[0], "float32")
    yield Sample((KEY, ()), one)
    yield Sample((KEY, (0, 3)), np.zeros((0, 3), "float32"))


def _by_erfinv(number: float, low: float, high: float) -> float:
    wide = max(number * (high - low) + low, low)
    return solve_increasing(math.erf, -6, 6, wide) * math.sqrt(2)


@random_normal.samples
def _() -> Samples:
    for dtype, tolerance in (("float32", 1e-4), ("float64", None), ("float16", 1e-1)):
        numbers = _mantissas_of_words(dtype, 6, False)
        low = float(np.nextafter(array(-1, dtype), array(0, dtype)))
        y = array([_by_erfinv(n, low, 1.0) for n in numbers], dtype).reshape(3, 2)
        yield Sample((KEY, (3, 2)), y, {"dtype": DType(dtype)}, tolerance=tolerance)
    words = islice(philox_stream(LONG_KEY.tolist()), 6)
    units = [unit_float(word) for word in words]
    pairs = zip(units[::2], units[1::2], strict=True)
    numbers = [v for a, b in pairs for v in box_muller(a, b)]
    attrs = {"generator": "philox"}
    yield Sample((LONG_KEY, (5,)), array(numbers[:5], "float32"), attrs, tolerance=1e-4)
    yield Sample((KEY, (0,)), np.zeros(0, "float32"))


def _truncated_by_rejection(count: int, dtype: str) -> list[float]:
    """Normal numbers of TensorFlow's Philox stream, those from 2 on left out."""
    wide = dtype == "float64"
    size = 2 if wide else 4
    result: list[float] = []
    while len(result) < count:
        words = philox_stream(LONG_KEY.tolist(), skip=64 * len(result))
        kept: list[float] = []
        while len(kept) < size:
            units = (
                unit_double(next(words), next(words))
                if wide
                else unit_float(next(words))
                for _ in range(2)
            )
            kept += [v for v in box_muller(*units) if abs(v) < 2]
        result += kept[:size]
    return result[:count]


@random_truncated_normal.samples
def _() -> Samples:
    for dtype, tolerance in (("float32", 1e-4), ("float64", None)):
        for low, high in ((-2.0, 2.0), (-1.0, 0.5)):
            numbers = _mantissas_of_words(dtype, 4, False)
            ends = [math.erf(e / math.sqrt(2)) for e in (low, high)]
            y = array([_by_erfinv(n, *ends) for n in numbers], dtype)
            attrs = {"low": low, "high": high, "dtype": DType(dtype)}
            yield Sample((KEY, (4,)), y, attrs, tolerance=tolerance)
    for dtype, tolerance in (("float32", 1e-4), ("float16", 1e-2), ("float64", 1e-6)):
        attrs = {"generator": "philox", "dtype": DType(dtype)}
        y = array(_truncated_by_rejection(46, dtype), dtype).reshape(2, 23)
        yield Sample((LONG_KEY, (2, 23)), y, attrs, tolerance=tolerance)
    yield Sample((KEY, (0,)), np.zeros(0, "float32"))


@random_bernoulli.samples
def _() -> Samples:
    for key, generator in _BOTH:
        for dtype in ("float32", "float64"):
            p = array([0.25, 0.5, 0.75, 1.0], dtype)
            sampled = _mantissas_of_words(dtype, 8, generator == "philox")
            y = [u < q for u, q in zip(sampled[:4], p.tolist(), strict=True)]
            attrs = {"generator": generator}
            yield Sample((key, p), array(y, "bool"), attrs)
            y = [u < q for u, q in zip(sampled, [*p.tolist()] * 2, strict=True)]
            yield Sample((key, p, (2, 4)), array(y, "bool").reshape(2, 4), attrs)
    yield Sample((KEY, p[:0]), np.zeros(0, "bool"))


@random_integers.samples
def _() -> Samples:
    first, second = threefry_pairs(KEY.tolist(), 2)
    for dtype, low, high in (("int32", -5, 20), ("uint8", 3, 9), ("int32", 7, 8)):
        bits, span = 32, high - low
        rows = [[(a ^ b) % 2**bits for a, b in threefry_pairs(k, 6)]
                for k in (first, second)]  # fmt: skip
        top = 2**bits - 1
        factor = ((2 ** (bits // 2) % span) ** 2 & top) % span
        y = [low + (((u % span) * factor & top) + v % span & top) % span
             for u, v in zip(*rows, strict=True)]  # fmt: skip
        attrs: dict[str, Any] = {"dtype": DType(dtype)}
        yield Sample((KEY, (2, 3), low, high), array(y, dtype).reshape(2, 3), attrs)
    words = list(islice(philox_stream(LONG_KEY.tolist()), 6))
    attrs = {"generator": "philox"}
    y = [w % 25 - 5 for w in words]
    yield Sample((LONG_KEY, (6,), -5, 20), array(y, "int32"), attrs)
    y = [(a | b << 32) % 25 - 5 for a, b in zip(words[::2], words[1::2], strict=True)]
    attrs = {"generator": "philox", "dtype": DType("int64")}
    yield Sample((LONG_KEY, (3,), -5, 20), array(y, "int64"), attrs)
    yield Sample((KEY, (0,), 0, 3), np.zeros(0, "int32"))


def _gumbel_by_definition(number: float, least: float) -> float:
    return -math.log(-math.log(max(number * (1 - least) + least, least)))


_LEAST: Final = {"float32": 2.0**-126, "float64": 2.0**-1022}


@random_gumbel.samples
def _() -> Samples:
    for dtype, least in _LEAST.items():
        numbers = _mantissas_of_words(dtype, 6, False)
        y = array([_gumbel_by_definition(n, least) for n in numbers], dtype).reshape(
            2, 3
        )
        yield Sample((KEY, (2, 3)), y, {"dtype": DType(dtype)}, tolerance=1e-4)
    yield Sample((KEY, (0,)), np.zeros(0, "float32"))


@random_categorical.samples
def _() -> Samples:
    for dtype, least in _LEAST.items():
        logits = array([[0.5, 1.5, -1.0], [2.0, 0.25, 0.75]], dtype)
        numbers = _mantissas_of_words(dtype, 24, False)
        sampled = np.array([_gumbel_by_definition(n, least) for n in numbers]).reshape(
            4, 2, 3
        )
        y = [[max(range(3), key=lambda j: v[j]) for v in rows]
             for rows in (sampled + logits).tolist()]  # fmt: skip
        yield Sample((KEY, logits), array(y[0], "int64"))
        yield Sample((KEY, logits, (4,)), array(y, "int64"))
        turned = np.array(numbers[:6]).reshape(3, 2)
        rows = (
            np.vectorize(lambda n: _gumbel_by_definition(n, least))(turned) + logits.T  # noqa: B023
        )
        down = [max(range(3), key=lambda i: rows[i, j]) for j in range(2)]
        yield Sample((KEY, logits.T), array(down, "int64"), {"axis": 0})
    yield Sample((KEY, logits[:0]), np.zeros(0, "int64"))


@random_permutation.samples
def _() -> Samples:
    for count in (7, 1, 0):
        _, own = threefry_pairs(KEY.tolist(), 2)
        words = [a ^ b for a, b in threefry_pairs(own, count)]
        order = sorted(range(count), key=lambda i: words[i])
        yield Sample((KEY, count), array(order, "int64"))
    words = list(islice(philox_stream(LONG_KEY.tolist()), 5))
    order = sorted(range(5), key=lambda i: words[i])
    attrs = {"generator": "philox"}
    yield Sample((LONG_KEY, 5), array(order, "int64"), attrs)
