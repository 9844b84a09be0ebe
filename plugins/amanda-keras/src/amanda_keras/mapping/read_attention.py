"""From Keras: attention."""

from __future__ import annotations

from typing import Any, Final

from amanda_keras.mapping.layer_calls import (
    Weights,
    cast_to,
    expect,
    layers,
    rank_of,
)
from amanda_keras.mapping.read_core import masked_softmax
from amanda_std import ops

__all__ = ["READ"]


def read_attention(
    inputs: Any, mask: Any = None, *, weights: Weights, score_mode: str = "dot",
    use_scale: bool = False, dropout: float = 0.0, use_causal_mask: bool = False,
    return_attention_scores: bool = False,
) -> Any:  # fmt: skip
    """Dot-product or additive attention of [query, value, key]."""
    del dropout
    q, v, k = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else inputs[1]
    if score_mode == "dot":
        scores = ops.matmul(q, ops.swap_last(k))
        if use_scale:
            scores = scores * weights["scale"]
    else:
        expect(score_mode == "concat", f"score_mode={score_mode} is not supported")
        scale = weights["scale"] if use_scale else None
        scores = weights["concat_score_weight"] * _additive_scores(q, k, scale, True)
    return _attend(v, scores, mask, use_causal_mask, return_attention_scores)


def read_additive_attention(
    inputs: Any, mask: Any = None, *, weights: Weights, use_scale: bool = True,
    dropout: float = 0.0, use_causal_mask: bool = False,
    return_attention_scores: bool = False,
) -> Any:  # fmt: skip
    del dropout
    q, v, k = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else inputs[1]
    scores = _additive_scores(q, k, weights["scale"] if use_scale else None, False)
    return _attend(v, scores, mask, use_causal_mask, return_attention_scores)


def _additive_scores(q: Any, k: Any, scale: Any, is_inside: bool) -> Any:
    total = ops.expand_dims(q, [-2]) + ops.expand_dims(k, [-3])
    if scale is None:
        return ops.sum_(ops.tanh(total), (-1,))
    y = ops.tanh(scale * total) if is_inside else scale * ops.tanh(total)
    return ops.sum_(y, (-1,))


def _attend(v: Any, scores: Any, masks: Any, is_causal: bool, with_scores: bool) -> Any:
    q_mask, v_mask = [*(masks or ()), None, None][:2]
    seen = None if v_mask is None else ops.expand_dims(v_mask, [-2])
    if is_causal:
        seen = _intersect(seen, _causal_mask(scores))
    if seen is not None:
        excess = 65504.0 if str(scores.dtype) == "float16" else 1e9
        scores = ops.where(seen, scores, scores - excess)
    shares = ops.softmax(scores)
    y = ops.matmul(shares, v)
    if q_mask is not None:
        y = ops.where(ops.expand_dims(q_mask, [-1]), y, ops.number_like(y, value=0))
    return (y, shares) if with_scores else y


