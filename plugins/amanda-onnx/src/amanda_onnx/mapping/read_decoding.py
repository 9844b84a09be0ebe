"""From ONNX: attention as onnxruntime's own ops have it, with a cache of the past.

`past` and `present` are values like any other, so a loop that decodes step by step
feeds what it was given: nothing of a step is baked in.
"""

from __future__ import annotations

from typing import Any

from amanda.types import DType
from amanda_onnx.mapping.known import expect, rank_of
from amanda_std import ops

__all__ = ["READ"]

_INT = DType("int64")


def _heads(x: Any, count: int) -> Any:
    """[batch, places, heads * depth] as [batch, heads, places, depth]."""
    parted = ops.reshape(x, [0, 0, count, -1], copy_zero=True)
    return ops.transpose(parted, perm=(0, 2, 1, 3))


def _joined(y: Any) -> Any:
    return ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), [0, 0, -1], copy_zero=True)


def _padded(mask: Any, like: Any, fill: float) -> Any:
    """What is added to scores of keys that are only there to fill up: [batch, keys]."""
    expect(rank_of(mask) == 2, "a mask of other than [batch, keys]")
    seen = ops.expand_dims(ops.astype(mask, dtype=DType("bool")), (1, 2))
    none, lowest = (ops.number_like(like, value=v) for v in (0.0, fill))
    return ops.where(seen, none, lowest)


