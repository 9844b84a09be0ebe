"""Results of loops: stacked rows, and types of final carried values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import TensorType, Type
from amanda_std.ops.control.bodies import (
    as_results,
    widest_type,
    without_static_content,
)


def stack_rows(column: Sequence[Any], axis: int = 0) -> Any:
    shapes = {np.shape(row) for row in column}
    if len(shapes) > 1:
        raise InvalidTypeError(
            "rows of different shapes cannot be stacked",
            expected=f"{column[0].shape} in every iteration",
            got=", ".join(map(str, sorted(shapes))),
            hint="gradients of a loop stack its carried values; pad them to one shape",
        )
    return np.stack(column, axis)


def empty_rows(body: Any, skip: int, start: Sequence[Any]) -> list[Any]:
    """Scanned results of zero iterations, from the result types of the body.

    A dim known only at run time is found by evaluating the body once."""
    types = getattr(body, "result_types", None)
    known = list(types or ())[skip:]
    if types is not None and len(types) == skip:
        return []
    if not known or any(not _is_static(t) for t in known):
        outputs = [np.asarray(row) for row in as_results(body(*start))[skip:]]
        return [np.zeros((0, *row.shape), row.dtype) for row in outputs]
    return [np.zeros((0, *map(int, t.shape)), t.dtype.numpy) for t in known]


def _is_static(type: Any) -> bool:
    return isinstance(type, TensorType) and type.shape.is_static


def final_types(
    init: Sequence[Type], carried: Sequence[Type], after: Sequence[Type]
) -> list[Type]:
    """Types of the final carried values: initial ones, or results of an iteration."""
    return [
        widest_type(
            widest_type(k, without_static_content(a)), without_static_content(i)
        )
        for i, k, a in zip(init, carried, after, strict=False)
    ]
