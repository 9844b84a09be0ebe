"""What mapping functions know of values, and small helpers that build ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_onnx.format.element_types import DTYPES
from amanda_std import ops
from amanda_std.mappings import expect, known_scalar, rank_of, tensor_type_of

__all__ = [
    "axis_of",
    "dim_at",
    "expect_rank",
    "expect_small",
    "float32_scalar",
    "known_integer",
    "static_dims",
    "dtype_of",
    "to_scalar",
    "pairs_of",
    "scalar_of_one",
]

_LARGEST_MADE = 1 << 22
"""The most elements of a constant that functions make."""


def float32_scalar(number: float) -> Any:
    """A number as a scalar of numpy; infinite where float32 cannot hold it."""
    with np.errstate(over="ignore"):
        return np.float32(number)


def known_integer(value: Any) -> int | None:
    """The whole number of a value of one element; None where it is unknown."""
    found = known_scalar(value)
    if found is None:
        return None
    whole = not isinstance(found, float) or found.is_integer()
    is_number = isinstance(found, bool | int | float)
    expect(whole and is_number, f"{found} is no whole number")
    return int(found)


def expect_small(shape: Sequence[int], what: str) -> None:
    """Raise Decline for a constant of a declared shape that is too large to make."""
    count = math.prod(shape)
    few = f"at most {_LARGEST_MADE:,} elements expected"
    expect(count <= _LARGEST_MADE, f"{what} of {count:,} elements; {few}")


def dim_at(value: Any, axis: int, what: str = "input") -> Any:
    """The dim of an axis; Decline where there is no such axis."""
    dims = tensor_type_of(value).shape.dims
    enough = -len(dims) <= axis < len(dims)
    expect(enough, f"{what} has {len(dims)} axes, so there is no axis {axis}")
    return dims[axis]


def expect_rank(value: Any, rank: int, what: str) -> None:
    """Raise Decline unless a value has this rank."""
    own = rank_of(value)
    expect(own == rank, f"{what} has rank {own}, expected {rank}")


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the first one; Decline where there is none."""
    expect(-rank <= axis < rank, f"axis={axis}: {-rank} to {rank - 1} expected")
    return axis % rank


def static_dims(value: Any) -> list[int]:
    """The dims of a value; Decline where one is not static."""
    shape = tensor_type_of(value).shape
    if not shape.is_static:
        raise Decline("a dim decides that is known at run time only", got=shape)
    return [int(d) for d in shape]


def dtype_of(code: int) -> DType:
    """The element type of a number in ONNX's enumeration."""
    expect(code in DTYPES, f"there is no element type {code}")
    return DTYPES[code]


def pairs_of(pads: Any, name: str = "pads") -> list[list[Any]]:
    """A pair for each axis, from a list with all begins, then all ends."""
    expect(isinstance(pads, list | tuple), f"{name} is no list")
    half = len(pads) // 2
    expect(
        len(pads) == 2 * half,
        f"{name}={list(pads)}: a begin and an end for each axis expected, "
        f"got {len(pads)} numbers",
    )
    return [[b, e] for b, e in zip(pads[:half], pads[half:], strict=True)]


def to_scalar(value: Any) -> Any:
    """A value of one element as a scalar."""
    return ops.reshape(value, [])


def scalar_of_one(value: Any) -> Any:
    """A vector of one element as a scalar; anything else unchanged."""
    if value is not None and tensor_type_of(value).shape.dims == (1,):
        return ops.reshape(value, [])
    return value
