"""From ONNX: FlexAttention, whose scores and probabilities are modified by graphs."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from amanda.graph import Graph
from amanda.types import DType
from amanda_onnx.mapping.attention.heads import repeat_heads
from amanda_onnx.mapping.static_values import dtype_of, float32_scalar
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, inline_body, rank_of, tensor_type_of

__all__ = ["READ"]

_HALF_PRECISION = ("float16", "bfloat16")


def read_flex_attention(
    q: Any, k: Any, v: Any, *, score_mod: Graph | None = None,
    prob_mod: Graph | None = None, scale: float | None = None,
    softmax_precision: int | None = None,
) -> Any:  # fmt: skip
    expect(all(rank_of(x) == 4 for x in (q, k, v)), "FlexAttention needs rank 4")
    own = q.dtype
    wide = DType("float32") if str(own) in _HALF_PRECISION else own
    if softmax_precision is not None:
        wide = dtype_of(softmax_precision)
    k, v = (repeat_heads(x, q) for x in (k, v))
    root = _root_of_scale(q, scale)
    scores = ops.matmul(q * root, ops.transpose(k * root, perm=(0, 1, 3, 2)))
    scores = _modify(cast_to(scores, wide), score_mod, wide)
    probs = _modify(ops.softmax(scores, axes=(-1,)), prob_mod, wide)
    return cast_to(ops.matmul(probs, cast_to(v, wide)), own)


def _root_of_scale(q: Any, scale: float | None) -> Any:
    """The square root of the scale, by which queries and keys are multiplied."""
    if scale is not None:
        return np.asarray(sqrt(float32_scalar(scale))).astype(q.dtype.numpy)
    depth = tensor_type_of(q).shape.dims[3]
    if isinstance(depth, int):
        return np.asarray(sqrt(1 / sqrt(depth))).astype(q.dtype.numpy)
    size = ops.astype(ops.dim(q, axis=3), dtype="float64")
    return cast_to(1.0 / ops.sqrt(ops.sqrt(size)), q.dtype)


def _modify(x: Any, body: Graph | None, dtype: Any) -> Any:
    if body is None:
        return x
    results = inline_body(body, [x])
    expect(len(results) == 1, "score_mod and prob_mod have one result")
    return cast_to(results[0], dtype)


READ: dict[str, Any] = {"ai.onnx.preview.FlexAttention": read_flex_attention}
