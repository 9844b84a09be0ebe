"""From TensorFlow: random numbers.

Ops with a seed give the numbers of their first run in TensorFlow (a Philox stream,
whose key are both seeds), those without are seeded by a stream of keys, which advances
by call and iteration. Stateless ops give TensorFlow's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_or_value,
    known_scalar,
    rank_of,
    required_content,
    required_integer,
)

__all__ = ["READ", "explicit_key", "key_of", "stateless_key"]


def key_of(o: Any, seed: int, seed2: int) -> dict[str, Any]:
    """The key of a Philox stream, or of one without a seed."""
    if seed == seed2 == 0:
        name = o.source.name or ""
        key = ops.next_random_key((), stream=crc32(name.encode()))
        return {"key": key, "generator": "threefry"}
    words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, 0, 0,
             seed2 & 0xFFFFFFFF, seed2 >> 32 & 0xFFFFFFFF]  # fmt: skip
    return {"key": np.array(words, "uint32"), "generator": "philox"}


def _shape(o: Any, shape: Any) -> Any:
    return known_or_value(o.side.value(shape))


def _distribution(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(o: Any, shape: Any, *, seed: int = 0, seed2: int = 0, dtype: Any) -> Any:
        return op(shape=_shape(o, shape), dtype=dtype, **key_of(o, seed, seed2))

    return read


def read_random_uniform_int(
    o: Any, shape: Any, low: Any, high: Any, *, seed: int = 0, seed2: int = 0
) -> Any:
    """RandomUniformInt to `random_integers`."""
    low, high = o.side.value(low), o.side.value(high)
    ends = [known_scalar(low), known_scalar(high)]
    if None in ends:
        ends = [ops.astype(v, dtype="int64") for v in (low, high)]
    return ops.random_integers(
        shape=_shape(o, shape), low=ends[0], high=ends[1], dtype=low.dtype,
        **key_of(o, seed, seed2),
    )  # fmt: skip


def read_random_shuffle(o: Any, x: Any, *, seed: int = 0, seed2: int = 0) -> Any:
    """RandomShuffle to a permutation of rows."""
    return _shuffle(o.side.value(x), key_of(o, seed, seed2))


def read_stateless_shuffle(x: Any, key: Any, counter: Any, alg: Any) -> Any:
    """Rows in the order that a Philox stream gives."""
    return _shuffle(x, explicit_key(key, counter, alg))


def _shuffle(x: Any, given: dict[str, Any]) -> Any:
    """Fisher-Yates, unrolled: the i-th element changes places with a later one."""
    size = x.shape[0] if rank_of(x) else 1
    expect(isinstance(size, int) and size <= 64, "more than 64 rows, or not static")
    if given["generator"] == "threefry":
        return ops.gather(x, ops.random_permutation(given["key"], size))
    words = ops.random_bits(shape=(max(size - 1, 1),), dtype="uint32", **given)
    order: Any = ops.arange(0, size)
    place = np.arange(size)
    for i in range(size - 1):
        word = ops.gather(words, np.asarray(i))
        other = ops.astype(word % np.uint32(size - i), dtype="int64") + np.int64(i)
        both = ops.gather(order, ops.stack(other, np.int64(i)))
        here, there = (ops.gather(both, np.asarray(j)) for j in range(2))
        order = ops.where(np.equal(place, i), here, ops.where(
            ops.equal(place, other), there, order))  # fmt: skip
    return ops.gather(x, order)


def read_multinomial(
    o: Any, logits: Any, count: Any, *, seed: int = 0, seed2: int = 0,
    output_dtype: Any = None,
) -> Any:  # fmt: skip
    """Samples of each row's categorical distribution."""
    number = required_integer(o.side.value(count), "num_samples")
    found = _categorical(o.side.value(logits), number, key_of(o, seed, seed2))
    return cast_to(found, output_dtype or "int64")


def _categorical(logits: Any, number: int, given: dict[str, Any]) -> Any:
    """Philox: the first class whose cumulative probability is above a uniform number,
    as TensorFlow; else by the Gumbel trick."""
    rows = logits.shape[0]
    if given["generator"] == "threefry" or not isinstance(rows, int):
        key, narrow = given["key"], cast_to(logits, "float32")
        found = ops.random_categorical(
            key, narrow, (number,), generator=given["generator"]
        )
        return ops.transpose(found, perm=(1, 0))
    wide = ops.astype(logits, dtype="float64")
    shares = ops.exp(wide - ops.max(wide, [1], keepdims=True))
    ends = ops.cumulative_sum(shares, 1)
    uniform = ops.random_uniform(shape=(rows * number,), dtype="float64", **given)
    total = ops.slice_(ops.expand_dims(ends, [1]), [-1], [2**31], [2])
    goal = ops.reshape(uniform, [rows, number, 1]) * total
    passed = ops.less_equal(ops.expand_dims(ends, [1]), goal)
    return ops.sum(ops.astype(passed, dtype="int64"), [2])


# -- stateless -------------------------------------------------------------------------


def stateless_key(seed: Any) -> dict[str, Any]:
    return {"key": ops.random_key(seed, generator="philox"), "generator": "philox"}


