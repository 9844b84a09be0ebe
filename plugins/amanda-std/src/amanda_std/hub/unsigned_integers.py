"""Ops of unsigned integers as ops of int64, for targets that have few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std import ops
from amanda_std.ops import OPS

__all__ = ["INT64_DEFINITIONS"]

_INT64 = DType("int64")
_LEAST = np.int64(-(2**63))
_MOST = np.int64(2**63 - 1)


def _int64_definition(
    name: str, uint64: Callable[..., Any] | str = "bits"
) -> Callable[..., Any]:
    """A definition of an op of unsigned integers of 16 bits and more by that of int64.

    `uint64` says how int64 stands for the numbers from 2**63 on: by the same `bits`,
    with which sums and products wrap around alike, or in the same `order`; or it is a
    definition of its own.
    """

    def define(*xs: Any, **attrs: Any) -> Any:
        dtypes = {getattr(x, "dtype", None) for x in xs}
        wide = [d for d in dtypes if isinstance(d, DType) and _is_wide(d)]
        if len(wide) != 1:
            raise Decline("the target has the op")
        [dtype] = wide
        if dtype.bits == 64 and callable(uint64):
            return uint64(*xs, **attrs)
        there, back = _casts(dtype, uint64)
        args = [there(x) if getattr(x, "dtype", None) == dtype else x for x in xs]
        operation = OPS[name]
        found = operation(*args, **attrs)
        kinds = operation.form.results
        if not isinstance(found, list | tuple):
            return back(found) if kinds[0].shared else found
        of_each = kinds * len(found) if operation.form.varies else kinds
        rows = zip(found, of_each, strict=True)
        return [back(y) if kind.shared else y for y, kind in rows]

    return define


def _is_wide(dtype: DType) -> bool:
    return dtype.kind == "uint" and dtype.bits >= 16


def _casts(dtype: DType, uint64: object) -> tuple[Callable[..., Any], ...]:
    """To int64, and back."""
    if dtype.bits < 64:
        return (
            lambda x: ops.astype(x, dtype=_INT64),
            lambda y: ops.astype(y, dtype=dtype),
        )
    if uint64 == "bits":
        return _same_bits, lambda y: ops.bitcast(y, dtype=dtype)
    return (
        _same_order,
        lambda y: ops.bitcast(ops.bitwise_xor(y, _LEAST), dtype=dtype),
    )


def _same_bits(x: Any) -> Any:
    return ops.bitcast(x, dtype=_INT64)


def _same_order(x: Any) -> Any:
    return ops.bitwise_xor(_same_bits(x), _LEAST)


# -- division and shifts -------------------------------------------------------------


def _uint64_quotient(a: Any, b: Any) -> Any:
    """The quotient, by a division of half of `a`, whose sign bit is 0.

    A divisor from 2**63 on fits once or not at all.
    """
    x, y = _same_bits(a), _same_bits(b)
    is_large = ops.less(y, np.int64(0))
    divisor = ops.where(is_large, np.int64(1), y)
    half = _shift_right(x, np.int64(1))
    twice = ops.bitwise_left_shift(ops.divide(half, divisor), np.int64(1))
    rest = ops.subtract(x, ops.multiply(twice, divisor))
    fits = _is_at_least(rest, divisor)
    found = ops.add(twice, ops.astype(fits, dtype=_INT64))
    once = ops.astype(_is_at_least(x, y), dtype=_INT64)
    return ops.bitcast(ops.where(is_large, once, found), dtype=a.dtype)


def _is_at_least(x: Any, y: Any) -> Any:
    """Whether the bits of `x` are a number not less than those of `y`."""
    return ops.greater_equal(ops.bitwise_xor(x, _LEAST), ops.bitwise_xor(y, _LEAST))


def _shift_right(x: Any, count: Any) -> Any:
    """The bits of int64 moved to the right by one or more, filled with 0."""
    half = ops.bitwise_and(ops.bitwise_right_shift(x, np.int64(1)), _MOST)
    return ops.bitwise_right_shift(half, ops.subtract(count, np.int64(1)))


def _uint64_remainder(a: Any, b: Any) -> Any:
    """The remainder of the quotient."""
    return ops.subtract(a, ops.multiply(_uint64_quotient(a, b), b))


def _uint64_right_shift(a: Any, b: Any) -> Any:
    """A shift of the bits by any number, filled with 0."""
    x, count = _same_bits(a), _same_bits(b)
    most = np.int64(64)
    within = ops.minimum(ops.maximum(count, np.int64(1)), most)
    moved = ops.where(
        ops.equal(within, most), np.int64(0),
        _shift_right(x, ops.minimum(within, np.int64(63))),
    )  # fmt: skip
    found = ops.where(ops.equal(count, np.int64(0)), x, moved)
    return ops.bitcast(found, dtype=a.dtype)


def _is_not_zero(x: Any) -> Any:
    return ops.astype(ops.not_equal(x, np.asarray(0, x.dtype.numpy)), dtype=x.dtype)


def _scatter_definition(name: str) -> Callable[..., Any]:
    """By bits where elements are added, multiplied or moved; else by order."""
    of_extrema = _int64_definition(name, "order")
    of_others = _int64_definition(name)

    def define(*xs: Any, **attrs: Any) -> Any:
        is_of_bits = attrs.get("reduction", "none") in ("none", "add", "mul")
        return (of_others if is_of_bits else of_extrema)(*xs, **attrs)

    return define


_UINT64: dict[str, Callable[..., Any] | str] = {
    "abs": lambda x: x,
    "add": "bits",
    "argmax": "order",
    "argmin": "order",
    "argsort": "order",
    "bitwise_and": "bits",
    "bitwise_invert": "bits",
    "bitwise_left_shift": "bits",
    "bitwise_or": "bits",
    "bitwise_right_shift": _uint64_right_shift,
    "bitwise_xor": "bits",
    "clip": "order",
    "cumulative_max": "order",
    "cumulative_min": "order",
    "cumulative_prod": "bits",
    "cumulative_sum": "bits",
    "divide": _uint64_quotient,
    "floor_divide": _uint64_quotient,
    "gather_elements": "bits",
    "greater": "order",
    "greater_equal": "order",
    "less": "order",
    "less_equal": "order",
    "matmul": "bits",
    "max": "order",
    "maximum": "order",
    "min": "order",
    "minimum": "order",
    "multiply": "bits",
    "negative": "bits",
    "nonzero": "bits",
    "pow": "bits",
    "prod": "bits",
    "remainder": _uint64_remainder,
    "searchsorted": "order",
    "sign": _is_not_zero,
    "sort": "order",
    "subtract": "bits",
    "sum": "bits",
    "topk": "order",
    "tril": "bits",
    "triu": "bits",
    "truncated_remainder": _uint64_remainder,
    "unique": "order",
}
"""How each op of uint64 is one of int64."""

INT64_DEFINITIONS: dict[str, Callable[..., Any]] = {
    **{name: _int64_definition(name, how) for name, how in _UINT64.items()},
    "scatter_elements": _scatter_definition("scatter_elements"),
    "scatter_nd": _scatter_definition("scatter_nd"),
}
"""Definitions of ops of unsigned integers of 16 bits and more by those of int64, by
name; Decline for other element types."""
