"""Linear algebra that JAX has under other names."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax


def triangular_solve(
    a: Any, b: Any, *, lower: bool, transpose: bool, unit: bool
) -> Any:
    kept = jnp.asarray(a).dtype
    wide = jnp.promote_types(kept, "float32")
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = jnp.broadcast_to(a, batch + a.shape[-2:]).astype(wide)
    b = jnp.broadcast_to(b, batch + b.shape[-2:]).astype(wide)
    if not b.size:
        return b.astype(kept)
    made = lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit
    )
    return made.astype(kept)


def complex_(real: Any, imag: Any) -> Any:
    """Parts of half precision make what parts of single precision make."""
    wide = jnp.promote_types(real.dtype, "float32")
    parts = (jnp.asarray(part).astype(wide) for part in (real, imag))
    return lax.complex(*jnp.broadcast_arrays(*parts))


def lu(x: Any) -> Any:
    kept = x.dtype
    wide = jnp.asarray(x).astype(jnp.promote_types(kept, "float32"))
    if not x.size:
        rows = jnp.arange(x.shape[-2], dtype="int64")
        return wide.astype(kept), jnp.broadcast_to(rows, x.shape[:-1])
    packed, _, order = lax.linalg.lu(wide)
    return packed.astype(kept), order.astype("int64")
