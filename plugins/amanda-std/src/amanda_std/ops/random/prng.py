"""Counter-based pseudo-random number generators (PRNG): Threefry and Philox.

Results are functions of a key; there is no state. `threefry` (two key words) gives the
numbers of jax.random for the same key; `philox` (two key words, four words of the first
counter) those of TensorFlow's stateless ops. Keys are 32-bit words: `random_key`
derives them from a seed.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, TypeAlias

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import DType, Shape, TensorType
from amanda_std.engine.annotations import ArgKind, Cast, Index, ShapeArg
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import UnknownShapeArg
from amanda_std.ops._oracles.prng import (
    philox_block,
    philox_stream,
    threefry_block,
    threefry_pairs,
)
from amanda_std.ops.math.comparison import less
from amanda_std.ops.math.logic import (
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from amanda_std.ops.math.reduction import prod
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import concat, flip, slice_, split, stack
from amanda_std.ops.tensor.shape import astype, reshape

_UINT32, _UINT64 = DType("uint32"), DType("uint64")
Words: TypeAlias = Annotated[Any, ArgKind(shared=False, kinds=("uint",), dtype=_UINT32)]


def _block_shape(key: TensorType, count: TensorType, width: int) -> Shape:
    for x, n in ((key, 2), (count, width)):
        shapes.expect_same(x.shape.dims[-1], n, "the last axis must hold the words")
    batch = shapes.broadcast(Shape(key.shape.dims[:-1]), Shape(count.shape.dims[:-1]))
    return Shape([*batch.dims, width])


@primitive(shape=lambda key, count: _block_shape(key, count, 2))
def threefry2x32(key: Words, count: Words) -> Words:
    """Threefry-2x32 block: mix two key words and two counter words in 20 rounds"""
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    k0, k1 = key[..., :1], key[..., 1:]
    words = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    a, b = count[..., :1] + k0, count[..., 1:] + k1
    for i in range(5):
        for turn in turns[i % 2]:
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a = a + words[(i + 1) % 3]
        b = b + words[(i + 2) % 3] + (i + 1)
    return xp(a).concat([a, b], axis=-1)


def _wide_multiply(a: Any, factor: int) -> tuple[Any, Any]:
    """High and low word of a 32-bit product."""
    whole = a.astype("uint64") * factor
    return (whole >> 32).astype("uint32"), whole.astype("uint32")


@primitive(shape=lambda key, count: _block_shape(key, count, 4))
def philox4x32(key: Words, count: Words) -> Words:
    """Philox-4x32 block: mix two key words and four counter words in 10 rounds"""
    k0, k1 = key[..., :1], key[..., 1:]
    a, b, c, d = (count[..., i : i + 1] for i in range(4))
    for _ in range(10):
        (high, low), (top, bottom) = (
            _wide_multiply(a, 0xD2511F53),
            _wide_multiply(c, 0xCD9E8D57),
        )
        a, b, c, d = top ^ b ^ k0, bottom, high ^ d ^ k1, low
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    return xp(a).concat([a, b, c, d], axis=-1)


# -- words ---------------------------------------------------------------------


def expect_generator(generator: str) -> None:
    if generator not in ("threefry", "philox"):
        raise InvalidTypeError(
            "unknown generator", expected="threefry or philox", got=generator
        )


def size_of(shape: Any) -> Any:
    """Number of elements of a shape, static or computed."""
    if isinstance(shape, UnknownShapeArg):
        raise Undecided("the number of random elements is unknown until run time")
    if isinstance(shape, tuple | list):
        result: Any = 1
        for n in shape:
            result = n * result
        return result
    return prod(shape)


def _as_words(x: Any) -> Any:
    return astype(x, dtype=_UINT32)


def _counter_words(count: Any) -> Any:
    """0, 1, 2, ... as high and low words."""
    number = arange(0, count)
    high = bitwise_right_shift(number, 32)
    return stack(_as_words(high), _as_words(number), axis=-1)


def take_column(x: Any, i: int) -> Any:
    """One column of the last axis."""
    return gather(x, np.asarray(i), -1)


def combine_words(low: Any, high: Any) -> Any:
    """Combine two words to 64 bits."""
    low, high = (astype(w, dtype=_UINT64) for w in (low, high))
    return bitwise_or(low, bitwise_left_shift(high, 32))


def philox_blocks(key: Any, numbers: Any) -> Any:
    """Blocks of a Philox stream at given block numbers: rows of four words."""
    first = slice_(key, (2,), (6,), (0,))
    low = combine_words(take_column(first, 0), take_column(first, 1))
    moved = low + astype(numbers, dtype=_UINT64)
    over = astype(less(moved, low), dtype=_UINT64)
    high = combine_words(take_column(first, 2), take_column(first, 3)) + over
    words = [w for v in (moved, high) for w in (v, bitwise_right_shift(v, 32))]
    counter = stack(*map(_as_words, words), axis=-1)
    return philox4x32(slice_(key, (0,), (2,), (0,)), counter)


def _philox_words(key: Any, count: Any) -> Any:
    """The first `count` words of Philox, in order."""
    blocks = philox_blocks(key, arange(0, (count + 3) // 4))
    return slice_(reshape(blocks, (-1,)), (0,), (count,), (0,))


def philox_word_pairs(key: Any, count: Any) -> Any:
    return reshape(_philox_words(key, count * 2), (-1, 2))


@composite
def random_bits(
    key: Words, shape: ShapeArg, *, dtype: Any = _UINT32, generator: str = "threefry"
) -> Cast:
    """Random unsigned integers, all bits uniform"""
    expect_generator(generator)
    count = size_of(shape)
    if generator == "philox":
        if dtype.bits == 64:
            pair = philox_word_pairs(key, count)
            bits = combine_words(take_column(pair, 0), take_column(pair, 1))
        else:
            bits = astype(_philox_words(key, count), dtype=dtype)
    else:
        pair = threefry2x32(key, _counter_words(count))
        if dtype.bits == 64:
            bits = combine_words(take_column(pair, 1), take_column(pair, 0))
        else:
            mixed = bitwise_xor(take_column(pair, 0), take_column(pair, 1))
            bits = astype(mixed, dtype=dtype)
    return reshape(bits, shape)


@composite
def random_key(seed: Index, *, generator: str = "threefry") -> Words:
    """Key from a seed: one integer, or two for Philox

    As jax.random.key and TensorFlow's stateless ops derive it."""
    expect_generator(generator)
    seed = astype(seed, dtype=DType("int64"))
    high = bitwise_right_shift(seed, 32)
    halves = stack(_as_words(seed), _as_words(high), axis=-1)
    if generator == "threefry":
        return flip(halves)
    shuffler = np.array([0x3EC8F720, 0x02461E29], "uint32")
    mixed = philox4x32(shuffler, reshape(halves, (4,)))
    key, rest = split(mixed, (2, 2), axis=0)
    return concat(key, np.zeros(2, "uint32"), rest, axis=0)


