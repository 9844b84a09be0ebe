"""Results of loops: stacked rows, and the types of what is carried"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import TensorType, Type
from amanda_std.ops.control.bodies import (
    both,
    many,
    plain,
)


def stack_rows(column: Sequence[Any], axis: int = 0) -> Any:
    shapes = {np.shape(row) for row in column}
    if len(shapes) > 1:
        raise InvalidTypeError(
            "rows of one shape are stacked",
            expected=f"{column[0].shape} in every round",
            got=", ".join(map(str, sorted(shapes))),
            hint="gradients of a loop stack what it carries; pad it to one shape",
        )
    return np.stack(column, axis)


def empty_rows(body: Any, skip: int, start: Sequence[Any]) -> list[Any]:
    """Scans of no round: of the types that the body tells, else of what it would make.

    A dim that only a run tells is looked up in a round that counts for nothing."""
    known = list(getattr(body, "result_types", ()))[skip:]
    if not known or any(not _is_static(t) for t in known):
        made = [np.asarray(row) for row in many(body(*start))[skip:]]
        return [np.zeros((0, *row.shape), row.dtype) for row in made]
    return [np.zeros((0, *map(int, t.shape)), t.dtype.numpy) for t in known]


def _is_static(type: Any) -> bool:
    return isinstance(type, TensorType) and type.shape.is_static


def final_types(
    init: Sequence[Type], kept: Sequence[Type], after: Sequence[Type]
) -> list[Type]:
    """What is carried last: the start, where there was no round, or from a round."""
    return [
        both(both(k, plain(a)), plain(i))
        for i, k, a in zip(init, kept, after, strict=False)
    ]
