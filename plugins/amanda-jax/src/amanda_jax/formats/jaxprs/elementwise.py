"""Elementwise primitives: one op of the hub, or a few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda_std import ops

__all__ = ["READ"]

_SAME_NAME: Final = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt",
        "ceil", "complex", "conj", "cos", "cosh", "digamma", "erf", "erfc", "exp",
        "exp2", "expm1", "floor", "imag", "lgamma", "log", "log1p", "nextafter", "pow",
        "real", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    )
}  # fmt: skip
_OTHER_NAME: Final = {
    "add": "add",
    "add_any": "add",
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "clz": "leading_zeros",
    "copy": "identity",
    "eq": "equal",
    "erf_inv": "erfinv",
    "ge": "greater_equal",
    "gt": "greater",
    "igamma": "gammainc",
    "igammac": "gammaincc",
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
    "regularized_incomplete_beta": "betainc",
    "shift_left": "bitwise_left_shift",
    "stop_gradient": "stop_gradient",
    "sub": "subtract",
    "zeta": "zeta",
}
_REDUNDANT: Final = ("input_dtype",)
"""Parameters that repeat what is known of the operand."""


def _direct(name: str) -> Callable[..., Any]:
    operation = ops.OPS[name]

    def read(*xs: Any, **parameters: Any) -> Any:
        for key, value in parameters.items():
            if value is not None and key not in _REDUNDANT:
                raise Decline(f"the parameter {key} is set: {value}")
        return operation(*xs)

    read.__name__ = name
    return read


def _by_kind(logical: str, bitwise: str) -> Callable[..., Any]:
    def read(*xs: Any) -> Any:
        name = logical if xs[0].dtype.kind == "bool" else bitwise
        return ops.OPS[name](*xs)

    return read


def absolute(x: Any) -> Any:
    return ops.modulus(x) if x.dtype.kind == "complex" else ops.abs(x)


def div(a: Any, b: Any) -> Any:
    """Division; of integers towards zero, and with all bits set where b is 0."""
    if a.dtype.kind not in ("int", "uint"):
        return a / b
    all_bits = np.invert(np.zeros((), b.dtype.numpy))
    return _where_nonzero(b, lambda divisor: _divide_integers(a, divisor), all_bits)


def rem(a: Any, b: Any) -> Any:
    """The remainder of division towards zero; of integers, `a` where b is 0."""
    if a.dtype.kind not in ("int", "uint"):
        return ops.truncated_remainder(a, b)
    return _where_nonzero(b, lambda divisor: _integer_remainder(a, divisor), a)


def _divide_integers(a: Any, b: Any) -> Any:
    dividend = a if a.dtype.kind == "uint" else a - _integer_remainder(a, b)
    return ops.floor_divide(dividend, b)


def _integer_remainder(a: Any, b: Any) -> Any:
    is_unsigned = a.dtype.kind == "uint"
    return ops.remainder(a, b) if is_unsigned else ops.truncated_remainder(a, b)


def _where_nonzero(b: Any, compute: Callable[[Any], Any], otherwise: Any) -> Any:
    """What is computed with b where that is not 0; no backend gets a divisor of 0."""
    constant = constant_of(b.port)
    if constant is not None and constant.numpy().all():
        return compute(b)
    zero, one = (np.asarray(n, b.dtype.numpy) for n in (0, 1))
    is_zero = ops.equal(b, zero)
    return ops.where(is_zero, otherwise, compute(ops.where(is_zero, one, b)))


def integer_pow(x: Any, *, y: int) -> Any:
    """Repeated multiplication; the reciprocal of it for a negative power."""
    result = None
    square, exponent = x, abs(y)
    while exponent:
        if exponent % 2:
            result = square if result is None else result * square
        exponent //= 2
        square = square * square if exponent else square
    if result is None:
        return ops.ones_like(x)
    return ops.reciprocal(result) if y < 0 else result


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
    result = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        number = np.asarray(i, which.dtype.numpy)
        result = ops.where(ops.less_equal(which, number), cases[i], result)
    return result


def clamp(low: Any, x: Any, high: Any) -> Any:
    return ops.minimum(ops.maximum(x, low), high)


def round_(x: Any, *, rounding_method: Any) -> Any:
    if rounding_method == "TO_NEAREST_EVEN":
        return ops.round(x)
    whole = ops.trunc(x)
    is_away = ops.greater_equal(ops.abs(x - whole), 0.5)  # not infinities, which stay
    return ops.where(is_away, whole + ops.sign(x), whole)


def shift_right_arithmetic(a: Any, b: Any) -> Any:
    if a.dtype.kind != "int":
        raise Decline("unsigned integers are shifted arithmetically")
    return ops.bitwise_right_shift(a, b)


def shift_right_logical(a: Any, b: Any) -> Any:
    """Signed integers are shifted as the unsigned ones of the same bits."""
    if a.dtype.kind == "uint":
        return ops.bitwise_right_shift(a, b)
    unsigned = f"uint{a.dtype.bits}"
    bits, count = (ops.bitcast(v, dtype=unsigned) for v in (a, b))
    return ops.bitcast(ops.bitwise_right_shift(bits, count), dtype=a.dtype)


def _by_total_order(name: str) -> Callable[..., Any]:
    """A comparison of floats by sign and bits: -NaN < -inf < -0.0 < 0.0 < inf < NaN."""
    operation = ops.OPS[name]

    def rank_of(x: Any) -> Any:
        if x.dtype.kind != "float":
            return x
        integer = np.dtype(f"int{x.dtype.bits}")
        bits = ops.bitcast(x, dtype=str(integer))
        flipped = ops.bitwise_xor(bits, np.array(np.iinfo(integer).max, integer))
        return ops.where(ops.less(bits, np.zeros((), integer)), flipped, bits)

    def read(a: Any, b: Any) -> Any:
        return operation(rank_of(a), rank_of(b))

    read.__name__ = f"{name}_by_total_order"
    return read


def polygamma(order: Any, x: Any) -> Any:
    """NaN for an order that is no integer."""
    whole = ops.floor(order)
    made = ops.polygamma(ops.astype(whole, dtype="int64"), x)
    return ops.where(ops.equal(order, whole), made, np.array(np.nan, x.dtype.numpy))


def bitcast_convert_type(x: Any, *, new_dtype: Any) -> Any:
    return ops.bitcast(x, dtype=new_dtype)


def pass_through(*xs: Any, **_: Any) -> Any:
    return xs[0] if len(xs) == 1 else xs


READ: dict[str, Callable[..., Any]] = {
    **{prim: _direct(name) for prim, name in {**_SAME_NAME, **_OTHER_NAME}.items()},
    "and": _by_kind("logical_and", "bitwise_and"),
    "or": _by_kind("logical_or", "bitwise_or"),
    "xor": _by_kind("logical_xor", "bitwise_xor"),
    "not": _by_kind("logical_not", "bitwise_invert"),
    "abs": absolute,
    "div": div,
    "rem": rem,
    "eq_to": _by_total_order("equal"),
    "le_to": _by_total_order("less_equal"),
    "lt_to": _by_total_order("less"),
    "polygamma": polygamma,
    "integer_pow": integer_pow,
    "convert_element_type": convert,
    "select_n": select_n,
    "clamp": clamp,
    "round": round_,
    "shift_right_arithmetic": shift_right_arithmetic,
    "shift_right_logical": shift_right_logical,
    "bitcast_convert_type": bitcast_convert_type,
    "device_put": pass_through,
    "optimization_barrier": pass_through,
    "sharding_constraint": pass_through,
}
