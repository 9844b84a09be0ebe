"""Hashes of strings: FarmHash, MurmurHash and SipHash, of their UTF-8 bytes."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from amanda.errors import UsageError
from amanda.types import DType
from amanda_std.engine.annotations import ArgKind, Text
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples
from amanda_std.inference import shapes
from amanda_std.ops.text.strings import map_strings
from amanda_std.runtime.containers import string_array

Hash: TypeAlias = Annotated[
    Any, ArgKind(shared=False, kinds=("uint",), dtype=DType("uint64"))
]

_MASK: Final = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_hash(
    x: Text, *, algorithm: str = "farmhash64", key: tuple[int, ...] = ()
) -> Hash:
    """64-bit hash of strings: farmhash64 (a fingerprint), murmur64a, siphash24

    `key`: the seed of murmur64a; the two 64-bit words of the key of siphash24."""
    sizes = {"farmhash64": 0, "murmur64a": 1, "siphash24": 2}
    if sizes.get(algorithm) != len(key):
        raise UsageError(
            "unknown hash, or a key of another length",
            expected=", ".join(f"{name} with {n} words" for name, n in sizes.items()),
            got=f"{algorithm} with {len(key)} words",
        )
    words = [int(word) & _MASK for word in key]
    function = _FUNCTIONS[algorithm]
    return map_strings(lambda item: function(item.encode(), *words), x, "uint64")


string_hash.not_differentiable("strings have no gradient")


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotate_right(x: int, count: int) -> int:
    x &= _MASK
    return (x >> count | x << (64 - count)) & _MASK


def _fold(x: int) -> int:
    x &= _MASK
    return x ^ x >> 47


# -- FarmHash (farmhashna::Hash64), by Geoff Pike ------------------------------------


def farmhash64(data: bytes) -> int:
    """Fingerprint64 of FarmHash, which is the same in every release."""
    size = len(data)
    if size <= 16:
        return _farm_to_16(data)
    if size <= 32:
        return _farm_to_32(data)
    return _farm_to_64(data) if size <= 64 else _farm_long(data)


def _farm_join(u: int, v: int, factor: int) -> int:
    a = _fold((u ^ v) * factor)
    return _fold((v ^ a) * factor) * factor & _MASK


def _farm_to_16(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _word(data, 0) + _K2 & _MASK, _word(data, size - 8)
        c = _rotate_right(b, 37) * factor + a & _MASK
        d = (_rotate_right(a, 25) + b) * factor & _MASK
        return _farm_join(c, d, factor)
    if size >= 4:
        first = size + (_word(data, 0, 4) << 3)
        return _farm_join(first, _word(data, size - 4, 4), factor)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return _fold((y * _K2 ^ z * _K0) & _MASK) * _K2 & _MASK
    return _K2


def _farm_to_32(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    first = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d
    return _farm_join(first & _MASK, a + _rotate_right(b + _K2, 18) + c & _MASK, factor)


def _farm_to_64(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a, b = _word(data, 0) * _K2, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d & _MASK
    z = _farm_join(y, a + _rotate_right(b + _K2, 18) + c & _MASK, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g = (y + _word(data, size - 32)) * factor
    h = (z + _word(data, size - 24)) * factor
    first = _rotate_right(e + f, 43) + _rotate_right(g, 30) + h
    return _farm_join(first & _MASK, e + _rotate_right(f + a, 18) + g & _MASK, factor)


def _farm_weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Two words of 32 bytes and two seeds."""
    w, x, y, z = (_word(data, at + 8 * i) for i in range(4))
    a += w
    b = _rotate_right(b + a + z, 21)
    c = a
    a += x + y
    return a + z & _MASK, b + _rotate_right(a, 44) + c & _MASK


