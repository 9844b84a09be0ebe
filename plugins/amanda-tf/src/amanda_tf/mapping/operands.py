"""Operands and attributes that functions to TensorFlow share."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_std.mappings import rank_of, static_value

__all__ = [
    "INT64",
    "as_value",
    "as_vector",
    "as_wide",
    "axes_from_start",
    "dims_of",
    "dtype_of",
    "int_tensor",
    "required_static",
]

INT64: Final = DType("int64")


def dims_of(value: OutputPort) -> tuple[Any, ...]:
    """The dims of a value; Undecided where its rank is unknown."""
    if not isinstance(value.type, TensorType):
        raise Decline(f"the type of {value} is unknown")
    return value.type.shape.dims


def dtype_of(value: OutputPort) -> DType:
    """The element type of a value."""
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    if not isinstance(dtype, DType) or dtype.kind == "unknown":
        raise Decline(f"the element type of {value} is unknown")
    return dtype


def required_static(value: Any, what: str) -> Any:
    """A shape argument as numbers; Decline where it is computed."""
    found = static_value(value)
    if found is None:
        raise Decline(f"{what} is known at run time only")
    return found


def int_tensor(values: Any, dtype: str = "int32") -> Tensor:
    """A constant of integers; of int64 where int32 does not hold them."""
    array = np.asarray(values, "int64")
    if array.size and (array.max() >= 2**31 or array.min() < -(2**31)):
        dtype = "int64"
    return Tensor.of(array.astype(dtype))


def as_value(value: Any) -> Any:
    """A shape argument as an operand."""
    return value if isinstance(value, OutputPort) else int_tensor(value)


def as_vector(o: Any, value: Any) -> Any:
    """A shape argument as a vector; a scalar becomes one element."""
    if not isinstance(value, OutputPort):
        return int_tensor(np.atleast_1d(np.asarray(value, "int64")))
    return o.Reshape(value, int_tensor([1])) if rank_of(value) == 0 else value


def as_wide(o: Any, value: Any) -> Any:
    """A shape argument as an operand of int64."""
    if not isinstance(value, OutputPort):
        return int_tensor(value, "int64")
    return value if dtype_of(value) == INT64 else o.Cast(value, DstT=INT64)


def axes_from_start(o: Any, axes: Any, rank: int) -> Any:
    """Axes counted from the start, as a vector of int64."""
    if not isinstance(axes, OutputPort):
        return int_tensor([axis % rank for axis in np.atleast_1d(axes)], "int64")
    return o.FloorMod(as_wide(o, as_vector(o, axes)), int_tensor(rank, "int64"))
