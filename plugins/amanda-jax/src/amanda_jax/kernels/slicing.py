"""Places of arrays that have none, and slices that XLA has an op for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
from jax import lax

__all__ = ["ROWS"]


def gather(x: Any, indices: Any, axis: Any = 0) -> Any:
    """As numpy takes; JAX mistakes the shape of what is taken from nothing."""
    at = axis % x.ndim
    if x.shape[at] == 0:
        shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
        return jnp.zeros(shape, x.dtype)
    return jnp.take(jnp.asarray(x), indices, axis=at)


def _listed(starts: Any, rank: int) -> list[Any]:
    return [starts[i] for i in range(rank)]


def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Any:
    return lax.dynamic_slice(x, _listed(starts, x.ndim), sizes)


def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, _listed(starts, x.ndim))


ROWS: Final[dict[str, Callable[..., Any]]] = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
}
