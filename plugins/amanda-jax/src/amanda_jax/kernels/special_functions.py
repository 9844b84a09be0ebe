"""Special functions of `jax.scipy.special`; half precision is computed in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax.scipy import special

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
    "polygamma": "polygamma",
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


KERNELS: Final = {
    name: _in_single_precision(getattr(special, function))
    for name, function in _NAMES.items()
}
