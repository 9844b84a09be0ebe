"""Comparisons and classification of floats. None has a gradient."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from amanda_std.engine.annotations import Array, Logical, Real, RealFloating
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import BinaryOperation, UnaryOperation, primitive
from amanda_std.engine.samples import (
    Sample,
    Samples,
    array,
    binary,
    elementwise_by_loop,
)
from amanda_std.inference import shapes

_LEFT, _RIGHT = (1.0, -2.0, 3.0, 0.0), (1.0, 3.0, -1.0, 0.0)
_NO_GRADIENT = "its results are booleans"


def _comparison(
    name: str, doc: str, oracle: Callable[[Any, Any], bool], any_type: bool = False
) -> BinaryOperation:
    def compare(a: Real, b: Real) -> Logical:
        return getattr(xp(a, b), name)(a, b)

    def compare_any(a: Array, b: Array) -> Logical:
        return getattr(xp(a, b), name)(a, b)

    kernel = compare_any if any_type else compare
    kernel.__doc__ = doc
    op = primitive(
        shape=shapes.elementwise, name=name, content=True, commutative=any_type
    )(kernel)
    op.not_differentiable(_NO_GRADIENT)
    dtypes = ("float32", "float64", "int32")
    op.samples(
        binary(oracle, _LEFT, _RIGHT, dtypes=dtypes, result="bool", smooth=False)
    )
    return op


equal = _comparison("equal", "a == b", operator.eq, True)
not_equal = _comparison("not_equal", "a != b", operator.ne, True)
less = _comparison("less", "a < b", operator.lt)
less_equal = _comparison("less_equal", "a <= b", operator.le)
greater = _comparison("greater", "a > b", operator.gt)
greater_equal = _comparison("greater_equal", "a >= b", operator.ge)


def _float_predicate(
    name: str, doc: str, oracle: Callable[[float], bool]
) -> UnaryOperation:
    def kernel(x: RealFloating) -> Logical:
        return getattr(xp(x), name)(x)

    kernel.__doc__ = doc
    op = primitive(shape=shapes.pointwise, name=name)(kernel)
    op.not_differentiable(_NO_GRADIENT)

    @op.samples
    def _() -> Samples:
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            x = array([[1.5, math.inf], [-math.inf, math.nan]], dtype)
            yield Sample((x,), elementwise_by_loop(oracle, x, dtype="bool"))
        yield Sample((array(0.0),), array(oracle(0.0), "bool"))
        yield Sample((array([]),), array([], "bool"))

    return op


isnan = _float_predicate("isnan", "Whether the element is NaN", math.isnan)
isinf = _float_predicate("isinf", "Whether the element is infinite", math.isinf)
isfinite = _float_predicate("isfinite", "Whether the element is finite", math.isfinite)
