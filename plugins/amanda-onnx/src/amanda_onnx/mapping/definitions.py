"""Ops of the hub by others of it, where ONNX lacks an op, or has it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_onnx.mapping.static_values import static_dims
from amanda_std import ops
from amanda_std.mappings import Value, inline_body, is_std, scalar_like

__all__ = ["DEFINITIONS", "FALLBACK_DEFINITIONS"]


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


def attention_by_softmax(
    q: Any, k: Any, v: Any, mask: Any = None, *, scale: float | None = None,
    causal: bool = False, softcap: float = 0.0,
) -> Any:  # fmt: skip
    """Attention by the op Softmax, which is NaN where a mask hides all keys; the
    definition of the hub computes exponentials and sums, for gradients too."""
    depth = q.shape[-1]
    if scale is None and not isinstance(depth, int):
        factor = ops.rsqrt(ops.astype(depth, dtype=q.dtype))
    else:
        factor = scalar_like(depth**-0.5 if scale is None else scale, q)
    scores = ops.matmul(q * factor, _swap_last(k))
    if softcap:
        scores = ops.tanh(scores / softcap) * softcap
    never = scalar_like(float("-inf"), scores)
    if causal:
        rows, columns = (ops.arange(0, x.shape[-2]) for x in (q, k))
        seen = ops.less_equal(ops.expand_dims(columns, [0]), ops.expand_dims(rows, [1]))
        scores = ops.where(seen, scores, never)
    if mask is None:
        return ops.matmul(ops.softmax(scores), v)
    is_bool = mask.dtype.kind == "bool"
    scores = ops.where(mask, scores, never) if is_bool else scores + mask
    empty = ops.equal(ops.max(scores, [-1], keepdims=True), never)
    weights = ops.where(empty, scalar_like(0, scores), ops.softmax(scores))
    return ops.matmul(weights, v)


def _swap_last(x: Any) -> Any:
    """The last two axes swapped: of a transpose, by a transpose of its operand."""
    op = x.port.op
    perm = op.attrs.get("perm") if is_std(op) and op.type == "transpose" else None
    if not perm or op.inputs[0] is None:
        return ops.swap_last(x)
    return ops.transpose(Value(op.inputs[0]), perm=(*perm[:-2], perm[-1], perm[-2]))


DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "if": if_without_arguments,
    "diagonal": diagonal_by_gather,
    "searchsorted": search_by_comparison,
}
"""The definitions for ONNX, by op of the hub."""

FALLBACK_DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "attention": attention_by_softmax,
}
"""The definitions of composites for opsets that lack them."""
