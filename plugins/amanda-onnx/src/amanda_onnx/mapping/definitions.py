"""Ops of the hub by others of it, where ONNX lacks an op, or has it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_onnx.mapping.static_values import static_dims
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["DEFINITIONS"]


def if_without_arguments(condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    """`if` whose branches capture their arguments: If of ONNX has no others."""
    if not xs:
        raise Decline("its branches have no arguments")
    return ops.if_(
        condition, lambda: inline_body(then, xs), lambda: inline_body(otherwise, xs)
    )


def diagonal_by_gather(x: Any, *, offset: int = 0) -> Any:
    """The elements of a diagonal are at equal distances in a flattened matrix."""
    *batch, rows, columns = static_dims(x)
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = offset if offset >= 0 else -offset * columns
    at = start + np.arange(count) * (columns + 1)
    return ops.gather(ops.reshape(x, [*batch, rows * columns]), at, axis=-1)


def search_by_comparison(xs: Any, values: Any, *, right: bool = False) -> Any:
    """The number of smaller elements, or of elements that are not greater."""
    compare = ops.less_equal if right else ops.less
    before = compare(ops.expand_dims(xs, [-2]), ops.expand_dims(values, [-1]))
    return ops.sum(ops.astype(before, dtype="int64"), [-1])


DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "if": if_without_arguments,
    "diagonal": diagonal_by_gather,
    "searchsorted": search_by_comparison,
}
"""The definitions for ONNX, by op of the hub."""
