"""From TensorFlow: axes, orders and blocks that are computed at run time.

A tensor is reshaped to [before, axis, after], by sizes that are computed, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import (
    expect,
    known_or_value,
    one_item,
    rank_of,
    required_content,
)

__all__ = [
    "batch_to_space_by_block",
    "concat_along",
    "content_or_none",
    "gather_along",
    "integer_or_none",
    "max_pool_by_window",
    "space_to_batch_by_block",
    "split_along",
]

_ONE = np.int64(1)


def content_or_none(value: Any) -> Any:
    """The elements of a `Value`; None where they are known at run time only."""
    try:
        return required_content(value, "an argument")
    except Decline:
        return None


def integer_or_none(value: Any) -> int | None:
    """The integer of a `Value`; None where it is known at run time only."""
    found = content_or_none(value)
    return None if found is None else int(one_item(found))


class _Axis:
    """An axis of tensors of a rank, as a scalar that is computed."""

    def __init__(self, axis: Any, rank: int) -> None:
        self.rank = rank
        wide = ops.reshape(ops.astype(axis, dtype="int64"), [])
        self.at = ops.remainder(wide, np.int64(rank))
        self.numbers = np.arange(rank)

    def fold(self, x: Any) -> Any:
        """The tensor as [before, axis, after]."""
        shape = ops.shape_of(x)
        here = ops.equal(self.numbers, self.at)
        sizes = (
            ops.prod(ops.where(ops.less(self.numbers, self.at), shape, _ONE)),
            ops.sum(ops.where(here, shape, np.int64(0))),
            ops.prod(ops.where(ops.greater(self.numbers, self.at), shape, _ONE)),
        )
        return ops.reshape(x, ops.stack(*sizes))

    def unfold(self, folded: Any, like: Any) -> Any:
        """From [before, axis, after] to the shape of a tensor, but for the axis."""
        size = ops.gather(ops.shape_of(folded), np.int64(1))
        here = ops.equal(self.numbers, self.at)
        return ops.reshape(folded, ops.where(here, size, ops.shape_of(like)))


def concat_along(axis: Any, parts: Sequence[Any]) -> Any:
    """Tensors joined along an axis that is computed."""
    along = _Axis(axis, rank_of(parts[0]))
    joined = ops.concat(*(along.fold(part) for part in parts), axis=1)
    return along.unfold(joined, parts[0])


def split_along(x: Any, axis: Any, sizes: Any = None, *, outputs: int) -> Any:
    """Parts of a tensor along an axis that is computed."""
    along = _Axis(axis, rank_of(x))
    parts = ops.split(along.fold(x), sizes, axis=1, outputs=outputs)
    return tuple(along.unfold(part, x) for part in parts)


def gather_along(x: Any, indices: Any, axis: Any) -> Any:
    """Slices at indices along an axis that is computed."""
    rank, inner = rank_of(x), rank_of(indices)
    along = _Axis(axis, rank)
    found = ops.gather(along.fold(x), indices, axis=1)
    number = np.arange(rank - 1 + inner)
    behind = ops.where(
        ops.less(number, along.at + np.int64(inner)),
        number - along.at + np.int64(rank),
        number - np.int64(inner) + _ONE,
    )
    places = ops.where(ops.less(number, along.at), number, behind)
    both = ops.concat(ops.shape_of(x), ops.shape_of(indices), axis=0)
    return ops.reshape(found, ops.gather(both, places))


def _blocks(x: Any, block: Any) -> tuple[int, int, Any]:
    """The number of blocked axes, that of the others, and the block in int64."""
    count = block.type.shape.dims[0]
    expect(isinstance(count, int), "the number of blocked axes is not static")
    return count, rank_of(x) - count - 1, ops.astype(block, dtype="int64")


def space_to_batch_by_block(x: Any, block: Any, pads: Any) -> Any:
    """Blocks of computed sizes, moved to the batch."""
    count, rest, block = _blocks(x, block)
    spatial = list(range(1, count + 1))
    x = ops.pad(x, known_or_value(pads), None, spatial)
    shape = ops.shape_of(x)
    first, sizes = ops.slice_(shape, [0], [1]), ops.slice_(shape, [1], [count + 1])
    last = ops.slice_(shape, [count + 1], [count + 1 + rest])
    sizes = ops.floor_divide(sizes, block)
    inner = ops.reshape(ops.stack(sizes, block, axis=1), [-1])
    y = ops.reshape(x, ops.concat(first, inner, last, axis=0))
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2)]
    y = ops.transpose(y, perm=(*perm, *range(2 * count + 1, 2 * count + 1 + rest)))
    first = first * ops.prod(block)
    return ops.reshape(y, ops.concat(first, sizes, last, axis=0))


def batch_to_space_by_block(x: Any, block: Any, crops: Any) -> Any:
    """Blocks of computed sizes, moved out of the batch."""
    count, rest, block = _blocks(x, block)
    shape = ops.shape_of(x)
    first, sizes = ops.slice_(shape, [0], [1]), ops.slice_(shape, [1], [count + 1])
    last = ops.slice_(shape, [count + 1], [count + 1 + rest])
    first = ops.floor_divide(first, ops.prod(block))
    y = ops.reshape(x, ops.concat(block, first, sizes, last, axis=0))
    pairs = ((count + 1 + i, i) for i in range(count))
    perm = [count, *(axis for pair in pairs for axis in pair)]
    y = ops.transpose(y, perm=(*perm, *range(2 * count + 1, 2 * count + 1 + rest)))
    sizes = sizes * block
    y = ops.reshape(y, ops.concat(first, sizes, last, axis=0))
    both = ops.transpose(ops.astype(crops, dtype="int64"), perm=(1, 0))
    low, high = (ops.gather(both, np.int64(i), axis=0) for i in range(2))
    return ops.slice_(y, low, sizes - high, list(range(1, count + 1)))


def max_pool_by_window(x: Any, window: Any, strides: Any, padding: str) -> Any:
    """Maxima of windows of computed sizes, axis by axis."""
    expect(padding in ("SAME", "VALID"), f"padding={padding} is not supported")
    for axis in range(rank_of(x)):
        size = ops.gather(ops.shape_of(x), np.int64(axis))
        k, step = (
            ops.gather(ops.astype(v, dtype="int64"), np.int64(axis))
            for v in (window, strides)
        )
        low: Any = np.int64(0)
        room = size - k + step if padding == "VALID" else size + step - _ONE
        count = ops.floor_divide(room, step)
        if padding == "SAME":
            total = (count - _ONE) * step + k - size
            low = ops.floor_divide(ops.maximum(total, np.int64(0)), np.int64(2))
        first = ops.arange(0, count) * step - low
        at = ops.expand_dims(first, [1]) + ops.expand_dims(ops.arange(0, k), [0])
        inside = ops.minimum(ops.maximum(at, np.int64(0)), size - _ONE)
        x = ops.max(ops.gather(x, inside, axis=axis), [axis + 1])
    return x
