"""From PyTorch: functions of one operand, and casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.elementwise.read_arithmetic import read_cast
from amanda_torch.mapping.type_promotion import as_float, number

__all__ = ["READ", "of_floats"]


def of_floats(op: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for a function of floats; integers become float32 first."""

    def read(x: Any) -> Any:
        return op(as_float(x))

    return read


def _of_integers(op: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for rounding, which integers do not need."""

    def read(x: Any) -> Any:
        return op(x) if x.dtype.kind == "float" else ops.identity(x)

    return read


def read_round(x: Any, *, decimals: int = 0) -> Any:
    if x.dtype.kind != "float":
        return ops.identity(x)
    scale = number(10.0 ** abs(decimals), x.dtype)
    if decimals < 0:
        return ops.round(x / scale) * scale
    return ops.round(x * scale) / scale if decimals else ops.round(x)


def read_rsqrt(x: Any) -> Any:
    return ops.reciprocal(ops.sqrt(as_float(x)))


def read_complex_log(base: float) -> Callable[..., Any]:
    def read(x: Any) -> Any:
        x = as_float(x)
        if x.dtype.kind == "float":
            return (ops.log2 if base == 2 else ops.log10)(x)
        return ops.log(x) / number(math.log(base), x.dtype)

    return read


def read_exp2(x: Any) -> Any:
    x = as_float(x)
    if x.dtype.kind == "float":
        return ops.exp2(x)
    return ops.exp(x * number(math.log(2), x.dtype))


def read_sigmoid(x: Any) -> Any:
    x = as_float(x)
    if x.dtype.kind == "float":
        return ops.sigmoid(x)
    one = number(1, x.dtype)
    return one / (one + ops.exp(ops.negative(x)))


def read_square(x: Any) -> Any:
    return (
        ops.multiply(x, x) if x.dtype.kind != "bool" else ops.astype(x, dtype="int64")
    )


def read_frac(x: Any) -> Any:
    return x - ops.trunc(x)


def read_negative(x: Any) -> Any:
    """-x; that of an integer without a sign is the one that adds up to 0."""
    if x.dtype.kind == "uint":
        return ops.subtract(number(0, x.dtype), x)
    return ops.negative(x)


def read_sign(x: Any) -> Any:
    if x.dtype.kind == "complex":
        size = ops.modulus(x)
        zero = ops.equal(size, number(0, size.dtype))
        return ops.where(zero, ops.zeros_like(x), x / cast_to(size, x.dtype))
    if x.dtype.kind == "bool":
        return ops.identity(x)
    if x.dtype.kind == "float":
        return ops.where(ops.isnan(x), ops.zeros_like(x), ops.sign(x))
    return ops.sign(x)


def read_angle(x: Any) -> Any:
    if x.dtype.kind == "complex":
        return ops.angle(x)
    x = as_float(x)
    below = ops.less(x, number(0, x.dtype))
    angle = ops.where(below, number(math.pi, x.dtype), number(0, x.dtype))
    return ops.where(ops.isnan(x), x, angle)


def _part(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any) -> Any:
        return op(x) if x.dtype.kind == "complex" else ops.identity(x)

    return read


def read_nan_to_num(
    x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Any:
    if x.dtype.kind == "complex":
        parts = (read_nan_to_num(p, nan, posinf, neginf)
                 for p in (ops.real(x), ops.imag(x)))  # fmt: skip
        return ops.complex(*parts)
    if x.dtype.kind != "float":
        return ops.identity(x)
    limit = float(np.finfo(x.dtype.numpy).max) if x.dtype.numpy.kind == "f" else 3.38e38
    fill = number(0.0 if nan is None else nan, x.dtype)
    high = number(limit if posinf is None else posinf, x.dtype)
    low = number(-limit if neginf is None else neginf, x.dtype)
    inf = number(float("inf"), x.dtype)
    y = ops.where(ops.isnan(x), fill, x)
    y = ops.where(ops.equal(x, inf), high, y)
    return ops.where(ops.equal(x, ops.negative(inf)), low, y)


def read_frexp(x: Any) -> Any:
    """A mantissa of size 0.5 to 1, and the exponent of two."""
    zero, two = number(0, x.dtype), number(2, x.dtype)
    plain = ops.logical_and(ops.isfinite(x), ops.not_equal(x, zero))
    safe = ops.where(plain, x, number(1, x.dtype))
    exponent = ops.floor(ops.log2(ops.abs(safe))) + number(1, x.dtype)
    mantissa = safe / ops.pow(two, exponent)
    large = ops.greater_equal(ops.abs(mantissa), number(1, x.dtype))
    small = ops.less(ops.abs(mantissa), number(0.5, x.dtype))
    half = number(0.5, x.dtype)
    mantissa = ops.where(
        large, mantissa * half, ops.where(small, mantissa * two, mantissa)
    )
    one = number(1, x.dtype)
    exponent = ops.where(
        large, exponent + one, ops.where(small, exponent - one, exponent)
    )
    return (ops.where(plain, mantissa, x),
            ops.astype(ops.where(plain, exponent, zero), dtype="int32"))  # fmt: skip


def read_logit(x: Any, eps: float | None = None) -> Any:
    x = as_float(x)
    if eps is not None:
        x = ops.minimum(ops.maximum(x, number(eps, x.dtype)), number(1 - eps, x.dtype))
    return ops.log(x / (number(1, x.dtype) - x))


def read_to_other(x: Any, other: Any) -> Any:
    return cast_to(x, other.dtype)


def read_to_dtype(x: Any, dtype: Any = None, _non_blocking: Any = None,
                  _copy: Any = None) -> Any:  # fmt: skip
    return read_cast(x, dtype)


def read_to_device(x: Any, _device: Any = None, dtype: Any = None,
                   _non_blocking: Any = None, _copy: Any = None) -> Any:  # fmt: skip
    return read_cast(x, dtype)


def read_to_layout(x: Any, *, dtype: Any = None, copy: Any = None) -> Any:
    del copy
    return read_cast(x, dtype)


def read_conj(x: Any) -> Any:
    return ops.conj(x) if x.dtype.kind == "complex" else ops.identity(x)


_FLOAT_FUNCTIONS: dict[str, Any] = {
    name: getattr(ops, name)
    for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
                 "asinh", "acosh", "atanh", "exp", "expm1", "log", "log1p", "sqrt",
                 "erf", "erfc", "reciprocal")
}  # fmt: skip
_FLOAT_FUNCTIONS |= {
    f"arc{name[1:]}": getattr(ops, name)
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
}
_ROUNDINGS: dict[str, Any] = {
    "floor": ops.floor, "ceil": ops.ceil, "trunc": ops.trunc, "fix": ops.trunc,
}  # fmt: skip

_CASTS = {"Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32",
          "Long": "int64", "Half": "float16", "Float": "float32",
          "Double": "float64"}  # fmt: skip


def _cast(dtype: str) -> Any:
    return lambda x: cast_to(x, DType(dtype))


READ = torch_functions(
    {
        **{name: of_floats(op) for name, op in _FLOAT_FUNCTIONS.items()},
        **{name: _of_integers(op) for name, op in _ROUNDINGS.items()},
        "special_log1p": of_floats(ops.log1p),
        "round round.decimals special_round": read_round,
        "rsqrt": read_rsqrt,
        "log2": read_complex_log(2),
        "log10": read_complex_log(10),
        "exp2 special_exp2": read_exp2,
        "special_expm1": of_floats(ops.expm1),
        "sigmoid special_expit": read_sigmoid,
        "square": read_square,
        "frac": read_frac,
        "sign sgn": read_sign,
        "angle": read_angle,
        "real": _part(ops.real),
        "imag": _part(ops.imag),
        "conj conj_physical _conj _conj_physical": read_conj,
        "deg2rad": of_floats(ops.radians),
        "rad2deg": of_floats(ops.degrees),
        "sinc special_sinc": of_floats(ops.sinc),
        "nan_to_num": read_nan_to_num,
        "frexp.Tensor": read_frexp,
        "logit special_logit": read_logit,
        "to.dtype": read_to_dtype,
        "to.device": read_to_device,
        "to.dtype_layout _to_copy": read_to_layout,
        "to.other type_as": read_to_other,
        "neg negative": read_negative,
        **{f"_cast_{name}": _cast(dtype) for name, dtype in _CASTS.items()},
    }
)  # fmt: skip
