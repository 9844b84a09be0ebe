"""What mapping functions read of values: content, rank, element type.

Those that read a framework get `Value`s, those that write one get output ports; unless
noted, a function here takes either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import Sym, TensorType
from amanda_std.ops import find

__all__ = [
    "cast_to",
    "expect",
    "known_content",
    "known_or_value",
    "known_scalar",
    "one_item",
    "rank_of",
    "required_content",
    "required_integer",
    "scalar_like",
    "static_value",
    "tensor_type_of",
]

_MAX_ELEMENTS = 1 << 12
"""The most elements of a constant whose content functions read."""


def expect(condition: object, why: str) -> None:
    """Raise Decline unless a condition holds."""
    if not condition:
        raise Decline(why)


def tensor_type_of(value: Any) -> Any:
    """The `TensorType` of a value; Decline for a container, and where there is none."""
    found = value.type
    if not isinstance(found, TensorType):
        raise Decline("a tensor is expected", got=found)
    return found


def rank_of(value: Any) -> int:
    """The rank of a value; Undecided where it is not known."""
    return int(tensor_type_of(value).shape.rank)


def known_content(value: Any) -> Any:
    """The elements of a `Value` as numbers and lists; None where they are unknown."""
    tensor = constant_of(value.port)
    if tensor is not None:
        return tensor.tolist() if tensor.size <= _MAX_ELEMENTS else None
    found = tensor_type_of(value)
    if found.elements is None or any(isinstance(d, Sym) for d in found.elements):
        return None
    return np.array(found.elements).reshape([int(d) for d in found.shape]).tolist()


def required_content(value: Any, what: str) -> Any:
    """The elements of a `Value`; Decline where they are known at run time only.

    They may follow from constants by a few ops.
    """
    found = known_content(value)
    if found is None:
        from amanda_std.passes.fold import computed_constant

        tensor = computed_constant(value.port)
        found = None if tensor is None else tensor.tolist()
    expect(found is not None, f"{what} is not constant")
    return found


def known_scalar(value: Any) -> Any:
    """The number of a `Value` of one element; None where it is unknown."""
    found = known_content(value)
    return None if found is None else one_item(found)


def required_integer(value: Any, what: str) -> int:
    """The integer of a `Value` of one element; Decline where it is unknown."""
    found = known_scalar(value)
    expect(found is not None, f"{what} is not constant")
    return int(found)


def known_or_value(value: Any) -> Any:
    """A shape argument: its numbers where they are known, else the `Value`."""
    if value is None:
        return None
    found = known_content(value)
    return value if found is None else found


def one_item(found: Any) -> Any:
    """The only item of an array, a Tensor or nested lists; Decline for others."""
    array = np.asarray(found.numpy() if isinstance(found, Tensor) else found)
    expect(array.size == 1, f"one element expected, got {array.size}")
    return array.reshape(()).item()


def cast_to(value: Any, dtype: Any) -> Any:
    """A `Value` of a dtype, cast only where it has another; None where it is absent."""
    same = value is None or value.dtype == dtype
    return value if same else find("astype")(value, dtype=dtype)


def static_value(value: Any) -> Any:
    """A shape argument of an op of the hub as numbers and lists; None if computed."""
    if isinstance(value, OutputPort):
        tensor = constant_of(value)
        return None if tensor is None else tensor.tolist()
    try:
        return np.asarray(value, "int64").tolist()
    except OverflowError as error:
        raise Decline("a shape argument beyond int64", got=value) from error


def scalar_like(value: Any, like: Any) -> Tensor:
    """A constant scalar with the element type of another value."""
    dtype = tensor_type_of(like).dtype
    if dtype.kind == "unknown":
        raise Decline(f"the element type of {like} is unknown")
    return Tensor.of(np.asarray(value, dtype.numpy))