def _intersect(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else ops.logical_and(a, b)


def _positions(x: Any, y: Any) -> tuple[Any, Any]:
    rows = ops.expand_dims(ops.arange(0, x), [1])
    return rows, ops.expand_dims(ops.arange(0, y), [0])


def _causal_mask(scores: Any) -> Any:
    """True for the keys up to the position of each query."""
    rows, columns = _positions(scores.shape[-2], scores.shape[-1])
    return ops.less_equal(columns, rows)


# -- heads -----------------------------------------------------------------------------


def read_multi_head_attention(
    query: Any, value: Any, key: Any = None, query_mask: Any = None,
    value_mask: Any = None, key_mask: Any = None, attention_mask: Any = None, *,
    weights: Weights, outputs: int, num_heads: int, key_dim: int,
    value_dim: Any = None, dropout: float = 0.0, use_bias: bool = True,
    output_shape: Any = None, attention_axes: Any = None, sliding_window: Any = None,
    use_gate: bool = False, use_causal_mask: bool = False,
    return_attention_scores: bool = False,
) -> Any:  # fmt: skip
    """Attention of several heads over the axis of steps."""
    del value_dim, output_shape, num_heads
    axes = [1] if attention_axes is None else attention_axes
    axes = [axes] if isinstance(axes, int) else list(axes)
    expect(
        rank_of(query) == 3 and axes in ([1], [-2]),
        "attention over other axes than the second of three",
    )
    masks = query_mask, value_mask, key_mask, attention_mask
    return _attend_by_heads(
        query, value, key, masks, weights, key_dim, use_bias=use_bias,
        window=sliding_window, is_gated=use_gate, is_causal=use_causal_mask,
        is_explicit=bool(dropout) or return_attention_scores,
        with_scores=return_attention_scores and outputs > 1,
    )  # fmt: skip


def read_grouped_query_attention(
    query: Any, value: Any, key: Any = None, query_mask: Any = None,
    value_mask: Any = None, key_mask: Any = None, attention_mask: Any = None, *,
    weights: Weights, outputs: int, head_dim: int, num_query_heads: int,
    num_key_value_heads: int, dropout: float = 0.0, use_bias: bool = True,
    use_gate: bool = False, sliding_window: Any = None, use_causal_mask: bool = False,
    return_attention_scores: bool = False,
) -> Any:  # fmt: skip
    """Attention whose heads of keys and values are shared by groups of query heads."""
    masks = query_mask, value_mask, key_mask, attention_mask
    return _attend_by_heads(
        query, value, key, masks, weights, head_dim, use_bias=use_bias,
        window=sliding_window, is_gated=use_gate, is_causal=use_causal_mask,
        is_explicit=bool(dropout) or return_attention_scores,
        with_scores=return_attention_scores and outputs > 1,
        repeats=num_query_heads // num_key_value_heads,
    )  # fmt: skip


def _attend_by_heads(
    query: Any, value: Any, key: Any, masks: tuple[Any, ...], weights: Weights,
    depth: int, *, use_bias: bool, window: Any, is_gated: bool, is_causal: bool,
    is_explicit: bool, with_scores: bool, repeats: int = 1,
) -> Any:  # fmt: skip
    key = value if key is None else key
    seen = _attention_mask(query, value, masks, is_causal, window)
    q, k, v = (
        _project(x, weights.below(f"{name}_dense"), use_bias)
        for x, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    if repeats > 1:
        k, v = ops.repeat(k, repeats, axis=1), ops.repeat(v, repeats, axis=1)
    scale = float(depth) ** -0.5
    shares = None
    if seen is None and not is_explicit:
        y = ops.attention(q, k, v, scale=scale)
    else:
        scores = ops.matmul(q * scale, ops.swap_last(k))
        shares = _shares(scores, seen, is_explicit)
        y = ops.matmul(shares, v)
    y = ops.transpose(y, perm=(0, 2, 1, 3))
    if is_gated:
        gate = _project(query, weights.below("gate_dense"), use_bias)
        y = y * ops.sigmoid(ops.transpose(gate, perm=(0, 2, 1, 3)))
    out = weights.below("output_dense")
    y = ops.einsum(y, out["kernel"], equation="bthd,hdo->bto")
    y = y + out["bias"] if use_bias else y
    return (y, shares) if with_scores else y


def _project(x: Any, weights: Weights, use_bias: bool) -> Any:
    """Values by heads: [batch, heads, steps, depth]."""
    y = ops.einsum(x, weights["kernel"], equation="btc,chd->bthd")
    y = y + weights["bias"] if use_bias else y
    return ops.transpose(y, perm=(0, 2, 1, 3))


def _shares(scores: Any, seen: Any, is_explicit: bool) -> Any:
    """The softmax of scores. Keys that a query does not see have a share of zero.

    Where it sees none, shares are equal, or zero where Keras computes them explicitly.
    """
    if seen is None:
        return ops.softmax(scores)
    if is_explicit:
        return masked_softmax(scores, -1, seen)
    low = -0.7 * (65504.0 if str(scores.dtype) == "float16" else 3.4028234e38)
    return ops.softmax(ops.where(seen, scores, ops.number_like(scores, value=low)))


def _attention_mask(
    query: Any, value: Any, masks: tuple[Any, ...], is_causal: bool, window: Any
) -> Any:
    """What each query sees, as [batch, heads, queries, keys]; None for all."""
    query_mask, value_mask, key_mask, attention_mask = masks
    seen = None
    if query_mask is not None:
        seen = ops.expand_dims(_as_bool(query_mask), [1, 3])
    for mask in (value_mask, key_mask):
        if mask is not None:
            seen = _intersect(seen, ops.expand_dims(_as_bool(mask), [1, 2]))
    rows, columns = _positions(query.shape[1], value.shape[1])
    if is_causal:
        seen = _intersect(seen, ops.less_equal(columns, rows))
    if window is not None:
        distance = ops.abs(rows - columns)
        seen = _intersect(
            seen, ops.less(distance, ops.number_like(distance, value=window))
        )
    if attention_mask is not None:
        mask = _as_bool(attention_mask)
        if rank_of(mask) == 3:
            mask = ops.expand_dims(mask, [1])
        seen = _intersect(seen, mask)
    return seen


def _as_bool(mask: Any) -> Any:
    return cast_to(mask, "bool")


READ: Final = layers(
    {
        "Attention": read_attention, "AdditiveAttention": read_additive_attention,
        "MultiHeadAttention": read_multi_head_attention,
        "GroupedQueryAttention": read_grouped_query_attention,
    }
)  # fmt: skip
