"""From PyTorch: arithmetic of tensors and numbers, with type promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.type_promotion import (
    as_ordered,
    as_truth,
    as_value,
    is_number,
    number,
    promote,
    result_type,
    with_order,
)

__all__ = ["READ", "binary"]


def binary(op: Callable[..., Any], *, floating: bool = False) -> Callable[..., Any]:
    """A rule for an op of two operands of one element type."""

    def read(a: Any, b: Any) -> Any:
        return op(*promote(a, b, floating=floating))

    return read


def _multiply_by(x: Any, alpha: Any) -> Any:
    """A value, or a number that `promote` has made an array, times a number."""
    if isinstance(alpha, int) and alpha == 1:
        return x
    return ops.multiply(x, as_value(alpha, DType(str(x.dtype))))


def read_add(a: Any, b: Any, alpha: Any = 1) -> Any:
    a, b = promote(a, b)
    if a.dtype.kind == "bool":
        return ops.logical_or(a, b)
    return ops.add(a, _multiply_by(b, alpha))


def read_subtract(a: Any, b: Any, alpha: Any = 1) -> Any:
    a, b = promote(a, b)
    return ops.subtract(a, _multiply_by(b, alpha))


def read_reverse_subtract(a: Any, b: Any, alpha: Any = 1) -> Any:
    a, b = promote(a, b)
    return ops.subtract(b, _multiply_by(a, alpha))


def read_multiply(a: Any, b: Any) -> Any:
    a, b = promote(a, b)
    return (ops.logical_and if a.dtype.kind == "bool" else ops.multiply)(a, b)


def read_divide(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    """True division, or one that rounds down or towards zero."""
    if rounding_mode is None:
        return ops.divide(*promote(a, b, floating=True))
    a, b = promote(a, b)
    if rounding_mode == "floor":
        return ops.floor_divide(a, b)
    quotient = ops.divide(a, b)
    return ops.trunc(quotient) if a.dtype.kind == "float" else quotient


def read_pow(a: Any, b: Any) -> Any:
    a, b = promote(a, b)
    if a.dtype.kind == "bool":
        return ops.logical_or(a, ops.logical_not(b))
    return ops.pow(a, b)


def read_float_power(a: Any, b: Any) -> Any:
    """The power in double precision."""
    wide = DType("complex128" if result_type(a, b).kind == "complex" else "float64")
    return ops.pow(as_value(a, wide), as_value(b, wide))


def _ignoring_nan(op: Callable[..., Any]) -> Callable[..., Any]:
    """An extremum that is NaN only if both operands are."""

    def read(a: Any, b: Any) -> Any:
        a, b = promote(a, b)
        found = op(a, b)
        if a.dtype.kind != "float":
            return found
        return ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, found))

    return read


def read_logaddexp2(a: Any, b: Any) -> Any:
    a, b = promote(a, b, floating=True)
    log2 = number(0.6931471805599453, a.dtype)
    return ops.logaddexp(a * log2, b * log2) / log2


def read_xlogy(a: Any, b: Any) -> Any:
    """0 where a is 0, but NaN where b is NaN."""
    a, b = promote(a, b, floating=True)
    return ops.where(ops.isnan(b), b, ops.xlogy(a, b))


def read_xlog1py(a: Any, b: Any) -> Any:
    a, b = promote(a, b, floating=True)
    return ops.where(ops.isnan(b), b, ops.xlog1py(a, b))


def read_heaviside(x: Any, values: Any) -> Any:
    x, values = promote(x, values)
    zero, one = number(0, x.dtype), number(1, x.dtype)
    step = ops.where(ops.less(as_ordered(x), as_ordered(zero)), zero, one)
    return ops.where(ops.equal(x, zero), values, step)


def read_lerp(start: Any, end: Any, weight: Any) -> Any:
    """From the end that is nearer, as PyTorch computes it."""
    w = as_value(weight, start.dtype)
    one, apart = number(1, start.dtype), end - start
    if start.dtype.kind == "complex":
        size = ops.modulus(w)
        near = ops.less(size, number(0.5, size.dtype))
    else:
        near = ops.less(ops.abs(w), number(0.5, start.dtype))
    return ops.where(near, start + w * apart, end - apart * (one - w))


def read_addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    x, a, b = promote(x, a, b)
    return x + _multiply_by(a * b, value)


def read_addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    x, a, b = promote(x, a, b, floating=True)
    return x + _multiply_by(a, value) / b


def read_ldexp(x: Any, exponent: Any) -> Any:
    x, exponent = promote(x, exponent, floating=True)
    return x * ops.pow(number(2, x.dtype), exponent)


def read_gcd(a: Any, b: Any) -> Any:
    """Euclid's algorithm, for all elements at once."""
    a, b = promote(a, b)
    zero = number(0, a.dtype)
    a, b = (_absolute(x) for x in (a + ops.zeros_like(b), b + ops.zeros_like(a)))

    def step(a: Any, b: Any) -> Any:
        divisor = ops.where(ops.equal(b, zero), number(1, b.dtype), b)
        done = ops.equal(b, zero)
        return (ops.where(done, a, b),
                ops.where(done, b, ops.truncated_remainder(a, divisor)))  # fmt: skip

    return ops.while_(lambda _, b: ops.any(ops.not_equal(b, zero)), step, a, b)[0]


def _absolute(x: Any) -> Any:
    return x if x.dtype.kind == "uint" else ops.abs(x)


def read_lcm(a: Any, b: Any) -> Any:
    a, b = promote(a, b)
    common = read_gcd(a, b)
    zero = number(0, a.dtype)
    divisor = ops.where(ops.equal(common, zero), number(1, a.dtype), common)
    return _absolute(ops.divide(a, divisor) * b)


