"""Reference Threefry and Philox generators on Python integers, for samples.

After Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

_WORD = (1 << 32) - 1


def threefry_block(key: Sequence[int], count: Sequence[int]) -> list[int]:
    """Threefry-2x32, 20 rounds."""
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    words = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = ((c + k) & _WORD for c, k in zip(count, key, strict=True))
    for i in range(5):
        for turn in turns[i % 2]:
            a = (a + b) & _WORD
            b = ((b << turn | b >> (32 - turn)) & _WORD) ^ a
        a = (a + words[(i + 1) % 3]) & _WORD
        b = (b + words[(i + 2) % 3] + i + 1) & _WORD
    return [a, b]


def philox_block(key: Sequence[int], count: Sequence[int]) -> list[int]:
    """Philox-4x32, 10 rounds."""
    k0, k1 = key
    a, b, c, d = count
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (
            right >> 32 ^ b ^ k0, right & _WORD, left >> 32 ^ d ^ k1, left & _WORD
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return [a, b, c, d]


def threefry_pairs(key: Sequence[int], count: int) -> list[list[int]]:
    """Blocks of the first counters, as JAX reads them and splits keys."""
    return [threefry_block(key, (i >> 32, i & _WORD)) for i in range(count)]


def philox_stream(key: Sequence[int], skip: int = 0) -> Iterator[int]:
    """Words in TensorFlow's order; the key includes the first counter."""
    start = sum(word << 32 * i for i, word in enumerate(key[2:]))
    while True:
        now = (start + skip) & ((1 << 128) - 1)
        yield from philox_block(key[:2], [now >> 32 * i & _WORD for i in range(4)])
        skip += 1


def unit_float(word: int) -> float:
    """The low 23 bits of a word as a number in [0, 1)."""
    (number,) = struct.unpack("<f", struct.pack("<I", 0x3F800000 | word & 0x7FFFFF))
    return float(number) - 1.0


def unit_double(high: int, low: int) -> float:
    """The low 52 bits of two words as a number in [0, 1)."""
    return ((high << 32 | low) % 2**52) / 2**52


def box_muller(first: float, second: float) -> tuple[float, float]:
    """Box-Muller: two normal numbers from two uniform ones."""
    angle = 2 * math.pi * second
    far = math.sqrt(-2 * math.log(max(first, 1e-7)))
    return far * math.sin(angle), far * math.cos(angle)
