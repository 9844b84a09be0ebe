"""What mapping functions know of values, and small helpers that build ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType, Sym, TensorType
from amanda_onnx.format.element_types import DTYPES
from amanda_std import ops

__all__ = [
    "MAX_ELEMENTS",
    "axis_of",
    "cast_to",
    "dim_at",
    "expect_rank",
    "expect_small",
    "known_integer",
    "known_scalar",
    "one_item",
    "known_content",
    "static_dims",
    "tensor_type_of",
    "dtype_of",
    "expect",
    "to_scalar",
    "known_or_value",
    "pairs_of",
    "rank_of",
    "scalar_of_one",
]

MAX_ELEMENTS = 1 << 12
"""The most elements of a constant whose content functions read."""
_LARGEST_MADE = 1 << 22
"""The most elements of a constant that functions make."""


def known_content(value: Any) -> Any:
    """The elements of a value as numbers and lists; None where they are unknown."""
    tensor = constant_of(value.port)
    if tensor is not None:
        return tensor.tolist() if tensor.size <= MAX_ELEMENTS else None
    found = tensor_type_of(value)
    if found.elements is None or any(isinstance(d, Sym) for d in found.elements):
        return None
    return np.array(found.elements).reshape([int(d) for d in found.shape]).tolist()


def known_scalar(value: Any) -> Any:
    """The number of a value of one element; None where it is unknown."""
    found = known_content(value)
    return None if found is None else one_item(found)


def known_integer(value: Any) -> int | None:
    """The whole number of a value of one element; None where it is unknown."""
    found = known_scalar(value)
    if found is None:
        return None
    whole = not isinstance(found, float) or found.is_integer()
    is_number = isinstance(found, bool | int | float)
    expect(whole and is_number, f"{found} is no whole number")
    return int(found)


def one_item(found: Any) -> Any:
    """The only item of an array, a Tensor or nested lists; Decline for others."""
    array = np.asarray(found.numpy() if isinstance(found, Tensor) else found)
    expect(array.size == 1, f"one element expected, got {array.size}")
    return array.reshape(()).item()


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


def known_or_value(value: Any) -> Any:
    """A shape argument: its numbers where they are known, else the value."""
    if value is None:
        return None
    found = known_content(value)
    return value if found is None else found


def static_dims(value: Any) -> list[int]:
    """The dims of a value; Decline where one is not static."""
    shape = tensor_type_of(value).shape
    if not shape.is_static:
        raise Decline("a dim decides that is known at run time only", got=shape)
    return [int(d) for d in shape]


def rank_of(value: Any) -> int:
    """The rank of a value; Undecided where it is not known."""
    return int(tensor_type_of(value).shape.rank)


def tensor_type_of(value: Any) -> Any:
    """The `TensorType` of a value; Decline for a container, and where there is none."""
    found = value.type
    if not isinstance(found, TensorType):
        raise Decline("a tensor is expected", got=found)
    return found


def dtype_of(code: int) -> DType:
    """The element type of a number in ONNX's enumeration."""
    expect(code in DTYPES, f"there is no element type {code}")
    return DTYPES[code]


def expect(condition: object, why: str) -> None:
    """Raise Decline unless a condition holds."""
    if not condition:
        raise Decline(why)


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


def cast_to(value: Any, dtype: Any) -> Any:
    """A value of a dtype, cast only where it has another; None where it is absent."""
    same = value is None or value.dtype == dtype
    return value if same else ops.astype(value, dtype=dtype)
