"""The blocks of counter-based random generators, on 32-bit words in int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

__all__ = ["KERNELS"]

_WORD: Final = 0xFFFFFFFF
_TURNS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(key: Any, count: Any) -> Any:
    """Words are computed in int64: their sums wrap around when they are masked."""
    k0, k1 = key[..., :1], key[..., 1:]
    words = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    a, b = (count[..., :1] + k0) & _WORD, (count[..., 1:] + k1) & _WORD
    for i in range(5):
        for turn in _TURNS[i % 2]:
            a = (a + b) & _WORD
            b = (((b << turn) | (b >> (32 - turn))) & _WORD) ^ a
        a = (a + words[(i + 1) % 3]) & _WORD
        b = (b + words[(i + 2) % 3] + (i + 1)) & _WORD
    return torch.cat([a, b], -1)


def _multiply(x: Any, factor: int) -> tuple[Any, Any]:
    """The high and low words of products; the sign of int64 is no part of them."""
    product = x * (factor - (1 << 32) if factor >> 31 else factor)
    high = (product >> 32) & _WORD
    if factor >> 31:  # the factor was taken as negative, which is 2**32 less
        high = (high + x) & _WORD
    return high, product & _WORD


def philox4x32(key: Any, count: Any) -> Any:
    k0, k1 = key[..., :1], key[..., 1:]
    a, b, c, d = (count[..., i : i + 1] for i in range(4))
    for _ in range(10):
        high, low = _multiply(a, 0xD2511F53)
        top, bottom = _multiply(c, 0xCD9E8D57)
        a, b, c, d = top ^ b ^ k0, bottom, high ^ d ^ k1, low
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return torch.cat([a, b, c, d], -1)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "threefry2x32": threefry2x32,
    "philox4x32": philox4x32,
}
