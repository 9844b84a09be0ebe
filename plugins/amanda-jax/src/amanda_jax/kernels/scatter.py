"""Scatter: elements written at given indices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


def _scatter(x: Any, position: Any, updates: Any, reduction: str) -> Any:
    name = {"none": "set", "mul": "multiply"}.get(reduction, reduction)
    return getattr(jnp.asarray(x).at[position], name)(updates)


def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int, reduction: str
) -> Any:
    position: list[Any] = list(np.indices(indices.shape, sparse=True))
    position[axis % x.ndim] = indices
    return _scatter(x, tuple(position), updates, reduction)


def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    position = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return _scatter(x, position or ..., updates, reduction)
