"""From nd4j: elementwise ops whose arguments decide what is built.

Operands of two element types are converted to one, as nd4j does: to the floating-point
type of the two, to the wider one of two floating-point types, else to the first.
"""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from amanda.types import DType
from amanda_nd4j.std.arguments import dtype_of_code
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of

__all__ = ["READ", "same_types"]


def same_types(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands, both of the element type of nd4j's result."""
    if a.dtype == b.dtype:
        return a, b
    first, second = DType(str(a.dtype)), DType(str(b.dtype))
    floats = [t for t in (first, second) if t.kind == "float"]
    wanted = max(floats, key=lambda t: t.bits) if floats else first
    return cast_to(a, wanted), cast_to(b, wanted)


def _binary(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """An op of two operands; nd4j's `dtype` and `comparable` say nothing more."""

    def read(a: Any, b: Any, *, dtype: Any = None) -> Any:
        y = op(*same_types(a, b))
        return y if dtype is None else cast_to(y, dtype)

    return read


def _swap_inputs(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def read(a: Any, b: Any) -> Any:
        return op(*same_types(b, a))

    return read


def _by_constant(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """An op of a tensor and a scalar, which is the last input."""

    def read(a: Any, b: Any, *, dtype: Any = None) -> Any:
        y = op(a, ops.astype(b, dtype=a.dtype))
        return y if dtype is None else cast_to(y, dtype)

    return read


def read_real_division(a: Any, b: Any) -> Any:
    """A quotient of integers is an integer, rounded towards zero."""
    return ops.divide(*same_types(a, b))


def read_squared_difference(a: Any, b: Any) -> Any:
    """squaredsubtract to `squared_difference`, or the square of a difference."""
    difference = ops.subtract(*same_types(a, b))
    return ops.multiply(difference, difference)


def read_divide_no_nan(a: Any, b: Any) -> Any:
    """divide_no_nan to a quotient that is zero where the divisor is."""
    a, b = same_types(a, b)
    zero = ops.number_like(b, value=0)
    return ops.where(ops.equal(b, zero), ops.zeros_like(a * b), a / b)


def read_select(condition: Any, a: Any, b: Any) -> Any:
    """A condition that is a vector selects rows."""
    rank, whole = rank_of(condition), rank_of(a)
    if rank == 1 and whole > 1:
        condition = ops.expand_dims(condition, list(range(1, whole)))
    a, b = same_types(a, b)
    return ops.where(ops.astype(condition, dtype="bool"), a, b)


def read_sum(*xs: Any) -> Any:
    """mergeadd and mergesum to sums of two."""
    return reduce(ops.add, xs)


def read_average(*xs: Any) -> Any:
    """mergeavg to a mean."""
    return ops.divide(read_sum(*xs), ops.number_like(xs[0], value=len(xs)))


def read_maximum(*xs: Any) -> Any:
    """mergemax to maxima of two."""
    return reduce(ops.maximum, xs)


def read_cast(x: Any, *, dtype: Any = None, dst: Any = None) -> Any:
    """cast to `astype`; the type may be a number."""
    expect(dtype is not None or dst is not None, "an element type is expected")
    return ops.astype(x, dtype=dtype or dtype_of_code(int(dst)))


def _cast_reader(target: str) -> Callable[..., Any]:
    def read(x: Any, *, dtype: Any = None) -> Any:
        return ops.astype(x, dtype=dtype or target)

    return read


def read_bitcast(x: Any, *, newType: Any = None, dtype: Any = None) -> Any:
    """A larger element becomes several along a new last axis, and the reverse."""
    expect(newType is not None or dtype is not None, "an element type is expected")
    target = DType(str(dtype)) if dtype is not None else dtype_of_code(int(newType))
    return ops.bitcast(x, dtype=target)


def read_power(x: Any, exponent: Any = None, *, pow: Any = None) -> Any:
    """A power by a tensor or by a number."""
    if exponent is None:
        return ops.pow(x, ops.number_like(x, value=pow))
    return ops.pow(*same_types(x, exponent))


def read_swish(x: Any) -> Any:
    """swish to `x * sigmoid(x)`."""
    return x * ops.sigmoid(x)


def read_hard_sigmoid(x: Any) -> Any:
    """0.2 x + 0.5, between 0 and 1."""
    return ops.clip(x * 0.2 + 0.5, 0, 1)


def read_rational_tanh(x: Any) -> Any:
    """1.7159 times a rational approximation of tanh(2x / 3)."""
    y = x * (2.0 / 3.0)
    size = ops.abs(y)
    bottom = 1.0 + size + ops.square(y) + ops.square(ops.square(y)) * 1.41645
    return 1.7159 * ops.sign(y) * (1.0 - ops.reciprocal(bottom))


def read_prelu(x: Any, alpha: Any, *, sharedAxes: Any = None) -> Any:
    """The slopes are broadcast along shared axes, which have length 1 in them."""
    del sharedAxes
    return ops.where(ops.less(x, ops.zeros_like(x)), x * alpha, x)


def read_relu_above(x: Any, *, cutoff: float = 0.0) -> Any:
    """relu with a cutoff: numbers that are not above it become zero."""
    limit = ops.number_like(x, value=cutoff)
    return ops.where(ops.greater(x, limit), x, ops.zeros_like(x))


def read_relu6(x: Any, *, cutoff: float = 0.0) -> Any:
    """relu6 with a cutoff."""
    return ops.minimum(read_relu_above(x, cutoff=cutoff), ops.number_like(x, value=6))


def read_step(x: Any, *, cutoff: float = 0.0) -> Any:
    """1 above the cutoff, else 0."""
    above = ops.greater(x, ops.number_like(x, value=cutoff))
    return ops.astype(above, dtype=x.dtype)


READ: dict[str, Any] = {
    "add": _binary(ops.add),
    "subtract": _binary(ops.subtract),
    "multiply": _binary(ops.multiply),
    "divide": read_real_division,
    "realdiv": read_real_division,
    "truncatediv": _binary(lambda a, b: ops.trunc(ops.divide(a, b))),
    "floordiv": _binary(ops.floor_divide),
    "floormod": _binary(ops.remainder),
    "mod": _binary(ops.truncated_remainder),
    "fmod": _binary(ops.truncated_remainder),
    "remainder": _binary(ops.remainder),
    "reversesubtract": _swap_inputs(ops.subtract),
    "reversedivide": _swap_inputs(ops.divide),
    "reversemod": _swap_inputs(ops.truncated_remainder),
    "squaredsubtract": read_squared_difference,
    "divide_no_nan": read_divide_no_nan,
    "Pow": read_power,
    "pow": read_power,
    "pow_pairwise": _binary(ops.pow),
    "maximum": _binary(ops.maximum),
    "minimum": _binary(ops.minimum),
    "max_pairwise": _binary(ops.maximum),
    "min_pairwise": _binary(ops.minimum),
    "tf_atan2": _binary(ops.atan2),
    "equals": _binary(ops.equal),
    "not_equals": _binary(ops.not_equal),
    "less": _binary(ops.less),
    "less_equal": _binary(ops.less_equal),
    "greater": _binary(ops.greater),
    "greater_equal": _binary(ops.greater_equal),
    "boolean_and": _binary(ops.logical_and),
    "boolean_or": _binary(ops.logical_or),
    "boolean_xor": _binary(ops.logical_xor),
    "bitwise_and": _binary(ops.bitwise_and),
    "bitwise_or": _binary(ops.bitwise_or),
    "bitwise_xor": _binary(ops.bitwise_xor),
    "shift_bits": _binary(ops.bitwise_left_shift),
    "rshift_bits": _binary(ops.bitwise_right_shift),
    "mul_scalar": _by_constant(ops.multiply),
    "max_scalar": _by_constant(ops.maximum),
    "scalar_min": _by_constant(ops.minimum),
    "select": read_select,
    "mergeadd": read_sum,
    "mergesum": read_sum,
    "mergeavg": read_average,
    "mergemax": read_maximum,
    "cast": read_cast,
    "to_double": _cast_reader("float64"),
    "to_float16": _cast_reader("float16"),
    "to_float32": _cast_reader("float32"),
    "to_int32": _cast_reader("int32"),
    "to_int64": _cast_reader("int64"),
    "to_uint32": _cast_reader("uint32"),
    "to_uint64": _cast_reader("uint64"),
    "bitcast": read_bitcast,
    "swish": read_swish,
    "hardsigmoid": read_hard_sigmoid,
    "hard_sigmoid": read_hard_sigmoid,
    "rationaltanh": read_rational_tanh,
    "rational_tanh": read_rational_tanh,
    "prelu": read_prelu,
    "relu": read_relu_above,
    "relu6": read_relu6,
    "thresholdedrelu": read_relu_above,
    "step": read_step,
}
