"""Products with a large weight that is stored transposed.

XLA's library for products on the CPU, YNNPACK, keeps the rows of the left operand and
the columns of the right one in registers, and reads the right one with a large stride.
So a large operand is faster on the left, where it is read contiguously, and a few whole
vectors are faster on the right: with 64 rows a product takes 0.85 times as long, with 8
rows 0.6: the product is computed transposed, weight first. For more rows it is not,
but YNNPACK also reads the right operand in less time where its rows are contiguous
along the sum: with 64 to 200 rows that takes 0.85 to 0.92 times as long, with weights
that are not in the caches of a core."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from jax import lax

__all__ = ["EQUATION", "is_faster_stored_transposed", "transposed_product"]

EQUATION: Final = "...k,nk->...n"
"""The einsum of a product with a weight that is stored transposed."""
_MIN_ELEMENTS: Final = {
    **dict.fromkeys((1, 16, 32, 48, 64), 1 << 19),
    **dict.fromkeys((2, 3, 4, 8, 80, 96), 1 << 21),
}
"""The minimum number of elements of a weight, by the number of rows, for which the
transposed product is faster.

Measured with jaxlib 0.10 and AVX-512 for weights of 256 * 256 to 2048 * 2048 and 2 to
112 rows. Other numbers of rows leave vectors half empty. For one row it is faster where
the weight is no wider than it is long."""
_ROWS_TO_STORE: Final = range(32, 1025)
_ELEMENTS_TO_STORE: Final = 1 << 19
"""Rows, and the minimum number of elements, with which a weight is stored transposed
even if the product is not faster transposed."""


def is_faster_stored_transposed(rows: int, inner: int, out: int) -> bool:
    """Whether a product of so many rows reads such a weight faster transposed."""
    is_large = rows in _ROWS_TO_STORE and inner * out >= _ELEMENTS_TO_STORE
    return is_large or _is_faster_transposed(rows, inner, out)


def _is_faster_transposed(rows: int, inner: int, out: int) -> bool:
    """Whether a product of so many rows with such a weight is faster transposed."""
    if rows == 1 and inner < out:
        return False
    return rows in _MIN_ELEMENTS and inner * out >= _MIN_ELEMENTS[rows]


def _is_faster(x: Any, weight: Any) -> bool:
    if weight.ndim != 2 or not str(x.dtype) == str(weight.dtype) == "float32":
        return False
    out, inner = weight.shape
    if not all(type(n) is int for n in (*x.shape, out, inner)):
        return False
    rows = prod(x.shape[:-1])
    return x.shape[-1] == inner and _is_faster_transposed(rows, inner, out)


def transposed_product(equation: str, *xs: Any) -> Any:
    """The product by way of its transpose, or None where that is slower.

    The barrier keeps XLA from undoing the transposes, which it takes for a
    simplification."""
    if equation != EQUATION or not _is_faster(*xs):
        return None
    x, weight = xs
    columns = lax.dot_general(
        weight, x.reshape(-1, x.shape[-1]), (((1,), (1,)), ((), ()))
    )
    rows = lax.optimization_barrier(columns).T
    return rows.reshape(*x.shape[:-1], weight.shape[0])
