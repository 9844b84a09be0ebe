"""Flexible attention: scores modified by a user-defined function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.types import Shape, TensorType
from amanda_std.engine.annotations import Body, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.ops.control.bodies import inline
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import add, divide, multiply, subtract, where
from amanda_std.ops.math.comparison import equal, less_equal
from amanda_std.ops.math.elementary import exp, rsqrt
from amanda_std.ops.math.reduction import max_, sum_
from amanda_std.ops.tensor.index_arithmetic import (
    align_to_axis,
    as_float64,
    as_int64,
    dtype_of,
    float_range,
)
from amanda_std.ops.tensor.shape import astype, swap_last

_INT = "int64"


@composite
def flex_attention(
    q: RealFloating, k: RealFloating, v: RealFloating, score: Body, *,
    scale: float | None = None,
) -> RealFloating:  # fmt: skip
    """Attention over [batch, heads, length, depth] with a score modification function

    `score` receives the scores, scaled by `scale` (1 / sqrt(depth)), and the indices of
    batch, head, query and key as tensors that broadcast to them; it returns the
    modified scores: -infinity masks a key. A query with no visible key gives zeros."""
    depth = q.shape[3]
    factor: Any = scale
    if scale is None and isinstance(depth, int):
        factor = max(depth, 1) ** -0.5
    elif scale is None:
        factor = astype(rsqrt(as_float64(depth)), dtype=dtype_of(q))
    scores = multiply(matmul(q, swap_last(k)), factor)
    numbers = [
        align_to_axis(as_int64(float_range(size)), axis, 4)
        for axis, size in enumerate((*q.shape[:3], k.shape[2]))
    ]
    used = inline(score, [scores, *numbers])[0]
    top = max_(used, (3,), keepdims=True)
    empty = equal(top, -math.inf)
    size = exp(subtract(used, where(empty, 0.0, top)))
    total = sum_(size, (3,), keepdims=True)
    return matmul(divide(size, where(empty, 1.0, total)), v)


def _score_types(q: TensorType, k: TensorType) -> list[TensorType]:
    given = [
        t.dtype for t in (q, k) if t.dtype.kind == "float"
    ]  # other types are rejected
    if not (q.shape.has_rank and k.shape.has_rank):
        rows = [Shape(None)] * 5
    else:
        dims = (*q.shape.dims[:3], k.shape.dims[2])
        lines = [[d if i == at else 1 for i, d in enumerate(dims)] for at in range(4)]
        rows = [Shape(dims), *map(Shape, lines)]
    return [
        TensorType([*given, q.dtype][0] if i == 0 else _INT, s)
        for i, s in enumerate(rows)
    ]


@flex_attention.infer
def _(q: Any, v: Any) -> Any:
    if not (q.shape.has_rank and v.shape.has_rank):
        return [TensorType(q.dtype)]
    return [TensorType(q.dtype, [*q.shape.dims[:3], v.shape.dims[3]])]


@flex_attention.bodies
def _(q: Any, k: Any) -> Any:
    return {"score": _score_types(q, k)}


# -- samples -----------------------------------------------------------------------


def _distance_bias(scores: Any, _: Any, head: Any, i: Any, j: Any) -> Any:
    """Linear bias: lower scores for distant keys, more so for later heads (ALiBi)."""
    far = multiply(abs_(subtract(i, j)), add(head, 1))
    return subtract(scores, astype(far, dtype=scores.dtype))


def _causal_mask(scores: Any, batch: Any, _: Any, i: Any, j: Any) -> Any:
    """Causal mask; in the first batch element the query may see its own position."""
    sees = less_equal(add(j, batch), i)
    return where(sees, scores, -math.inf)


def _attention_by_loops(q: Any, k: Any, v: Any, scale: float, score: Any) -> Any:
    y = np.zeros((*q.shape[:3], v.shape[3]))
    for b, h, i in np.ndindex(q.shape[:3]):
        result = []
        for j in range(k.shape[2]):
            terms = zip(q[b, h, i].tolist(), k[b, h, j].tolist(), strict=True)
            result.append(score(math.fsum(x * y for x, y in terms) * scale, b, h, i, j))
        weights = [math.exp(s) for s in result]
        total = math.fsum(weights) or 1.0
        for d in range(v.shape[3]):
            column = v[b, h, :, d].tolist()
            y[b, h, i, d] = math.fsum(
                s / total * x for s, x in zip(weights, column, strict=True)
            )
    return y.astype(q.dtype)


@flex_attention.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        q, k, v = (
            (ramp(2, 2, n, depth, dtype=dtype, start=s) / 4).astype(dtype)
            for n, depth, s in ((3, 4, -1), (5, 4, 0.2), (5, 2, 0.6))
        )
        y = _attention_by_loops(
            q, k, v, 0.5, lambda s, _, h, i, j: s - abs(i - j) * (h + 1)
        )
        yield Sample((q, k, v, _distance_bias), y)
        y = _attention_by_loops(
            q, k, v, 0.3, lambda s, b, _, i, j: s if j + b <= i else -math.inf
        )
        yield Sample((q, k, v, _causal_mask), y, {"scale": 0.3})
    empty = np.zeros((0, 2, 3, 4))
    yield Sample((empty, empty, empty, _distance_bias), empty, smooth=False)
