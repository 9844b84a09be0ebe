"""Axes, sizes and lists of sizes, some of which may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of
from amanda_torch.mapping.type_promotion import INT, SymbolicNumber

__all__ = [
    "END",
    "axes_of",
    "axis_of",
    "count_up",
    "dims_of",
    "equal_pairs",
    "integer",
    "larger",
    "last_axes",
    "scalar",
    "shape_argument",
    "smaller",
    "spatial",
]

END = 2**63 - 1
"""A stop beyond the end of every axis."""


def axis_of(dim: int, x: Any, more: int = 0) -> int:
    """An axis, counted from the first one; `more` axes are inserted."""
    rank = max(rank_of(x) + more, 1)
    return dim % rank


def axes_of(dim: Any, x: Any) -> list[int]:
    """Axes counted from the first; all for None and for an empty list."""
    rank = rank_of(x)
    if dim is None or dim == []:
        return list(range(rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return sorted({d % rank for d in dims}) if rank else []


def last_axes(count: int) -> list[int]:
    return list(range(-count, 0))


def dims_of(x: Any) -> tuple[Any, ...]:
    """The dims of a value: numbers, and values where they are known at run time.

    They are for arithmetic: `dims_of(x)[0] // 2` is a number or a value as well.
    """
    return tuple(x.shape)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two sizes, each a number or a value."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return ops.minimum(scalar(a), scalar(b))


def larger(a: Any, b: Any) -> Any:
    """The larger of two sizes, each a number or a value."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return ops.maximum(scalar(a), scalar(b))


def count_up(start: Any, stop: Any) -> Any:
    """The integers from one size up to another one: an array where both are numbers."""
    if isinstance(start, int) and isinstance(stop, int):
        return np.arange(start, stop, dtype="int64")
    return ops.arange(start, stop)


def integer(value: Any, what: str) -> int:
    """An argument that must be a number."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise Decline(f"{what} is known at run time only")


def scalar(item: Any) -> Any:
    """A size as an int64 scalar."""
    if isinstance(item, SymbolicNumber):
        item = item.value
    return np.int64(item) if isinstance(item, int) else cast_to(item, INT)


def shape_argument(items: Sequence[Any]) -> Any:
    """Sizes as a list of numbers, or as a vector where some are values."""
    if all(isinstance(item, int) for item in items):
        return list(items)
    return ops.stack(*[scalar(item) for item in items])


def spatial(value: Any, count: int) -> tuple[Any, ...]:
    """One item for each spatial axis; a single one is for all of them."""
    items = (value,) if isinstance(value, int) else tuple(value)
    return items * count if len(items) == 1 else items


def equal_pairs(padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """The same padding at both ends of each spatial axis."""
    return tuple((p, p) for p in spatial(padding, count))
