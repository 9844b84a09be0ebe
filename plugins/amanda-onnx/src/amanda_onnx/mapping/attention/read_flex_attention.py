"""From ONNX: FlexAttention, whose scores and shares are changed by graphs."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from amanda.graph import Graph
from amanda.types import DType, same
from amanda_onnx.mapping.static_values import dtype_of, expect, rank_of
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["READ"]

_HALVES = ("float16", "bfloat16")


def flex(q: Any, k: Any, v: Any, *, score_mod: Graph | None = None,
         prob_mod: Graph | None = None, scale: float | None = None,
         softmax_precision: int | None = None) -> Any:  # fmt: skip
    expect(all(rank_of(x) == 4 for x in (q, k, v)), "FlexAttention takes four axes")
    own = q.dtype
    wide = DType("float32") if str(own) in _HALVES else own
    if softmax_precision is not None:
        wide = dtype_of(softmax_precision)
    k, v = (_shared(x, q) for x in (k, v))
    step = _root(q, scale)
    scores = ops.matmul(q * step, ops.transpose(k * step, perm=(0, 1, 3, 2)))
    scores = _changed(_as(scores, wide), score_mod, wide)
    shares = _changed(ops.softmax(scores, axes=(-1,)), prob_mod, wide)
    return _as(ops.matmul(shares, _as(v, wide)), own)


def _root(q: Any, scale: float | None) -> Any:
    """The root of the scale: both sides of the product have it."""
    if scale is not None:
        return np.asarray(sqrt(np.float32(scale))).astype(q.dtype.numpy)
    depth = q.type.shape.dims[3]
    if isinstance(depth, int):
        return np.asarray(sqrt(1 / sqrt(depth))).astype(q.dtype.numpy)
    size = ops.astype(ops.dim(q, axis=3), dtype="float64")
    return _as(1.0 / ops.sqrt(ops.sqrt(size)), q.dtype)


def _shared(x: Any, q: Any) -> Any:
    """Each head of keys and values as often as heads of queries share it."""
    have, want = x.type.shape.dims[1], q.type.shape.dims[1]
    if same(have, want) is True:
        return x
    told = isinstance(have, int) and isinstance(want, int)
    expect(told and have and want % have == 0, "heads that cannot be shared evenly")
    return ops.gather(x, np.arange(want) // (want // have), 1)


def _changed(x: Any, body: Graph | None, dtype: Any) -> Any:
    if body is None:
        return x
    made = inline_body(body, [x])
    expect(len(made) == 1, "a graph that gives one tensor")
    return _as(made[0], dtype)


def _as(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else ops.astype(x, dtype=dtype)


READ: dict[str, Any] = {"ai.onnx.preview.FlexAttention": flex}