def _stateless(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(shape: Any, seed: Any, *, dtype: Any = None) -> Any:
        return op(
            shape=known_or_value(shape),
            dtype=dtype or "float32",
            **stateless_key(seed),
        )

    return read


def read_stateless_uniform_int(shape: Any, seed: Any, low: Any, high: Any) -> Any:
    """StatelessRandomUniformInt to `random_integers`."""
    ends = [known_scalar(low), known_scalar(high)]
    if None in ends:
        ends = [ops.astype(v, dtype="int64") for v in (low, high)]
    return ops.random_integers(
        shape=known_or_value(shape), low=ends[0], high=ends[1], dtype=low.dtype,
        **stateless_key(seed),
    )  # fmt: skip


def explicit_key(key: Any, counter: Any, algorithm: Any) -> dict[str, Any]:
    """The words of a key and a counter of 64-bit integers."""
    expect(known_scalar(algorithm) in (1, 3), "an algorithm other than Philox")
    words = []
    for value in (key, counter):
        low = ops.astype(value, dtype="uint32")
        high = ops.astype(
            ops.bitwise_right_shift(value, ops.number_like(value, value=32)),
            dtype="uint32",
        )
        words.append(ops.reshape(ops.stack(low, high, axis=-1), [-1]))
    return {"key": ops.concat(*words, axis=0), "generator": "philox"}


def _stateless_v2(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any = None) -> Any:
        return op(
            shape=known_or_value(shape), dtype=dtype or "float32",
            **explicit_key(key, counter, alg),
        )  # fmt: skip

    return read


def read_stateless_uniform_int_v2(
    shape: Any, key: Any, counter: Any, alg: Any, low: Any, high: Any
) -> Any:
    """StatelessRandomUniformIntV2 to `random_integers`."""
    ends = [required_content(low, "minval"), required_content(high, "maxval")]
    return ops.random_integers(
        shape=known_or_value(shape), low=ends[0], high=ends[1], dtype=low.dtype,
        **explicit_key(key, counter, alg),
    )  # fmt: skip


def read_stateless_key_counter(seed: Any) -> Any:
    """The key and the counter that a seed stands for, as 64-bit integers."""
    words = ops.random_key(seed, generator="philox")
    wide = ops.astype(words, dtype="uint64")
    pairs = ops.reshape(wide, [3, 2])
    low, high = (ops.gather(pairs, np.asarray(i), axis=1) for i in range(2))
    joined = ops.bitwise_or(low, ops.bitwise_left_shift(high, np.uint64(32)))
    return ops.slice_(joined, [0], [1]), ops.slice_(joined, [1], [3])


def read_stateless_key_counter_alg(seed: Any) -> Any:
    """StatelessRandomGetKeyCounterAlg to a key, a counter and Philox."""
    return *read_stateless_key_counter(seed), read_stateless_alg()


def read_stateless_full_int(shape: Any, seed: Any, *, dtype: Any = None) -> Any:
    """StatelessRandomUniformFullInt to random bits."""
    return _full_int(shape, dtype, stateless_key(seed))


def read_stateless_full_int_v2(
    shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any = None
) -> Any:
    """StatelessRandomUniformFullIntV2 to random bits."""
    return _full_int(shape, dtype, explicit_key(key, counter, alg))


def _full_int(shape: Any, dtype: Any, key: dict[str, Any]) -> Any:
    """Random bits as integers, negative ones included."""
    wanted = str(dtype or "uint64")
    unsigned = f"u{wanted.removeprefix('u')}"
    bits = ops.random_bits(shape=known_or_value(shape), dtype=unsigned, **key)
    return bits if wanted == unsigned else ops.bitcast(bits, dtype=wanted)


def read_stateless_multinomial(
    logits: Any, count: Any, seed: Any, *, output_dtype: Any = None
) -> Any:
    """StatelessMultinomial to `random_categorical`."""
    number = required_integer(count, "num_samples")
    found = _categorical(logits, number, stateless_key(seed))
    return cast_to(found, output_dtype or "int64")


def read_stateless_alg() -> Any:
    """StatelessRandomGetAlg to Philox, on every device."""
    return np.int32(1)


def read_non_deterministic_ints(o: Any, shape: Any, *, dtype: Any = None) -> Any:
    """NonDeterministicInts to random bits."""
    return _full_int(o.side.value(shape), dtype or "int64", key_of(o, 0, 0))


READ: dict[str, Any] = {
    "NonDeterministicInts": read_non_deterministic_ints,
    "RandomUniform": _distribution(ops.random_uniform),
    "RandomStandardNormal": _distribution(ops.random_normal),
    "TruncatedNormal": _distribution(ops.random_truncated_normal),
    "RandomUniformInt": read_random_uniform_int,
    "RandomShuffle": read_random_shuffle,
    "Multinomial": read_multinomial,
    "StatelessRandomUniform": _stateless(ops.random_uniform),
    "StatelessRandomNormal": _stateless(ops.random_normal),
    "StatelessTruncatedNormal": _stateless(ops.random_truncated_normal),
    "StatelessRandomUniformInt": read_stateless_uniform_int,
    "StatelessRandomUniformV2": _stateless_v2(ops.random_uniform),
    "StatelessRandomNormalV2": _stateless_v2(ops.random_normal),
    "StatelessTruncatedNormalV2": _stateless_v2(ops.random_truncated_normal),
    "StatelessRandomUniformIntV2": read_stateless_uniform_int_v2,
    "StatelessRandomGetKeyCounter": read_stateless_key_counter,
    "StatelessRandomGetAlg": read_stateless_alg,
    "StatelessRandomGetKeyCounterAlg": read_stateless_key_counter_alg,
    "StatelessRandomUniformFullInt": read_stateless_full_int,
    "StatelessRandomUniformFullIntV2": read_stateless_full_int_v2,
    "StatelessMultinomial": read_stateless_multinomial,
    "StatelessShuffle": read_stateless_shuffle,
}
