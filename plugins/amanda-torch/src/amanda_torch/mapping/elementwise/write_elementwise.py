"""To PyTorch: arithmetic, comparisons, casts and activations.

A scalar constant is a number of the op, as in programs that PyTorch exports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.types import DType, float32
from amanda_torch.mapping.written_arguments import (
    dtype_of,
    number_or_value,
    write_call,
    write_constant,
)

__all__ = ["WRITE"]


_OVERLOADS_OF_NUMBERS = {
    **{f"{name}.Tensor": f"{name}.Scalar"
       for name in ("remainder", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor")},
    **{f"bitwise_{side}_shift.Tensor": f"bitwise_{side}_shift.Tensor_Scalar"
       for side in ("left", "right")},
}  # fmt: skip


def _binary(name: str, **attrs: Any) -> Callable[..., Any]:
    """An op of two tensors, the second of which may be a number: as a tensor, or in
    an overload of its own."""
    scalar = _OVERLOADS_OF_NUMBERS.get(name)

    def write(o: Any, a: Any, b: Any) -> Any:
        number = number_or_value(b)
        if scalar is None or isinstance(number, OutputPort):
            return write_call(o, name, a, number, **attrs)
        return write_call(o, scalar, a, other=number, **attrs)

    return write


def _commutative(name: str) -> Callable[..., Any]:
    write_in_order = _binary(name)

    def write(o: Any, a: Any, b: Any) -> Any:
        is_number = not isinstance(number_or_value(a), OutputPort)
        return write_in_order(o, *((b, a) if is_number else (a, b)))

    return write


def write_divide(o: Any, a: Any, b: Any) -> Any:
    """Of integers the quotient that is rounded towards zero."""
    divisor = number_or_value(b)
    if dtype_of(a).kind in ("float", "complex"):
        return write_call(o, "div.Tensor", a, divisor)
    return write_call(o, "div.Tensor_mode", a, divisor, rounding_mode="trunc")


def write_subtract(o: Any, a: Any, b: Any) -> Any:
    number = number_or_value(a)
    if isinstance(number, OutputPort):
        return write_call(o, "sub.Tensor", a, number_or_value(b))
    return write_call(o, "rsub.Scalar", b, other=number)


def write_pow(o: Any, a: Any, b: Any) -> Any:
    base, exponent = number_or_value(a), number_or_value(b)
    if not isinstance(exponent, OutputPort):
        return write_call(o, "pow.Tensor_Scalar", a, exponent=exponent)
    if not isinstance(base, OutputPort):
        return write_call(o, "pow.Scalar", b, self=base)
    return write_call(o, "pow.Tensor_Tensor", a, b)


def _of_tensors(name: str) -> Callable[..., Any]:
    """An op of two tensors, neither of which may be a number."""

    def write(o: Any, a: Any, b: Any) -> Any:
        return write_call(o, name, a, b)

    return write


_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _comparison(name: str) -> Callable[..., Any]:
    def write(o: Any, a: Any, b: Any) -> Any:
        left, right = number_or_value(a), number_or_value(b)
        if not isinstance(right, OutputPort):
            return write_call(o, f"{name}.Scalar", a, other=right)
        if not isinstance(left, OutputPort):
            return write_call(o, f"{_MIRRORED[name]}.Scalar", b, other=left)
        return write_call(o, f"{name}.Tensor", a, b)

    return write


def write_where(o: Any, condition: Any, a: Any, b: Any) -> Any:
    left, right = number_or_value(a), number_or_value(b)
    if isinstance(left, OutputPort) and not isinstance(right, OutputPort):
        return write_call(o, "where.ScalarOther", condition, a, other=right)
    if isinstance(right, OutputPort) and not isinstance(left, OutputPort):
        return write_call(o, "where.ScalarSelf", condition, b, self=left)
    if isinstance(left, float) and isinstance(right, float) and dtype_of(a) == float32:
        return write_call(o, "where.Scalar", condition, self=left, other=right)
    return write_call(o, "where.self", condition, a, b)


def write_clip(o: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    limits = {
        key: number_or_value(v)
        for key, v in (("min", low), ("max", high)) if v is not None
    }  # fmt: skip
    if not limits:
        return write_call(o, "alias", x)
    if any(isinstance(v, OutputPort) for v in limits.values()):
        return write_call(o, "clamp.Tensor", x, low, high)
    return write_call(o, "clamp", x, **limits)


def write_complex(o: Any, a: Any, b: Any) -> Any:
    """Parts in half precision make numbers in single precision."""
    if dtype_of(a).bits < 32:
        single = DType("float32")
        a, b = (write_call(o, "to.dtype", x, dtype=single) for x in (a, b))
    return write_call(o, "complex", a, b)


def write_imag(o: Any, x: Any) -> Any:
    """0 for real numbers; complex ones have a rule."""
    return write_call(o, "zeros_like", x)


def write_cbrt(o: Any, x: Any) -> Any:
    if dtype_of(x).kind == "complex":
        return write_call(o, "pow.Tensor_Scalar", x, exponent=1 / 3)
    wide = write_call(o, "to.dtype", x, dtype=DType("float64"))
    size = write_call(o, "pow.Tensor_Scalar", write_call(o, "abs", wide),
                      exponent=1 / 3)  # fmt: skip
    y = write_call(o, "copysign.Tensor", size, wide)
    return write_call(o, "to.dtype", y, dtype=dtype_of(x))


def write_polygamma(o: Any, n: Any, x: Any) -> Any:
    """Orders that differ by element by the Hurwitz zeta function."""
    order = number_or_value(n)
    if not isinstance(order, OutputPort):
        return write_call(o, "polygamma", x, n=int(order))
    orders = write_call(o, "to.dtype", n, dtype=dtype_of(x))
    after = write_call(o, "add.Tensor", orders, 1)
    is_even = write_call(o, "remainder.Scalar", after, other=2)
    sign = write_call(o, "rsub.Scalar", write_call(o, "mul.Tensor", is_even, 2),
                      other=1)  # fmt: skip
    factor = write_call(o, "exp", write_call(o, "lgamma", after))
    size = write_call(o, "mul.Tensor", factor, sign)
    y = write_call(o, "mul.Tensor", size,
                   write_call(o, "special_zeta", after, x))  # fmt: skip
    is_first = write_call(o, "eq.Scalar", orders, other=0)
    return write_call(o, "where.self", is_first, write_call(o, "digamma", x), y)


# -- casts -------------------------------------------------------------------------

_WITHOUT_INFINITY = {"float8_e4m3fn": 464, "float8_e8m0fnu": None}
"""Types for which casts of PyTorch saturate; beyond the limit elements are NaN."""


def write_astype(o: Any, x: Any, *, dtype: Any) -> Any:
    source = dtype_of(x)
    if "string" in (source.kind, dtype.kind):
        raise Decline("PyTorch has no tensors of strings")
    if source.kind == "complex" and dtype.kind == "bool":
        return write_call(o, "ne.Scalar", x, other=0)
    if source.kind == "complex" and dtype.kind != "complex":
        x = write_call(o, "real", x)
    if str(dtype) in _WITHOUT_INFINITY and source.kind == "float":
        limit = _WITHOUT_INFINITY[str(dtype)]
        size = x if limit is None else write_call(o, "abs", x)
        name = "le.Scalar" if limit is None else "gt.Scalar"
        beyond = write_call(o, name, size, other=limit or 0)
        nan = write_constant(o, np.asarray(np.nan, dtype_of(x).numpy))
        x = write_call(o, "where.self", beyond, nan, x)
    return write_call(o, "to.dtype", x, dtype=dtype)


def write_bitcast(o: Any, x: Any, *, dtype: Any) -> Any:
    """By a view as another element type; an axis takes on the parts."""
    old, new = dtype_of(x), dtype
    if old.kind == "bool":
        old = DType("uint8")
        x = write_call(o, "to.dtype", x, dtype=old)
    if new.kind == "bool":
        new = DType("uint8")
    if old.bits > new.bits:
        x = write_call(o, "unsqueeze", x, dim=-1)
    y = write_call(o, "view.dtype", x, dtype=new)
    if old.bits < new.bits:
        y = write_call(o, "squeeze.dim", y, dim=-1)
    return y if dtype.kind != "bool" else write_call(o, "ne.Scalar", y, other=0)


# -- activations -------------------------------------------------------------------


def write_selu(o: Any, x: Any, *, alpha: float, gamma: float) -> Any:
    return write_call(o, "elu", x, alpha=alpha, scale=gamma)


def write_hardsigmoid(o: Any, x: Any, *, alpha: float, beta: float) -> Any:
    if (alpha, beta) != (1 / 6, 0.5):
        raise Decline("PyTorch has one hard sigmoid")
    return write_call(o, "hardsigmoid", x)


WRITE: dict[str, Any] = {
    "add": _commutative("add.Tensor"),
    "multiply": _commutative("mul.Tensor"),
    "subtract": write_subtract,
    "divide": write_divide,
    "floor_divide": _binary("div.Tensor_mode", rounding_mode="floor"),
    "remainder": _binary("remainder.Tensor"),
    "where": write_where,
    "truncated_remainder": _binary("fmod.Tensor"),
    "pow": write_pow,
    "maximum": _of_tensors("maximum"),
    "minimum": _of_tensors("minimum"),
    "equal": _comparison("eq"),
    "not_equal": _comparison("ne"),
    "less": _comparison("lt"),
    "less_equal": _comparison("le"),
    "greater": _comparison("gt"),
    "greater_equal": _comparison("ge"),
    "bitwise_and": _commutative("bitwise_and.Tensor"),
    "bitwise_or": _commutative("bitwise_or.Tensor"),
    "bitwise_xor": _commutative("bitwise_xor.Tensor"),
    "bitwise_left_shift": _binary("bitwise_left_shift.Tensor"),
    "bitwise_right_shift": _binary("bitwise_right_shift.Tensor"),
    "clip": write_clip,
    "complex": write_complex,
    "imag": write_imag,
    "cbrt": write_cbrt,
    "polygamma": write_polygamma,
    "astype": write_astype,
    "bitcast": write_bitcast,
    "selu": write_selu,
    "hardsigmoid": write_hardsigmoid,
}
