"""Elements put at places."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


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
