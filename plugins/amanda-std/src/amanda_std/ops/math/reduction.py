"""Reductions over axes. `axes=None` reduces all axes, an empty tuple none."""

from __future__ import annotations

import builtins
import math
from functools import partial
from typing import Any

import numpy as np

from amanda.types import Dim, DType, Shape, TensorType, dims_equal
from amanda_std.engine.annotations import (
    Floating,
    Index,
    Logical,
    Number,
    Other,
    Real,
    ShapeArg,
)
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import (
    Sample,
    Samples,
    arange_of_shape,
    array,
    ramp,
    reduce_by_loop,
    reductions,
)
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Operators, dims_of
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import normalize_axes
from amanda_std.ops._late import late
from amanda_std.ops.math.arithmetic import stop_gradient, where
from amanda_std.ops.math.comparison import equal, isfinite
from amanda_std.ops.math.elementary import exp, log
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.shape import (
    astype,
    broadcast_like,
    expand_dims,
    reshape,
    size,
    squeeze,
    transpose,
)


def accumulation_type(x: Any) -> Any:
    """Accumulation type: half precision loses digits in sums of a few hundred."""
    return np.dtype("float32") if x.dtype.itemsize <= 2 and _is_float(x) else x.dtype


def _is_float(x: Any) -> bool:
    return x.dtype.kind in "fV"


def _content_by_kernel(function: Any) -> Any:
    """Content rule of a reduction: the numpy kernel on arrays of dims."""

    def rule(x: Any, axes: Any = None, *, keepdims: bool) -> Any:
        from amanda_std.inference.type_inference import object_array

        if x.value is None:
            return None
        return function(object_array(x.value, x), axis=_axis(axes), keepdims=keepdims)

    return rule


def _axis(axes: Any) -> Any:
    return axes if axes is None or isinstance(axes, tuple) else (axes,)


@primitive(shape=shapes.reduce, content=_content_by_kernel(np.sum), name="sum")
def sum_(x: Number, axes: ShapeArg = None, *, keepdims: bool = False) -> Number:
    """Sum over axes"""
    total = xp(x).sum(
        x, axis=_axis(axes), keepdims=keepdims, dtype=accumulation_type(x)
    )
    return total.astype(x.dtype)


sum_.trait(Trait.REDUCTION, Trait.PARTWISE, Trait.SPREADS_NON_FINITE)
sum_.gradient(
    lambda g, x, axes=None, *, keepdims: [_broadcast_gradient(g, x, axes, keepdims)]
)


@sum_.samples
def _() -> Samples:
    yield from reductions(
        math.fsum, dtypes=("float32", "float64", "bfloat16", "int32")
    )()
    for dtype in ("bfloat16", "float16"):  # longer sums need a wider accumulator
        yield Sample((np.full(4096, 1, DType(dtype).numpy),), array(4096, dtype))


def _broadcast_gradient(g: Any, x: Any, axes: Any, keepdims: bool) -> Any:
    """Broadcast a reduced gradient back over the reduced axes."""
    return broadcast_like(_keep_reduced_axes(g, x, axes, keepdims), x)


def _is_all_of_unknown_rank(x: Any, axes: Any) -> bool:
    """Whether all axes are reduced, of a value whose rank is not known."""
    return axes is None and isinstance(x, Operators) and not x.type.shape.has_rank


def _keep_reduced_axes(y: Any, x: Any, axes: Any, keepdims: bool) -> Any:
    """Restore the reduced axes of size 1; a number broadcasts without them."""
    if keepdims or _is_all_of_unknown_rank(x, axes):
        return y
    return expand_dims(y, tuple(sorted(normalize_axes(axes, x.ndim))))


@primitive(shape=shapes.reduce, content=_content_by_kernel(np.prod))
def prod(x: Number, axes: ShapeArg = None, *, keepdims: bool = False) -> Number:
    """Product over axes"""
    total = xp(x).prod(
        x, axis=_axis(axes), keepdims=keepdims, dtype=accumulation_type(x)
    )
    return total.astype(x.dtype)


prod.trait(Trait.REDUCTION)


