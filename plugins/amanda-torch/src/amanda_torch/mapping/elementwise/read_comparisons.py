"""From PyTorch: comparisons, logic, and classification of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.elementwise.read_arithmetic import binary
from amanda_torch.mapping.type_promotion import as_ordered, as_truth, number, promote

__all__ = ["READ"]


def _logic(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(a: Any, b: Any) -> Any:
        return op(as_truth(a), as_truth(b))

    return read


def _compare(op: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison by the order of elements."""
    return binary(lambda a, b: op(as_ordered(a), as_ordered(b)))


def _constant(x: Any, *, value: bool) -> Any:
    """The same truth value for each element."""
    return ops.broadcast_to(np.asarray(value), ops.shape_of(x))


def _of_floats(op: Callable[..., Any], *, otherwise: bool) -> Callable[..., Any]:
    """A property of floats, and its value for each integer."""

    def read(x: Any) -> Any:
        if x.dtype.kind == "complex":
            parts = op(ops.real(x)), op(ops.imag(x))
            return (ops.logical_and if otherwise else ops.logical_or)(*parts)
        return op(x) if x.dtype.kind == "float" else _constant(x, value=otherwise)

    return read


def _is_infinity(sign: int) -> Callable[..., Any]:
    def read(x: Any) -> Any:
        if x.dtype.kind != "float":
            return _constant(x, value=False)
        return ops.equal(x, number(sign * float("inf"), x.dtype))

    return read


def read_isreal(x: Any) -> Any:
    if x.dtype.kind != "complex":
        return _constant(x, value=True)
    part = ops.imag(x)
    return ops.equal(part, number(0, part.dtype))


def read_isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    same = ops.equal(a, b)
    if a.dtype.kind not in ("float", "complex"):
        a, b = (ops.astype(v, dtype="float64") for v in (a, b))
    size = ops.modulus if a.dtype.kind == "complex" else ops.abs
    apart, most = size(a - b), size(b)
    limit = number(atol, most.dtype) + number(rtol, most.dtype) * most
    near = ops.logical_and(ops.less_equal(apart, limit), ops.isfinite(apart))
    close = ops.logical_or(same, near)
    if equal_nan and a.dtype.kind == "float":
        close = ops.logical_or(close, ops.logical_and(ops.isnan(a), ops.isnan(b)))
    return close


def read_signbit(x: Any) -> Any:
    if x.dtype.kind == "float":
        return ops.signbit(x)
    if x.dtype.kind == "bool":
        return _constant(x, value=False)
    return ops.less(x, number(0, x.dtype))


def read_equal_tensors(a: Any, b: Any) -> Any:
    """Whether all elements are equal, as one truth value."""
    return ops.all(ops.equal(*promote(a, b)))


def read_is_in(elements: Any, tests: Any, *, assume_unique: bool = False,
               invert: bool = False) -> Any:  # fmt: skip
    """Whether each element is among the tested ones."""
    del assume_unique
    elements, tests = promote(elements, tests)
    column = ops.expand_dims(elements, [-1])
    found = ops.any(ops.equal(column, ops.reshape(tests, [-1])), [-1])
    return ops.logical_not(found) if invert else found


_ORDERS: dict[str, Any] = {
    "lt": ops.less, "less": ops.less, "le": ops.less_equal,
    "less_equal": ops.less_equal, "gt": ops.greater, "greater": ops.greater,
    "ge": ops.greater_equal, "greater_equal": ops.greater_equal,
}  # fmt: skip

READ = torch_functions(
    {
        "eq.Tensor eq.Scalar": binary(ops.equal),
        **{f"{name}.Tensor {name}.Scalar": binary(ops.not_equal)
           for name in ("ne", "not_equal")},
        **{f"{name}.Tensor {name}.Scalar": _compare(op)
           for name, op in _ORDERS.items()},
        "logical_and": _logic(ops.logical_and),
        "logical_or": _logic(ops.logical_or),
        "logical_xor": _logic(ops.logical_xor),
        "logical_not": lambda x: ops.logical_not(as_truth(x)),
        "isnan": _of_floats(ops.isnan, otherwise=False),
        "isinf": _of_floats(ops.isinf, otherwise=False),
        "isfinite": _of_floats(ops.isfinite, otherwise=True),
        "isposinf": _is_infinity(1),
        "isneginf": _is_infinity(-1),
        "isreal": read_isreal,
        "isclose": read_isclose,
        "signbit": read_signbit,
        "equal": read_equal_tensors,
        "isin.Tensor_Tensor isin.Tensor_Scalar isin.Scalar_Tensor": read_is_in,
    }
)  # fmt: skip
