"""Linear attention: a recurrent state matrix instead of a key-value cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.control.scan import scan
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import add, floor_divide, multiply, subtract
from amanda_std.ops.math.elementary import exp, rsqrt
from amanda_std.ops.tensor.creation import arange, full, scalar_like
from amanda_std.ops.tensor.index_arithmetic import (
    as_int64,
    dtype_of,
    interpolation_dtype,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import astype, expand_dims, squeeze
from amanda_std.ops.transformer.scaled_dot_product import check_grouped_heads


@composite
def linear_attention(
    q: RealFloating, k: RealFloating, v: RealFloating,
    state: RealFloating | None = None, decay: RealFloating | None = None,
    beta: RealFloating | None = None, *, scale: float | None = None,
) -> tuple[RealFloating, RealFloating]:  # fmt: skip
    """Linear attention: a state matrix is written by keys and values, read by queries

    q, k, v are [batch, heads, length, depth]; key heads are shared by groups of query
    heads. At each step the state [batch, heads, depth, value depth] is multiplied by
    exp(decay) if given, and k v' is added. With `beta`, that share of the value that
    the key reads is replaced instead (delta rule). Returns the values read, and the
    final state. Computed in float32 or wider."""
    own, wide = dtype_of(q), interpolation_dtype(q)
    factor = astype(_scale_factor(q, scale), dtype=wide)
    check_grouped_heads(dims_of(k)[1], dims_of(q)[1])
    batch, heads = k.shape[0], k.shape[1]
    if state is None:
        shape = [batch, heads, k.shape[3], v.shape[3]]
        initial = full(shape, np.asarray(0, wide.numpy))
    else:
        initial = astype(state, dtype=wide)
    given = [x for x in (q, k, v, decay, beta) if x is not None]
    rows = [astype(x, dtype=wide) for x in given]
    many = q.shape[1]
    last, seen = scan(
        _step_function(decay is not None, beta is not None, many, heads), None, initial,
        *rows, carried=1, axes=(2,) * len(rows), out_axes=(2,),
    )  # fmt: skip
    y = astype(multiply(seen, factor), dtype=own)
    return y, astype(last, dtype=own)


def _scale_factor(q: Any, scale: float | None) -> Any:
    if scale is not None:
        return scalar_like(scale, q)
    return rsqrt(astype(as_int64(q.shape[3]), dtype=interpolation_dtype(q)))


def _step_function(fades: bool, corrects: bool, many: Any, heads: Any) -> Any:
    """One step: (state, q, k, v, decay?, beta?) -> (state, values read)."""

    def step(state: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
        if fades:
            state = multiply(state, exp(expand_dims(rest[0], (3,))))
        if corrects:
            result = matmul(expand_dims(k, (2,)), state)
            v = multiply(rest[-1], subtract(v, squeeze(result, (2,))))
        new = multiply(expand_dims(k, (3,)), expand_dims(v, (2,)))
        state = add(state, new)
        each = floor_divide(as_int64(many), as_int64(heads))
        own = floor_divide(arange(0, many), each)
        shared = gather(state, own, 1)
        read = matmul(expand_dims(q, (2,)), shared)
        return state, squeeze(read, (2,))

    return step


@linear_attention.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        q = (ramp(2, 4, 3, 2, dtype=dtype) / 4).astype(dtype)
        k, v = ((ramp(2, 2, 3, d, dtype=dtype, start=s) / 3).astype(dtype)
                for d, s in ((2, 0.2), (3, 0.6)))  # fmt: skip
        initial = (ramp(2, 2, 2, 3, dtype=dtype) / 5).astype(dtype)
        decay = -np.abs(ramp(2, 2, 3, 2, dtype=dtype, start=0.1)) / 9
        beta = np.abs(ramp(2, 2, 3, 1, dtype=dtype, start=0.3)) / 5
        for state, fade, part in ((None, None, None), (initial, decay, None),
                                  (initial, None, beta),
                                  (initial, decay[..., :1], beta),
                                  (None, decay, beta)):  # fmt: skip
            y, last = _linear_attention_by_loops(q, k, v, state, fade, part, 2**-0.5)
            args = (q, k, v, state, fade, part)
            yield Sample(args, [y.astype(dtype), last.astype(dtype)])
        y, last = _linear_attention_by_loops(q, k, v, initial, None, None, 0.3)
        expected = [y.astype(dtype), last.astype(dtype)]
        yield Sample((q, k, v, initial), expected, {"scale": 0.3})
    empty = np.zeros((0, 2, 3, 2))
    yield Sample((empty,) * 3, [empty, np.zeros((0, 2, 2, 2))], smooth=False)


def _linear_attention_by_loops(q: Any, k: Any, v: Any, state: Any, decay: Any,
          beta: Any, scale: float) -> tuple[Any, Any]:  # fmt: skip
    batch, heads, positions, depth = k.shape
    out = v.shape[3]
    y, last = np.zeros((*q.shape[:3], out)), np.zeros((batch, heads, depth, out))
    for b in range(batch):
        for h in range(heads):
            s = [[0.0 if state is None else float(state[b, h, d, m])
                  for m in range(out)] for d in range(depth)]  # fmt: skip
            for t in range(positions):
                for d in range(depth):
                    if decay is not None:
                        fade = decay[b, h, t, d if decay.shape[3] > 1 else 0]
                        s[d] = [n * math.exp(float(fade)) for n in s[d]]
                for m in range(out):
                    value = float(v[b, h, t, m])
                    if beta is not None:
                        result = sum(
                            s[d][m] * float(k[b, h, t, d]) for d in range(depth)
                        )
                        value = float(beta[b, h, t, 0]) * (value - result)
                    for d in range(depth):
                        s[d][m] += float(k[b, h, t, d]) * value
                for i in range(q.shape[1] // heads):
                    one = h * (q.shape[1] // heads) + i
                    for m in range(out):
                        terms = (float(q[b, one, t, d]) * s[d][m] for d in range(depth))
                        y[b, one, t, m] = scale * math.fsum(terms)
            last[b, h] = s
    return y, last
