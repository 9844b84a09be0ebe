"""Multi-head and grouped-query attention: packed heads, and a key-value cache.

Language model runtimes fuse this: projections come in unsplit, and new keys and values
are written into the cache in place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import DType
from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.math.arithmetic import add, maximum, subtract, where
from amanda_std.ops.tensor.creation import arange, scalar_like
from amanda_std.ops.tensor.dynamic_slice import tensor_scatter
from amanda_std.ops.tensor.index_arithmetic import as_int64
from amanda_std.ops.tensor.manipulation import pad, slice_
from amanda_std.ops.tensor.shape import (
    astype,
    broadcast_to,
    expand_dims,
    reshape,
    squeeze,
    transpose,
)
from amanda_std.ops.transformer.rotary_embedding import rotary_embedding
from amanda_std.ops.transformer.scaled_dot_product import attention_with_cache

GROWS = ("total", "new", "never")
"""How a cache may grow."""


def _split_heads(x: Any, heads: int) -> Any:
    """Split heads: [batch, length, heads * depth] to [batch, heads, length, depth]."""
    size = dims_of(x)[-1]
    depth = size // heads if isinstance(size, int) else -1
    y = reshape(x, [0, 0, heads, depth], copy_zero=True)
    return transpose(y, perm=(0, 2, 1, 3))


def _merge_heads(y: Any) -> Any:
    _, heads, _, depth = dims_of(y)
    given = isinstance(heads, int) and isinstance(depth, int)
    size = heads * depth if given else -1
    y = transpose(y, perm=(0, 2, 1, 3))
    return reshape(y, [0, 0, size], copy_zero=True)


def _split_last_axis(x: Any, sizes: list[Any]) -> list[Any]:
    """Split the last axis into parts of these sizes."""
    axis, start, result = len(dims_of(x)) - 1, 0, []
    for size in sizes:
        result.append(slice_(x, [start], [start + size], [axis]))
        start = start + size
    return result


@composite
def multi_head_attention(
    q: RealFloating, k: RealFloating, v: RealFloating,
    bias: RealFloating | None = None, seen: Index | None = None,
    added: RealFloating | None = None, past_key: RealFloating | None = None,
    past_value: RealFloating | None = None, *, heads: int, scale: float | None = None,
    causal: bool = False, fill: float = -10000.0,
) -> tuple[RealFloating, RealFloating, RealFloating]:  # fmt: skip
    """Multi-head attention over [batch, length, heads * depth], with bias, masks, past

    Keys and values may also be [batch, heads, length, depth]. `bias` concatenates those
    of q, k and v. `seen` [batch, keys] is 0 for padding keys, to whose scores `fill` is
    added; `added` is added to all scores. Past keys and values come first, and are
    returned with the new ones. `scale` is 1 / sqrt(depth) if None or 0."""
    if bias is not None:
        sizes = [x.shape[-1] for x in (q, k, v)]
        rows = zip((q, k, v), _split_last_axis(bias, sizes), sizes, strict=True)
        q, k, v = (add(x, reshape(b, [n])) for x, b, n in rows)
    q, k, v = (x if len(dims_of(x)) == 4 else _split_heads(x, heads) for x in (q, k, v))
    if seen is not None:
        flags = expand_dims(astype(seen, dtype=DType("bool")), (1, 2))
        more = where(flags, scalar_like(0.0, q), scalar_like(fill, q))
        added = more if added is None else add(more, added)
    outputs = attention_with_cache(
        q, k, v, added, past_key, past_value, scale=scale or None, causal=causal
    )
    return _merge_heads(outputs[0]), outputs[1], outputs[2]


@composite
def grouped_attention(
    q: RealFloating, last: Index, k: RealFloating | None = None,
    v: RealFloating | None = None, past_key: RealFloating | None = None,
    past_value: RealFloating | None = None, total: Index | None = None,
    cos: RealFloating | None = None, sin: RealFloating | None = None,
    at: Index | None = None, added: RealFloating | None = None, *, heads: int,
    shared: int, scale: float | None = None, interleaved: bool = False,
    half: int = 0, window: int = -1, softcap: float = 0.0, grows: str = "total",
) -> tuple[RealFloating, RealFloating, RealFloating]:  # fmt: skip
    """Causal grouped-query attention (GQA) over [batch, length, heads * depth]

    `shared` key-value heads serve all query heads. Without k and v, q packs all three.
    `last` [batch] is the index of the last key of each batch element: new keys and
    values are written into the cache [batch, shared, length, depth] up to there, and
    the cache is returned. It grows to `total` if shorter (`total`), by the number of
    new keys (`new`), or not at all (`never`). With tables `cos` and `sin`, queries and
    keys get rotary embeddings at their positions or at `at`; `half` is the number of
    angles where the tables' types do not have it. With `window` other than -1, a query
    sees that many keys, its own included; `added` is added to the scores."""
    if k is None:
        depth = q.shape[-1] // (heads + 2 * shared)
        q, k, v = _split_last_axis(q, [depth * n for n in (heads, shared, shared)])
    counts = (heads, shared, shared)
    q, k, v = (_split_heads(x, n) for x, n in zip((q, k, v), counts, strict=True))
    new = as_int64(q.shape[2])
    start = None if past_key is None else _first_new_index(last, new)
    if cos is not None:
        at = _new_positions(q, start) if at is None else at
        size = 2 * (half or dims_of(cos)[-1].__index__())
        q, k = (
            rotary_embedding(x, cos, sin, at, interleaved=interleaved, size=size)
            for x in (q, k)
        )
    if start is not None:
        more = _cache_growth(past_key, new, total, grows)
        k, v = (
            _write_cache(old, x, start, more)
            for old, x in ((past_key, k), (past_value, v))
        )
    outputs = attention_with_cache(
        q, k, v, added, None, None, None if start is None else add(start, new),
        scale=scale or None, causal=True, softcap=softcap,
        left=window - 1 if window > 0 else -1,
    )  # fmt: skip
    return _merge_heads(outputs[0]), outputs[1], outputs[2]


def _first_new_index(last: Any, new: Any) -> Any:
    """Index of the first new key of each batch element.

    It is 0 for a first prompt, which may be padded at the end."""
    if len(dims_of(last)) == 2:
        last = squeeze(last, (1,))
    return maximum(subtract(add(as_int64(last), 1), new), 0)


def _new_positions(q: Any, start: Any) -> Any:
    """Positions of the new elements: [batch, length]."""
    rows = expand_dims(arange(0, q.shape[2]), (0,))
    if start is None:
        return broadcast_to(rows, (q.shape[0], q.shape[2]))
    return add(expand_dims(start, (1,)), rows)


def _cache_growth(past: Any, new: Any, total: Any, grows: str) -> Any:
    """Number of elements by which the cache grows, if it does."""
    if grows not in GROWS:
        raise InvalidTypeError(
            "unknown growth of a cache", expected=", ".join(GROWS), got=grows
        )
    if grows != "total":
        return new if grows == "new" else None
    if total is None:
        raise UsageError("a cache that grows to a total length requires `total`")
    have = subtract(reshape(as_int64(total), []), as_int64(past.shape[2]))
    return maximum(have, 0)


def _write_cache(past: Any, new: Any, start: Any, more: Any) -> Any:
    if more is not None:
        past = pad(past, [(0, more)], None, (2,))
    return tensor_scatter(past, new, start, axis=2)


# -- samples -------------------------------------------------------------------


def _pack_heads(x: Any) -> Any:
    """Merge heads: [batch, heads, length, depth] with its heads side by side."""
    batch, heads, positions, depth = x.shape
    y = np.zeros((batch, positions, heads * depth), x.dtype)
    for b, h, i, d in np.ndindex(x.shape):
        y[b, i, h * depth + d] = x[b, h, i, d]
    return y


def _attention_by_loops(q: Any, k: Any, v: Any, sees: Any, bias: Any, scale: float,
              cap: float = 0.0) -> Any:  # fmt: skip
    """Attention by loops: `sees(b, i, j)`, bias [batch, 1, i, j]; grouped key heads."""
    y = np.zeros((*q.shape[:3], v.shape[-1]))
    each = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        weights = []
        for j in range(k.shape[2]):
            pairs = zip(q[b, h, i], k[b, h // each, j], strict=True)
            score = math.fsum(float(m) * float(n) for m, n in pairs) * scale
            score = cap * math.tanh(score / cap) if cap else score
            score += 0.0 if bias is None else float(bias[b, 0, i, j])
            weights.append(math.exp(score) if sees(b, i, j) else 0.0)
        whole_share = math.fsum(weights)
        for d in range(v.shape[-1]):
            terms = (s * float(v[b, h // each, j, d]) for j, s in enumerate(weights))
            y[b, h, i, d] = math.fsum(terms) / whole_share
    return y


def _different_tensors(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    """Tensors with different contents."""
    result = (ramp(*s, dtype=dtype, start=0.3 * i - 0.7) for i, s in enumerate(shapes))
    return [(x / 3).astype(dtype) for x in result]


@multi_head_attention.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        q, k, v, old_k, old_v, added, bias = _different_tensors(
            dtype, (2, 2, 2, 3), (2, 2, 3, 3), (2, 2, 3, 2), (2, 2, 1, 3),
            (2, 2, 1, 2), (2, 1, 2, 4), (16,),
        )  # fmt: skip
        flat = [_pack_heads(x) for x in (q, k, v)]
        y = _attention_by_loops(q, k, v, lambda *_: True, None, 3**-0.5)
        expected = [_pack_heads(y).astype(dtype), k, v]
        yield Sample((*flat,), expected, {"heads": 2})
        yield Sample((flat[0], k, v), expected, {"heads": 2, "scale": 0.0})
        keys, values = (np.concatenate(p, 2) for p in ((old_k, k), (old_v, v)))
        seen = array([[1, 1, 0, 1], [1, 0, 1, 1]], "int32")
        y = _attention_by_loops(
            q, keys, values, lambda _b, i, j: j <= i + 1,
            added - 3.0 * (1 - seen.reshape(2, 1, 1, 4)), 0.4,
        )  # fmt: skip
        attrs = {"heads": 2, "scale": 0.4, "causal": True, "fill": -3.0}
        args = (*flat, None, seen, added, old_k, old_v)
        yield Sample(args, [_pack_heads(y).astype(dtype), keys, values], attrs)
        parts = (bias[:6], bias[6:12], bias[12:])
        moved = [x + p.reshape(2, 1, -1) for x, p in zip((q, k, v), parts, strict=True)]
        y = _attention_by_loops(
            moved[0], moved[1], moved[2], lambda *_: True, None, 3**-0.5
        )
        expected = [_pack_heads(y).astype(dtype), *(x.astype(dtype) for x in moved[1:])]
        yield Sample((*flat, bias), expected, {"heads": 2})
    none = np.zeros((0, 2, 4))
    empty = np.zeros((0, 2, 2, 2))
    yield Sample((none,) * 3, [none, empty, empty], {"heads": 2}, smooth=False)


def _rotate_by_loops(x: Any, positions: Any, interleaved: bool) -> Any:
    """Rotary embedding by complex numbers: pair i is rotated by position * 0.5**i."""
    y, half = x.astype("float64"), x.shape[-1] // 2
    for b, h, s, i in np.ndindex(*x.shape[:3], half):
        one, two = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        angle = float(positions[b][s]) * 0.5**i
        outputs = complex(x[b, h, s, one], x[b, h, s, two]) * complex(
            math.cos(angle), math.sin(angle)
        )
        y[b, h, s, one], y[b, h, s, two] = outputs.real, outputs.imag
    return y


def _cache_by_loops(old: Any, new: Any, starts: list[int], length: int) -> Any:
    """The cache with new elements written at the start of each batch element."""
    y = np.zeros((*old.shape[:2], length, old.shape[3]))
    y[:, :, : old.shape[2]] = old
    for b, h, s, d in np.ndindex(new.shape):
        y[b, h, starts[b] + s, d] = new[b, h, s, d]
    return y


def _cache_samples(dtype: str) -> Samples:
    q, k, v, old_k, old_v, added = _different_tensors(
        dtype, (2, 4, 2, 4), (2, 2, 2, 4), (2, 2, 2, 4), (2, 2, 5, 4), (2, 2, 5, 4),
        (2, 1, 2, 5),
    )  # fmt: skip
    flat = [_pack_heads(x) for x in (q, k, v)]
    angles = np.outer(np.arange(8), [1.0, 0.5])
    tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
    last, starts = array([3, 1], "int32"), [2, 0]
    rows = [[s, s + 1] for s in starts]
    for interleaved in (False, True):
        transposed = [_rotate_by_loops(x, rows, interleaved) for x in (q, k)]
        keys = _cache_by_loops(old_k, transposed[1], starts, 5)
        values = _cache_by_loops(old_v, v, starts, 5)
        y = _attention_by_loops(transposed[0], keys, values,
                      lambda b, i, j: j <= i + starts[b], None, 0.5)  # fmt: skip
        expected = [
            _pack_heads(y).astype(dtype),
            keys.astype(dtype),
            values.astype(dtype),
        ]
        attrs: dict[str, Any] = {
            "heads": 4, "shared": 2, "interleaved": interleaved, "half": 2,
        }  # fmt: skip
        args = (flat[0], last, *flat[1:], old_k, old_v, array(4, "int32"), *tables)
        yield Sample(args, expected, attrs, smooth=not interleaved)
        yield Sample(args, expected, attrs | {"grows": "never"}, smooth=False)
        args = (flat[0], last, *flat[1:], old_k, old_v, None, *tables,
                array(rows, "int64"))  # fmt: skip
        attrs |= {"grows": "never", "scale": 0.5}
        yield Sample(args, expected, attrs, smooth=False)
    keys, values = (
        _cache_by_loops(o, n, starts, 5) for o, n in ((old_k, k), (old_v, v))
    )
    y = _attention_by_loops(
        q, keys, values, lambda b, i, j: i + starts[b] - 1 <= j <= i + starts[b],
        added, 0.3, 0.8,
    )  # fmt: skip
    attrs = {"heads": 4, "shared": 2, "scale": 0.3, "softcap": 0.8, "window": 2,
             "grows": "never"}  # fmt: skip
    args = (flat[0], last, *flat[1:], old_k, old_v, None, None, None, None, added)
    expected = [_pack_heads(y).astype(dtype), keys.astype(dtype), values.astype(dtype)]
    yield Sample(args, expected, attrs)
    short = (old_k[:, :, :2], old_v[:, :, :2])
    end, positions = array([[3], [3]], "int64"), [2, 2]
    keys, values = (
        _cache_by_loops(o, n, positions, 4) for o, n in zip(short, (k, v), strict=True)
    )
    y = _attention_by_loops(q, keys, values, lambda _b, i, j: j <= i + 2, None, 0.5)
    expected = [_pack_heads(y).astype(dtype), keys.astype(dtype), values.astype(dtype)]
    own = {"heads": 4, "shared": 2}
    args = (flat[0], end, *flat[1:], *short)
    yield Sample(args, expected, own | {"grows": "new"}, smooth=False)
    yield Sample((*args, array([4], "int32")), expected, own, smooth=False)


@grouped_attention.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        yield from _cache_samples(dtype)
        q, k, v = _different_tensors(dtype, (1, 2, 3, 2), (1, 1, 3, 2), (1, 1, 3, 2))
        y = _attention_by_loops(q, k, v, lambda _b, i, j: j <= i, None, 2**-0.5)
        packed = np.concatenate([_pack_heads(x) for x in (q, k, v)], -1)
        expected = [_pack_heads(y).astype(dtype), k, v]
        own = {"heads": 2, "shared": 1}
        yield Sample((packed, array([2], "int32")), expected, own, smooth=False)
    none = np.zeros((0, 1, 4))
    args = (none, array([], "int32"), none, none)
    empty = np.zeros((0, 2, 1, 2))
    yield Sample(args, [none, empty, empty], {"heads": 2, "shared": 2}, smooth=False)