@prod.gradient
def _(g: Any, x: Any, axes: Any = None, *, keepdims: bool) -> Any:
    """Each factor gets the product of the others, from both sides.

    No division, so factors may be zero."""
    removed = tuple(sorted(normalize_axes(axes, x.ndim)))
    if not removed:
        return [g]
    order = (*(i for i in range(x.ndim) if i not in removed), *removed)
    moved = transpose(x, perm=order)
    rest = moved.shape[: x.ndim - len(removed)]
    flat = reshape(moved, [*rest, element_count(x, axes)])
    before = late.cumulative_prod(flat, -1, exclusive=True)
    after = late.cumulative_prod(flat, -1, exclusive=True, reverse=True)
    others = reshape(before * after, moved.shape)
    back = tuple(int(i) for i in np.argsort(order))
    return [_keep_reduced_axes(g, x, axes, keepdims) * transpose(others, perm=back)]


@prod.samples
def _() -> Samples:
    yield from reductions(
        math.prod, dtypes=("float32", "float64", "int32", "float16")
    )()
    for zeros in ((1,), (0, 2), ()):
        x = ramp(2, 3)
        x[:, list(zeros)] = 0.0
        yield Sample((x, (1,)), reduce_by_loop(math.prod, x, (1,), False))


def _extreme_by_kernel(x: Any, axes: Any, keepdims: bool, largest: bool) -> Any:
    """Of no elements: the identity of the reduction."""
    np_ = xp(x)
    function = np_.max if largest else np_.min
    if 0 not in x.shape:
        return function(x, axis=_axis(axes), keepdims=keepdims)
    kept = list(x.shape)
    for axis in normalize_axes(axes, x.ndim):
        kept[axis] = 1
    if 0 not in kept:
        y = np_.full(tuple(kept), extreme_identity(x.dtype, largest), dtype=x.dtype)
    else:
        y = np_.zeros(tuple(kept), dtype=x.dtype)
    removed = () if keepdims else normalize_axes(axes, x.ndim)
    return np_.squeeze(y, axis=tuple(removed))


def extreme_identity(dtype: np.dtype[Any], low: bool) -> Any:
    if dtype.kind in "fV":
        return -math.inf if low else math.inf
    info = np.iinfo(dtype)
    return info.min if low else info.max


@primitive(shape=shapes.reduce, name="max")
def max_(x: Real, axes: ShapeArg = None, *, keepdims: bool = False) -> Real:
    """Maximum over axes; NaN if any element is NaN"""
    return _extreme_by_kernel(x, axes, keepdims, True)


max_.trait(Trait.REDUCTION)


@primitive(shape=shapes.reduce, name="min")
def min_(x: Real, axes: ShapeArg = None, *, keepdims: bool = False) -> Real:
    """Minimum over axes; NaN if any element is NaN"""
    return _extreme_by_kernel(x, axes, keepdims, False)


min_.trait(Trait.REDUCTION)


def _gradient_to_extreme(
    g: Any, y: Any, x: Any, axes: Any = None, *, keepdims: bool
) -> list[Any]:
    """The gradient goes to the extreme element, split equally on ties."""
    hit = astype(equal(x, _keep_reduced_axes(y, x, axes, keepdims)), dtype=x.dtype)
    weight = hit / sum_(hit, axes, keepdims=True)
    return [_keep_reduced_axes(g, x, axes, keepdims) * weight]


max_.gradient(_gradient_to_extreme)
min_.gradient(_gradient_to_extreme)


def _extreme_samples(fold: Any, limit: float, whole: str) -> Samples:
    yield from reductions(lambda n: fold(n, default=limit))()
    for dtype in ("int8", "uint16"):
        edge = getattr(np.iinfo(dtype), whole)
        empty, kept = np.zeros((2, 0), dtype), {"keepdims": True}
        yield Sample((empty, (1,)), array([edge] * 2, dtype))
        yield Sample((empty, (1,)), array([[edge]] * 2, dtype), kept)


max_.samples(partial(_extreme_samples, builtins.max, -math.inf, "min"))
min_.samples(partial(_extreme_samples, builtins.min, math.inf, "max"))


@primitive(shape=shapes.reduce, content=_content_by_kernel(np.all), name="all")
def all_(x: Logical, axes: ShapeArg = None, *, keepdims: bool = False) -> Logical:
    """Whether all elements are true, over axes"""
    return xp(x).all(x, axis=_axis(axes), keepdims=keepdims)


