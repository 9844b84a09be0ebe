"""Indexing as ops: `x[1:, ..., None]` as numpy does it, or a helpful error.

Slices and integers become one `slice`; `squeeze` removes axes of integers, and
`expand_dims` adds new ones. An integer array becomes `gather`, several become
`gather_nd`, and a boolean mask becomes `compress`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import Dim
from amanda_std.engine.links import find_operation

__all__ = ["subscript"]

_END: Final = 2**63 - 1
"""A stop value: the end of an axis of any length."""

_WHOLE: Final = slice(None)


def subscript(x: Any, key: Any) -> Any:
    """`x[key]`, with numpy's basic and single-block advanced indexing."""
    items = _per_axis(x, key if isinstance(key, tuple) else (key,))
    axes = [item for item in items if item is not None]
    arrays = {
        i: _check_index_dtype(item) for i, item in enumerate(axes) if _is_array(item)
    }
    _expect_adjacent(x, items, arrays)
    numbers = [i for i, item in enumerate(axes) if _is_number(item)]
    y = _apply_slices(x, axes, numbers)
    y, found = _apply_gather(x, y, arrays)
    taken = sum(_axes_of(arrays[i]) for i in arrays)
    if numbers:
        shift = found - taken
        y = find_operation("squeeze")(
            y, tuple(i + shift * _is_after(i, arrays) for i in numbers)
        )
    return _insert_new_axes(y, items, arrays, found)


def _per_axis(x: Any, key: Sequence[Any]) -> list[Any]:
    """One item per axis; None stands for a new axis, as in numpy."""
    items: list[Any] = [_normalize_item(item) for item in key]
    rank = x.ndim
    used = sum(_axes_of(item) for item in items if item is not ...)
    dots = [i for i, item in enumerate(items) if item is ...]
    if len(dots) > 1:
        raise UsageError("a subscript has one ... at most", got=_format_key(key))
    if used > rank:
        raise InvalidTypeError(
            f"there are {used} subscripts for {rank} axes",
            who=_format_key(key), expected=f"at most {rank}", got=x.type,
        )  # fmt: skip
    if any(_axes_of(i) > 1 for i in items) and not used == rank == items[0].ndim:
        raise UsageError(
            "bools choose along one axis, or among all elements",
            expected=f"1 or {rank} axes, and nothing beside them", got=_format_key(key),
        )  # fmt: skip
    at = dots[0] if dots else len(items)
    return [*items[:at], *[_WHOLE] * (rank - used), *items[at + 1 :]]


def _format_key(key: Sequence[Any]) -> str:
    parts = [
        "..." if item is ... else _slice_text(item) if isinstance(item, slice)
        else str(item.type) if hasattr(item, "type") else repr(item)
        for item in key
    ]  # fmt: skip
    return f"[{', '.join(parts)}]"


def _slice_text(item: slice) -> str:
    parts = ["" if part is None else str(part) for part in (item.start, item.stop)]
    return ":".join(parts if item.step is None else [*parts, str(item.step)])


def _normalize_item(item: Any) -> Any:
    """A list of indices as an array; other items unchanged."""
    if isinstance(item, list):
        import numpy as np

        return np.asarray(item, None if item else "int64")
    if isinstance(item, bool):
        raise UsageError(
            "a Python bool is no subscript",
            got=item,
            hint="use None for a new axis, or a tensor of bools for a choice",
        )
    if hasattr(item, "tolist") and item.shape == ():
        return item.tolist()  # a number that is known now
    return item


def _axes_of(item: Any) -> int:
    """How many axes of the tensor an item indexes."""
    if item is None:
        return 0
    return int(item.ndim) if _is_mask(item) else 1


def _is_array(item: Any) -> bool:
    """Whether an item is a tensor of indices, computed ones included."""
    return hasattr(item, "dtype")


def _is_number(item: Any) -> bool:
    return not isinstance(item, slice) and not _is_array(item)


def _is_mask(item: Any) -> bool:
    return _is_array(item) and getattr(item.dtype, "kind", "") in ("bool", "b")


def _check_index_dtype(item: Any) -> Any:
    kind = getattr(item.dtype, "kind", "")
    if kind not in ("int", "uint", "bool", "i", "u", "b"):
        raise InvalidTypeError(
            "a subscript holds integers, or bools", got=item.dtype,
            hint="convert it first: x.astype('int64')",
        )  # fmt: skip
    return item


