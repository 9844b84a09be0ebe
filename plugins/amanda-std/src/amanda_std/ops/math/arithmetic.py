"""Elementwise arithmetic. Both operands share one element type and broadcast."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import Undecided
from amanda_std.engine.annotations import Array, Logical, Number, Real, Signed
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import (
    Sample,
    Samples,
    array,
    binary,
    elementwise_by_loop,
    unary,
)
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.inference.type_inference import object_array
from amanda_std.ops._late import late
from amanda_std.ops.math.comparison import equal, greater, less, less_equal, not_equal
from amanda_std.ops.math.elementary import floor, log, trunc
from amanda_std.ops.math.logic import logical_and

_LEFT, _RIGHT = (1.5, -2.0, 3.0, 0.25), (2.0, 3.0, -1.5, -4.0)


@primitive(shape=shapes.elementwise, content=True, commutative=True)
def add(a: Number, b: Number) -> Number:
    """a + b"""
    return xp(a, b).add(a, b)


add.trait(Trait.KEEPS_NON_NEGATIVE, Trait.PARTWISE, Trait.SPREADS_NON_FINITE)
add.broadcast_gradient(lambda g: (g, g))
add.samples(binary(lambda a, b: a + b, _LEFT, _RIGHT))


@primitive(shape=shapes.elementwise, content=True)
def subtract(a: Number, b: Number) -> Number:
    """a - b"""
    return xp(a, b).subtract(a, b)


subtract.trait(Trait.PARTWISE, Trait.SPREADS_NON_FINITE)
subtract.broadcast_gradient(lambda g: (g, -g))
subtract.samples(binary(lambda a, b: a - b, _LEFT, _RIGHT))


@primitive(shape=shapes.elementwise, content=True, commutative=True)
def multiply(a: Number, b: Number) -> Number:
    """a * b"""
    return xp(a, b).multiply(a, b)


multiply.trait(Trait.KEEPS_NON_NEGATIVE, Trait.SCALING, Trait.SPREADS_NON_FINITE)
multiply.broadcast_gradient(lambda g, a, b: (g * b, g * a))
multiply.samples(binary(lambda a, b: a * b, _LEFT, _RIGHT))


def _quotient_content(a: Any, b: Any) -> Any:
    """Floor and truncating division agree where both operands have the same sign."""
    if a.value is None or b.value is None:
        raise Undecided("an operand is unknown until run time")
    top, bottom = object_array(a.value, a), object_array(b.value, b)
    if not (np.all(top >= 0) and np.all(bottom > 0)):
        raise Undecided("the sign of an operand is not known")
    return np.floor_divide(top, bottom)


@primitive(shape=shapes.elementwise, content=_quotient_content)
def divide(a: Number, b: Number) -> Number:
    """a / b; integer division truncates towards zero"""
    if a.dtype.kind in "iu":
        return truncate_quotient(xp(a, b), a, b)
    return xp(a, b).divide(a, b)


divide.trait(Trait.SCALING)


def truncate_quotient(np_: Any, a: Any, b: Any) -> Any:
    """Exact integer quotient, truncated towards zero; floats would lose precision."""
    quotient = np_.floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    rest = np_.subtract(a, np_.multiply(quotient, b))
    up = (rest != 0) & ((a < 0) != (b < 0))
    return quotient + up.astype(a.dtype)


divide.broadcast_gradient(lambda g, y, b: (g / b, -(g * y / b)))


@divide.samples
def _() -> Samples:
    yield from binary(
        lambda a, b: a / b, _LEFT, _RIGHT, dtypes=("float32", "float64")
    )()
    halves = array([-4, -4, 4], "int8"), array([2, 3, -2], "int8")
    yield Sample(halves, array([-2, -1, -2], "int8"))  # remainder is zero or not
    ints = binary(lambda a, b: math.trunc(a / b), (7, -7, 6), (2, 3, -4),
                  dtypes=("int32", "int64", "int8"), smooth=False)  # fmt: skip
    yield from ints()
    big = array([2**62 + 1, -(2**62) - 1], "int64")
    one = array([1, 1], "int64")
    yield Sample((big, one), big, smooth=False)


@primitive(shape=shapes.elementwise, content=True)
def floor_divide(a: Real, b: Real) -> Real:
    """Quotient rounded down (towards negative infinity)"""
    return xp(a, b).floor_divide(a, b)


floor_divide.not_differentiable("it is piecewise constant")
floor_divide.samples(
    binary(lambda a, b: math.floor(a / b), (7.0, -7.0, 6.0), (2.0, 3.0, -4.0))
)


@primitive(shape=shapes.elementwise, content=True)
def remainder(a: Real, b: Real) -> Real:
    """Remainder of floor_divide; it has the sign of the divisor"""
    return xp(a, b).remainder(a, b)


remainder.broadcast_gradient(lambda g, a, b: (g, -(g * floor(a / b))))
remainder.samples(
    binary(lambda a, b: a - b * math.floor(a / b), (7.5, -7.5, 6.5), (2.0, 3.0, -4.0))
)


@primitive(shape=shapes.elementwise)
def truncated_remainder(a: Real, b: Real) -> Real:
    """Remainder of truncating division; it has the sign of the dividend"""
    return xp(a, b).fmod(a, b)


truncated_remainder.broadcast_gradient(lambda g, a, b: (g, -(g * trunc(a / b))))
truncated_remainder.samples(binary(math.fmod, (7.5, -7.5, 6.5), (2.0, 3.0, -4.0)))


@primitive(shape=shapes.elementwise)
def pow(a: Number, b: Number) -> Number:
    """a to the power of b"""
    return xp(a, b).pow(a, b)


@pow.broadcast_gradient
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    is_base = not_equal(a, 0.0) if a.dtype.kind == "complex" else greater(a, 0.0)
    # x^0 and the gradient of x^1 do not change at 0, where 0^-1 is infinite
    is_constant = logical_and(equal(a, 0.0), equal(b, 0.0))
    exponent = where(is_constant, late.ones_like(b), b)
    base = where(is_base, a, late.ones_like(a))
    return g * b * pow(a, exponent - 1.0), g * y * log(base)


@pow.samples
def _() -> Samples:
    yield from binary(math.pow, (1.5, 2.0, 3.0), (2.0, -0.5, 1.0),
                      dtypes=("float32", "float64"))()  # fmt: skip
    yield from binary(lambda a, b: a**b, (1, 2, -3), (2, 0, 3),
                      dtypes=("int32", "int64"), smooth=False)()  # fmt: skip


def _maximum_content(a: Any, b: Any) -> Any:
    from amanda.types import maximum as larger

    return _map_pairs(larger, a, b)


def _minimum_content(a: Any, b: Any) -> Any:
    from amanda.types import minimum as smaller

    return _map_pairs(smaller, a, b)


def _map_pairs(function: Any, a: Any, b: Any) -> Any:
    if a.value is None or b.value is None:
        return None
    return np.frompyfunc(function, 2, 1)(
        object_array(a.value, a), object_array(b.value, b)
    )


@primitive(shape=shapes.elementwise, content=_maximum_content, commutative=True)
def maximum(a: Real, b: Real) -> Real:
    """Elementwise maximum; NaN if either operand is NaN"""
    return xp(a, b).maximum(a, b)


maximum.trait(Trait.KEEPS_NON_NEGATIVE, Trait.KEEPS_FINITE)


@primitive(shape=shapes.elementwise, content=_minimum_content, commutative=True)
def minimum(a: Real, b: Real) -> Real:
    """Elementwise minimum; NaN if either operand is NaN"""
    return xp(a, b).minimum(a, b)


minimum.trait(Trait.KEEPS_NON_NEGATIVE, Trait.KEEPS_FINITE)


def _split_gradient(g: Any, first: Any, second: Any) -> Any:
    """Route the gradient to the selected operand; split it equally on ties."""
    zero = g * 0.0
    half = where(equal(first, second), g * 0.5, zero)
    ahead = greater(first, second)
    behind = less(first, second)
    return where(ahead, g, half), where(behind, g, half)


maximum.broadcast_gradient(lambda g, a, b: _split_gradient(g, a, b))
minimum.broadcast_gradient(lambda g, a, b: _split_gradient(g, -a, -b))
maximum.samples(binary(max, _LEFT, _RIGHT))
minimum.samples(binary(min, _LEFT, _RIGHT))


@primitive(shape=shapes.elementwise)
def abs(x: Real) -> Real:
    """Absolute value"""
    return xp(x).abs(x)


abs.trait(Trait.KEEPS_FINITE, Trait.SPREADS_NON_FINITE)


@abs.gradient
def _(g: Any, x: Any) -> Any:
    return [g * sign(x)]


abs.samples(unary(math.fabs, (1.5, -2.0, 0.25), dtypes=("float32", "float64", "int32")))


@primitive(shape=shapes.elementwise, content=True)
def negative(x: Signed) -> Signed:
    """-x"""
    return xp(x).negative(x)


negative.trait(Trait.PARTWISE, Trait.KEEPS_FINITE, Trait.SPREADS_NON_FINITE)
negative.gradient(lambda g: [-g])
negative.samples(
    unary(lambda x: -x, (1.5, -2.0), dtypes=("float32", "float64", "int64"))
)


@primitive(shape=shapes.elementwise)
def sign(x: Real) -> Real:
    """Sign: -1, 0 or 1"""
    return xp(x).sign(x)


sign.trait(Trait.KEEPS_FINITE)


sign.gradient(lambda g: [g * 0.0])
sign.samples(unary(lambda x: (x > 0) - (x < 0), (1.5, -2.0, 7.0),
                   dtypes=("float32", "float64", "int32"), edges=[(0, 0)]))  # fmt: skip


@primitive(shape=shapes.elementwise)
def reciprocal(x: Number) -> Number:
    """1 / x"""
    return xp(x).divide(xp(x).asarray(1, dtype=x.dtype), x)


reciprocal.gradient(lambda g, y: [-(g * y * y)])
reciprocal.samples(unary(lambda x: 1 / x, (1.5, -2.0, 0.25)))


@primitive(shape=shapes.elementwise)
def clip(x: Real, low: Real | None = None, high: Real | None = None) -> Real:
    """Clamp x to the range [low, high]; `high` wins if low > high"""
    np_ = xp(x)
    if low is not None:
        x = np_.maximum(low, x)  # of equal ones the second: a zero keeps its sign
    return x if high is None else np_.minimum(high, x)


clip.trait(Trait.KEEPS_FINITE)


@clip.gradient
def _(g: Any, y: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    zero = g * 0.0
    up = equal(x, y)
    result = [late.sum_to(where(up, g, zero), x), None, None]
    if low is not None:
        at_low = less(x, low) if high is None else logical_and(
            less(x, low), less_equal(low, high)
        )  # fmt: skip
        result[1] = late.sum_to(where(at_low, g, zero), low)
    if high is not None:
        above = greater(x if low is None else maximum(x, low), high)
        result[2] = late.sum_to(where(above, g, zero), high)
    return result


@clip.samples
def _() -> Samples:
    for dtype in ("float32", "float64", "int32"):
        x = array([-3, -1, 0, 2, 5], dtype)
        low, high = array(-2, dtype), array(4, dtype)
        both = elementwise_by_loop(lambda v: min(max(v, -2), 4), x)
        yield Sample((x, low, high), both)
        yield Sample((x, low), elementwise_by_loop(lambda v: max(v, -2), x))
        yield Sample((x, None, high), elementwise_by_loop(lambda v: min(v, 4), x))
        yield Sample((x,), x)
    x = array([1.0, 5.0])
    yield Sample((x, array(3.0), array(2.0)), array([2.0, 2.0]))
    yield Sample((array(7.0), array(0.0), array(1.0)), array(1.0))
    yield Sample((np.zeros((0, 2)), array(0.0), None), np.zeros((0, 2)), smooth=False)


@primitive(shape=shapes.elementwise, content=True)
def where(condition: Logical, a: Array, b: Array) -> Array:
    """Elements of a where the condition is true, of b elsewhere"""
    return xp(condition, a, b).where(condition, a, b)


where.trait(Trait.PARTWISE, Trait.KEEPS_FINITE)


@where.gradient
def _(g: Any, condition: Any, a: Any, b: Any) -> Any:
    zero = g * 0.0
    on, off = where(condition, g, zero), where(condition, zero, g)
    return None, late.sum_to(on, a), late.sum_to(off, b)


@where.samples
def _() -> Samples:
    c = array([True, False, True], "bool")
    for dtype in ("float32", "float64", "int32", "bool"):
        a, b = array([1, 2, 3], dtype), array([[4], [0]], dtype)
        expected = array([[1, b[0, 0], 3], [1, 0, 3]], dtype)
        yield Sample((c, a, b), expected)
    yield Sample((array(False, "bool"), array(1.0), array(2.0)), array(2.0))
    empty = np.zeros((0,), bool)
    yield Sample((empty, np.zeros(0), array(1.0)), np.zeros(0), smooth=False)


@primitive(shape=shapes.pointwise, content=lambda x: x.value)
def identity(x: Array) -> Array:
    """Return x unchanged"""
    return x


identity.trait(Trait.MOVES_ELEMENTS, Trait.SPREADS_NON_FINITE)
identity.gradient(lambda g: [g])
identity.samples(unary(lambda x: x, (1.5, -2.0), dtypes=("float32", "float64", "int8")))


@primitive(shape=shapes.pointwise, content=lambda x: x.value)
def stop_gradient(x: Array) -> Array:
    """Return x unchanged, treated as a constant by differentiation"""
    return x


stop_gradient.trait(Trait.BLOCKS_GRADIENT, Trait.PARTWISE)
stop_gradient.not_differentiable("it stops gradients by definition")
stop_gradient.samples(unary(lambda x: x, (1.5, -2.0), dtypes=("float32", "int8")))
