"""Index and dtype arithmetic shared by composites; declares no ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import Undecided
from amanda.types import DType
from amanda_std.inference.shape_arguments import UnknownShapeArg
from amanda_std.ops.math.comparison import greater_equal, less_equal
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import astype, expand_dims

FLOAT = DType("float64")
INT = DType("int64")


def dtype_of(x: Any) -> DType:
    """Element type of an array, a traced value or a type."""
    return DType.of(x.dtype)


def interpolation_dtype(x: Any) -> DType:
    """Accumulation type for interpolation: at least float32."""
    return FLOAT if dtype_of(x).name == "float64" else DType("float32")


def as_float64(number: Any) -> Any:
    """A dim or a number as a float64 scalar, static or computed."""
    if isinstance(number, int | float):
        return np.asarray(number, "float64")
    return astype(number, dtype=FLOAT)


def as_int64(number: Any) -> Any:
    """A dim, a number or an array as int64; Undecided for a computed shape argument
    of unknown length."""
    if isinstance(number, UnknownShapeArg):
        raise Undecided("a shape decides that is known at run time only")
    return astype(number, dtype=INT)


def float_range(count: Any) -> Any:
    """0, 1, ... count - 1 as float64."""
    return astype(arange(0, count), dtype=FLOAT)


def unpack_shape_argument(argument: Any, count: int) -> list[Any]:
    """Elements of a shape argument: numbers if static, else values."""
    if argument is None or isinstance(argument, tuple | list):
        return list(argument or ())
    return [gather(argument, np.asarray(i)) for i in range(count)]


def align_to_axis(vector: Any, axis: int, rank: int) -> Any:
    """Reshape a vector so that it broadcasts along one axis of `rank` axes."""
    rest = tuple(range(1, rank - axis))
    return expand_dims(vector, rest) if rest else vector


def in_range(indices: Any, low: Any, high: Any) -> Any:
    return logical_and(greater_equal(indices, low), less_equal(indices, high))


def cubic_weights(part: Any, a: float) -> list[Any]:
    """Cubic interpolation weights of four neighbors, `part` between the 2nd and 3rd."""
    r, s, t = part + 1.0, 1.0 - part, 2.0 - part
    return [
        ((r * a - 5 * a) * r + 8 * a) * r - 4 * a,
        (part * (a + 2) - (a + 3)) * part * part + 1.0,
        (s * (a + 2) - (a + 3)) * s * s + 1.0,
        ((t * a - 5 * a) * t + 8 * a) * t - 4 * a,
    ]
