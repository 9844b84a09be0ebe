"""From ONNX: attention and what goes with it, in the words of opset 23 and later."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import Undecided
from amanda_onnx.mapping.known import dims, expect, rank_of
from amanda_onnx.tensors import DTYPES
from amanda_std import ops

__all__ = ["READ"]

_NEVER = float("-inf")


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None, *, is_causal: int = 0,
    q_num_heads: int | None = None, kv_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None, left_window_size: int = -1,
    right_window_size: int = -1, outputs: int,
) -> Any:  # fmt: skip
    flat = rank_of(q) == 3
    windows = (left_window_size, right_window_size)
    if flat:
        expect(q_num_heads and kv_num_heads, "heads that are not told")
        q, k, v = (
            _heads(x, n or 1)
            for x, n in zip((q, k, v), (q_num_heads, kv_num_heads, kv_num_heads),
                            strict=True)
        )  # fmt: skip
    offset: Any = 0
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = ops.concat(past_key, k, axis=2), ops.concat(past_value, v, axis=2)
    present = (k, v)
    if lengths is not None and past_key is None:
        length = ops.astype(lengths, dtype="int64") - q.shape[2]
        offset = ops.reshape(length, [-1, 1, 1])
    plain = mask is None and past_key is None and lengths is None
    causal = bool(is_causal and plain and windows == (-1, -1))
    bias = _bias(q, k, mask, is_causal and not causal, windows, offset, lengths)
    k, v = (_repeated(x, q) for x in (k, v))
    # In half precision, the words of ONNX round after each step.
    simple = outputs == 1 and not softcap and softmax_precision is None
    if bias is None and simple and str(q.dtype) in ("float32", "float64"):
        y = ops.attention(q, k, v, scale=scale, causal=causal)
        return (_joined(y) if flat else y,)
    if causal:
        bias = _bias(q, k, mask, 1, windows, offset, lengths)
    y, scores = _weighed(q, k, v, bias, scale, softcap, softmax_precision,
                         qk_matmul_output_mode)  # fmt: skip
    return (_joined(y) if flat else y, *present, scores)[:outputs]


def _heads(x: Any, count: int) -> Any:
    """[batch, places, heads * depth] as [batch, heads, places, depth]."""
    parted = ops.reshape(x, [0, 0, count, -1], copy_zero=True)
    return ops.transpose(parted, perm=(0, 2, 1, 3))


def _joined(y: Any) -> Any:
    turned = ops.transpose(y, perm=(0, 2, 1, 3))
    return ops.reshape(turned, [0, 0, -1], copy_zero=True)


def _repeated(x: Any, q: Any) -> Any:
    """Heads of keys or values, each for as many heads of queries as share it."""
    wanted, have = (value.type.shape.dims[1] for value in (q, x))
    expect(isinstance(wanted, int) and isinstance(have, int), "heads are not known")
    if wanted == have:
        return x
    expect(wanted % have == 0, f"{wanted} heads share {have}")
    return ops.gather(x, np.repeat(np.arange(have), wanted // have), 1)


def _bias(q: Any, k: Any, mask: Any, is_causal: int, windows: tuple[int, int],
          offset: Any, lengths: Any) -> Any:  # fmt: skip
    """What is added to the scores: -inf where a query must not look. Or None."""
    parts: list[Any] = []
    if mask is not None:
        mask = _padded(mask, k)
        is_truth = str(mask.dtype.kind) == "bool"
        parts.append(_allowed(mask, q) if is_truth else mask)
    left, right = windows
    columns = ops.expand_dims(ops.arange(0, k.shape[2]), (0,))
    rows = ops.expand_dims(ops.arange(0, q.shape[2]), (1,))
    here = rows if isinstance(offset, int) and offset == 0 else rows + offset
    limits = []
    if is_causal:
        limits.append(ops.less_equal(columns, here))
    if left >= 0:
        limits.append(ops.less_equal(here - left, columns))
    if right >= 0:
        limits.append(ops.less_equal(columns, here + right))
    for seen in limits:
        each = _allowed(seen, q)
        parts.append(ops.expand_dims(each, (1,)) if each.ndim == 3 else each)
    if lengths is not None:
        count = ops.reshape(ops.astype(lengths, dtype="int64"), [-1, 1, 1, 1])
        parts.append(_allowed(ops.less(columns, count), q))
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


def _allowed(seen: Any, q: Any) -> Any:
    """0 where a query may look, -inf elsewhere."""
    kind = q.dtype.numpy
    return ops.where(seen, np.zeros((), kind), np.full((), _NEVER, kind))


def _padded(mask: Any, k: Any) -> Any:
    """A mask may tell of the first places only; the others are not seen."""
    have, want = mask.type.shape.dims[-1], k.type.shape.dims[2]
    try:
        if have == want:
            return mask
    except Undecided:
        pass
    rest = k.shape[2] - mask.shape[-1]
    is_truth = str(mask.dtype.kind) == "bool"
    fill = np.asarray(False if is_truth else _NEVER, mask.dtype.numpy)
    return ops.pad(mask, [[0, rest]], fill, (-1,))


def _weighed(q: Any, k: Any, v: Any, bias: Any, scale: float | None, softcap: float,
             precision: int | None, mode: int) -> Any:  # fmt: skip
    """The weighed values, and the scores at the stage that `mode` says."""
    own = q.dtype
    depth = q.type.shape.dims[3]
    expect(scale is not None or isinstance(depth, int), "the depth is not known")
    factor = np.asarray(np.sqrt(depth**-0.5 if scale is None else scale), own.numpy)
    turned = ops.transpose(k, perm=(0, 1, 3, 2))
    scores = ops.matmul(q * factor, turned * factor)
    if softcap > 0:
        scores = ops.tanh(scores / softcap) * softcap
    biased = scores if bias is None else scores + bias
    wide = biased if precision is None else ops.astype(biased, dtype=DTYPES[precision])
    weights = ops.softmax(wide)
    if bias is not None:
        nothing = ops.equal(ops.max(bias, (-1,), keepdims=True), _NEVER)
        weights = ops.where(nothing, np.zeros((), weights.dtype.numpy), weights)
    told = weights if mode == 3 else biased if mode == 2 else scores
    if weights.dtype != own:
        weights = ops.astype(weights, dtype=own)
        told = weights if mode == 3 else told
    return ops.matmul(weights, v), told


# -- positions ---------------------------------------------------------------------


def rotary(x: Any, cos: Any, sin: Any, at: Any = None, *, interleaved: int = 0,
           num_heads: int = 0, rotary_embedding_dim: int = 0) -> Any:  # fmt: skip
    flat = rank_of(x) == 3
    if flat:
        expect(num_heads, "heads that are not told")
        x = _heads(x, num_heads)
    depth = dims(x)[3] if x.type.shape.is_static else x.type.shape.dims[3]
    expect(isinstance(depth, int), "the depth is not known")
    size = rotary_embedding_dim or depth
    if at is not None:
        cos, sin = ops.gather(cos, at), ops.gather(sin, at)
    cos, sin = (ops.expand_dims(c, (1,)) for c in (cos, sin))
    turned = x if size == depth else ops.slice_(x, [0], [size], [3])
    y = _turned(turned, cos, sin, size // 2, pairs=bool(interleaved))
    if size != depth:
        y = ops.concat(y, ops.slice_(x, [size], [depth], [3]), axis=3)
    return _joined(y) if flat else y


def _turned(x: Any, cos: Any, sin: Any, half: int, *, pairs: bool) -> Any:
    """Each two numbers turned by an angle: neighbours, or the halves."""
    if pairs:
        a, b = (ops.slice_(x, [i], [2 * half], [3], [2]) for i in (0, 1))
    else:
        a = ops.slice_(x, [0], [half], [3])
        b = ops.slice_(x, [half], [2 * half], [3])
    real, other = cos * a - sin * b, sin * a + cos * b
    if not pairs:
        return ops.concat(real, other, axis=3)
    stacked = ops.stack(real, other, axis=4)
    return ops.reshape(stacked, [0, 0, 0, 2 * half], copy_zero=True)


READ: dict[str, Any] = {"Attention": attention, "RotaryEmbedding": rotary}
