"""Where an axis is after the shape of a value changes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from amanda.types import Dim

__all__ = ["AxisChange", "follow_axis"]


class AxisChange(NamedTuple):
    """The axis that the elements of another one are along after a change of shape.

    - `outer`, `inner`: axes before and after it that are merged with it: the new axis
      has the elements of the old one, `inner` times each, `outer` times in turn
    - `split`: the elements of the old axis that are at one place of the new one; the
      others are along later axes
    """

    axis: int
    outer: int = 1
    inner: int = 1
    split: int = 1


def follow_axis(
    before: Sequence[Dim], after: Sequence[Dim], axis: int
) -> AxisChange | None:
    """Where an axis of a shape is in another shape of the same elements.

    None where it is merged with one axis and split into others, or sizes are symbolic
    that would have to be known."""
    first = _equal_sizes(before, after)
    last = _equal_sizes(before[first:][::-1], after[first:][::-1])
    if axis < first:
        return AxisChange(axis)
    if axis >= len(before) - last:
        return AxisChange(axis + len(after) - len(before))
    old = before[first : len(before) - last]
    new = after[first : len(after) - last]
    place = axis - first
    filled = [index for index, dim in enumerate(new) if dim != 1]
    if len(filled) == 1:
        outer, inner = old[:place], old[place + 1 :]
        if all(isinstance(dim, int) for dim in (*outer, *inner)):
            return AxisChange(first + filled[0], _product(outer), _product(inner))
    if all(dim == 1 for dim in (*old[:place], *old[place + 1 :])) and filled:
        rest = new[filled[0] + 1 :]
        if all(isinstance(dim, int) for dim in rest):
            return AxisChange(first + filled[0], split=_product(rest))
    return None


def _equal_sizes(one: Sequence[Dim], other: Sequence[Dim]) -> int:
    """The number of equal sizes at the beginning of two shapes."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _product(dims: Sequence[Dim]) -> int:
    return prod(dim for dim in dims if isinstance(dim, int))
