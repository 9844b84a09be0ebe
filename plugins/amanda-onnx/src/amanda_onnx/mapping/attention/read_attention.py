"""From ONNX: attention and what goes with it, in the words of opset 23 and later."""

from __future__ import annotations

from typing import Any

from amanda.types import same
from amanda_onnx.mapping.static_values import dtype_of, expect, rank_of
from amanda_std import ops

__all__ = ["READ", "STAGES"]

STAGES = ("raw", "capped", "biased", "weights")
"""The scores by the numbers of `qk_matmul_output_mode`."""


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None, *, is_causal: int = 0,
    q_num_heads: int | None = None, kv_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None, left_window_size: int = -1,
    right_window_size: int = -1, outputs: int,
) -> Any:  # fmt: skip
    is_flat = rank_of(q) == 3
    if is_flat:
        expect(q_num_heads and kv_num_heads, "heads that are not told")
        counts = (q_num_heads, kv_num_heads, kv_num_heads)
        q, k, v = (_heads(x, n or 1) for x, n in zip((q, k, v), counts, strict=True))
    how: dict[str, Any] = {"scale": scale, "causal": bool(is_causal)}
    how |= {"softcap": softcap} if softcap else {}
    rest = (past_key, past_value, lengths, softmax_precision)
    windows = (left_window_size, right_window_size)
    # In half precision, the words of ONNX round after each step.
    is_simple = outputs == 1 and str(q.dtype) in ("float32", "float64")
    is_simple = is_simple and all(v is None for v in rest) and windows == (-1, -1)
    if is_simple and _fit(q, k, mask):
        y = ops.attention(q, k, v, mask, **how)
        return (_joined(y) if is_flat else y,)
    how |= {"left": left_window_size, "right": right_window_size}
    if softmax_precision is not None:
        how |= {"dtype": dtype_of(softmax_precision)}
    expect(0 <= qk_matmul_output_mode < len(STAGES), "there are no such scores")
    how |= {"scores": STAGES[qk_matmul_output_mode]}
    made = ops.attention_with_cache(q, k, v, mask, past_key, past_value, lengths, **how)
    return (_joined(made[0]) if is_flat else made[0], *made[1:])[:outputs]


def _fit(q: Any, k: Any, mask: Any) -> bool:
    """Whether no heads are shared, and the mask tells of all keys."""
    heads = same(q.type.shape.dims[1], k.type.shape.dims[1]) is True
    if mask is None or not heads:
        return heads
    return same(mask.type.shape.dims[-1], k.type.shape.dims[2]) is True


def _heads(x: Any, count: int) -> Any:
    """[batch, places, heads * depth] as [batch, heads, places, depth]."""
    parted = ops.reshape(x, [0, 0, count, -1], copy_zero=True)
    return ops.transpose(parted, perm=(0, 2, 1, 3))


def _joined(y: Any) -> Any:
    turned = ops.transpose(y, perm=(0, 2, 1, 3))
    return ops.reshape(turned, [0, 0, -1], copy_zero=True)


def rotary(x: Any, cos: Any, sin: Any, at: Any = None, *, interleaved: int = 0,
           num_heads: int = 0, rotary_embedding_dim: int = 0) -> Any:  # fmt: skip
    is_flat = rank_of(x) == 3
    if is_flat:
        expect(num_heads, "heads that are not told")
        x = _heads(x, num_heads)
    size = rotary_embedding_dim
    y = ops.rotary_embedding(x, cos, sin, at, interleaved=bool(interleaved), size=size)
    return _joined(y) if is_flat else y


def linear_attention(
    q: Any, k: Any, v: Any, state: Any = None, decay: Any = None, beta: Any = None, *,
    q_num_heads: int, kv_num_heads: int, scale: float = 0.0,
    update_rule: str = "gated_delta", chunk_size: int = 64,  # noqa: ARG001 - a hint
    outputs: int,
) -> Any:  # fmt: skip
    """Of [batch, places, heads * depth]; a state of more digits decides the work."""
    told = (decay is not None, beta is not None)
    expect(told == ("gated" in update_rule, "delta" in update_rule),
           f"the rule {update_rule} wants another decay or beta")  # fmt: skip
    own = q.dtype
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    if decay is not None:
        decay = _heads(decay, kv_num_heads)
    if beta is not None:
        last = beta.type.shape.dims[2]
        expect(isinstance(last, int), "whether each head has a beta is not known")
        beta = _heads(beta, last)
    how: dict[str, Any] = {"scale": scale} if scale else {}
    if state is not None and state.dtype != own:
        q, k, v, decay, beta = (
            x if x is None else ops.astype(x, dtype=state.dtype)
            for x in (q, k, v, decay, beta)
        )
    y, left = ops.linear_attention(q, k, v, state, decay, beta, **how)
    y = y if y.dtype == own else ops.astype(y, dtype=own)
    return (_joined(y), left)[:outputs]


READ: dict[str, Any] = {
    "Attention": attention,
    "LinearAttention": linear_attention,
    "RotaryEmbedding": rotary,
}
