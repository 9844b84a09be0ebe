"""From ONNX: attention of com.microsoft, with key-value caches.

`past` and `present` are ordinary values: a decoding loop feeds back what a step
returned. A cache longer than its contents is written behind them in place; where the
model declares that its length stays the same, all steps have the same shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Op
from amanda.types import Sym, TensorType, dims_equal
from amanda_onnx.mapping.attention.heads import merge_heads, split_heads
from amanda_onnx.mapping.contrib.read_contrib_quantization import (
    read_matmul_integer_to_float,
)
from amanda_std import ops
from amanda_std.mappings import expect, rank_of, tensor_type_of

__all__ = ["READ"]

_MASKED = -10000.0
"""The default of `mask_filter_value`."""


def read_multi_head_attention(
    q: Any, k: Any = None, v: Any = None, bias: Any = None, padding: Any = None,
    added: Any = None, past_key: Any = None, past_value: Any = None,
    past_length: Any = None, indirection: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, scale: float | None = None,
    unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Of packed inputs: [batch, length, heads, 3, depth], or 2 for keys and values."""
    expect(past_length is None and indirection is None, "a cache for beam search")
    expect(v is None, "packed inputs and a value input")
    expect(padding is None or rank_of(padding) == 2, "a mask other than [batch, keys]")
    if k is None:
        expect(rank_of(q) == 5, "packed inputs need rank 5")
        q, k, v = _unpack(q, 3)
    else:
        expect(rank_of(k) == 5, "packed keys and values need rank 5")
        k, v = _unpack(k, 2)
    attrs: dict[str, Any] = {} if mask_filter_value is None else {
        "fill": mask_filter_value
    }  # fmt: skip
    results = ops.multi_head_attention(
        q, k, v, bias, padding, added, past_key, past_value, heads=num_heads,
        scale=scale, causal=bool(unidirectional), **attrs,
    )  # fmt: skip
    return results[:outputs]


def _unpack(x: Any, count: int) -> list[Any]:
    parts = (ops.gather(x, np.asarray(i), 3) for i in range(count))
    return [_merge_last(part) for part in parts]


def _merge_last(x: Any) -> Any:
    """[batch, length, heads, depth] as [batch, length, heads * depth]."""
    heads, depth = tensor_type_of(x).shape.dims[2:]
    is_static = isinstance(heads, int) and isinstance(depth, int)
    return ops.reshape(x, [0, 0, heads * depth if is_static else -1], copy_zero=True)


