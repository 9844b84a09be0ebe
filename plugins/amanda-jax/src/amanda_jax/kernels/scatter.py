"""Scatter: elements written at given indices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


def _scatter(x: Any, indices_: Any, updates: Any, reduction: str) -> Any:
    name = {"none": "set", "mul": "multiply"}.get(reduction, reduction)
    return getattr(jnp.asarray(x).at[indices_], name)(updates)


def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int, reduction: str
) -> Any:
    indices_: list[Any] = list(np.indices(indices.shape, sparse=True))
    indices_[axis % x.ndim] = indices
    return _scatter(x, tuple(indices_), updates, reduction)


def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    indices_ = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return _scatter(x, indices_ or ..., updates, reduction)