@composite
def random_split(key: Words, count: ShapeArg = 2) -> Words:
    """Split a Threefry key into several, one per row, as jax.random.split"""
    return threefry2x32(key, _counter_words(count))


@composite
def random_fold_in(key: Words, data: Index) -> Words:
    """Fold an integer into a Threefry key, as jax.random.fold_in"""
    return threefry2x32(key, random_key(data))


_OPS = (threefry2x32, philox4x32, random_bits, random_key, random_split, random_fold_in)
for _op in _OPS:
    _op.not_differentiable("its results are random")


# -- samples -------------------------------------------------------------------


def _parse_words(text: str) -> Any:
    return array([int(word, 16) for word in text.split()], "uint32")


# Known-answer tests published with the Random123 library: key, counter, words.
_THREEFRY = [
    ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
    ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
    ("13198a2e 03707344", "243f6a88 85a308d3", "c4923a9c 483df7a0"),
]
_PHILOX = [
    ("00000000 00000000", "00000000 00000000 00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff", "ffffffff ffffffff ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("a4093822 299f31d0", "243f6a88 85a308d3 13198a2e 03707344",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip

KEY = array([0x13198A2E, 0x03707344], "uint32")
LONG_KEY = array([7, 0xA4093822, 0xFFFFFFFE, 0xFFFFFFFF, 5, 9], "uint32")
"""Its counter carries into the third word after two blocks."""


def _block_samples(rows: Any, function: Any) -> Any:
    def make() -> Samples:
        for key, count, expected in rows:
            yield Sample(
                (_parse_words(key), _parse_words(count)), _parse_words(expected)
            )
        keys, counts = (
            np.stack([_parse_words(row[i]) for row in rows]) for i in range(2)
        )
        yield Sample((keys, counts), np.stack([_parse_words(row[2]) for row in rows]))
        words = [function(keys[2].tolist(), count) for count in counts.tolist()]
        yield Sample((keys[2], counts), array(words, "uint32"))
        yield Sample((keys[2], counts[:0]), counts[:0])

    return make


threefry2x32.samples(_block_samples(_THREEFRY, threefry_block))
philox4x32.samples(_block_samples(_PHILOX, philox_block))


@random_bits.samples
def _() -> Samples:
    mixed = [a ^ b for a, b in threefry_pairs(KEY.tolist(), 6)]
    for bits in (8, 16, 32):
        words = array([w % 2**bits for w in mixed], f"uint{bits}")
        attrs: dict[str, Any] = {"dtype": DType(f"uint{bits}")}
        yield Sample((KEY, (2, 3)), words.reshape(2, 3), attrs)
    wide = [a << 32 | b for a, b in threefry_pairs(KEY.tolist(), 3)]
    attrs = {"dtype": _UINT64}
    yield Sample((KEY, (3,)), array(wide, "uint64"), attrs)
    yield Sample((KEY, ()), array(mixed[0], "uint32"))
    yield Sample((KEY, (0, 2)), np.zeros((0, 2), "uint32"))
    words = list(islice(philox_stream(LONG_KEY.tolist()), 20))
    attrs = {"generator": "philox"}
    yield Sample((LONG_KEY, (3, 5)), array(words[:15], "uint32").reshape(3, 5), attrs)
    wide = [words[i] | words[i + 1] << 32 for i in range(0, 20, 2)]
    attrs = {"generator": "philox", "dtype": _UINT64}
    yield Sample((LONG_KEY, (10,)), array(wide, "uint64"), attrs)


@random_key.samples
def _() -> Samples:
    for seed in (0, 42, 2**40 + 7, -1):
        words = [seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF]
        yield Sample((array(seed, "int64"),), array(words, "uint32"))
    yield Sample((array(5, "int32"),), array([0, 5], "uint32"))
    for pair in ((1, 2), (-3, 2**33 + 1)):
        halves = [w for s in pair for w in (s & 0xFFFFFFFF, s >> 32 & 0xFFFFFFFF)]
        mixed = philox_block([0x3EC8F720, 0x02461E29], halves)
        words = [*mixed[:2], 0, 0, *mixed[2:]]
        attrs = {"generator": "philox"}
        yield Sample((array(pair, "int64"),), array(words, "uint32"), attrs)


@random_split.samples
def _() -> Samples:
    for count in (2, 5, 0):
        rows = threefry_pairs(KEY.tolist(), count)
        yield Sample((KEY, count), array(rows, "uint32").reshape(count, 2))
    yield Sample((KEY,), array(threefry_pairs(KEY.tolist(), 2), "uint32"))


@random_fold_in.samples
def _() -> Samples:
    for data in (0, 7, 2**31 - 1):
        words = threefry_block(KEY.tolist(), [0, data])
        yield Sample((KEY, array(data, "int32")), array(words, "uint32"))