def read_packed_attention(
    x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None,
    added: Any = None, past_length: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, qkv_hidden_sizes: Any = None,
    scale: float | None = None, unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    expect(past_length is None, "a cache that is written in place")
    qkv = ops.matmul(x, weights)
    qkv = qkv if bias is None else qkv + bias
    size = tensor_type_of(weights).shape.dims[-1]
    expect(isinstance(size, int), "the width of the packed weights is dynamic")
    sizes = [int(size) // 3] * 3 if qkv_hidden_sizes is None else qkv_hidden_sizes
    return _self_attention(
        ops.split(qkv, list(sizes), axis=-1, outputs=3), mask, past, added,
        outputs, heads=num_heads, scale=scale, causal=bool(unidirectional),
        fill=_MASKED if mask_filter_value is None else mask_filter_value,
    )  # fmt: skip


def _self_attention(
    qkv: Any, mask: Any, past: Any, added: Any, outputs: int, **attrs: Any
) -> Any:
    """With keys and values of the cache in one tensor, past and present."""
    expect(mask is None or rank_of(mask) == 2, "a mask other than [batch, keys]")
    cache: list[Any] = [None, None]
    if past is not None:
        halves = ops.split(past, [1, 1], axis=0, outputs=2)
        cache = [ops.squeeze(part, (0,)) for part in halves]
    y, key, value = ops.multi_head_attention(*qkv, None, mask, added, *cache, **attrs)
    present = ops.stack(key, value, axis=0) if outputs > 1 else None
    return (y, present)[:outputs]


def read_quantized_attention(
    x: Any, weights: Any, bias: Any, x_scale: Any, scales: Any, mask: Any = None,
    x_zero: Any = None, zeros: Any = None, past: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, scale: float | None = None,
    unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """The projection is an integer product; the rest is computed in floats."""
    qkv = read_matmul_integer_to_float(x, weights, x_scale, scales, x_zero, zeros, bias)
    return _self_attention(
        ops.split(qkv, None, axis=-1, outputs=3), mask, past, None, outputs,
        heads=num_heads, scale=scale, causal=bool(unidirectional),
        fill=_MASKED if mask_filter_value is None else mask_filter_value,
    )  # fmt: skip


def read_group_query_attention(
    o: Any, q: Any, k: Any = None, v: Any = None, past_key: Any = None,
    past_value: Any = None, last: Any = None, total: Any = None, cos: Any = None,
    sin: Any = None, at: Any = None, added: Any = None, *, num_heads: int,
    kv_num_heads: int, scale: float | None = None, do_rotary: int = 0,
    rotary_interleaved: int = 0, local_window_size: int = -1, softcap: float = 0.0,
) -> Any:  # fmt: skip
    """The declared types decide whether the cache keeps its length or grows."""
    if do_rotary:
        expect(
            cos is not None and sin is not None, "do_rotary=1 needs the cos/sin cache"
        )
    else:
        cos = sin = at = None
    return o.grouped_attention(
        q, last, k, v, past_key, past_value, total, cos, sin, at, added,
        heads=num_heads, shared=kv_num_heads, scale=scale or None,
        interleaved=bool(rotary_interleaved), window=local_window_size,
        softcap=softcap or 0.0, grows=_cache_growth(o.source),
    )  # fmt: skip


def _cache_growth(op: Op) -> str:
    """How the cache grows, by its declared lengths before and after the op."""
    past, outputs = op.inputs[3] if len(op.inputs) > 3 else None, op.outputs
    if past is None or len(outputs) < 2:
        return "total"
    before, after = (_declared_length(value.type) for value in (past, outputs[1]))
    if before is None or after is None:
        return "total"
    return "never" if dims_equal(before, after) is True else "new"


def _declared_length(type: Any) -> Any:
    """The declared length of a cache: a number or a named dim; else None."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return None
    dim = type.shape.dims[2]
    is_named = isinstance(dim, Sym) and not dim.is_anonymous
    return dim if isinstance(dim, int) or is_named else None


def read_rotary_embedding(
    x: Any, position: Any, cos: Any, sin: Any, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Any:  # fmt: skip
    expect(not is_packed_batching and scale in (0.0, 1.0), "packed batching or a scale")
    half = tensor_type_of(cos).shape.dims[-1]
    expect(isinstance(half, int), "the width of the cos cache is dynamic")
    is_merged = rank_of(x) == 3
    if is_merged:
        size = tensor_type_of(x).shape.dims[-1]
        expect(num_heads or isinstance(size, int), "the number of heads is dynamic")
        x = split_heads(x, num_heads or int(size) // (2 * int(half)))
    if tensor_type_of(position).shape.dims == (
        1,
    ):  # of the first token; the others follow
        rows = ops.expand_dims(position + ops.arange(0, x.shape[2]), (0,))
        position = ops.broadcast_to(rows, (x.shape[0], x.shape[2]))
    size = rotary_embedding_dim or 2 * int(half)
    attrs: dict[str, Any] = {"interleaved": bool(interleaved), "size": size}
    y = ops.rotary_embedding(x, cos, sin, position, **attrs)
    return merge_heads(y) if is_merged else y


READ: dict[str, Any] = {
    "com.microsoft.Attention": read_packed_attention,
    "com.microsoft.GroupQueryAttention": read_group_query_attention,
    "com.microsoft.MultiHeadAttention": read_multi_head_attention,
    "com.microsoft.QAttention": read_quantized_attention,
    "com.microsoft.RotaryEmbedding": read_rotary_embedding,
}