def _expect_adjacent(x: Any, items: Sequence[Any], arrays: dict[int, Any]) -> None:
    """Refuse index arrays that are not adjacent, whose result numpy reorders."""
    at = [i for i, a in enumerate(items) if _is_array(a)]
    at += [i for i, a in enumerate(items) if a is not None and _is_number(a)]
    if len(at) < 2 or not arrays:
        return
    at.sort()
    near = at == list(range(at[0], at[0] + len(at)))
    masks = any(map(_is_mask, arrays.values()))
    if near and not masks and (len(arrays) == 1 or min(arrays) == 0):
        return
    raise UsageError(
        "these subscripts do not go together",
        who=f"a tensor {x.type}",
        expected="one tensor of places or bools; or several places, from the first "
        "axis on, side by side",
        hint="take one after the other: x[0][:, places]",
    )


def _apply_slices(x: Any, axes: Sequence[Any], numbers: Sequence[int]) -> Any:
    starts: list[Any] = []
    stops: list[Any] = []
    steps: list[Any] = []
    at: list[int] = []
    for i, item in enumerate(axes):
        if i in numbers:
            number = _check_index(item, x.type.shape.dims[i], i)
            row = (number, _END if number == -1 else number + 1, 1)
        elif not isinstance(item, slice) or item == _WHOLE:
            continue
        else:
            row = _slice_bounds(item)
        for column, value in zip((starts, stops, steps), row, strict=True):
            column.append(value)
        at.append(i)
    if not at:
        return x
    step_sizes = tuple(steps) if any(step != 1 for step in steps) else None
    return find_operation("slice")(x, starts, stops, tuple(at), step_sizes)


def _check_index(number: Any, dim: Dim, axis: int) -> int:
    if isinstance(number, type) or not hasattr(number, "__index__"):
        raise InvalidTypeError(
            "a subscript is an integer, a slice, None, ... or a tensor of places",
            got=f"{type(number).__name__} {number!r:.60}",
        )
    found = int(number.__index__())
    if isinstance(dim, int) and not -dim <= found < dim:
        raise InvalidTypeError(
            f"there is no place {found} along axis {axis}",
            expected=f"{-dim} to {dim - 1}" if dim else "an axis with elements",
            got=found,
        )
    return found


def _slice_bounds(item: slice) -> tuple[Any, Any, int]:
    """Start, stop and step of a slice, with defaults by its direction."""
    step = 1 if item.step is None else item.step.__index__()
    ends = (0, _END) if step > 0 else (_END, -_END)
    start = ends[0] if item.start is None else item.start
    return start, ends[1] if item.stop is None else item.stop, step


def _apply_gather(x: Any, y: Any, arrays: dict[int, Any]) -> tuple[Any, int]:
    """The gathered elements, and how many axes the indices have in the result."""
    if not arrays:
        return y, 0
    first, *rest = arrays
    item = arrays[first]
    dims = x.type.shape.dims
    if _is_mask(item):
        return find_operation("compress")(
            y, item, axis=first if item.ndim == 1 else None
        ), 1
    for axis, places in arrays.items():
        _expect_in_range(places, dims[axis], axis)
    if not rest:
        return find_operation("gather")(y, item, first), item.ndim
    whole = [
        find_operation("astype")(places, dtype="int64") for places in arrays.values()
    ]
    zero = whole[0] * 0
    for places in whole[1:]:
        zero = zero + places * 0
    at = find_operation("stack")(*(places + zero for places in whole), axis=-1)
    return find_operation("gather_nd")(y, at), zero.ndim


def _expect_in_range(places: Any, dim: Dim, axis: int) -> None:
    """Check indices known in Python against a static dim."""
    if isinstance(dim, int) and hasattr(places, "tolist") and places.size:
        _check_index(int(places.min()), dim, axis)
        _check_index(int(places.max()), dim, axis)


def _is_after(axis: int, arrays: dict[int, Any]) -> bool:
    return bool(arrays) and axis > min(arrays)


def _insert_new_axes(
    y: Any, items: Sequence[Any], arrays: dict[int, Any], found: int
) -> Any:
    """Insert the axes that None asks for."""
    if None not in [item if item is None else 0 for item in items]:
        return y
    at, new, axis, seen = 0, [], 0, False
    for item in items:
        if item is None:
            new.append(at)
            at += 1
            continue
        if axis in arrays:
            at += 0 if seen else found
            seen = True
        elif isinstance(item, slice):
            at += 1
        axis += 1
    return find_operation("expand_dims")(y, tuple(new))
