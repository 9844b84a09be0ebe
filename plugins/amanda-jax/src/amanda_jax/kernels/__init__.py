"""What differs on JAX: a row for each op that needs it.

All other ops run as their definitions say, over `jax.numpy`. What has no array of JAX
among its arguments stays with numpy: so shape arithmetic is followed on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import jax

from amanda_jax.cpu_tuning import few_row_products
from amanda_jax.kernels import (
    array_ops,
    bitcast,
    control_flow,
    convolution,
    fourier,
    linear_algebra,
    pooling,
    scatter,
    sequences,
    slicing,
    special_functions,
)
from amanda_std.backends import Kernels
from amanda_std.ops import OPS

__all__ = ["JAX"]

Rows = Mapping[str, Callable[..., Any]]

_BESIDE: Final[Rows] = {
    "conv": convolution.conv,
    "conv_transpose": convolution.conv_transpose,
    "max_pool": pooling.max_pool,
    "avg_pool": pooling.avg_pool,
    "pad": array_ops.pad,
    "astype": array_ops.astype,
    "softmax": array_ops.softmax,
    "log_softmax": array_ops.log_softmax,
    "einsum": few_row_products.einsum,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "complex": linear_algebra.complex_,
    "lu": linear_algebra.lu,
    "triangular_solve": linear_algebra.triangular_solve,
    "bitcast": bitcast.bitcast,
    **special_functions.ROWS,
    **fourier.ROWS,
    **slicing.ROWS,
    "scatter_elements": scatter.scatter_elements,
    "scatter_nd": scatter.scatter_nd,
}
"""Rows for arrays of JAX; on numpy's, the definition of the op holds."""

_ALWAYS: Final[Rows] = {
    "case": control_flow.case,
    "if": control_flow.if_,
    "loop": control_flow.loop,
    "scan": control_flow.scan,
    "while": control_flow.while_,
    "full": array_ops.full,
    "arange": array_ops.arange,
    "cosine_window": array_ops.cosine_window,
    "broadcast_to": array_ops.broadcast_to,
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
