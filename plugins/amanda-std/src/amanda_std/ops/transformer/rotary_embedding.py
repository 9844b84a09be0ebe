"""Rotary position embedding (RoPE)."""

from __future__ import annotations

import numpy as np

from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.math.arithmetic import add, multiply, subtract
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import concat, slice_, stack
from amanda_std.ops.tensor.shape import expand_dims, reshape


@composite
def rotary_embedding(
    x: RealFloating, cos: RealFloating, sin: RealFloating, at: Index = None, *,
    interleaved: bool = False, size: int = 0,
) -> RealFloating:  # fmt: skip
    """Rotary position embedding of [batch, heads, length, depth]

    Pairs are (i, i + half), or adjacent elements if `interleaved`, of the first `size`
    elements (0: all). Angles are [batch, length, half], or rows of a table selected by
    `at` [batch, length]."""
    depth = x.shape[3]
    size = size or depth.__index__()
    half = size // 2
    if at is not None:
        cos, sin = gather(cos, at), gather(sin, at)
    cos, sin = (expand_dims(c, (1,)) for c in (cos, sin))
    if interleaved:
        a, b = (slice_(x, [i], [size], [3], [2]) for i in (0, 1))
    else:
        a, b = slice_(x, [0], [half], [3]), slice_(x, [half], [size], [3])
    real = subtract(multiply(cos, a), multiply(sin, b))
    other = add(multiply(sin, a), multiply(cos, b))
    if interleaved:
        y = reshape(stack(real, other, axis=4), [*x.shape[:3], size])
    else:
        y = concat(real, other, axis=3)
    if isinstance(depth, int):
        rest = slice_(x, [size], [depth], [3])
        return y if depth == size else concat(y, rest, axis=3)
    y = concat(y, slice_(x, [size], [depth], [3]), axis=3)
    return reshape(y, list(x.shape))  # gives the result its static type


@rotary_embedding.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 2, 3, 6, dtype=dtype)
        table = np.arange(12).reshape(6, 2) * 0.3
        at = array([[0, 2, 1], [5, 3, 4]], "int64")
        for size in (0, 4):
            half = (size or 6) // 2
            angles = np.concatenate([table, table[:, :1] - 1], 1)[:, :half]
            cos, sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
            for interleaved in (False, True):
                y = x.astype("float64")
                for b, h, s, i in np.ndindex(2, 2, 3, half):
                    one, two = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
                    turn = complex(cos[at[b, s], i], sin[at[b, s], i])
                    outputs = complex(x[b, h, s, one], x[b, h, s, two]) * turn
                    y[b, h, s, one], y[b, h, s, two] = outputs.real, outputs.imag
                attrs = {"interleaved": interleaved, "size": size or 6}
                yield Sample((x, cos, sin, at), y.astype(dtype), attrs)
                yield Sample((x, cos[at], sin[at]), y.astype(dtype), attrs)
    empty = np.zeros((0, 1, 2, 2)), np.zeros((0, 2, 1)), np.zeros((0, 2, 1))
    yield Sample(empty, empty[0], {"size": 2}, smooth=False)