all_.trait(Trait.REDUCTION)


@primitive(shape=shapes.reduce, content=_content_by_kernel(np.any), name="any")
def any_(x: Logical, axes: ShapeArg = None, *, keepdims: bool = False) -> Logical:
    """Whether any element is true, over axes"""
    return xp(x).any(x, axis=_axis(axes), keepdims=keepdims)


any_.trait(Trait.REDUCTION)


for _op, _oracle in ((all_, builtins.all), (any_, builtins.any)):
    _op.not_differentiable("booleans have no gradient")
    _op.samples(reductions(_oracle, dtypes=("bool",), smooth=False))


def _arg_extreme(x: Any, axis: Any, keepdims: bool, last: bool, function: str) -> Any:
    np_ = xp(x)
    if last:
        result = (
            x.shape[axis]
            - 1
            - getattr(np_, function)(np_.flip(x, axis=axis), axis=axis)
        )
    else:
        result = getattr(np_, function)(x, axis=axis)
    result = np_.asarray(result).astype("int64")
    return np_.expand_dims(result, axis=axis) if keepdims else result


def _one_axis(x: Any, axis: Any, keepdims: bool) -> Shape:
    return shapes.reduce(x, (axis,), keepdims=keepdims)


@primitive(shape=_one_axis)
def argmax(
    x: Real, axis: ShapeArg = 0, *, keepdims: bool = False, last: bool = False
) -> Index:
    """Index of the maximum along an axis; the first or the last of several"""
    return _arg_extreme(x, axis, keepdims, last, "argmax")


@primitive(shape=_one_axis)
def argmin(
    x: Real, axis: ShapeArg = 0, *, keepdims: bool = False, last: bool = False
) -> Index:
    """Index of the minimum along an axis; the first or the last of several"""
    return _arg_extreme(x, axis, keepdims, last, "argmin")


def _arg_samples(best: Any) -> Any:
    def make() -> Samples:
        numbers = [[3, 1, 3], [0, 5, 2], [0, 1, 2], [3, 5, 0]]
        for dtype in ("float32", "float64", "int32", "bfloat16"):
            x = array(numbers, dtype)
            for axis in (0, 1, -1):
                for last in (False, True):
                    find = partial(_arg_of, best=best, last=last)
                    y = reduce_by_loop(find, x, (axis,), True, "int64")
                    attrs = {"last": last}
                    yield Sample((x, axis), y, {**attrs, "keepdims": True})
                    yield Sample((x, axis), np.squeeze(y, axis), attrs)
        yield Sample((array([2.0]), 0), array(0, "int64"))
        yield Sample((np.zeros((0, 2)), 1), np.zeros(0, "int64"))

    return make


def _arg_of(numbers: list[Any], *, best: Any, last: bool) -> int:
    positions = [i for i, n in enumerate(numbers) if n == best(numbers)]
    return positions[-1 if last else 0]


argmax.samples(_arg_samples(builtins.max))
argmin.samples(_arg_samples(builtins.min))
argmax.not_differentiable("its results are indices")
argmin.not_differentiable("its results are indices")


# -- composites ----------------------------------------------------------------


def element_count(x: Any, axes: Any) -> Any:
    """Number of elements that a reduction combines; a value if a dim is one."""
    if _is_all_of_unknown_rank(x, axes):
        return size(x)
    number: Any = 1
    for axis in normalize_axes(axes, x.ndim):
        number = x.shape[axis] * number
    return number


def as_float(number: Any, like: Any) -> Any:
    """A count, static or computed, as a tensor of the element type of `like`."""
    return (
        astype(number, dtype=like.dtype)
        if not isinstance(number, int)
        else float(number)
    )


@composite
def mean(x: Floating, axes: ShapeArg = None, *, keepdims: bool = False) -> Floating:
    """Arithmetic mean over axes"""
    return sum_(x, axes, keepdims=keepdims) / as_float(element_count(x, axes), x)


mean.trait(Trait.REDUCTION, Trait.PARTWISE, Trait.SPREADS_NON_FINITE)


