"""Hashes of tensor content: a Merkle tree over blocks of fixed length.

In a tree, a splat is hashed in time logarithmic in its size, since equal subtrees are
hashed once. So a small file with a huge splat cannot cause long computations.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from amanda.tensors.packing import PERIOD

__all__ = ["BLOCK", "hash_blocks", "hash_repeated", "tensor_digest"]

BLOCK: Final = PERIOD << 14  # 768 KiB
_LENGTH: Final = 32


def hash_blocks(blocks: Iterable[memoryview | bytes]) -> bytes:
    """The root hash of blocks, all of `BLOCK` bytes but the last."""
    level = [_leaf(block) for block in blocks]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[-1:] if len(level) % 2 else []
        level = [_node(a, b) for a, b in pairs] + odd
    return level[0] if level else b""


def hash_repeated(block: bytes, times: int, last: bytes) -> bytes:
    """Equal to `hash_blocks` of `times` equal blocks and a shorter `last`, if any."""
    same = _leaf(block) if times else b""
    tail = _leaf(last) if last else None
    while times + (tail is not None) > 1:
        if times % 2:
            tail = same if tail is None else _node(same, tail)
        times //= 2
        same = _node(same, same)
    return same if tail is None else tail


def tensor_digest(what: str, content: bytes) -> str:
    """The digest of a tensor: its type and the root hash of its content."""
    state = blake2b(content, digest_size=_LENGTH, person=b"amanda tensor")
    state.update(what.encode())
    return state.hexdigest()


def _leaf(block: memoryview | bytes) -> bytes:
    return blake2b(block, digest_size=_LENGTH, person=b"amanda block").digest()


def _node(left: bytes, right: bytes) -> bytes:
    return blake2b(left + right, digest_size=_LENGTH, person=b"amanda node").digest()
