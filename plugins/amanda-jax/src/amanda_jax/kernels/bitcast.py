"""The bits of numbers read as other numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from amanda.types import DType
from amanda_std.backends import real_dtype

_BYTE = DType("uint8")


def bitcast(x: Any, *, dtype: Any) -> Any:
    """XLA reads no bits of bools and complex numbers: they go as bytes and as pairs."""
    x = jnp.asarray(x)
    if x.dtype.kind == "b":
        x = x.astype("uint8")
    if dtype.kind == "bool":
        return bitcast(x, dtype=_BYTE) != 0
    if "c" in (x.dtype.kind, dtype.numpy.kind):
        return _through_pairs(x, dtype)
    return lax.bitcast_convert_type(x, dtype.numpy)


def _through_pairs(x: Any, dtype: Any) -> Any:
    """Its numbers in a row, a complex one as its two parts."""
    old, new = DType.of(x).bits, dtype.bits
    shape = (*x.shape, old // new) if old > new else x.shape[: x.ndim - (old < new)]
    if x.dtype.kind == "c":
        x, old = jnp.stack([x.real, x.imag], -1), old // 2
    part = real_dtype(dtype)
    rows = x.reshape(-1, part.bits // old) if part.bits > old else x.reshape(-1)
    made = lax.bitcast_convert_type(rows, part.numpy)
    if part != dtype:
        made = lax.complex(*made.reshape(-1, 2).T)
    return made.reshape(shape)
