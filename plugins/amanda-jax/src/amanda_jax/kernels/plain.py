"""Padding, and what makes large tensors of numbers: on the device, not in the code."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda_std.ops import OPS

LARGE: Final = 1 << 12
"""Elements from which a tensor made of numbers is made on the device."""


def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str) -> Any:
    rows = [(0, 0)] * x.ndim
    for i, axis in enumerate(range(x.ndim) if axes is None else axes):
        rows[axis] = tuple(pads[i])
    if mode == "constant":
        fill = jnp.zeros((), x.dtype) if value is None else jnp.reshape(value, ())
        return lax.pad(x, fill.astype(x.dtype), [(low, high, 0) for low, high in rows])
    crop = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for (low, high), n in zip(rows, x.shape, strict=True)
    )
    grow = [(max(low, 0), max(high, 0)) for low, high in rows]
    return jnp.pad(x[crop], grow, mode=mode)


def full(shape: Any, value: Any) -> Any:
    np_: Any = jnp if prod(shape) > LARGE else value.__array_namespace__()
    return np_.broadcast_to(np_.asarray(value), tuple(shape))


def broadcast_to(x: Any, shape: Any) -> Any:
    if prod(shape) > LARGE:
        return jnp.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
    return OPS["broadcast_to"].function(x, shape)


def arange(start: Any, stop: Any, step: Any = 1) -> Any:
    np_: Any = jnp if len(range(start, stop, step)) > LARGE else np
    return np_.arange(start, stop, step, dtype="int64")
