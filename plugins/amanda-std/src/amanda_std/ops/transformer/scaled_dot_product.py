"""Scaled dot-product attention: masks, key-value cache, grouped heads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import dims_equal
from amanda_std.engine.annotations import Index, Other, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    floor_divide,
    multiply,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import equal, less, less_equal
from amanda_std.ops.math.elementary import exp, rsqrt, sqrt, tanh
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.math.reduction import max_, sum_
from amanda_std.ops.nn.activation import softmax
from amanda_std.ops.tensor.creation import arange, scalar_like
from amanda_std.ops.tensor.index_arithmetic import as_int64, dtype_of
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import concat, pad
from amanda_std.ops.tensor.shape import astype, expand_dims, swap_last

SCORES = ("raw", "capped", "biased", "weights")
"""The stages of the scores that attention can return."""


@composite
def attention(
    q: RealFloating, k: RealFloating, v: RealFloating, mask: Other = None,
    *, scale: float | None = None, causal: bool = False, softcap: float = 0.0,
) -> RealFloating:  # fmt: skip
    """Scaled dot-product attention: softmax(q @ k.T * scale + mask) @ v

    q, k, v are [..., length, depth]; a boolean mask selects visible keys, a float mask
    is added. `scale` is 1 / sqrt(depth) by default. With `softcap`, scores become
    softcap * tanh(score / softcap) first. A query with no visible key gives 0."""
    scores = matmul(multiply(q, _scale_factor(q, scale)), swap_last(k))
    seen = _causal_mask(q, k, 0) if causal else None
    return matmul(_attention_weights(_softcap(scores, softcap), mask, seen)[0], v)


def _scale_factor(q: Any, scale: float | None) -> Any:
    if scale is not None:
        return scalar_like(scale, q)
    depth = q.shape[-1]
    if isinstance(depth, int):
        return scalar_like(depth**-0.5, q)
    return rsqrt(astype(depth, dtype=dtype_of(q)))


def _softcap(scores: Any, cap: float) -> Any:
    return tanh(scores / cap) * cap if cap else scores


def _attention_weights(scores: Any, mask: Any, seen: Any) -> tuple[Any, Any]:
    """Attention weights of the visible keys, and the scores before the softmax."""
    if mask is None and seen is None:
        return softmax(scores), scores
    if mask is not None:
        kind = dtype_of(mask).kind
        if kind == "bool":
            seen = mask if seen is None else logical_and(seen, mask)
        elif kind == "float":
            scores = add(scores, mask)
        else:
            raise InvalidTypeError(
                "a mask must be boolean or floating-point", got=dtype_of(mask)
            )
    never = scalar_like(-math.inf, scores)
    if seen is not None:
        scores = where(seen, scores, never)
    most = max_(scores, (-1,), keepdims=True)
    most = where(equal(most, never), scalar_like(0, scores), most)
    e = exp(subtract(scores, most))
    total = sum_(e, (-1,), keepdims=True)
    empty = equal(total, scalar_like(0, scores))
    total = where(empty, scalar_like(1, scores), total)
    return divide(e, total), scores


def _positions(q: Any, k: Any, offset: Any) -> tuple[Any, Any]:
    """Position of each query, in the numbering of the keys, and of each key."""
    rows = expand_dims(arange(0, q.shape[-2]), (1,))
    columns = expand_dims(arange(0, k.shape[-2]), (0,))
    if not (isinstance(offset, int) and offset == 0):
        rows = add(rows, offset)
    return rows, columns


def _causal_mask(q: Any, k: Any, offset: Any) -> Any:
    """Causal mask: the positions up to that of the query."""
    rows, columns = _positions(q, k, offset)
    return less_equal(columns, rows)


@composite
def attention_with_cache(
    q: RealFloating, k: RealFloating, v: RealFloating, mask: Other = None,
    past_key: RealFloating | None = None, past_value: RealFloating | None = None,
    lengths: Index = None, *, scale: float | None = None, causal: bool = False,
    softcap: float = 0.0, left: int = -1, right: int = -1, dtype: Other = None,
    scores: str = "raw",
) -> tuple[RealFloating, RealFloating, RealFloating, RealFloating]:  # fmt: skip
    """Attention over [batch, heads, length, depth], with a KV cache and grouped heads

    As in ONNX. Fewer key-value heads are shared by groups of query heads. Past keys and
    values come first, and are returned with the new ones; `lengths` is the number of
    valid keys of each batch element, where all are present. A causal query sees keys up
    to its own position, counted from the end; at most `left` positions before it and
    `right` after it. Returns the values, present keys and values, and the scores at a
    stage: raw, capped, biased, weights. The softmax is computed in `dtype`. A query
    with no visible key gives 0."""
    if scores not in SCORES:
        raise InvalidTypeError(
            "unknown stage of scores", expected=", ".join(SCORES), got=scores
        )
    if (past_key is None) != (past_value is None):
        raise UsageError("past keys require past values, and the other way around")
    offset: Any = 0
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = concat(past_key, k, axis=2), concat(past_value, v, axis=2)
    elif lengths is not None:
        more = subtract(as_int64(lengths), as_int64(q.shape[2]))
        offset = expand_dims(more, (1, 2, 3))
    seen = _position_mask(q, k, offset, causal, left, right, lengths)
    root = sqrt(_scale_factor(q, scale))
    keys, values = _repeat_heads(k, q), _repeat_heads(v, q)
    raw = matmul(multiply(q, root), multiply(swap_last(keys), root))
    capped = _softcap(raw, softcap)
    mask = None if mask is None else _extend_mask(mask, k)
    own = dtype_of(q)
    wide = capped if dtype is None else astype(capped, dtype=dtype)
    if mask is not None and dtype_of(mask).kind == "float" and dtype is not None:
        mask = astype(mask, dtype=dtype)
    weights, biased = _attention_weights(wide, mask, seen)
    weights, biased = (cast_to(x, own) for x in (weights, biased))
    stages = dict(zip(SCORES, (capped, capped, biased, weights), strict=True))
    return matmul(weights, values), k, v, stages[scores]


def cast_to(x: Any, dtype: Any) -> Any:
    return x if dtype_of(x) == dtype else astype(x, dtype=dtype)


def _position_mask(q: Any, k: Any, offset: Any, causal: bool, left: int, right: int,
             lengths: Any) -> Any:  # fmt: skip
    """Mask by position (causal, window, lengths), or None if unlimited."""
    result = []
    rows, columns = _positions(q, k, offset)
    if causal:
        result.append(less_equal(columns, rows))
    if left >= 0:
        result.append(less_equal(subtract(rows, left), columns))
    if right >= 0:
        result.append(less_equal(columns, add(rows, right)))
    if lengths is not None:
        count = expand_dims(as_int64(lengths), (1, 2, 3))
        result.append(less(columns, count))
    total = None
    for each in result:
        total = each if total is None else logical_and(total, each)
    return total


def check_grouped_heads(key_heads: Any, query_heads: Any) -> None:
    """Check that query heads divide evenly among key heads, as far as is static."""
    if (
        isinstance(key_heads, int)
        and isinstance(query_heads, int)
        and (not key_heads or query_heads % key_heads)
    ):
        raise InvalidTypeError(
            "the number of query heads is not a multiple of that of key heads",
            expected=f"a divisor of {query_heads}",
            got=key_heads,
        )


def _repeat_heads(x: Any, q: Any) -> Any:
    """Repeat heads of keys or values for each query head that shares them."""
    few, most = dims_of(x)[1], dims_of(q)[1]
    if dims_equal(few, most) is True:
        return x
    check_grouped_heads(few, most)
    many = q.shape[1]
    each = floor_divide(as_int64(many), as_int64(x.shape[1]))
    return gather(x, floor_divide(arange(0, many), each), 1)


def _extend_mask(mask: Any, k: Any) -> Any:
    """Extend a mask of the first keys only: the others are hidden."""
    if dims_equal(dims_of(mask)[-1], dims_of(k)[2]) is True:
        return mask
    rest = subtract(as_int64(k.shape[2]), as_int64(mask.shape[-1]))
    is_truth = dtype_of(mask).kind == "bool"
    fill = scalar_like(False if is_truth else -math.inf, mask)
    return pad(mask, [(0, rest)], fill, (-1,))


def _attention_by_loops(q: Any, k: Any, v: Any, scale: float, sees: Any,
          bias: Any = None, cap: float = 0.0) -> tuple[Any, Any]:  # fmt: skip
    """Attention over [..., length, depth] by loops; `sees(batch, i, j)` is the mask."""
    y = np.zeros((*q.shape[:-1], v.shape[-1]))
    stages = {name: np.zeros((*q.shape[:-1], k.shape[-2])) for name in SCORES}
    for *batch, i in np.ndindex(q.shape[:-1]):
        at = tuple(batch)
        scores = []
        for j in range(k.shape[-2]):
            pairs = zip(q[(*at, i)], k[(*at, j)], strict=True)
            score = math.fsum(float(a) * float(b) for a, b in pairs) * scale
            score = cap * math.tanh(score / cap) if cap else score
            stages["raw"][(*at, i, j)] = stages["capped"][(*at, i, j)] = score
            if bias is not None:
                full = np.broadcast_to(bias, (*batch_shape(q), *bias.shape[-2:]))
                score += float(full[(*at, i, j)])
            scores.append(score if sees(at, i, j) else -math.inf)
        stages["biased"][(*at, i)] = scores
        total = math.fsum(math.exp(s) for s in scores)
        weights = [math.exp(s) / total if total else 0.0 for s in scores]
        stages["weights"][(*at, i)] = weights
        for d in range(v.shape[-1]):
            terms = (w * float(v[(*at, j, d)]) for j, w in enumerate(weights))
            y[(*at, i, d)] = math.fsum(terms)
    return y.astype(q.dtype), stages


def batch_shape(q: Any) -> tuple[int, ...]:
    """Dims before length and depth."""
    return tuple(q.shape[:-2])


def _sees_all(*_: Any) -> bool:
    return True


def _small_inputs(dtype: str) -> Any:
    result = (ramp(2, 2, n, 3, dtype=dtype, start=s) / 4
             for n, s in ((3, -1), (4, 0.2), (4, 0.6)))  # fmt: skip
    return [t.astype(dtype) for t in result]


@attention.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        q, k, v = _small_inputs(dtype)
        half = 3**-0.5
        yield Sample((q, k, v), _attention_by_loops(q, k, v, half, _sees_all)[0])
        y = _attention_by_loops(q, k, v, 0.3, lambda _, i, j: j <= i)[0]
        yield Sample((q, k, v), y, {"scale": 0.3, "causal": True})
        flags = np.arange(12).reshape(3, 4) % 3 != 1
        y = _attention_by_loops(q, k, v, half, lambda _, i, j, f=flags: f[i, j])[0]
        yield Sample((q, k, v, flags), y)
        y = _attention_by_loops(
            q, k, v, half, lambda _, i, j, f=flags: f[i, j] and j <= i
        )[0]
        yield Sample((q, k, v, flags), y, {"causal": True})
        y = _attention_by_loops(q[0], k[0], v[0], half, lambda _, i, j: j <= i)[0]
        yield Sample((q[0], k[0], v[0]), y, {"causal": True})
        bias = ramp(3, 4, dtype=dtype)
        yield Sample(
            (q, k, v, bias), _attention_by_loops(q, k, v, half, _sees_all, bias)[0]
        )
        y = _attention_by_loops(q, k, v, half, lambda _, i, j: j <= i, bias, 0.4)[0]
        yield Sample((q, k, v, bias), y, {"causal": True, "softcap": 0.4})
        blind = np.array([[True] * 4, [False] * 4, [True, False, True, True]])
        y = _attention_by_loops(q, k, v, half, lambda _, i, j, f=blind: f[i, j])[0]
        yield Sample((q, k, v, blind), y)
        never = np.where(blind, 0, -math.inf).astype(dtype)
        yield Sample((q, k, v, never), y, smooth=False)
    yield Sample((ramp(0, 2, 3),) * 3, ramp(0, 2, 3), smooth=False)


def _cache_sample(dtype: str) -> Samples:
    q = (ramp(2, 4, 2, 3, dtype=dtype) / 4).astype(dtype)
    k, v = ((ramp(2, 2, 3, d, dtype=dtype, start=s) / 4).astype(dtype)
            for d, s in ((3, 0.2), (2, 0.6)))  # fmt: skip
    old = [(ramp(2, 2, 2, d, dtype=dtype, start=s) / 4).astype(dtype)
           for d, s in ((3, -0.5), (2, 0.1))]  # fmt: skip
    keys, values = np.concatenate([old[0], k], 2), np.concatenate([old[1], v], 2)
    more, rest = (np.stack([x[:, h // 2] for h in range(4)], 1) for x in (keys, values))
    bias = ramp(2, 1, 2, 5, dtype=dtype)
    short = array([[True, False, True], [True, True, False]], "bool")
    n = array([4, 1], "int64")
    for scores in SCORES:
        y, stages = _attention_by_loops(
            q, more, rest, 0.4, lambda _, i, j: j <= i + 2, bias, 0.5
        )
        expected = [y, keys, values, stages[scores].astype(dtype)]
        attrs = {"scale": 0.4, "causal": True, "softcap": 0.5, "scores": scores}
        yield Sample((q, k, v, bias, *old), expected, attrs, smooth=scores != "biased")
    y, stages = _attention_by_loops(
        q, more, rest, 3**-0.5, lambda _, i, j: j < 3 and short[i, j]
    )
    raw = stages["raw"].astype(dtype)
    yield Sample((q, k, v, short, *old), [y, keys, values, raw])
    y, stages = _attention_by_loops(
        q, more, rest, 3**-0.5, lambda _, i, j: i + 2 - 1 <= j <= i + 2 + 1
    )
    expected = [y, keys, values, stages["raw"].astype(dtype)]
    yield Sample((q, k, v, None, *old), expected, {"left": 1, "right": 1})

    def sees(at: Any, i: int, j: int) -> bool:
        return bool(j < n[at[0]] and j <= i + n[at[0]] - 2)

    y, stages = _attention_by_loops(q, more, rest, 3**-0.5, sees)
    expected = [y, keys, values, stages["weights"].astype(dtype)]
    attrs = {"causal": True, "scores": "weights"}
    yield Sample((q, keys, values, None, None, None, n), expected, attrs)


@attention_with_cache.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        yield from _cache_sample(dtype)
    q, k, v = _small_inputs("float32")
    y, stages = _attention_by_loops(q, k, v, 3**-0.5, _sees_all)
    expected = [y, k, v, stages["raw"].astype("float32")]
    yield Sample((q, k, v), expected, {"dtype": "float64"})
    empty = np.zeros((0, 2, 3, 2))
    yield Sample((empty,) * 3, [empty] * 3 + [np.zeros((0, 2, 3, 3))], smooth=False)
