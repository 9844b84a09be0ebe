"""From TensorFlow: elementwise ops whose arguments decide what is built."""

from __future__ import annotations

from functools import reduce
from typing import Any

from amanda_std import ops
from amanda_std.mappings import expect, rank_of

__all__ = ["READ"]


def read_select(condition: Any, a: Any, b: Any) -> Any:
    """A vector condition selects rows."""
    rank, whole = rank_of(condition), rank_of(a)
    if rank == 1 and whole > 1:
        condition = ops.expand_dims(condition, list(range(1, whole)))
    else:
        expect(rank in (0, whole), f"a condition of rank {rank}, data of rank {whole}")
    return ops.where(condition, a, b)


def read_add_n(*xs: Any) -> Any:
    """AddN to sums of two."""
    return reduce(ops.add, xs)


def read_accumulate_n(*xs: Any, shape: Any = None) -> Any:  # noqa: ARG001
    """AccumulateNV2 to sums of two."""
    return reduce(ops.add, xs)


def read_cast(x: Any, *, DstT: Any, Truncate: bool = False) -> Any:  # noqa: N803
    """Cast to `astype`."""
    expect(not Truncate or DstT.kind != "float", "Truncate of floats is not supported")
    return ops.astype(x, dtype=DstT)


def read_bitcast(x: Any, *, type: Any) -> Any:
    """A larger element becomes several along a new last axis, and the reverse."""
    for dtype in (x.dtype, type):
        expect(dtype.kind not in ("bool", "string"), f"no bitcast from or to {dtype}")
    return ops.bitcast(x, dtype=type)


def read_mul_no_nan(a: Any, b: Any) -> Any:
    """MulNoNan to a product that is zero where the second factor is."""
    return ops.where(
        ops.equal(b, ops.number_like(b, value=0)), ops.zeros_like(b), a * b
    )


def read_approximate_equal(a: Any, b: Any, *, tolerance: float = 1e-5) -> Any:
    """ApproximateEqual to `less` of the difference."""
    return ops.less(ops.abs(a - b), ops.number_like(a, value=tolerance))


def read_div_no_nan(a: Any, b: Any) -> Any:
    """DivNoNan to a quotient that is zero where the divisor is."""
    zero = ops.number_like(b, value=0)
    return ops.where(ops.equal(b, zero), ops.zeros_like(a * b), a / b)


def read_sign(x: Any) -> Any:
    """The sign of a complex number is that number with magnitude 1."""
    size = ops.modulus(x)
    return ops.where(ops.equal(size, 0), x, x / ops.complex(size, ops.zeros_like(size)))


def read_polygamma(n: Any, x: Any) -> Any:
    """NaN where the order is no natural number."""
    order = ops.astype(n, dtype="int64")
    natural = ops.logical_and(
        ops.equal(ops.astype(order, dtype=n.dtype), n),
        ops.greater_equal(n, ops.zeros_like(n)),
    )
    y = ops.polygamma(ops.maximum(order, ops.zeros_like(order)), x)
    return ops.where(natural, y, ops.number_like(y, value=float("nan")))


READ: dict[str, Any] = {
    "Polygamma": read_polygamma,
    "Select": read_select,
    "AddN": read_add_n,
    "AccumulateNV2": read_accumulate_n,
    "Cast": read_cast,
    "Bitcast": read_bitcast,
    "MulNoNan": read_mul_no_nan,
    "ApproximateEqual": read_approximate_equal,
    "DivNoNan": read_div_no_nan,
    "Sign": read_sign,
}
