"""Fourier transforms of real numbers: half of it is computed, the rest is its mirror.

That is half the work; and what has no imaginary part has none then, where XLA's
transform of complex numbers leaves the rounding of the largest element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
from jax import lax

from amanda_std.ops import OPS

__all__ = ["ROWS"]


def dft(
    x: Any, size: Any = None, axis: Any = -2, *, inverse: bool, onesided: bool
) -> Any:
    at = (axis[0] if isinstance(axis, tuple) else axis) % x.ndim
    count = x.shape[at] if size is None else size
    if onesided or x.shape[-1] != 1 or not x.size or not count:
        of_pairs = OPS["dft"].function
        return of_pairs(x, size, axis, inverse=inverse, onesided=onesided)
    small = x.dtype.itemsize <= 2
    real = jnp.asarray(x)[..., 0].astype("float32" if small else x.dtype)
    half = jnp.fft.rfft(real, count, at)
    rest = lax.slice_in_dim(half, 1, (count + 1) // 2, axis=at)
    whole = lax.concatenate([half, jnp.conj(jnp.flip(rest, at))], at)
    if inverse:
        whole = jnp.conj(whole) / count
    return jnp.stack([whole.real, whole.imag], -1).astype(x.dtype)


ROWS: Final[dict[str, Callable[..., Any]]] = {"dft": dft}
