"""Normalizations of small floats with constant factors, of few and of many elements.

Small constants take another way through the compiler than large ones. The oracle is
NumPy in float64.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace

SIZES = (1, 4, 15, 16, 17, 64)
"""Numbers of channels, which are the elements of each constant."""
CLOSE = {"float16": 4e-3, "bfloat16": 3e-2}


def standardize(x, axes, epsilon=1e-5):
    away = x - x.mean(axes, keepdims=True)
    return away / np.sqrt((away**2).mean(axes, keepdims=True) + epsilon)


def on_channels(v):
    return v.reshape(-1, 1, 1)


def grouped(x):
    parts = x.reshape(x.shape[0], 1, *x.shape[1:])
    return standardize(parts, (2, 3, 4)).reshape(x.shape)


NORMS = {
    "layer_norm": (
        lambda x, s, b, m, v: ops.layer_norm(x, s, b),
        lambda x, s, b, m, v: standardize(x, (-1,)) * s + b,
        -1,
    ),
    "layer_norm without bias": (
        lambda x, s, b, m, v: ops.layer_norm(x, s),
        lambda x, s, b, m, v: standardize(x, (-1,)) * s,
        -1,
    ),
    "rms_norm": (
        lambda x, s, b, m, v: ops.rms_norm(x, s),
        lambda x, s, b, m, v: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * s,
        -1,
    ),
    "batch_norm": (
        lambda x, s, b, m, v: ops.batch_norm(x, s, b, m, v),
        lambda x, s, b, m, v: (x - on_channels(m))
        / np.sqrt(on_channels(v) + 1e-5) * on_channels(s) + on_channels(b),
        1,
    ),
    "batch_norm after conv": (
        lambda x, s, b, m, v: ops.batch_norm(
            ops.conv(x, np.eye(len(s)).astype(s.dtype)[..., None, None]),
            s, b, m, v,
        ),
        lambda x, s, b, m, v: (x - on_channels(m))
        / np.sqrt(on_channels(v) + 1e-5) * on_channels(s) + on_channels(b),
        1,
    ),
    "instance_norm": (
        lambda x, s, b, m, v: ops.instance_norm(x, s, b),
        lambda x, s, b, m, v: standardize(x, (2, 3)) * on_channels(s) + on_channels(b),
        1,
    ),
    "group_norm": (
        lambda x, s, b, m, v: ops.group_norm(x, s, b, groups=1),
        lambda x, s, b, m, v: grouped(x) * on_channels(s) + on_channels(b),
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_small_floats(name, size, dtype):
    function, oracle, axis = NORMS[name]
    rng = np.random.default_rng(size)
    shape = (2, size, 3, 5) if axis == 1 else (2, 3, size)
    x = rng.standard_normal(shape).astype(dtype)
    factors = [rng.uniform(0.5, 2, size).astype(dtype) for _ in range(4)]
    kind = parse_type(f"{dtype}[{', '.join(map(str, shape))}]")
    graph = trace(lambda x: function(x, *factors), [kind])
    [found] = amanda.run(graph, [x], backend="jax").values()
    wide = [v.astype("float64") for v in (x, *factors)]
    assert found.dtype == x.dtype
    np.testing.assert_allclose(
        np.asarray(found, "float64"),
        oracle(*wide),
        rtol=CLOSE[dtype],
        atol=CLOSE[dtype],
    )
