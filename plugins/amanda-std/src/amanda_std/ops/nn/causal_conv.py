"""Causal depthwise convolution with a state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops._late import late
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.tensor.creation import full as full_
from amanda_std.ops.tensor.creation import scalar_like
from amanda_std.ops.tensor.index_arithmetic import dtype_of, interpolation_dtype
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import concat, slice_
from amanda_std.ops.tensor.shape import expand_dims, reshape
from amanda_std.ops.transformer.scaled_dot_product import cast_to


@composite
def causal_conv(
    x: RealFloating, w: RealFloating, b: RealFloating | None = None,
    past: RealFloating | None = None, *, window: int = 0, activation: str | None = None,
) -> tuple[RealFloating, RealFloating]:  # fmt: skip
    """Causal depthwise convolution of [batch, channels, length] data

    `past` holds the preceding elements (zeros by default); the last ones are returned
    for the next call. `window` is the kernel length [channels, 1, n] where its type
    does not have it; `activation` is the name of any activation op."""
    k = window or dims_of(w)[2].__index__()
    batch, channels, length = x.shape
    if past is None:
        past = full_([batch, channels, k - 1], scalar_like(0, x))
    full = concat(past, x, axis=2)
    own, wide = dtype_of(x), interpolation_dtype(x)
    total: Any = None
    for i in range(k):
        seen = cast_to(slice_(full, [i], [length + i], [2]), wide)
        part = multiply(seen, cast_to(gather(w, np.asarray(i), 2), wide))
        total = part if total is None else add(total, part)
    if b is not None:
        total = add(total, expand_dims(cast_to(b, wide), (1,)))
    y = _with_shape(cast_to(total, own), [batch, channels, length])
    if activation is not None:
        y = cast_to(getattr(late, activation)(cast_to(y, wide)), own)
    rest = slice_(full, [length], [length + (k - 1)], [2])
    return y, _with_shape(rest, [batch, channels, k - 1])


def _with_shape(x: Any, shape: list[Any]) -> Any:
    """Reshape x to dims that its type may not have."""
    return x if all(isinstance(d, int) for d in dims_of(x)) else reshape(x, shape)


@causal_conv.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, w = ramp(2, 3, 4, dtype=dtype), ramp(3, 1, 3, dtype=dtype, start=0.2)
        b, past = ramp(3, dtype=dtype), ramp(2, 3, 2, dtype=dtype, start=0.5)
        for bias, before, activation in ((None, None, None), (b, past, "silu")):
            start = np.zeros((2, 3, 2), dtype) if before is None else before
            full = np.concatenate([start, x], 2)
            y = np.zeros(x.shape)
            for i, c, t in np.ndindex(x.shape):
                parts = (float(full[i, c, t + k]) * float(w[c, 0, k]) for k in range(3))
                v = math.fsum(parts) + (0.0 if bias is None else float(bias[c]))
                y[i, c, t] = v / (1 + math.exp(-v)) if activation else v
            attrs = {"window": 3, "activation": activation}
            expected = [y.astype(dtype), full[:, :, 4:]]
            yield Sample((x, w, bias, before), expected, attrs)
    empty = np.zeros((0, 3, 4)), ramp(3, 1, 2)
    yield Sample(empty, [empty[0], np.zeros((0, 3, 1))], smooth=False)
