"""From ONNX: Attention, LinearAttention and RotaryEmbedding of opset 23 and later."""

from __future__ import annotations

from typing import Any

from amanda.types import dims_equal
from amanda_onnx.mapping.attention.heads import merge_heads, split_heads
from amanda_onnx.mapping.static_values import dim_at, dtype_of
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of

__all__ = ["QK_OUTPUT_MODES", "READ"]

QK_OUTPUT_MODES = ("raw", "capped", "biased", "weights")
"""What the output of scores is, by `qk_matmul_output_mode`."""


def read_attention(
    q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None, *, is_causal: int = 0,
    q_num_heads: int | None = None, kv_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None, left_window_size: int = -1,
    right_window_size: int = -1, outputs: int,
) -> Any:  # fmt: skip
    is_merged = rank_of(q) == 3
    if is_merged:
        expect(q_num_heads and kv_num_heads, "inputs of rank 3 need numbers of heads")
        counts = (q_num_heads, kv_num_heads, kv_num_heads)
        heads = zip((q, k, v), counts, strict=True)
        q, k, v = (split_heads(x, n or 1) for x, n in heads)
    attrs: dict[str, Any] = {"scale": scale, "causal": bool(is_causal)}
    attrs |= {"softcap": softcap} if softcap else {}
    rest = (past_key, past_value, lengths, softmax_precision)
    windows = (left_window_size, right_window_size)
    # In half precision, ONNX rounds after each step, as attention_with_cache does.
    is_simple = outputs == 1 and str(q.dtype) in ("float32", "float64")
    is_simple = is_simple and all(v is None for v in rest) and windows == (-1, -1)
    if is_simple and _has_equal_heads(q, k, mask):
        y = ops.attention(q, k, v, mask, **attrs)
        return (merge_heads(y) if is_merged else y,)
    attrs |= {"left": left_window_size, "right": right_window_size}
    if softmax_precision is not None:
        attrs |= {"dtype": dtype_of(softmax_precision)}
    expect(
        0 <= qk_matmul_output_mode < len(QK_OUTPUT_MODES),
        f"unknown qk_matmul_output_mode {qk_matmul_output_mode}",
    )
    attrs |= {"scores": QK_OUTPUT_MODES[qk_matmul_output_mode]}
    inputs = (q, k, v, mask, past_key, past_value, lengths)
    y, *more = ops.attention_with_cache(*inputs, **attrs)
    return (merge_heads(y) if is_merged else y, *more)[:outputs]


def _has_equal_heads(q: Any, k: Any, mask: Any) -> bool:
    """Whether no heads are shared, and the mask covers all keys."""
    equal = dims_equal(dim_at(q, 1, "q"), dim_at(k, 1, "k")) is True
    if mask is None or not equal:
        return equal
    return dims_equal(dim_at(mask, -1, "attn_mask"), dim_at(k, 2, "k")) is True


def read_rotary_embedding(
    x: Any, cos: Any, sin: Any, position: Any = None, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    is_merged = rank_of(x) == 3
    if is_merged:
        expect(num_heads, "an input of rank 3 needs num_heads")
        x = split_heads(x, num_heads)
    attrs: dict[str, Any] = {"interleaved": bool(interleaved)}
    attrs["size"] = rotary_embedding_dim
    y = ops.rotary_embedding(x, cos, sin, position, **attrs)
    return merge_heads(y) if is_merged else y


def read_linear_attention(
    q: Any, k: Any, v: Any, state: Any = None, decay: Any = None, beta: Any = None, *,
    q_num_heads: int, kv_num_heads: int, scale: float = 0.0,
    update_rule: str = "gated_delta", chunk_size: int = 64,  # noqa: ARG001 - a hint
    outputs: int,
) -> Any:  # fmt: skip
    """Of [batch, length, heads * depth]; computed in the dtype of the state."""
    given = (decay is not None, beta is not None)
    expect(
        given == ("gated" in update_rule, "delta" in update_rule),
        f"update_rule={update_rule} does not match the inputs decay and beta",
    )
    counts = (q_num_heads, kv_num_heads, kv_num_heads)
    rows = [split_heads(x, n) for x, n in zip((q, k, v), counts, strict=True)]
    if decay is not None:
        decay = split_heads(decay, kv_num_heads)
    if beta is not None:
        last = dim_at(beta, 2, "beta")
        expect(isinstance(last, int), "the number of betas is dynamic")
        beta = split_heads(beta, last)
    attrs: dict[str, Any] = {"scale": scale} if scale else {}
    own = q.dtype
    more = [decay, beta]
    if state is not None and state.dtype != own:
        rows = [ops.astype(x, dtype=state.dtype) for x in rows]
        more = [x if x is None else ops.astype(x, dtype=state.dtype) for x in more]
    y, new_state = ops.linear_attention(*rows, state, *more, **attrs)
    return (merge_heads(cast_to(y, own)), new_state)[:outputs]


READ: dict[str, Any] = {
    "Attention": read_attention,
    "LinearAttention": read_linear_attention,
    "RotaryEmbedding": read_rotary_embedding,
}
