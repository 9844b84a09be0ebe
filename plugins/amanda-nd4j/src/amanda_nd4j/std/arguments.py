"""Arguments of nd4j's ops, which may be attributes or inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amanda.types import DType
from amanda_nd4j.lenses import TYPE_CODES
from amanda_std import ops
from amanda_std.mappings import (
    expect,
    known_content,
    known_scalar,
    required_content,
)

__all__ = [
    "HINTS",
    "as_integers",
    "axes_of",
    "axis_of",
    "dtype_of_code",
    "expect_no_other",
    "flag_of",
    "integer_of",
    "known_numbers",
    "number_of",
    "numbers_of",
    "one_of",
    "padding_of",
    "spatial_layout",
]

HINTS: Final = frozenset({"inPlace", "dataType", "dtype", "lock", "checkIndices"})
"""Attributes without a meaning of their own. `dataType`, or `dtype`, is the type of the
result, which follows from the inputs; functions read it where it does not."""
_NAMES: Final = {code: name for name, code in TYPE_CODES.items()}


def numbers_of(value: Any) -> list[int]:
    """An attribute as a list of integers: nd4j has one, or several in a row."""
    if value is None:
        return []
    items = value if isinstance(value, list | tuple) else [value]
    return [int(item) for item in items]


def known_numbers(value: Any, what: str) -> list[int]:
    """An input as a list of integers; Decline where they are known at run time."""
    return numbers_of(required_content(value, what))


def as_integers(value: Any) -> Any:
    """A shape argument; nd4j takes numbers of any type."""
    return value if value.dtype.kind in ("int", "uint") else ops.astype(
        value, dtype="int64")  # fmt: skip


def axes_of(axes: Any, dimensions: Any = None) -> Any:
    """The axes of a reduction, from an input or an attribute; None for all."""
    if axes is None:
        found = numbers_of(dimensions)
        is_all = not found or any(axis >= 2**31 - 1 for axis in found)
        return None if is_all else found
    content = known_content(axes)
    return ops.reshape(axes, [-1]) if content is None else numbers_of(content)


def axis_of(axis: Any, dimensions: Any, default: int | None = None) -> int:
    """One axis, from an input or an attribute."""
    found = numbers_of(dimensions)
    if axis is not None:
        found = known_numbers(axis, "an axis")
    if not found and default is not None:
        return default
    expect(len(found) == 1, f"one axis, not {found}")
    return found[0]


def one_of(attrs: Mapping[str, Any], *names: str) -> Any:
    """The first of several attributes that an op has; None for none of them."""
    expect_no_other(attrs, names)
    return next((attrs[n] for n in names if attrs.get(n) is not None), None)


def expect_no_other(attrs: Mapping[str, Any], names: Sequence[str]) -> None:
    """Decline attributes of an op that a function does not know."""
    others = [
        key for key, value in attrs.items()
        if value is not None and key not in names and key not in HINTS
    ]  # fmt: skip
    expect(not others, f"the attributes {', '.join(others)} are not covered")


def flag_of(*values: Any) -> bool:
    """A flag that nd4j has as a bool, as an integer, or not at all."""
    return any(bool(value) for value in values)


def number_of(value: Any, attribute: Any, like: Any, default: float) -> Any:
    """A scalar of the element type of another value, from an input or an attribute."""
    if value is not None:
        return ops.astype(ops.reshape(value, []), dtype=like.dtype)
    known = default if attribute is None else attribute
    return ops.number_like(like, value=known)


def integer_of(value: Any, attribute: Any, what: str) -> int:
    """An integer from an input or an attribute."""
    if value is None:
        return int(numbers_of(attribute)[0])
    found = known_scalar(value)
    expect(found is not None, f"{what} is known at run time only")
    return int(found)


def dtype_of_code(code: int) -> DType:
    """The element type of one of nd4j's numbers."""
    expect(code in _NAMES, f"{code} is no element type of nd4j")
    return DType(_NAMES[code])


def spatial_layout(is_channels_last: Any) -> str:
    """The layout of data: `isNCHW` of nd4j is 0 for NCHW, 1 for NHWC."""
    return "N*C" if is_channels_last else "NC*"


def padding_of(mode: Any, pads: Sequence[int]) -> Any:
    """A padding: `isSameMode` is 1 for the mode SAME, 0 for numbers."""
    expect(mode in (None, 0, 1, False, True), f"the padding mode {mode}")
    return "same_upper" if mode else [(int(p), int(p)) for p in pads]
