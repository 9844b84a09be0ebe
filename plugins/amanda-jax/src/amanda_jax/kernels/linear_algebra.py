"""Linear algebra that JAX has under other names, and einsum."""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
from jax import lax

from amanda_jax.compile.trace_context import enabled_steps, note
from amanda_jax.cpu_tuning.packed_weights import PackedWeights, multiply_packed
from amanda_std.ops import OPS

BY_ONEDNN: Final = "products by oneDNN"
"""A line of the report of a program."""


def einsum(*xs: Any, equation: str) -> Any:
    """By the first enabled algorithm that is faster here, or the definition."""
    for step in enabled_steps():
        y = None if step.product is None else step.product(equation, *xs)
        if y is not None:
            if step.name == "onednn":
                note(BY_ONEDNN)
            return y
    return OPS["einsum"].function(*xs, equation=equation)


def matmul(x: Any, y: Any) -> Any:
    """The definition, or oneDNN's product with packed weights."""
    if isinstance(y, PackedWeights):
        note(BY_ONEDNN)
        return multiply_packed(x, y)
    return OPS["matmul"].function(x, y)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """The definition, or oneDNN's product with packed weights."""
    if isinstance(weight, PackedWeights):
        note(BY_ONEDNN)
        return multiply_packed(x, weight, bias)
    return OPS["linear"].function(x, weight, bias)


def triangular_solve(
    a: Any, b: Any, *, lower: bool, transpose: bool, unit: bool
) -> Any:
    dtype = jnp.asarray(a).dtype
    compute_dtype = jnp.promote_types(dtype, "float32")
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = jnp.broadcast_to(a, batch + a.shape[-2:]).astype(compute_dtype)
    b = jnp.broadcast_to(b, batch + b.shape[-2:]).astype(compute_dtype)
    if not b.size:
        return b.astype(dtype)
    solution = lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit
    )
    return solution.astype(dtype)


def complex_(real: Any, imag: Any) -> Any:
    """Half-precision parts make single-precision complex numbers."""
    compute_dtype = jnp.promote_types(real.dtype, "float32")
    parts = (jnp.asarray(part).astype(compute_dtype) for part in (real, imag))
    return lax.complex(*jnp.broadcast_arrays(*parts))


def lu(x: Any) -> Any:
    dtype = x.dtype
    compute_dtype = jnp.asarray(x).astype(jnp.promote_types(dtype, "float32"))
    if not x.size:
        rows = jnp.arange(x.shape[-2], dtype="int64")
        return compute_dtype.astype(dtype), jnp.broadcast_to(rows, x.shape[:-1])
    packed, _, order = lax.linalg.lu(compute_dtype)
    return packed.astype(dtype), order.astype("int64")
