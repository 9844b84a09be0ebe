"""From PyTorch: scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ"]


def read_attention(
    q: Any, k: Any, v: Any, mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(q k^T * scale + mask) v; in training, weights are dropped."""
    if enable_gqa:
        k, v = (_repeat_heads(x, q) for x in (k, v))
    if not dropout_p:
        return ops.attention(q, k, v, mask, scale=scale, causal=is_causal)
    seen = _causal_mask(q, k) if is_causal else mask
    weights = ops.softmax(_scores(q, k, seen, scale), axes=(-1,))
    key, share = ops.next_random_key(), np.asarray(1 - dropout_p, "float32")
    kept = ops.random_bernoulli(key, share, ops.shape_of(weights))
    weights = weights * ops.astype(kept, dtype=weights.dtype)
    return ops.matmul(weights / number(1 - dropout_p, weights.dtype), v)


def _scores(q: Any, k: Any, mask: Any, scale: float | None) -> Any:
    scores = ops.matmul(q * _factor(q, scale), ops.swap_last(k))
    if mask is not None and mask.dtype.kind == "bool":
        return ops.where(mask, scores, number(float("-inf"), scores.dtype))
    return scores if mask is None else scores + mask


def _factor(q: Any, scale: float | None) -> Any:
    """What products of queries and keys are multiplied by."""
    depth = q.type.shape.dims[-1]
    expect(isinstance(depth, int), "the depth of the heads is not static")
    return number(depth**-0.5 if scale is None else scale, q.dtype)


def _causal_mask(q: Any, k: Any) -> Any:
    """Each query sees the keys up to its own position."""
    rows, columns = (ops.arange(0, ops.dim(x, axis=rank_of(x) - 2)) for x in (q, k))
    return ops.greater_equal(ops.expand_dims(rows, [1]), ops.expand_dims(columns, [0]))


def _repeat_heads(x: Any, q: Any) -> Any:
    axis = rank_of(x) - 3
    heads, wanted = x.type.shape.dims[axis], q.type.shape.dims[axis]
    expect(isinstance(heads, int) and isinstance(wanted, int), "symbolic head counts")
    return x if heads == wanted else ops.repeat(x, wanted // heads, axis=axis)


def read_fused_attention(q: Any, k: Any, v: Any, dropout_p: float = 0.0,
                         is_causal: bool = False, *, attn_mask: Any = None,
                         scale: float | None = None) -> Any:  # fmt: skip
    """The attention, and the logarithm of the sums of its weights."""
    mask = _causal_mask(q, k) if is_causal else attn_mask
    scores = _scores(q, k, mask, scale)
    y = read_attention(q, k, v, mask, dropout_p, scale=scale)
    return y, ops.logsumexp(scores, [rank_of(scores) - 1])


def read_gradients_of_fused_attention(
    g: Any, q: Any, k: Any, v: Any, y: Any, logsumexp: Any, dropout_p: float,
    is_causal: bool, *, attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """The gradients of q, k and v; `logsumexp` is the second result of the forward."""
    expect(not dropout_p, "the weights that were dropped are not known")
    mask = _causal_mask(q, k) if is_causal else attn_mask
    scores = cast_to(_scores(q, k, mask, scale), logsumexp.dtype)
    last = rank_of(scores) - 1
    weights = cast_to(ops.exp(scores - ops.expand_dims(logsumexp, [last])), q.dtype)
    mean = ops.sum(g * y, [last], keepdims=True)
    slope = weights * (ops.matmul(g, ops.swap_last(v)) - mean) * _factor(q, scale)
    return (
        ops.matmul(slope, k),
        ops.matmul(ops.swap_last(slope), q),
        ops.matmul(ops.swap_last(weights), g),
    )


READ = torch_functions(
    {
        "scaled_dot_product_attention": read_attention,
        "_scaled_dot_product_flash_attention_for_cpu": read_fused_attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": (
            read_gradients_of_fused_attention
        ),
    }
)
