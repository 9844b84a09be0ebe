"""Attention heads as an axis of their own, and side by side in the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import dims_equal
from amanda_onnx.mapping.static_values import dim_at, expect_small
from amanda_std import ops
from amanda_std.mappings import expect

__all__ = ["merge_heads", "repeat_heads", "split_heads"]


def split_heads(x: Any, count: int) -> Any:
    """[batch, length, heads * depth] as [batch, heads, length, depth]."""
    split = ops.reshape(x, [0, 0, count, -1], copy_zero=True)
    return ops.transpose(split, perm=(0, 2, 1, 3))


def merge_heads(y: Any) -> Any:
    """[batch, heads, length, depth] as [batch, length, heads * depth]."""
    transposed = ops.transpose(y, perm=(0, 2, 1, 3))
    return ops.reshape(transposed, [0, 0, -1], copy_zero=True)


def repeat_heads(x: Any, q: Any) -> Any:
    """Keys or values repeated for the query heads that share them (grouped-query)."""
    have, want = dim_at(x, 1), dim_at(q, 1, "q")
    if dims_equal(have, want) is True:
        return x
    is_static = isinstance(have, int) and isinstance(want, int)
    divides = is_static and have and want % have == 0
    expect(divides, f"{want} query heads cannot share {have} heads evenly")
    expect_small((want,), "an index of query heads")
    return ops.gather(x, np.arange(want) // (want // have), 1)
