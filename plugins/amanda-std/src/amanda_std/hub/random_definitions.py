"""Blocks of random generators by arithmetic, for targets that do not have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops

__all__ = ["philox_by_arithmetic", "threefry_by_arithmetic"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_UINT64 = DType("uint64")


def _word(value: int) -> Any:
    return np.uint32(value & 0xFFFFFFFF)


def _columns(x: Any, count: int) -> list[Any]:
    """The words along the last axis."""
    return [ops.slice_(x, [i], [i + 1], [-1]) for i in range(count)]


def _rotate(x: Any, bits: int) -> Any:
    low = ops.bitwise_right_shift(x, np.uint32(32 - bits))
    return ops.bitwise_or(ops.bitwise_left_shift(x, np.uint32(bits)), low)


def threefry_by_arithmetic(key: Any, count: Any) -> Any:
    """Threefry-2x32 of 20 rounds: Salmon et al., Parallel Random Numbers, 2011."""
    first, second = _columns(key, 2)
    parity = ops.bitwise_xor(ops.bitwise_xor(first, second), _word(0x1BD11BDA))
    words = (first, second, parity)
    a, b = (x + k for x, k in zip(_columns(count, 2), words, strict=False))
    for i in range(5):
        for bits in _ROTATIONS[i % 2]:
            a = a + b
            b = ops.bitwise_xor(_rotate(b, bits), a)
        a = a + words[(i + 1) % 3]
        b = b + words[(i + 2) % 3] + _word(i + 1)
    return ops.concat(a, b, axis=-1)


def _multiply(x: Any, factor: int) -> tuple[Any, Any]:
    """The high and the low word of a product."""
    whole = ops.astype(x, dtype=_UINT64) * np.uint64(factor)
    high = ops.bitwise_right_shift(whole, np.uint64(32))
    low = ops.bitwise_and(whole, np.uint64(0xFFFFFFFF))
    uint32 = DType("uint32")
    return ops.astype(high, dtype=uint32), ops.astype(low, dtype=uint32)


def philox_by_arithmetic(key: Any, count: Any) -> Any:
    """Philox-4x32 of 10 rounds, of the same paper."""
    first, second = _columns(key, 2)
    a, b, c, d = _columns(count, 4)
    for i in range(10):
        high, low = _multiply(a, 0xD2511F53)
        top, bottom = _multiply(c, 0xCD9E8D57)
        keys = first + _word(0x9E3779B9 * i), second + _word(0xBB67AE85 * i)
        a = ops.bitwise_xor(ops.bitwise_xor(top, b), keys[0])
        c = ops.bitwise_xor(ops.bitwise_xor(high, d), keys[1])
        b, d = bottom, low
    return ops.concat(a, b, c, d, axis=-1)
