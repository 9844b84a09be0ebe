"""Bitcast: the bits of elements reinterpreted as another dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from amanda.types import DType
from amanda_std.backends import real_dtype

_BYTE = DType("uint8")


def bitcast(x: Any, *, dtype: Any) -> Any:
    """XLA has no bitcast of bools and complex numbers: they go as bytes and pairs."""
    x = jnp.asarray(x)
    if x.dtype.kind == "b":
        x = x.astype("uint8")
    if dtype.kind == "bool":
        return bitcast(x, dtype=_BYTE) != 0
    if "c" in (x.dtype.kind, dtype.numpy.kind):
        return _bitcast_parts(x, dtype)
    return lax.bitcast_convert_type(x, dtype.numpy)


def _bitcast_parts(x: Any, dtype: Any) -> Any:
    """By way of real numbers, a complex one as its two parts."""
    old, new = DType.of(x).bits, dtype.bits
    shape = (*x.shape, old // new) if old > new else x.shape[: x.ndim - (old < new)]
    if x.dtype.kind == "c":
        x, old = jnp.stack([x.real, x.imag], -1), old // 2
    part = real_dtype(dtype)
    rows = x.reshape(-1, part.bits // old) if part.bits > old else x.reshape(-1)
    elements = lax.bitcast_convert_type(rows, part.numpy)
    if part != dtype:
        elements = lax.complex(*elements.reshape(-1, 2).T)
    return elements.reshape(shape)
