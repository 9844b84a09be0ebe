"""Ops of the hub by others of it, where ONNX lacks an op, or has it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import (
    Value,
    dft_by_matrices,
    inline_body,
    is_std,
    rank_of,
    scalar_like,
    threefry_by_arithmetic,
)

__all__ = ["DEFINITIONS", "FALLBACK_DEFINITIONS"]


def if_without_arguments(condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    """`if` whose branches capture their arguments: If of ONNX has no others."""
    if not xs:
        raise Decline("its branches have no arguments")
    return ops.if_(
        condition, lambda: inline_body(then, xs), lambda: inline_body(otherwise, xs)
    )


def eye_of_integers(rows: Any, columns: Any = None, *, k: int = 0, dtype: Any) -> Any:
    """Truth values of numbers: onnxruntime has no kernel of EyeLike for booleans."""
    if dtype.kind != "bool":
        raise Decline("EyeLike has kernels for numbers")
    return ops.astype(ops.eye(rows, columns, k=k, dtype="int64"), dtype=dtype)


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


def integers_by_uniform(
    key: Any, shape: Any, low: Any, high: Any, *, dtype: Any = None,
    generator: str = "threefry",
) -> Any:  # fmt: skip
    """Scaled uniform numbers, as ONNX has no random bits.

    These are of float64, whose 53 bits leave out integers of a wider range.
    """
    low, high = (ops.astype(_as_value(n), dtype="int64") for n in (low, high))
    span = ops.astype(high - low, dtype="float64")
    drawn = ops.random_uniform(key, shape, dtype=span.dtype, generator=generator)
    place = ops.minimum(ops.floor(drawn * span), span - 1.0)
    return ops.astype(ops.astype(place, dtype="int64") + low, dtype=dtype or "int32")


def _as_value(item: Any) -> Any:
    return item if isinstance(item, Value) else np.asarray(item, "int64")


def conv_transpose_and_pad(
    x: Any, w: Any, b: Any = None, *, strides: Any = None, padding: Any = None,
    output_padding: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Results that are padded by a stride or more, which onnxruntime refuses.

    Such padding takes from that at the end, which crops; what is left is zeros.
    """
    count = len(output_padding or ())
    steps = strides or (1,) * count
    if not count or all(n < s for n, s in zip(output_padding, steps, strict=True)):
        raise Decline("ConvTranspose pads results by less than a stride")
    if options.get("layout", "NC*") != "NC*" or isinstance(padding, str):
        raise Decline("ConvTranspose has channels first, and numbers as padding")
    pairs = padding or ((0, 0),) * count
    ends = [high - n for (_, high), n in zip(pairs, output_padding, strict=True)]
    kept = tuple((p[0], max(end, 0)) for p, end in zip(pairs, ends, strict=True))
    y = ops.conv_transpose(x, w, strides=strides, padding=kept, **options)
    y = ops.pad(y, [[0, 0], [0, 0], *([0, max(-end, 0)] for end in ends)])
    return y if b is None else y + ops.reshape(b, [-1] + [1] * count)


def nonzero_of_scalar(x: Any) -> Any:
    """No coordinates for a scalar, of which onnxruntime returns one."""
    if rank_of(x) != 0:
        raise Decline("NonZero has coordinates for each axis")
    return ops.slice_(ops.nonzero(ops.reshape(x, [1])), [0], [0], [0])


def value_itself(x: Any) -> Any:
    """Nothing in the place of an op that matters to gradients only."""
    return x


DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "if": if_without_arguments,
    "conv_transpose": conv_transpose_and_pad,
    "eye": eye_of_integers,
    "nonzero": nonzero_of_scalar,
    "random_integers": integers_by_uniform,
    "searchsorted": search_by_comparison,
    "stop_gradient": value_itself,
    "threefry2x32": threefry_by_arithmetic,
}
"""The definitions for ONNX, by op of the hub."""

FALLBACK_DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    "attention": attention_by_softmax,
    "dft": dft_by_matrices,
}
"""The definitions of composites for opsets that lack them."""