def read_clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """The upper limit wins; NaN stays NaN."""
    if low is None and high is None:
        raise Decline("clamp without limits")
    dtype = result_type(x, low, high)
    x, low, high = (as_value(v, dtype) for v in (x, low, high))
    x = x if low is None else ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


def read_clamp_max(x: Any, high: Any) -> Any:
    return read_clamp(x, None, high)


def read_where(condition: Any, a: Any, b: Any) -> Any:
    a, b = promote(a, b)
    return ops.where(as_truth(condition), a, b)


def read_abs(x: Any) -> Any:
    if x.dtype.kind == "complex":
        return ops.modulus(x)
    return _absolute(x) if x.dtype.kind != "bool" else x


def read_copysign(a: Any, b: Any) -> Any:
    return ops.copysign(*promote(a, b, floating=True))


def read_true_remainder(a: Any, b: Any) -> Any:
    a, b = promote(a, b)
    return ops.remainder(a, b)


def read_polar(size: Any, angle: Any) -> Any:
    return ops.complex(size * ops.cos(angle), size * ops.sin(angle))


def read_dunder(op: str) -> Callable[..., Any]:
    """A bit operation; on booleans it is the logical one."""

    def read(a: Any, b: Any) -> Any:
        a, b = promote(a, b)
        kind = "logical" if a.dtype.kind == "bool" else "bitwise"
        return ops.find(f"{kind}_{op}")(a, b)

    return read


def read_shift(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(a: Any, b: Any) -> Any:
        return op(*promote(a, b))

    return read


def read_not(x: Any) -> Any:
    return ops.logical_not(x) if x.dtype.kind == "bool" else ops.bitwise_invert(x)


def read_nextafter(a: Any, b: Any) -> Any:
    return ops.nextafter(*promote(a, b))


def read_cast(x: Any, dtype: Any = None) -> Any:
    if is_number(x):
        return as_value(x, dtype)
    return ops.identity(x) if dtype is None else cast_to(x, dtype)


def _names(base: str, *overloads: str) -> str:
    return " ".join(f"{base}.{overload}" for overload in overloads)


_TWO = ("Tensor", "Scalar")

READ = torch_functions(
    {
        _names("add", *_TWO): read_add,
        f"{_names('sub', *_TWO)} {_names('subtract', *_TWO)}": read_subtract,
        _names("rsub", *_TWO): read_reverse_subtract,
        f"{_names('mul', *_TWO)} {_names('multiply', *_TWO)}": read_multiply,
        " ".join(
            _names(name, *_TWO, *more)
            for name, more in {
                "div": ("Tensor_mode", "Scalar_mode"),
                "divide": ("Tensor_mode", "Scalar_mode"),
                "true_divide": (),
            }.items()
        ): read_divide,
        "floor_divide floor_divide.Scalar": binary(ops.floor_divide),
        _names("remainder", *_TWO, "Scalar_Tensor"): read_true_remainder,
        _names("fmod", *_TWO): binary(ops.truncated_remainder),
        "pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar": read_pow,
        _names("float_power", "Tensor_Tensor", "Tensor_Scalar", "Scalar"):
            read_float_power,
        "maximum max.other": binary(with_order(ops.maximum)),
        "minimum min.other": binary(with_order(ops.minimum)),
        "fmax": _ignoring_nan(with_order(ops.maximum)),
        "fmin": _ignoring_nan(with_order(ops.minimum)),
        "atan2 arctan2": binary(ops.atan2, floating=True),
        "hypot": binary(ops.hypot),
        "logaddexp": binary(ops.logaddexp, floating=True),
        "logaddexp2": read_logaddexp2,
        "xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other special_xlogy "
        "special_xlogy.self_scalar special_xlogy.other_scalar": read_xlogy,
        "special_xlog1py special_xlog1py.self_scalar special_xlog1py.other_scalar":
            read_xlog1py,
        "copysign.Tensor copysign.Scalar": read_copysign,
        "nextafter": read_nextafter,
        "heaviside": read_heaviside,
        "lerp.Tensor lerp.Scalar": read_lerp,
        "addcmul": read_addcmul,
        "addcdiv": read_addcdiv,
        "ldexp.Tensor": read_ldexp,
        "gcd": read_gcd,
        "lcm": read_lcm,
        "clamp clamp.Tensor clip clip.Tensor": read_clamp,
        "clamp_min clamp_min.Tensor": read_clamp,
        "clamp_max clamp_max.Tensor": read_clamp_max,
        "where.self where.Scalar where.ScalarSelf where.ScalarOther": read_where,
        "abs absolute": read_abs,
        "polar": read_polar,
        f"{_names('bitwise_and', *_TWO, 'Scalar_Tensor')} {_names('__and__', *_TWO)}":
            read_dunder("and"),
        f"{_names('bitwise_or', *_TWO, 'Scalar_Tensor')} {_names('__or__', *_TWO)}":
            read_dunder("or"),
        f"{_names('bitwise_xor', *_TWO, 'Scalar_Tensor')} {_names('__xor__', *_TWO)}":
            read_dunder("xor"),
        "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar "
        "bitwise_left_shift.Scalar_Tensor __lshift__.Tensor __lshift__.Scalar":
            read_shift(ops.bitwise_left_shift),
        "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar "
        "bitwise_right_shift.Scalar_Tensor __rshift__.Tensor __rshift__.Scalar":
            read_shift(ops.bitwise_right_shift),
        "bitwise_not": read_not,
    }
)  # fmt: skip
