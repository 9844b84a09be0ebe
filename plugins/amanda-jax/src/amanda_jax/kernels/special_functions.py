"""Special functions of `jax.scipy.special`; half precision is computed in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from amanda_jax.kernels import bessel
from amanda_std.ops import OPS

_NAMES: Final = {
    "erfc": "erfc",
    "erfinv": "erfinv",
    "lgamma": "gammaln",
    "digamma": "digamma",
    "ndtri": "ndtri",
    "log_ndtr": "log_ndtr",
    "i0": "i0",
    "i0e": "i0e",
    "i1": "i1",
    "i1e": "i1e",
    "expi": "expi",
    "spence": "spence",
    "zeta": "zeta",
    "gammainc": "gammainc",
    "gammaincc": "gammaincc",
    "betainc": "betainc",
}


def _in_single_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*xs: Any) -> Any:
        dtype = xs[-1].dtype
        if np.dtype(dtype).itemsize > 2:
            return function(*xs)
        singles = [x.astype("float32") if x.dtype == dtype else x for x in xs]
        return function(*map(jnp.asarray, singles)).astype(dtype)

    return call


def _polygamma(n: Any, x: Any) -> Any:
    """The polygamma function; negative numbers by its recurrence, up to 0.

    In float64: the steps to a number near 0 are not exact in float32.
    """
    dtype = x.dtype
    order, x = jnp.broadcast_arrays(n.astype("float64"), x.astype("float64"))
    sign = jnp.where(n % 2 == 0, -1, 1) * jnp.exp(special.gammaln(order + 1))

    def step(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        at, total = state
        is_left = at < 0
        term = jnp.where(is_left, sign * jnp.pow(at, -(order + 1)), 0)
        return jnp.where(is_left, at + 1, at), total + term

    start = jnp.where(x > -_RECURRENCE, x, jnp.nan)
    steps = jnp.max(jnp.where(start < 0, jnp.ceil(-start), 0), initial=0)
    at, total = lax.fori_loop(0, steps.astype(int), step, (start, jnp.zeros_like(x)))
    return (special.polygamma(n, at) + total).astype(dtype)


_RECURRENCE: Final = 2.0**16
"""The steps that the recurrence of polygamma may take; nan for larger numbers."""

KERNELS: Final = {
    name: _in_single_precision(function)
    for name, function in {
        **{name: getattr(special, function) for name, function in _NAMES.items()},
        **bessel.KERNELS,
        "erfcx": OPS["erfcx"].definition,
        "polygamma": _polygamma,
    }.items()
}
