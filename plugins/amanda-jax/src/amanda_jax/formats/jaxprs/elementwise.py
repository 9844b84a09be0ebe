"""Primitives that are one op of the hub set, or a few, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops

__all__ = ["READ"]

_SAME: Final = {
    name: name
    for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt",
        "ceil", "complex", "conj", "cos", "cosh", "digamma", "erf", "erfc", "exp",
        "exp2", "expm1", "floor", "imag", "lgamma", "log", "log1p", "nextafter", "pow",
        "real", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    )
}  # fmt: skip
_OTHERWISE: Final = {
    "add": "add",
    "add_any": "add",
    "clz": "leading_zeros",
    "copy": "identity",
    "eq": "equal",
    "erf_inv": "erfinv",
    "ge": "greater_equal",
    "gt": "greater",
    "is_finite": "isfinite",
    "le": "less_equal",
    "logistic": "sigmoid",
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "population_count": "popcount",
    "rem": "truncated_remainder",
    "shift_left": "bitwise_left_shift",
    "stop_gradient": "stop_gradient",
    "sub": "subtract",
}
_IDLE: Final = ("input_dtype",)
"""Parameters that say what the operand says."""


def _plain(name: str) -> Callable[..., Any]:
    operation = ops.OPS[name]

    def read(*xs: Any, **told: Any) -> Any:
        for key, value in told.items():
            if value is not None and key not in _IDLE:
                raise Decline(f"{key} is told: {value}")
        return operation(*xs)

    read.__name__ = name
    return read


def _by_kind(logical: str, bitwise: str) -> Callable[..., Any]:
    def read(*xs: Any) -> Any:
        name = logical if xs[0].dtype.kind == "bool" else bitwise
        return ops.OPS[name](*xs)

    return read


def div(a: Any, b: Any) -> Any:
    """Integers are divided towards zero."""
    if a.dtype.kind in ("int", "uint"):
        return ops.floor_divide(a - ops.truncated_remainder(a, b), b)
    return a / b


def integer_pow(x: Any, *, y: int) -> Any:
    """A product; of a negative power, one over it."""
    made = None
    square, left = x, abs(y)
    while left:
        if left % 2:
            made = square if made is None else made * square
        left //= 2
        square = square * square if left else square
    if made is None:
        return ops.ones_like(x)
    return ops.reciprocal(made) if y < 0 else made


def convert(
    x: Any, *, new_dtype: Any, weak_type: Any = None, sharding: Any = None
) -> Any:
    del weak_type, sharding
    return ops.astype(x, dtype=new_dtype)


def select_n(which: Any, *cases: Any) -> Any:
    if which.dtype.kind == "bool":
        if len(cases) == 1:
            return cases[0]
        return ops.where(which, cases[1], cases[0])
    made = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        number = np.asarray(i, which.dtype.numpy)
        made = ops.where(ops.less_equal(which, number), cases[i], made)
    return made


def clamp(low: Any, x: Any, high: Any) -> Any:
    return ops.minimum(ops.maximum(x, low), high)


def round_(x: Any, *, rounding_method: Any) -> Any:
    if rounding_method == "TO_NEAREST_EVEN":
        return ops.round(x)
    away = ops.floor(ops.abs(x) + 0.5)
    return ops.copysign(away, x)


def shift_right_arithmetic(a: Any, b: Any) -> Any:
    if a.dtype.kind != "int":
        raise Decline("bits without a sign are shifted as if they had one")
    return ops.bitwise_right_shift(a, b)


def shift_right_logical(a: Any, b: Any) -> Any:
    if a.dtype.kind != "uint":
        raise Decline("bits with a sign are shifted as if they had none")
    return ops.bitwise_right_shift(a, b)


def handed_on(*xs: Any, **_: Any) -> Any:
    return xs[0] if len(xs) == 1 else xs


READ: dict[str, Callable[..., Any]] = {
    **{prim: _plain(name) for prim, name in {**_SAME, **_OTHERWISE}.items()},
    "and": _by_kind("logical_and", "bitwise_and"),
    "or": _by_kind("logical_or", "bitwise_or"),
    "xor": _by_kind("logical_xor", "bitwise_xor"),
    "not": _by_kind("logical_not", "bitwise_invert"),
    "div": div,
    "integer_pow": integer_pow,
    "convert_element_type": convert,
    "select_n": select_n,
    "clamp": clamp,
    "round": round_,
    "shift_right_arithmetic": shift_right_arithmetic,
    "shift_right_logical": shift_right_logical,
    "device_put": handed_on,
    "optimization_barrier": handed_on,
    "sharding_constraint": handed_on,
}
