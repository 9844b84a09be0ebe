"""Matrix multiplication (matmul)."""

from __future__ import annotations

from typing import Any

from amanda_std.engine.annotations import Number
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.ops._oracles.matrices import matmul_by_loops
from amanda_std.ops.linalg.accumulation import accumulate_wide
from amanda_std.ops.math.reduction import sum_to
from amanda_std.ops.tensor.shape import expand_dims, squeeze, swap_last


@primitive(shape=shapes.matmul)
def matmul(a: Number, b: Number) -> Number:
    """Matrix product, with broadcast batch axes"""
    np_ = xp(a, b)
    return accumulate_wide(np_.matmul, np_, a, b)


matmul.trait(Trait.LINEAR_LAYER, Trait.MATRIX_PRODUCT, Trait.SPREADS_NON_FINITE)


@matmul.gradient
def _(g: Any, a: Any, b: Any) -> Any:
    row, column = a.ndim == 1, b.ndim == 1
    left = expand_dims(a, (0,)) if row else a
    right = expand_dims(b, (1,)) if column else b
    if row:
        g = expand_dims(g, (-1,) if column else (-2,))
    if column:
        g = expand_dims(g, (-1,))
    to_a = sum_to(matmul(g, swap_last(right)), left)
    to_b = sum_to(matmul(swap_last(left), g), right)
    return (squeeze(to_a, (0,)) if row else to_a,
            squeeze(to_b, (1,)) if column else to_b)  # fmt: skip


@matmul.samples
def _() -> Samples:
    forms = [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (3, 3, 2)),
             ((3,), (3,)), ((3,), (2, 3, 4)), ((2, 4, 3), (3,)), ((2, 0), (0, 3)),
             ((0, 3), (3, 2))]  # fmt: skip
    for left, right in forms:
        a, b = ramp(*left), ramp(*right, start=0.4)
        yield Sample((a, b), matmul_by_loops(a, b), smooth=a.size > 0 and b.size > 0)
    ones = array([[1] * 3000], "float16")  # a half-precision sum of ones stops at 2048
    yield Sample((ones, ones.T), array([[3000]], "float16"))
    for dtype in ("float32", "float16", "bfloat16", "int32"):
        a, b = ramp(2, 3, dtype=dtype), ramp(3, 2, start=0.5, dtype=dtype)
        if dtype == "int32":
            a, b = (
                array([[1, -2, 3], [4, 5, 6]], dtype),
                array([[7, 8], [9, 1], [-2, 3]], dtype),
            )
        yield Sample((a, b), matmul_by_loops(a, b))
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        a, b = array([[1, 2, 3]], dtype), array([[2], [0], [1]], dtype)
        yield Sample((a, b), array([[5]], dtype))
    many = array([1] * 4096, "bfloat16")  # longer sums need a wider accumulator
    yield Sample((many, many), array(4096, "bfloat16"))
