"""Primitives of `jax.random`: bits of Threefry, and keys, which are their two words."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from amanda_jax.formats.jaxprs.shapes import expect
from amanda_jax.formats.jaxprs.sizes import compute_dims, shape_argument
from amanda_std import ops

__all__ = ["READ"]


def random_bits(key: Any, *sizes: Any, bit_width: int, shape: Any) -> Any:
    dims = compute_dims(shape, sizes)
    first, second = _columns(_draw_blocks(key, prod(dims)))
    dtype = f"uint{bit_width}"
    if bit_width == 64:
        first, second = (ops.astype(word, dtype=dtype) for word in (first, second))
        first = ops.bitwise_left_shift(first, np.uint64(32))
        bits = ops.bitwise_or(first, second)
    else:
        bits = ops.astype(ops.bitwise_xor(first, second), dtype=dtype)
    return ops.reshape(bits, shape_argument([*key.shape[:-1], *dims]))


def random_split(key: Any, *sizes: Any, shape: Any) -> Any:
    dims = compute_dims(shape, sizes)
    blocks = _draw_blocks(key, prod(dims))
    return ops.reshape(blocks, shape_argument([*key.shape[:-1], *dims, 2]))


def random_fold_in(key: Any, data: Any) -> Any:
    word = ops.astype(data, dtype="uint32")
    return ops.threefry2x32(key, ops.stack(ops.zeros_like(word), word, axis=-1))


def random_seed(seed: Any, *, impl: Any) -> Any:
    """The words of a seed; a seed of 32 bits has no upper word."""
    _expect_threefry(impl)
    low = ops.astype(seed, dtype="uint32")
    if seed.dtype.bits < 64:
        return ops.stack(ops.zeros_like(low), low, axis=-1)
    high = ops.bitwise_right_shift(seed, np.asarray(32, seed.dtype.numpy))
    return ops.stack(ops.astype(high, dtype="uint32"), low, axis=-1)


def wrap_words(key: Any, *, impl: Any) -> Any:
    _expect_threefry(impl)
    return ops.identity(key)


def keep_words(key: Any) -> Any:
    return ops.identity(key)


def _expect_threefry(impl: Any) -> None:
    expect(impl == "threefry2x32", f"keys of the generator {impl}")


def threefry2x32(first: Any, second: Any, high: Any, low: Any) -> Any:
    key, count = ops.stack(first, second, axis=-1), ops.stack(high, low, axis=-1)
    return _columns(ops.threefry2x32(key, count))


def _draw_blocks(key: Any, count: Any) -> Any:
    """So many blocks of two words for each key."""
    number = ops.arange(0, count)
    words = (ops.bitwise_right_shift(number, np.int64(32)), number)
    counter = ops.stack(*(ops.astype(word, dtype="uint32") for word in words), axis=-1)
    return ops.threefry2x32(ops.expand_dims(key, (key.ndim - 1,)), counter)


def _columns(blocks: Any) -> tuple[Any, Any]:
    last = blocks.ndim - 1
    first, second = (ops.gather(blocks, np.int64(i), last) for i in range(2))
    return first, second


READ: Final[dict[str, Callable[..., Any]]] = {
    "random_bits": random_bits,
    "random_clone": keep_words,
    "random_fold_in": random_fold_in,
    "random_seed": random_seed,
    "random_split": random_split,
    "random_unwrap": keep_words,
    "random_wrap": wrap_words,
    "threefry2x32": threefry2x32,
}
