"""What mapping functions know of values, and small helpers that build ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.types import Sym
from amanda_std import ops

__all__ = [
    "cast_to",
    "expect",
    "known_content",
    "known_integer",
    "known_or_value",
    "known_scalar",
    "rank_of",
    "required_content",
]

MAX_ELEMENTS = 1 << 12
"""The most elements of a constant whose content functions read."""


def expect(condition: object, why: str) -> None:
    """Raise Decline unless a condition holds."""
    if not condition:
        raise Decline(why)


def known_content(value: Any) -> Any:
    """The elements of a value as numbers and lists; None where they are unknown."""
    tensor = constant_of(value.port)
    if tensor is not None:
        return tensor.tolist() if tensor.size <= MAX_ELEMENTS else None
    found = value.type
    if found.elements is None or any(isinstance(d, Sym) for d in found.elements):
        return None
    return np.array(found.elements).reshape([int(d) for d in found.shape]).tolist()


def required_content(value: Any, what: str) -> Any:
    """The elements of a value; Decline where they are known at run time only."""
    found = known_content(value)
    expect(found is not None, f"{what} is not constant")
    return found


def known_scalar(value: Any) -> Any:
    """The number of a value of one element; None where it is unknown."""
    found = known_content(value)
    return None if found is None else np.asarray(found).reshape(()).item()


def known_integer(value: Any, what: str) -> int:
    """The integer of a value of one element; Decline where it is unknown."""
    found = known_scalar(value)
    expect(found is not None, f"{what} is not constant")
    return int(found)


def known_or_value(value: Any) -> Any:
    """A shape argument: its numbers where they are known, else the value."""
    found = known_content(value)
    return value if found is None else found


def rank_of(value: Any) -> int:
    """The rank of a value; Undecided where it is not known."""
    return int(value.type.shape.rank)


def cast_to(value: Any, dtype: Any) -> Any:
    """A value of a dtype, cast only where it has another."""
    return value if value.dtype == dtype else ops.astype(value, dtype=dtype)
