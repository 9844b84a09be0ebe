"""What differs on JAX: a row for each op that needs it.

All other ops run as their definitions say, over `jax.numpy`. What has no array of JAX
among its arguments stays with numpy: so shape arithmetic is followed on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import jax

from amanda_jax.kernels import (
    bits,
    control,
    convolution,
    fourier,
    images,
    linear,
    places,
    plain,
    products,
    sequences,
    special,
    windows,
)
from amanda_std.arrays import Kernels
from amanda_std.ops import OPS

__all__ = ["JAX"]

Rows = Mapping[str, Callable[..., Any]]

_BESIDE: Final[Rows] = {
    "conv": convolution.conv,
    "conv_transpose": convolution.conv_transpose,
    "max_pool": windows.max_pool,
    "avg_pool": windows.avg_pool,
    "pad": plain.pad,
    "astype": plain.astype,
    "softmax": plain.softmax,
    "log_softmax": plain.log_softmax,
    "einsum": products.einsum,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "complex": linear.complex_,
    "lu": linear.lu,
    "triangular_solve": linear.triangular_solve,
    "bitcast": bits.bitcast,
    **special.ROWS,
    **fourier.ROWS,
    **images.ROWS,
    "scatter_elements": places.scatter_elements,
    "scatter_nd": places.scatter_nd,
}
"""Rows for arrays of JAX; on numpy's, the definition of the op holds."""

_ALWAYS: Final[Rows] = {
    "case": control.case,
    "if": control.if_,
    "loop": control.loop,
    "scan": control.scan,
    "while": control.while_,
    "full": plain.full,
    "arange": plain.arange,
    "cosine_window": plain.cosine_window,
    "broadcast_to": plain.broadcast_to,
    **sequences.ROWS,
}


def _beside(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    plainly = OPS[name].implementation(None)

    @wraps(function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        if any(isinstance(a, jax.Array) for a in args):
            return function(*args, **attrs)
        return plainly(*args, **attrs)

    return kernel


JAX: Final = Kernels(
    "jax", {**_ALWAYS, **{name: _beside(name, f) for name, f in _BESIDE.items()}}
)
