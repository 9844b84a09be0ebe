"""Kernels of JAX: a row for each op whose definition does not suffice there.

All other ops run by their definitions, over `jax.numpy`. Ops without an array of JAX
among their arguments run on NumPy: so shapes are computed while a program is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import jax

from amanda_jax.cpu_tuning.packed_weights import PackedWeights
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

__all__ = ["JAX", "UNSUPPORTED"]

KernelTable = Mapping[str, Callable[..., Any]]

_FOR_JAX_ARRAYS: Final[KernelTable] = {
    "conv": convolution.conv,
    "conv_transpose": convolution.conv_transpose,
    "max_pool": pooling.max_pool,
    "avg_pool": pooling.avg_pool,
    "pad": array_ops.pad,
    "astype": array_ops.astype,
    **{name: array_ops.through_int8(name) for name in ("argsort", "concat", "sort")},
    "divide": array_ops.divide,
    "sign": array_ops.sign,
    "softmax": array_ops.softmax,
    "log_softmax": array_ops.log_softmax,
    "einsum": linear_algebra.einsum,
    "linear": linear_algebra.linear,
    "matmul": linear_algebra.matmul,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "complex": linear_algebra.complex_,
    "lu": linear_algebra.lu,
    "triangular_solve": linear_algebra.triangular_solve,
    "bitcast": bitcast.bitcast,
    **special_functions.KERNELS,
    **fourier.KERNELS,
    **slicing.KERNELS,
    "scatter_elements": scatter.scatter_elements,
    "scatter_nd": scatter.scatter_nd,
}
"""Kernels for arrays of JAX; for arrays of NumPy the definition of the op holds."""

_FOR_ALL_ARRAYS: Final[KernelTable] = {
    "case": control_flow.case,
    "if": control_flow.if_,
    "loop": control_flow.loop,
    "scan": control_flow.scan,
    "while": control_flow.while_,
    "full": array_ops.full,
    "arange": array_ops.arange,
    "cosine_window": array_ops.cosine_window,
    "broadcast_to": array_ops.broadcast_to,
    **sequences.KERNELS,
}


def _for_jax_arrays(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel for arrays of JAX, with the definition for all others."""
    definition = OPS[name].implementation(None)

    @wraps(function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        if any(isinstance(a, jax.Array | PackedWeights) for a in args):
            return function(*args, **attrs)
        return definition(*args, **attrs)

    return kernel


JAX: Final = Kernels(
    "jax",
    {
        **_FOR_ALL_ARRAYS,
        **{name: _for_jax_arrays(name, f) for name, f in _FOR_JAX_ARRAYS.items()},
    },
)

_MISSING_FUNCTIONS: Final = ("dawsn", "fresnel_cos", "fresnel_sin")
"""Special functions that JAX does not have."""

UNSUPPORTED: Final = {
    **{
        name: f"JAX does not have the special function {name}"
        for name in _MISSING_FUNCTIONS
    },
    "decode_image": "XLA cannot decode image files",
}
"""Ops that are not supported, with the reason."""
