"""Gather with axes of size 0, and slices for which XLA has an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
from jax import lax

__all__ = ["KERNELS"]


def gather(x: Any, indices: Any, axis: Any = 0) -> Any:
    """As `numpy.take`; JAX returns a wrong shape for an axis of size 0."""
    dim = axis % x.ndim
    if x.shape[dim] == 0:
        shape = (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :])
        return jnp.zeros(shape, x.dtype)
    return jnp.take(jnp.asarray(x), indices, axis=dim)


def _elements(starts: Any, rank: int) -> list[Any]:
    return [starts[i] for i in range(rank)]


def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Any:
    return lax.dynamic_slice(x, _elements(starts, x.ndim), sizes)


def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, _elements(starts, x.ndim))


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
}
