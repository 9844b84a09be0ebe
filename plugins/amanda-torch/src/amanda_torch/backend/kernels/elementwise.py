"""Elementwise arithmetic, comparisons, logic and activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional

__all__ = ["FUSED", "KERNELS"]

Kernel = Callable[..., Any]

_SAME_NAME: Final = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
    "bitwise_right_shift", "ceil", "conj", "copysign", "cos", "cosh", "exp", "exp2",
    "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p",
    "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "pow",
    "real", "reciprocal", "remainder", "round", "rsqrt", "sigmoid", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
    "where",
]  # fmt: skip
_SPECIAL: Final = [
    "digamma", "erf", "erfc", "erfcx", "erfinv", "gammainc", "gammaincc", "i0", "i0e",
    "i1", "i1e", "log_ndtr", "ndtri", "zeta",
]  # fmt: skip
_OTHER_NAME: Final = {
    "lgamma": "gammaln",
    "j0": "bessel_j0",
    "j1": "bessel_j1",
    "y0": "bessel_y0",
    "y1": "bessel_y1",
    "k0": "modified_bessel_k0",
    "k1": "modified_bessel_k1",
    "k0e": "scaled_modified_bessel_k0",
    "k1e": "scaled_modified_bessel_k1",
}
"""Special functions that `torch.special` has under other names."""


def in_single_precision(function: Kernel) -> Kernel:
    """A function that computes floats of 16 bits in float32."""

    def call(*xs: Any) -> Any:
        dtype = xs[-1].dtype
        if dtype.itemsize > 2:
            return function(*xs)
        singles = [x.float() if x.dtype == dtype else x for x in xs]
        return function(*singles).to(dtype)

    return call


def divide(a: Any, b: Any) -> Any:
    if a.dtype.is_floating_point or a.dtype.is_complex:
        return torch.div(a, b)
    return torch.div(a, b, rounding_mode="trunc")


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def cbrt(x: Any) -> Any:
    if x.is_complex():
        return torch.pow(x.to(torch.complex128), 1 / 3).to(x.dtype)
    wide = x.double()
    return torch.copysign(wide.abs().pow(1 / 3), wide).to(x.dtype)


def imag(x: Any) -> Any:
    return x.imag


def complex_(real: Any, imag: Any) -> Any:
    """Half-precision parts make single-precision complex numbers."""
    if real.dtype.itemsize <= 2:
        real, imag = real.float(), imag.float()
    return torch.complex(*torch.broadcast_tensors(real, imag))


def polygamma(n: Any, x: Any) -> Any:
    """By the Hurwitz zeta function, so that orders may differ by element."""
    n = n.to(x.dtype)
    factor = torch.exp(torch.lgamma(n + 1.0)) * (1.0 - 2.0 * ((n + 1.0) % 2.0))
    y = factor * torch.special.zeta(n + 1.0, x)
    return torch.where(n == 0, torch.digamma(x), y)


KERNELS: Final[dict[str, Kernel]] = {
    **{name: getattr(torch, name) for name in _SAME_NAME},
    **{name: in_single_precision(getattr(torch.special, name)) for name in _SPECIAL},
    **{
        name: in_single_precision(getattr(torch.special, own))
        for name, own in _OTHER_NAME.items()
    },
    "erf": torch.erf,
    "equal": torch.eq,
    "bitwise_invert": torch.bitwise_not,
    "truncated_remainder": torch.fmod,
    "divide": divide,
    "clip": clip,
    "cbrt": cbrt,
    "imag": imag,
    "complex": complex_,
    "polygamma": in_single_precision(polygamma),
}


def gelu(x: Any, *, approximate: bool = False) -> Any:
    return functional.gelu(x, approximate="tanh" if approximate else "none")


def leaky_relu(x: Any, *, slope: float = 0.01) -> Any:
    return functional.leaky_relu(x, slope)


def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return functional.elu(x, alpha)


FUSED: Final[dict[str, Kernel]] = {
    "relu": torch.relu,
    "silu": functional.silu,
    "mish": functional.mish,
    "softsign": functional.softsign,
    "gelu": gelu,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "squared_difference": lambda a, b: torch.square(a - b),
}
"""Composites for which PyTorch has one op."""
