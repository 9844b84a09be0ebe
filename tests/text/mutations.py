"""Broken texts made from good ones: the mutations of the fuzz tests."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

__all__ = ["mutated"]

_TOKEN = re.compile(rb"[A-Za-z0-9_.]+|\s+|.", re.DOTALL)
_WORD = re.compile(rb"[A-Za-z0-9_./^-]+")
_SPLICES = [
    *(bytes([char]) for char in b"{}[]()\"'\\:-#%$\n\t\x00\xff"),
    b"->", b"^^^^", b"...", b"---\n", b"? ", b"| ", b"> ", b"<<: ", b"../../", b"%0",
    b"&a", b"*a", b"!x", b"!!python/object:os.system", b"\\ud800", b"null", b"true",
    b"1e999", b"-1", b"0x1F", b"1" * 5000, b"99999999999999999999", b"nan", b"$0",
    b"[" * 3000, b"{a: " * 300, b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"graph: 0", b"up: 3",
    b'{"$tensor": 1}', b"!tensor {}", b"!shape [a, -1]", b"output_ports: 1000000000000",
    b"tensor<float32[9999999999]>(splat 0)", b"{dtype: int8, shape: [99999], data: A}",
]  # fmt: skip


def mutated(good: list[bytes], random: random.Random) -> bytes:
    """One of the texts with one to three things wrong."""
    data = random.choice(good)
    for _ in range(random.randint(1, 3)):
        data = random.choice(_WAYS)(data, good, random)
    return data


def _flip(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _truncate(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _cut(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + data[at + random.randint(1, 40) :]


def _splice(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    at = random.randint(0, len(data))
    other = random.choice(good)
    start = random.randint(0, len(other))
    return data[:at] + other[start : start + random.randint(1, 80)] + data[at:]


def _insert(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(_SPLICES) + data[at:]


def _swap(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    """Two tokens change places, or one takes the place of the other."""
    tokens = _TOKEN.findall(data)
    if len(tokens) < 2:
        return data
    i, j = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[i], tokens[j] = tokens[j], random.choice([tokens[i], tokens[j]])
    return b"".join(tokens)


def _replace(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    tokens = _TOKEN.findall(data)
    if not tokens:
        return data
    tokens[random.randrange(len(tokens))] = random.choice(_SPLICES)
    return b"".join(tokens)


def _graft(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    """A word or number becomes one of another text."""
    words = list(_WORD.finditer(data))
    others = _WORD.findall(random.choice(good))
    if not words or not others:
        return data
    at = random.choice(words)
    return data[: at.start()] + random.choice(others) + data[at.end() :]


def _lines(data: bytes, good: list[bytes], random: random.Random) -> bytes:
    """A line goes, comes twice, or moves."""
    lines = data.split(b"\n")
    i, j = random.randrange(len(lines)), random.randrange(len(lines))
    line = lines.pop(i)
    return b"\n".join(lines[:j] + [line] * random.randint(0, 2) + lines[j:])


_WAYS: list[Callable[[bytes, list[bytes], random.Random], bytes]] = [
    _flip, _truncate, _cut, _splice, _insert, _swap, _replace, _lines, _graft, _graft,
]  # fmt: skip
