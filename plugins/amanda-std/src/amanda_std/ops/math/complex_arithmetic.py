"""Complex arithmetic on real and imaginary parts, for targets without complex numbers.

Inverse functions: Kahan, Branch Cuts for Complex Elementary Functions, 1987.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from amanda.mapping import Decline
from amanda_std.engine.values import dims_of
from amanda_std.ops._complex_parts import (
    ComplexParts,
    compute_by_parts,
    real_dtype_of,
)
from amanda_std.ops._late import late as ops
from amanda_std.ops.math import arithmetic, comparison, complex_numbers, elementary
from amanda_std.ops.math.cumulative import cumulative_prod
from amanda_std.ops.math.reduction import prod
from amanda_std.ops.tensor.scatter import scatter_elements, scatter_nd
from amanda_std.ops.tensor.shape import astype
from amanda_std.ops.tensor.unique import nonzero, unique

Parts = ComplexParts


# -- construction and parts --------------------------------------------------------


@complex_numbers.complex_.on_complex_parts
def complex_of_parts(real: Any, imag: Any) -> Parts:
    return Parts(_broadcast_to_other(real, imag), _broadcast_to_other(imag, real))


def _broadcast_to_other(x: Any, other: Any) -> Any:
    """x with the shape that both broadcast to."""
    if x.type.shape == other.type.shape:
        return x
    return ops.where(ops.astype(ops.ones_like(other), dtype="bool"), x, x)


complex_numbers.real.on_complex_parts(lambda x: x.real)
complex_numbers.imag.on_complex_parts(lambda x: x.imag)
complex_numbers.conj.on_complex_parts(Parts.conj)
complex_numbers.as_pairs.on_complex_parts(lambda x: x.pairs)


@complex_numbers.from_pairs.on_complex_parts
def parts_of_pairs(x: Any) -> Parts:
    return Parts(pairs=x)


@astype.on_complex_parts
def cast_parts(x: Any, *, dtype: Any) -> Any:
    part = real_dtype_of(dtype)
    if not isinstance(x, Parts):
        return Parts(ops.astype(x, dtype=part))
    if part is not None:
        return compute_by_parts(ops.astype, [x], {"dtype": part})
    if dtype.kind == "bool":
        return differ_in_a_part(x, Parts(ops.zeros_like(x.real)))
    return ops.astype(x.real, dtype=dtype)


# -- arithmetic --------------------------------------------------------------------


arithmetic.multiply.on_complex_parts(lambda a, b: a * b)


@arithmetic.divide.on_complex_parts
def divide_parts(a: Parts, b: Parts) -> Parts:
    """Both scaled by the larger part of the divisor, so that no square overflows."""
    if b.is_real:
        if a.is_real:
            return Parts(a.real / b.real)
        return Parts(a.real / b.real, a.imag / b.real)
    size = ops.maximum(ops.abs(b.real), ops.abs(b.imag))
    scaled = Parts(b.real / size, b.imag / size)
    square = scaled.real * scaled.real + scaled.imag * scaled.imag
    product = a * scaled.conj()
    return Parts(product.real / square / size, product.imag / square / size)


@arithmetic.pow.on_complex_parts
def power_of_parts(a: Parts, b: Parts) -> Parts:
    """exp(b log(a)); 0 to the power of 0 is 1, else 0."""
    found = exp_of_parts(b * log_of_parts(a))
    zero = ops.logical_and(ops.equal(a.real, 0.0), ops.equal(a.imag, 0.0))
    one = ops.logical_and(ops.equal(b.real, 0.0), ops.equal(b.imag, 0.0))
    at_zero = ops.astype(one, dtype=a.real.dtype)
    return Parts(
        ops.where(zero, at_zero, found.real),
        ops.where(zero, ops.zeros_like(at_zero), found.imag),
    )


@arithmetic.reciprocal.on_complex_parts
def reciprocal_of_parts(x: Parts) -> Parts:
    found: Parts = divide_parts(Parts(ops.ones_like(x.real)), x)
    return found


@prod.on_complex_parts
def product_of_parts(x: Parts, axes: Any = None, *, keepdims: bool) -> Parts:
    """Of axes of known sizes by products of halves, else by magnitudes and angles."""
    dims = dims_of(x.real)
    places = range(len(dims)) if axes is None else axes
    if isinstance(places, Sequence) and all(isinstance(dims[i], int) for i in places):
        chosen = [i % len(dims) for i in places]
        for axis in chosen:
            x = _product_of_halves(x, axis, int(dims[axis]))
        return x if keepdims else compute_by_parts(ops.squeeze, [x, chosen], {})
    return _product_by_angles(x, axes, keepdims)


def _product_of_halves(x: Parts, axis: int, count: int) -> Parts:
    if not count:
        ones = ops.prod(x.real, (axis,), keepdims=True)
        return Parts(ones, ops.zeros_like(ones))
    while count > 1:
        half, rest = divmod(count, 2)

        def take(start: int, end: int, x: Parts = x) -> Parts:
            found: Parts = compute_by_parts(
                ops.slice_, [x, (start,), (end,), (axis,)], {}
            )
            return found

        y = take(0, half) * take(half, 2 * half)
        if rest:
            y = compute_by_parts(
                ops.concat, [y, take(count - 1, count)], {"axis": axis}
            )
        x, count = y, half + rest
    return x


def _product_by_angles(x: Parts, axes: Any, keepdims: bool) -> Parts:
    """The product of the magnitudes at the sum of the angles."""
    size = ops.prod(ops.hypot(*x.parts), axes, keepdims=keepdims)
    return _polar(size, ops.sum(_angle(x), axes, keepdims=keepdims))


@cumulative_prod.on_complex_parts
def cumulative_product_by_angles(x: Parts, axis: Any = 0, **attrs: Any) -> Parts:
    size = ops.cumulative_prod(ops.hypot(*x.parts), axis, **attrs)
    return _polar(size, ops.cumulative_sum(_angle(x), axis, **attrs))


def _angle(x: Parts) -> Any:
    return ops.atan2(x.imag, x.real)


def _polar(size: Any, angle: Any) -> Parts:
    return Parts(size * ops.cos(angle), size * ops.sin(angle))


# -- comparisons, selection --------------------------------------------------------


@comparison.equal.on_complex_parts
def equal_in_both_parts(a: Parts, b: Parts) -> Any:
    return ops.logical_and(ops.equal(a.real, b.real), ops.equal(a.imag, b.imag))


@comparison.not_equal.on_complex_parts
def differ_in_a_part(a: Parts, b: Parts) -> Any:
    real, imag = ops.not_equal(a.real, b.real), ops.not_equal(a.imag, b.imag)
    return ops.logical_or(real, imag)


@nonzero.on_complex_parts
def nonzero_in_a_part(x: Parts) -> Any:
    return ops.nonzero(differ_in_a_part(x, Parts(ops.zeros_like(x.real))))


@unique.on_complex_parts
def unique_pairs(x: Parts, *, axis: int | None, sorted: bool) -> Any:
    """By real parts, then by imaginary parts, as rows of pairs are sorted."""
    if axis is None:
        rows = ops.reshape(x.pairs, (-1, 2))
        values, *positions = ops.unique(rows, axis=0, sorted=sorted)
    else:
        place = axis % x.ndim
        values, *positions = ops.unique(x.pairs, axis=place, sorted=sorted)
    return Parts(pairs=values), *positions


def _scatter_by_parts(operation: Callable[..., Any]) -> Any:
    def rule(*args: Any, reduction: str, **attrs: Any) -> Any:
        if reduction not in ("none", "add"):
            raise Decline(f"the reduction {reduction!r} of complex numbers")
        return compute_by_parts(operation, args, {**attrs, "reduction": reduction})

    return rule


scatter_elements.on_complex_parts(_scatter_by_parts(scatter_elements))
scatter_nd.on_complex_parts(_scatter_by_parts(scatter_nd))


# -- exponentials and logarithms ---------------------------------------------------


@elementary.exp.on_complex_parts
def exp_of_parts(x: Parts) -> Parts:
    return _polar(ops.exp(x.real), x.imag)


@elementary.cbrt.on_complex_parts
def cbrt_of_parts(x: Parts) -> Parts:
    """The principal root, of a third of the angle."""
    return _polar(ops.cbrt(ops.hypot(*x.parts)), _angle(x) / 3.0)


@elementary.exp2.on_complex_parts
def exp2_of_parts(x: Parts) -> Parts:
    return _polar(ops.exp2(x.real), x.imag * math.log(2))


@elementary.expm1.on_complex_parts
def expm1_of_parts(x: Parts) -> Parts:
    half = ops.sin(x.imag * 0.5)
    real = ops.expm1(x.real) * ops.cos(x.imag) - half * half * 2.0
    return Parts(real, ops.exp(x.real) * ops.sin(x.imag))


@elementary.log.on_complex_parts
def log_of_parts(x: Parts) -> Parts:
    return Parts(ops.log(ops.hypot(*x.parts)), _angle(x))


@elementary.log1p.on_complex_parts
def log1p_of_parts(x: Parts) -> Parts:
    a, b = x.parts
    return Parts(ops.log1p(a * (a + 2.0) + b * b) * 0.5, ops.atan2(b, a + 1.0))


elementary.log2.on_complex_parts(lambda x: log_of_parts(x).scale(1 / math.log(2)))
elementary.log10.on_complex_parts(lambda x: log_of_parts(x).scale(1 / math.log(10)))


@elementary.sqrt.on_complex_parts
def sqrt_of_parts(x: Parts) -> Parts:
    """The larger part from the magnitude, the other one by a division."""
    a, b = x.parts
    large = ops.sqrt((ops.hypot(a, b) + ops.abs(a)) * 0.5)
    zero = ops.equal(large, 0.0)
    small = b / (ops.where(zero, 1.0, large) * 2.0)
    right = ops.greater_equal(a, 0.0)
    return Parts(
        ops.where(right, large, ops.abs(small)),
        ops.where(right, small, ops.copysign(large, b)),
    )


# -- trigonometric and hyperbolic functions ----------------------------------------


@elementary.sinh.on_complex_parts
def sinh_of_parts(x: Parts) -> Parts:
    a, b = x.parts
    return Parts(ops.sinh(a) * ops.cos(b), ops.cosh(a) * ops.sin(b))


@elementary.cosh.on_complex_parts
def cosh_of_parts(x: Parts) -> Parts:
    a, b = x.parts
    return Parts(ops.cosh(a) * ops.cos(b), ops.sinh(a) * ops.sin(b))


@elementary.tanh.on_complex_parts
def tanh_of_parts(x: Parts) -> Parts:
    t, s, width = ops.tanh(x.real), ops.tan(x.imag), ops.cosh(x.real)
    square = t * s * (t * s) + 1.0
    return Parts(t * (s * s + 1.0) / square, s / width / width / square)


def _trigonometric_rule(function: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """-i f(ix): a trigonometric function from the hyperbolic one, and its inverse."""

    def rule(x: Parts) -> Parts:
        y = function(x.times_i())
        return Parts(y.imag, -y.real)

    return rule


elementary.sin.on_complex_parts(_trigonometric_rule(sinh_of_parts))
elementary.cos.on_complex_parts(lambda x: cosh_of_parts(x.times_i()))
elementary.tan.on_complex_parts(_trigonometric_rule(tanh_of_parts))


@elementary.asin.on_complex_parts
def asin_of_parts(x: Parts) -> Parts:
    below, above = _roots(x)
    real = ops.atan2(x.real, (below * above).real)
    return Parts(real, ops.asinh((below.conj() * above).imag))


@elementary.acos.on_complex_parts
def acos_of_parts(x: Parts) -> Parts:
    below, above = _roots(x)
    real = ops.atan2(below.real, above.real) * 2.0
    return Parts(real, ops.asinh((above.conj() * below).imag))


def _roots(x: Parts) -> tuple[Parts, Parts]:
    """The square roots of 1 - x and of 1 + x."""
    a, b = x.parts
    return sqrt_of_parts(Parts(1.0 - a, -b)), sqrt_of_parts(Parts(a + 1.0, b))


@elementary.acosh.on_complex_parts
def acosh_of_parts(x: Parts) -> Parts:
    a, b = x.parts
    below, above = sqrt_of_parts(Parts(a - 1.0, b)), sqrt_of_parts(Parts(a + 1.0, b))
    angle = ops.atan2(below.imag, above.real) * 2.0
    return Parts(ops.asinh((below.conj() * above).real), angle)


@elementary.atanh.on_complex_parts
def atanh_of_parts(x: Parts) -> Parts:
    a, b = x.parts
    size = ops.abs(a)
    rest = 1.0 - size
    real = ops.log1p(size * 4.0 / (rest * rest + b * b)) * 0.25
    angle = ops.atan2(b * 2.0, rest * (size + 1.0) - b * b)
    return Parts(ops.copysign(real, a), angle * 0.5)


elementary.asinh.on_complex_parts(_trigonometric_rule(asin_of_parts))
elementary.atan.on_complex_parts(_trigonometric_rule(atanh_of_parts))
