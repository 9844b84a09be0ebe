"""Elements put at places, and resizing, which takes them from places."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.ops.resizing import COORDINATES, taps


def _put(x: Any, at: Any, updates: Any, reduction: str) -> Any:
    name = {"none": "set", "mul": "multiply"}.get(reduction, reduction)
    return getattr(jnp.asarray(x).at[at], name)(updates)


def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int, reduction: str
) -> Any:
    at: list[Any] = list(np.indices(indices.shape, sparse=True))
    at[axis % x.ndim] = indices
    return _put(x, tuple(at), updates, reduction)


def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    at = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return _put(x, at or ..., updates, reduction)


def resize(
    x: Any, sizes: Any, *, mode: str, coordinates: str, rounding: str, cubic: float,
    exclude_outside: bool, scales: Any,
) -> Any:  # fmt: skip
    """The places and shares are numbers; only the elements are traced."""
    if coordinates not in COORDINATES:
        known = ", ".join(COORDINATES)
        raise InvalidTypeError("no such coordinates", expected=known, got=coordinates)
    wide = "float64" if x.dtype == "float64" else "float32"
    y = x if mode == "nearest" else x.astype(wide)
    for axis, (old, new) in enumerate(zip(x.shape, sizes, strict=True)):
        scale = new / old if scales is None else scales[axis]
        if old == new and scale == 1:
            continue
        steps = np.arange(new, dtype="float64")
        at, share = taps(
            mode, COORDINATES[coordinates](steps, scale, old, new), rounding, cubic
        )
        if exclude_outside and mode != "nearest":
            share = np.where((at >= 0) & (at < old), share, 0)
            share = share / share.sum(1, keepdims=True)
        at = np.clip(at, 0, old - 1).astype("int32")
        y = _blended(y, at, share.astype(y.dtype), axis)
    if y.dtype == x.dtype:
        return y
    return (jnp.rint(y) if x.dtype.kind in "iu" else y).astype(x.dtype)


def _blended(x: Any, at: Any, share: Any, axis: int) -> Any:
    if at.shape[1] == 1:
        return jnp.take(x, at[:, 0], axis=axis)
    wide = (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    parts = (
        jnp.take(x, at[:, i], axis=axis) * share[:, i].reshape(wide)
        for i in range(at.shape[1])
    )
    return sum(parts)