@mean.samples
def _() -> Samples:
    yield from reductions(
        lambda n: math.fsum(n) / len(n), dtypes=("float32", "float64"), empty=False
    )()
    for dtype in ("float32", "float16"):  # mean of no elements
        y = array([math.nan] * 3, dtype)
        yield Sample((np.zeros((0, 3), dtype), (0,)), y, smooth=False)


@composite
def var(
    x: Floating, axes: ShapeArg = None, *, correction: int = 0, keepdims: bool = False
) -> Floating:
    """Variance over axes"""
    difference = x - mean(x, axes, keepdims=True)
    number = as_float(element_count(x, axes), x)
    rest = number - float(correction) if correction else number
    return sum_(difference * difference, axes, keepdims=keepdims) / rest


var.trait(Trait.REDUCTION)


@var.samples
def _() -> Samples:
    for correction in (0, 1):
        for axes in (None, (0,), (-1, 0)):
            x = ramp(3, 4)
            find = partial(_variance, correction=correction)
            y = reduce_by_loop(find, x, axes, False)
            yield Sample((x, axes), y, {"correction": correction})
            y = reduce_by_loop(find, x, axes, True)
            yield Sample((x, axes), y, {"correction": correction, "keepdims": True})
    yield Sample((np.zeros((0, 2)), (1,)), np.zeros(0), smooth=False)
    yield Sample((array(2.0, "float32"),), array(0.0, "float32"))


def _variance(numbers: list[float], correction: int) -> float:
    average = math.fsum(numbers) / len(numbers)
    return math.fsum((n - average) ** 2 for n in numbers) / (len(numbers) - correction)


@composite
def logsumexp(
    x: Floating, axes: ShapeArg = None, *, keepdims: bool = False
) -> Floating:
    """Logarithm of the sum of exponentials over axes, without overflow"""
    most = stop_gradient(max_(x, axes, keepdims=True))
    most = where(isfinite(most), most, zeros_like(most))
    total = sum_(exp(x - most), axes, keepdims=True)
    y = log(total) + most
    if keepdims:
        return y
    if _is_all_of_unknown_rank(x, axes):
        return reshape(y, ())
    return squeeze(y, tuple(sorted(normalize_axes(axes, len(dims_of(x))))))


logsumexp.trait(Trait.REDUCTION)
logsumexp.samples(
    reductions(lambda n: math.log(math.fsum(map(math.exp, n))) if n else -math.inf,
               dtypes=("float32", "float64"), empty=False)
)  # fmt: skip


@composite
def sum_to(x: Number, like: Other) -> Number:
    """Sum x down to the shape of `like`: the transpose of broadcasting"""
    extra = x.ndim - like.ndim
    have, expected = dims_of(x), dims_of(like)
    narrow = [i for i, d in enumerate(expected) if _was_broadcast(have[extra + i], d)]
    axes = (*range(extra), *(extra + i for i in narrow))
    if not axes:
        return x
    return reshape(sum_(x, axes, keepdims=True), like.shape)


@sum_to.infer
def _(x: TensorType, like: TensorType) -> list[TensorType]:
    """The shape of `like`, also where the broadcast axes are unknown until run time."""
    return [x if x.shape == like.shape else TensorType(x.dtype, like.shape)]


def _was_broadcast(have: Dim, target: Dim) -> bool:
    """Whether an axis was broadcast; Undecided where a symbolic dim may be 1."""
    return not dims_equal(have, target) and bool(target == 1)


@sum_to.samples
def _() -> Samples:
    x = arange_of_shape(2, 3, dtype="float64")
    yield Sample((x, np.zeros((3,))), array([3.0, 5.0, 7.0]))
    yield Sample((x, np.zeros((2, 1))), array([[3.0], [12.0]]))
    yield Sample((x, array(0.0)), array(15.0))
    yield Sample((x, x), x)
    deep = arange_of_shape(2, 3, 2, dtype="float64")
    yield Sample((deep, np.zeros((3, 1))), array([[14.0], [22.0], [30.0]]))
    first = arange_of_shape(1, 3, 2, dtype="float64")
    yield Sample((first, np.zeros((3, 1))), array([[1.0], [5.0], [9.0]]))
    row = array([[1, 2]], "int32")
    yield Sample((row, row[0]), array([1, 2], "int32"))
    yield Sample((np.zeros((0, 2)), np.zeros(2)), np.zeros(2), smooth=False)
