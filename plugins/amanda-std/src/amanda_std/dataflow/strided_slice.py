"""Python's slices with masks for `...`, `newaxis`, integers and open ends."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.hub.mapping_values import (
    known_content,
    known_scalar,
    rank_of,
    required_content,
)

__all__ = ["strided_slice"]

_END: Final = 2**63 - 1


def strided_slice(
    x: Any, begin: Any, end: Any, strides: Any, *, begin_mask: int = 0,
    end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Any:  # fmt: skip
    """Python's x[begin:end:strides], with masks for `...`, `newaxis` and integers.

    Each of the three is a list or a vector.
    """
    plan = _SlicePlan.of(
        x, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
        ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
    )  # fmt: skip
    y = plan.slice(x)
    if plan.shrunk:
        y = ops.squeeze(y, plan.shrunk)
    return ops.expand_dims(y, plan.inserted) if plan.inserted else y


class _SlicePlan:
    """A strided slice without masks: starts, stops and steps of some axes."""

    def __init__(self) -> None:
        self.axes: list[int] = []
        self.starts: list[Any] = []
        self.stops: list[Any] = []
        self.steps: list[int] = []
        self.shrunk: list[int] = []
        """Axes of the sliced tensor that an integer index removes."""
        self.inserted: list[int] = []
        """Axes of the result that newaxis inserts."""

    @classmethod
    def of(
        cls, x: Any, begin: Any, end: Any, strides: Any, *, begin_mask: int,
        end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
    ) -> _SlicePlan:  # fmt: skip
        starts, stops, count = _items_of(begin), _items_of(end), _length_of(begin)
        is_list = isinstance(strides, list)
        steps = strides if is_list else required_content(strides, "strides")
        plan, axis, out = cls(), 0, 0
        explicit = [
            i for i in range(count)
            if not (ellipsis_mask | new_axis_mask) >> i & 1
        ]  # fmt: skip
        for i in range(count):
            if ellipsis_mask >> i & 1:
                skipped = rank_of(x) - len(explicit)
                axis, out = axis + skipped, out + skipped
            elif new_axis_mask >> i & 1:
                plan.inserted.append(out)
                out += 1
            else:
                shrinks = bool(shrink_axis_mask >> i & 1)
                plan.add(
                    axis, starts(i), stops(i), steps[i], shrinks=shrinks,
                    no_start=bool(begin_mask >> i & 1), no_stop=bool(end_mask >> i & 1),
                )  # fmt: skip
                axis, out = axis + 1, out + (not shrinks)
        return plan

    def add(
        self, axis: int, start: Any, stop: Any, step: int, *, shrinks: bool,
        no_start: bool, no_stop: bool,
    ) -> None:  # fmt: skip
        """Add the slice of one axis."""
        if shrinks:
            start = 0 if no_start else start
            self.shrunk.append(axis)
            stop, step = _stop_after(start), 1
        else:
            if no_start:
                start = 0 if step > 0 else _END
            if no_stop:
                stop = _END if step > 0 else -_END
        ends = start, stop
        if all(isinstance(n, int) for n in ends) and (*ends, step) == (0, _END, 1):
            return
        self.axes.append(axis)
        self.starts.append(start)
        self.stops.append(stop)
        self.steps.append(step)

    def slice(self, x: Any) -> Any:
        """The slice, before axes are removed and inserted."""
        if not self.axes:
            return x
        starts, stops = _shape_argument(self.starts), _shape_argument(self.stops)
        return ops.slice_(x, starts, stops, self.axes, self.steps)


def _stop_after(start: Any) -> Any:
    if isinstance(start, int):
        return start + 1 if start != -1 else _END
    end = ops.equal(start, np.int64(-1))
    return ops.where(end, np.int64(_END), start + np.int64(1))


def _length_of(value: Any) -> int:
    if isinstance(value, list):
        return len(value)
    size = value.type.shape.dims[0] if rank_of(value) == 1 else None
    if not isinstance(size, int):
        raise Decline("the number of sliced axes is not static")
    return size


def _items_of(value: Any) -> Any:
    """The elements of a vector by index: numbers where they are known."""
    found = value if isinstance(value, list) else known_content(value)
    if found is not None:
        return found.__getitem__

    def item(i: int) -> Any:
        one = ops.reshape(ops.slice_(value, [i], [i + 1]), [])
        number = known_scalar(one)
        return ops.astype(one, dtype="int64") if number is None else number

    return item


def _shape_argument(items: list[Any]) -> Any:
    """A list of numbers, or a vector where some are values."""
    if all(isinstance(item, int) for item in items):
        return items
    return _static_or_value(items)


def _static_or_value(items: list[Any]) -> Any:
    """A vector of int64 of numbers and scalars."""
    parts = [np.int64(item) if isinstance(item, int) else item for item in items]
    return ops.stack(*parts)
