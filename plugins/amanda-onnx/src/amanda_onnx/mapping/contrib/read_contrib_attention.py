"""From ONNX: attention as onnxruntime's own ops have it, with a cache of the past.

`past` and `present` are values like any other, so a loop that decodes step by step
feeds what it was given: nothing of a step is baked in. A cache that is longer than what
it holds is written behind that; where a model says that it comes back as long as it
was, every step has the same shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Op
from amanda.types import Sym, TensorType, same
from amanda_onnx.mapping.contrib.read_contrib import integer_to_float
from amanda_onnx.mapping.static_values import expect, rank_of
from amanda_std import ops

__all__ = ["READ"]


def _heads(x: Any, count: int) -> Any:
    """[batch, places, heads * depth] as [batch, heads, places, depth]."""
    parted = ops.reshape(x, [0, 0, count, -1], copy_zero=True)
    return ops.transpose(parted, perm=(0, 2, 1, 3))


def _joined(y: Any) -> Any:
    return ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), [0, 0, -1], copy_zero=True)


def multi_head(
    q: Any, k: Any = None, v: Any = None, bias: Any = None, padding: Any = None,
    added: Any = None, past_key: Any = None, past_value: Any = None,
    past_length: Any = None, indirection: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, scale: float | None = None,
    unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Of packed inputs: [batch, places, heads, 3, depth], or 2 for keys and values."""
    expect(past_length is None and indirection is None, "a cache shared by beams")
    expect(v is None, "inputs that are packed, with values beside them")
    is_known = padding is None or rank_of(padding) == 2
    expect(is_known, "a mask of other than [batch, keys]")
    if k is None:
        expect(rank_of(q) == 5, "packed inputs have five axes")
        q, k, v = _unpacked(q, 3)
    else:
        expect(rank_of(k) == 5, "packed keys and values have five axes")
        k, v = _unpacked(k, 2)
    how: dict[str, Any] = {} if mask_filter_value is None else {
        "fill": mask_filter_value
    }  # fmt: skip
    made = ops.multi_head_attention(
        q, k, v, bias, padding, added, past_key, past_value, heads=num_heads,
        scale=scale, causal=bool(unidirectional), **how,
    )  # fmt: skip
    return made[:outputs]


def _unpacked(x: Any, count: int) -> list[Any]:
    parts = (ops.gather(x, np.asarray(i), 3) for i in range(count))
    return [_flat(part) for part in parts]


def _flat(x: Any) -> Any:
    """[batch, places, heads, depth] with its heads side by side."""
    heads, depth = x.type.shape.dims[2:]
    told = isinstance(heads, int) and isinstance(depth, int)
    return ops.reshape(x, [0, 0, heads * depth if told else -1], copy_zero=True)


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
    return _self_attention(
        ops.split(both, list(sizes), axis=-1, outputs=3), mask, past, added,
        outputs, heads=num_heads, scale=scale, causal=bool(unidirectional),
        fill=-10000.0 if mask_filter_value is None else mask_filter_value,
    )  # fmt: skip


def _self_attention(
    parts: Any, mask: Any, past: Any, added: Any, outputs: int, **how: Any
) -> Any:
    """With a past that holds keys and values in one tensor, and so comes back."""
    expect(mask is None or rank_of(mask) == 2, "a mask of other than [batch, keys]")
    key = value = None
    if past is not None:
        halves = ops.split(past, [1, 1], axis=0, outputs=2)
        key, value = (ops.squeeze(part, (0,)) for part in halves)
    made = ops.multi_head_attention(
        parts[0], parts[1], parts[2], None, mask, added, key, value, **how
    )
    present = ops.stack(made[1], made[2], axis=0) if outputs > 1 else None
    return (made[0], present)[:outputs]


def quantised_attention(
    x: Any, weights: Any, bias: Any, x_scale: Any, scales: Any, mask: Any = None,
    x_zero: Any = None, zeros: Any = None, past: Any = None, *, num_heads: int,
    mask_filter_value: float | None = None, scale: float | None = None,
    unidirectional: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Its projection is a product of integers; what follows is in floats."""
    both = integer_to_float(x, weights, x_scale, scales, x_zero, zeros, bias)
    return _self_attention(
        ops.split(both, None, axis=-1, outputs=3), mask, past, None, outputs,
        heads=num_heads, scale=scale, causal=bool(unidirectional),
        fill=-10000.0 if mask_filter_value is None else mask_filter_value,
    )  # fmt: skip


def grouped(
    o: Any, q: Any, k: Any = None, v: Any = None, past_key: Any = None,
    past_value: Any = None, last: Any = None, total: Any = None, cos: Any = None,
    sin: Any = None, at: Any = None, added: Any = None, *, num_heads: int,
    kv_num_heads: int, scale: float | None = None, do_rotary: int = 0,
    rotary_interleaved: int = 0, local_window_size: int = -1, softcap: float = 0.0,
) -> Any:  # fmt: skip
    """The types told say whether the cache comes back as long as it was, or longer."""
    if do_rotary:
        expect(cos is not None and sin is not None, "angles that are not told")
    else:
        cos = sin = at = None
    return o.grouped_attention(
        q, last, k, v, past_key, past_value, total, cos, sin, at, added,
        heads=num_heads, shared=kv_num_heads, scale=scale or None,
        interleaved=bool(rotary_interleaved), window=local_window_size,
        softcap=softcap or 0.0, grows=_grows(o.source),
    )  # fmt: skip


def _grows(op: Op) -> str:
    """How the cache does, by the length that it has before and behind the op."""
    past, outputs = op.inputs[3] if len(op.inputs) > 3 else None, op.outputs
    if past is None or len(outputs) < 2:
        return "total"
    before, after = (_length(value.type) for value in (past, outputs[1]))
    if before is None or after is None:
        return "total"
    return "never" if same(before, after) is True else "new"


def _length(type: Any) -> Any:
    """The length of a cache as its model tells it, by a number or a word."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return None
    found = type.shape.dims[2]
    is_word = isinstance(found, Sym) and not found.is_anonymous
    return found if isinstance(found, int) or is_word else None


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
    "com.microsoft.QAttention": quantised_attention,
    "com.microsoft.RotaryEmbedding": rotary,
}