def _farm_long(data: bytes) -> int:
    size = len(data)
    x, y = 81 * _K2 + _word(data, 0), 81 * _K1 + 113
    z = _fold(y * _K2 + 113) * _K2
    v = w = (0, 0)
    last = (size - 1) // 64 * 64
    for at in range(0, last, 64):
        x, y, z, v, w = _farm_round(data, at, (x, y, z, v, w), _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    w = w[0] + (size - 1 & 63), w[1]
    v = v[0] + w[0], v[1]
    w = w[0] + v[0], w[1]
    x, y, z, v, w = _farm_round(data, size - 64, (x, y, z, v, w), factor, 9)
    first = _farm_join(v[0], w[0], factor) + _fold(y) * _K0 + z
    return _farm_join(first & _MASK, _farm_join(v[1], w[1], factor) + x & _MASK, factor)


def _farm_round(data: bytes, at: int, state: Any, factor: int, weight: int) -> Any:
    """Mix in 64 bytes; `weight` is that of the last round, or 1."""
    x, y, z, v, w = state
    x = _rotate_right(x + y + v[0] + _word(data, at + 8), 37) * factor
    y = _rotate_right(y + v[1] + _word(data, at + 48), 42) * factor
    x = (x ^ w[1] * weight) & _MASK
    y = y + v[0] * weight + _word(data, at + 40) & _MASK
    z = _rotate_right(z + w[0], 33) * factor & _MASK
    v = _farm_weak(data, at, v[1] * factor, x + w[0])
    w = _farm_weak(data, at + 32, z + w[1], y + _word(data, at + 16))
    return z, y, x, v, w


# -- MurmurHash64A, by Austin Appleby ------------------------------------------------


def murmur64a(data: bytes, seed: int) -> int:
    """MurmurHash64A, the variant of MurmurHash2 for 64-bit machines."""
    factor = 0xC6A4A7935BD1E995
    whole = len(data) // 8 * 8
    h = seed ^ len(data) * factor & _MASK
    for at in range(0, whole, 8):
        h = (h ^ _fold(_word(data, at) * factor) * factor & _MASK) * factor & _MASK
    if data[whole:]:
        h = (h ^ _word(data, whole)) * factor
    return _fold(_fold(h) * factor)


# -- SipHash-2-4, by Aumasson and Bernstein ------------------------------------------


def siphash24(data: bytes, low: int, high: int) -> int:
    """SipHash-2-4: a keyed hash."""
    v = [
        low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261, high ^ 0x7465646279746573,
    ]  # fmt: skip
    whole = len(data) // 8 * 8
    words = [_word(data, at) for at in range(0, whole, 8)]
    for word in (*words, _word(data, whole) | (len(data) & 0xFF) << 56):
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False),
                                 (0, 3, 21, False), (2, 1, 17, True)):  # fmt: skip
            v[a] = v[a] + v[b] & _MASK
            v[b] = _rotate_right(v[b], 64 - turn) ^ v[a]
            if half:
                v[a] = _rotate_right(v[a], 32)


_FUNCTIONS: Final[dict[str, Any]] = {
    "farmhash64": farmhash64, "murmur64a": murmur64a, "siphash24": siphash24,
}  # fmt: skip


# -- samples -------------------------------------------------------------------------


@string_hash.samples
def _() -> Samples:
    # of BigQuery's documentation of FARM_FINGERPRINT, and of FarmHash's empty string
    words = string_array(["1footrue", "2applefalse", "3true", ""], (2, 2))
    expected = [-1541654101129638711, 2794438866806483259, -4880158226897771312]
    y = np.array([*(n % 2**64 for n in expected), _K2], "uint64").reshape(2, 2)
    yield Sample((words,), y)
    # the vectors of the paper and of the reference program, with the key 00 01 .. 0f
    key = tuple(_word(bytes(range(16)), at) for at in (0, 8))
    texts = ["".join(map(chr, range(n))) for n in (15, 0, 1, 8)]
    y = np.array([0xA129CA6149BE45E5, 0x726FDB47DD0E0E31, 0x74F839C593DC67FD,
                  0x93F5F5799A932462], "uint64")  # fmt: skip
    attrs: dict[str, Any] = {"algorithm": "siphash24", "key": key}
    yield Sample((string_array(texts, (4,)),), y, attrs)
    empty = np.empty((0, 2), object)
    yield Sample((empty,), np.empty((0, 2), "uint64"))