def _sum(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


def multi_head(
    q: Any, k: Any = None, v: Any = None, bias: Any = None, padding: Any = None,
    added: Any = None, past_key: Any = None, past_value: Any = None,
    past_length: Any = None, indirection: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, scale: float | None = None,
    unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    expect(past_length is None and indirection is None, "a cache shared by beams")
    expect(k is not None and v is not None and rank_of(q) == 3, "packed inputs")
    if bias is not None:
        sizes = [x.type.shape.dims[-1] for x in (q, k, v)]
        parts = ops.split(bias, sizes, axis=0, outputs=3)
        q, k, v = (x + part for x, part in zip((q, k, v), parts, strict=True))
    rows = [x if rank_of(x) == 4 else _heads(x, num_heads) for x in (q, k, v)]
    fill = -10000.0 if mask_filter_value is None else mask_filter_value
    mask = None if padding is None else _padded(padding, q, fill)
    made = ops.attention_with_cache(
        *rows, _sum(mask, added), past_key, past_value, None,
        scale=scale or None, causal=bool(unidirectional),
    )  # fmt: skip
    return (_joined(made[0]), *made[1:])[:outputs]


def packed_attention(
    x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None,
    added: Any = None, past_length: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, qkv_hidden_sizes: Any = None,
    scale: float | None = None, unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    expect(past_length is None, "a cache that is written in place")
    both = ops.matmul(x, weights)
    both = both if bias is None else both + bias
    size = weights.type.shape.dims[-1]
    expect(isinstance(size, int), "packed inputs of an unknown width")
    sizes = [int(size) // 3] * 3 if qkv_hidden_sizes is None else qkv_hidden_sizes
    parts = ops.split(both, list(sizes), axis=-1, outputs=3)
    q, k, v = (_heads(part, num_heads) for part in parts)
    fill = -10000.0 if mask_filter_value is None else mask_filter_value
    told = None if mask is None else _padded(mask, x, fill)
    old: list[Any] = [None, None]
    if past is not None:
        halves = ops.split(past, [1, 1], axis=0, outputs=2)
        old = [ops.squeeze(part, (0,)) for part in halves]
    made = ops.attention_with_cache(
        q, k, v, _sum(told, added), *old, None, scale=scale or None,
        causal=bool(unidirectional),
    )  # fmt: skip
    present = ops.stack(made[1], made[2], axis=0) if outputs > 1 else None
    return (_joined(made[0]), present)[:outputs]


def grouped(
    q: Any, k: Any = None, v: Any = None, past_key: Any = None, past_value: Any = None,
    last: Any = None, total: Any = None, cos: Any = None, sin: Any = None,
    at: Any = None, added: Any = None, *, num_heads: int, kv_num_heads: int,
    scale: float | None = None, do_rotary: int = 0, rotary_interleaved: int = 0,
    local_window_size: int = -1, softcap: float = 0.0, outputs: int,
) -> Any:  # fmt: skip
    """Queries that share keys; the past grows by what is given, and comes back.

    The last key of each batch is told: what lies behind it fills up."""
    del total  # which the shapes say
    if k is None:
        size = q.type.shape.dims[-1]
        expect(isinstance(size, int), "packed inputs of an unknown width")
        depth = int(size) // (num_heads + 2 * kv_num_heads)
        sizes = [num_heads * depth, kv_num_heads * depth, kv_num_heads * depth]
        q, k, v = ops.split(q, sizes, axis=-1, outputs=3)
    counts = (num_heads, kv_num_heads, kv_num_heads)
    q, k, v = (_heads(x, n) for x, n in zip((q, k, v), counts, strict=True))
    if do_rotary:
        expect(cos is not None and sin is not None, "angles that are not told")
        if at is None:
            at = _places(q, past_key)
        q, k = (_turned(x, cos, sin, at, rotary_interleaved) for x in (q, k))
    lengths = ops.astype(last, dtype=_INT) + 1
    if rank_of(lengths) == 2:
        lengths = ops.squeeze(lengths, (1,))
    window = local_window_size - 1 if local_window_size > 0 else -1
    how: dict[str, Any] = {"softcap": softcap} if softcap else {}
    made = ops.attention_with_cache(
        q, k, v, added, past_key, past_value,
        lengths if past_key is not None else None,
        scale=scale or None, causal=True, left=window, **how,
    )  # fmt: skip
    return (_joined(made[0]), made[1], made[2])[:outputs]


def _places(q: Any, past: Any) -> Any:
    """Places of what is new, [batch, places]: behind the past."""
    first = 0 if past is None else past.shape[2]
    rows = ops.arange(first, first + q.shape[2])
    return ops.broadcast_to(ops.expand_dims(rows, (0,)), (q.shape[0], q.shape[2]))


def _turned(x: Any, cos: Any, sin: Any, at: Any, interleaved: int) -> Any:
    half = cos.type.shape.dims[-1]
    expect(isinstance(half, int), "angles of an unknown number")
    return ops.rotary_embedding(
        x, cos, sin, at, interleaved=bool(interleaved), size=2 * int(half)
    )


def rotary(x: Any, at: Any, cos: Any, sin: Any, *, interleaved: int = 0,
           num_heads: int = 0, rotary_embedding_dim: int = 0,
           is_packed_batching: int = 0, scale: float = 1.0) -> Any:  # fmt: skip
    expect(not is_packed_batching and scale in (0.0, 1.0), "batches of several lengths")
    half = cos.type.shape.dims[-1]
    expect(isinstance(half, int), "angles of an unknown number")
    is_flat = rank_of(x) == 3
    if is_flat:
        size = x.type.shape.dims[-1]
        expect(num_heads or isinstance(size, int), "heads of an unknown number")
        x = _heads(x, num_heads or int(size) // (2 * int(half)))
    if at.type.shape.dims == (1,):  # the place of the first; the others follow
        rows = ops.expand_dims(at + ops.arange(0, x.shape[2]), (0,))
        at = ops.broadcast_to(rows, (x.shape[0], x.shape[2]))
    size = rotary_embedding_dim or 2 * int(half)
    y = ops.rotary_embedding(x, cos, sin, at, interleaved=bool(interleaved), size=size)
    return _joined(y) if is_flat else y


READ: dict[str, Any] = {
    "com.microsoft.Attention": packed_attention,
    "com.microsoft.GroupQueryAttention": grouped,
    "com.microsoft.MultiHeadAttention": multi_head,
    "com.microsoft.RotaryEmbedding": rotary,
}
