"""Products of few rows with a large weight: the weight first, then turned back.

XLA's library for products on the CPU, YNNPACK, puts the rows of the left side and the
columns of the right one into registers, and reads the right one in long jumps. So what
is large is better on the left, where it is read in one go, and a few whole vectors are
better on the right: with 64 rows a product takes 0.85 times as long, with 8 rows 0.6.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from jax import lax

from amanda_jax.compile.trace_context import is_on
from amanda_std.ops import OPS

__all__ = ["EQUATION", "einsum", "is_worth"]

EQUATION: Final = "...k,nk->...n"
"""How a product with a weight that lies turned is written."""
_LARGE: Final = {
    **dict.fromkeys((1, 16, 32, 48, 64), 1 << 19),
    **dict.fromkeys((2, 3, 4, 8, 80, 96), 1 << 21),
}
"""How many elements a weight has at least, by the number of rows, for which a product
is better that way, as measured with jaxlib 0.10 and AVX-512 for weights of 256 * 256 to
2048 * 2048 and 2 to 112 rows. Other numbers of rows leave vectors half empty. One row
is worth it where the weight is no wider than it is long."""


def is_worth(rows: int, inner: int, out: int) -> bool:
    """Whether a product of so many rows with such a weight is better that way."""
    if rows == 1 and inner < out:
        return False
    return rows in _LARGE and inner * out >= _LARGE[rows]


def einsum(*xs: Any, equation: str) -> Any:
    by_rows = is_on("weights") and not is_on("products")
    if equation == EQUATION and by_rows and _is_worth(*xs):
        return _turned(*xs)
    return OPS["einsum"].function(*xs, equation=equation)


def _is_worth(x: Any, weight: Any) -> bool:
    if weight.ndim != 2 or not str(x.dtype) == str(weight.dtype) == "float32":
        return False
    out, inner = weight.shape
    if not all(type(n) is int for n in (*x.shape, out, inner)):
        return False
    return x.shape[-1] == inner and is_worth(prod(x.shape[:-1]), inner, out)


def _turned(x: Any, weight: Any) -> Any:
    """Behind a barrier: else XLA turns both back, as it finds that simpler."""
    columns = lax.dot_general(
        weight, x.reshape(-1, x.shape[-1]), (((1,), (1,)), ((), ()))
    )
    rows = lax.optimization_barrier(columns).T
    return rows.reshape(*x.shape[:-1], weight.shape[0])
