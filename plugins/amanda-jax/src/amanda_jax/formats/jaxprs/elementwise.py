"""Elementwise primitives: one op of the hub, or a few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import known_content

__all__ = ["READ"]

_SAME_NAME: Final = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt",
        "ceil", "complex", "cos", "cosh", "digamma", "erf", "erfc", "exp",
        "exp2", "expm1", "floor", "imag", "lgamma", "log", "log1p", "nextafter",
        "real", "sin", "sinh", "sqrt", "tan", "tanh",
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
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "population_count": "popcount",
    "regularized_incomplete_beta": "betainc",
    "shift_left": "bitwise_left_shift",
    "stop_gradient": "stop_gradient",
    "sub": "subtract",
    "zeta": "zeta",
}
_FINFO: Final[Any] = jnp.finfo  # it has no annotations
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
    known = known_content(b)
    if known is not None and np.all(known):
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
    """Unsigned integers are shifted as the signed ones of the same bits."""
    return _shift_right_as("int", a, b)


def shift_right_logical(a: Any, b: Any) -> Any:
    """Signed integers are shifted as the unsigned ones of the same bits."""
    return _shift_right_as("uint", a, b)


def _shift_right_as(kind: str, a: Any, b: Any) -> Any:
    if a.dtype.kind == kind:
        return ops.bitwise_right_shift(a, b)
    bits, count = (ops.bitcast(v, dtype=f"{kind}{a.dtype.bits}") for v in (a, b))
    return ops.bitcast(ops.bitwise_right_shift(bits, count), dtype=a.dtype)


def negative(x: Any) -> Any:
    """Unsigned integers wrap."""
    return np.zeros((), x.dtype.numpy) - x if x.dtype.kind == "uint" else -x


def power(x: Any, y: Any) -> Any:
    """The exponent of a float may be an integer."""
    return ops.pow(x, y if y.dtype == x.dtype else ops.astype(y, dtype=x.dtype))


def _by_type(name: str, of_complex: Callable[[Any], Any]) -> Callable[..., Any]:
    """An op of the hub for real numbers only, and what it is of complex ones."""
    of_real = _direct(name)

    def read(x: Any, **parameters: Any) -> Any:
        return of_complex(x) if x.dtype.kind == "complex" else of_real(x, **parameters)

    read.__name__ = name
    return read


def _complex_rsqrt(x: Any) -> Any:
    return ops.reciprocal(ops.sqrt(x))


def _complex_sigmoid(x: Any) -> Any:
    return ops.reciprocal(ops.exp(-x) + 1.0)


def _complex_sign(x: Any) -> Any:
    size = ops.modulus(x)
    is_zero = ops.equal(size, np.zeros((), size.dtype.numpy))
    length = ops.astype(ops.where(is_zero, ops.ones_like(size), size), dtype=x.dtype)
    return ops.where(is_zero, ops.zeros_like(x), x / length)


def conjugate(x: Any, *, input_dtype: Any) -> Any:
    """A real number becomes a complex one."""
    del input_dtype
    if x.dtype.kind == "complex":
        return ops.conj(x)
    return ops.complex(x, ops.zeros_like(x))


def reduce_precision(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounded to nearest, ties to even; too large is infinite, too small is zero."""
    own = _FINFO(x.dtype.numpy)
    if exponent_bits >= own.nexp and mantissa_bits >= own.nmant:
        return x
    integer = np.dtype(f"int{own.bits}")
    bits = ops.bitcast(x, dtype=str(integer))
    if mantissa_bits < own.nmant:
        bits = _round_bits(bits, integer.type, own.nmant - mantissa_bits)
    if exponent_bits < own.nexp:
        bits = _limit_exponent(bits, integer.type, own, exponent_bits)
    return ops.where(ops.isnan(x), x, ops.bitcast(bits, dtype=x.dtype))


def _round_bits(bits: Any, integer: Any, dropped: int) -> Any:
    """Bits of floats without the last ones of their mantissas, to nearest even."""
    last = ops.bitwise_and(ops.bitwise_right_shift(bits, integer(dropped)), integer(1))
    rounded = bits + (last + integer((1 << (dropped - 1)) - 1))
    return ops.bitwise_and(rounded, integer(-1 << dropped))


def _limit_exponent(bits: Any, integer: Any, own: Any, exponent_bits: int) -> Any:
    """Bits of floats, of infinities and zeros where an exponent is out of range."""
    sign_mask = np.iinfo(integer).min
    exponent_mask = ((1 << own.nexp) - 1) << own.nmant
    bias, reduced = ((1 << (count - 1)) - 1 for count in (own.nexp, exponent_bits))
    sign = ops.bitwise_and(bits, integer(sign_mask))
    exponent = ops.bitwise_and(bits, integer(exponent_mask))
    is_large = ops.greater(exponent, integer((bias + reduced) << own.nmant))
    is_small = ops.less_equal(exponent, integer((bias - reduced) << own.nmant))
    infinity = ops.bitwise_or(sign, integer(exponent_mask))
    return ops.where(is_small, sign, ops.where(is_large, infinity, bits))


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
    "neg": negative,
    "pow": power,
    "rsqrt": _by_type("rsqrt", _complex_rsqrt),
    "square": _by_type("square", lambda x: x * x),
    "logistic": _by_type("sigmoid", _complex_sigmoid),
    "sign": _by_type("sign", _complex_sign),
    "conj": conjugate,
    "reduce_precision": reduce_precision,
    "name": pass_through,
    "device_put": pass_through,
    "optimization_barrier": pass_through,
    "sharding_constraint": pass_through,
}
