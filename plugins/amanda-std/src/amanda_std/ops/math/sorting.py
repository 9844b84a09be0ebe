"""Sorting and top-k. Sorts are stable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Index,
    Logical,
    Real,
    RealFloating,
    ShapeArg,
)
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import (
    UnknownShapeArg,
    may_be_negative,
    normalize_axis,
)
from amanda_std.ops.math.comparison import greater, isfinite, less
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.math.reduction import all_, sum_
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.index_arithmetic import as_int64
from amanda_std.ops.tensor.indexing import gather_elements
from amanda_std.ops.tensor.scatter import scatter_elements
from amanda_std.ops.tensor.shape import expand_dims


def _stable_order(x: Any, axis: int, descending: bool) -> Any:
    """Stable order; descending by flipping, as not all types can be negated."""
    np_ = xp(x)
    if not descending:
        return np_.argsort(x, axis=axis, stable=True)
    positions = np_.argsort(np_.flip(x, axis=axis), axis=axis, stable=True)
    return np_.flip(x.shape[axis] - 1 - positions, axis=axis)


@primitive(shape=shapes.same_along_axis)
def argsort(x: Real, *, axis: int = -1, descending: bool = False) -> Index:
    """Indices that sort the elements along an axis"""
    return _stable_order(x, axis, descending).astype("int64")


argsort.not_differentiable("its results are indices")


@primitive(shape=shapes.same_along_axis)
def sort(x: Real, *, axis: int = -1, descending: bool = False) -> Real:
    """Sorted elements along an axis"""
    return xp(x).take_along_axis(x, _stable_order(x, axis, descending), axis=axis)


@sort.gradient
def _(g: Any, x: Any, axis: int, descending: bool) -> Any:
    positions = argsort(x, axis=axis, descending=descending)
    return [scatter_elements(zeros_like(x), positions, g, axis=axis)]


_NUMBERS = [[3, 1, 3, 2], [0, 5, -1, 0]]


def _sort_by_loop(x: Any, axis: int, descending: bool, indices: bool) -> Any:
    rows = np.moveaxis(x, axis, -1)
    out = np.zeros(rows.shape, "int64" if indices else x.dtype)
    for at in np.ndindex(rows.shape[:-1]):
        pairs = [(n.item(), i) for i, n in enumerate(rows[at])]
        pairs.sort(key=lambda p: p[0], reverse=descending)
        out[at] = [p[1] if indices else p[0] for p in pairs]
    return np.moveaxis(out, -1, axis)


def _sort_samples(indices: bool) -> Any:
    def make() -> Samples:
        for dtype in ("float32", "float64", "int32", "uint8", "bfloat16"):
            x = array(np.abs(_NUMBERS) if dtype == "uint8" else _NUMBERS, dtype)
            for axis in (-1, 0):
                for descending in (False, True):
                    y = _sort_by_loop(x, axis, descending, indices)
                    attrs = {"axis": axis, "descending": descending}
                    yield Sample((x,), y, attrs, smooth=False)
        x = array([0.5, -1.0, 2.0])
        yield Sample((x,), _sort_by_loop(x, -1, False, indices))
        many = array([i * 7 % 5 for i in range(60)], "int32")
        for descending in (False, True):  # long enough for an unstable sort to show
            y = _sort_by_loop(many, -1, descending, indices)
            yield Sample((many,), y, {"descending": descending})
        yield Sample(
            (np.zeros((2, 0)),),
            _sort_by_loop(np.zeros((2, 0)), -1, False, indices),
            smooth=False,
        )

    return make


argsort.samples(_sort_samples(True))
sort.samples(_sort_samples(False))


def _topk_shapes(x: TensorType, k: Any, *, axis: int = -1) -> list[Shape]:
    at = normalize_axis(axis, x.shape.rank)
    one = k[0] if isinstance(k, tuple) else k  # also as a vector of one element
    size = x.shape.dims[at]
    if isinstance(one, int) and isinstance(size, int) and one > size:
        raise InvalidTypeError(
            "topk of more elements than there are", expected=f"at most {size}", got=one
        )
    count = (
        Sym.unknown()
        if isinstance(one, UnknownShapeArg) or may_be_negative(one)
        else one
    )
    shape = Shape([count if i == at else d for i, d in enumerate(x.shape.dims)])
    return [shape, shape]


@primitive(shape=_topk_shapes)
def topk(
    x: Real, k: ShapeArg, *, axis: int = -1, largest: bool = True
) -> tuple[Real, Index]:
    """The k largest or smallest elements in order, and their indices, along an axis"""
    count = k if isinstance(k, int) else k[0]
    if count > x.shape[axis]:
        raise ValueError(f"the {count} largest of {x.shape[axis]}")
    order = _stable_order(x, axis, largest)
    at = axis % x.ndim
    order = order[(slice(None),) * at + (slice(count),)]
    return xp(x).take_along_axis(x, order, axis=axis), order.astype("int64")


@topk.gradient
def _(g: Any, y: Any, x: Any, axis: int) -> Any:
    zero = zeros_like(x)
    if g[0] is None:
        return [zero, None]
    return [scatter_elements(zero, y[1], g[0], axis=axis), None]


@topk.samples
def _() -> Samples:
    for dtype in ("float32", "int64", "bfloat16"):
        x = array(_NUMBERS, dtype)
        for axis, k in ((-1, 2), (0, 1), (1, 4)):
            for largest in (True, False):
                cut = (slice(None),) * (axis % 2) + (slice(k),)
                expected = [
                    _sort_by_loop(x, axis, largest, positions)[cut]
                    for positions in (False, True)
                ]
                yield Sample(
                    (x, k), expected, {"axis": axis, "largest": largest}, smooth=False
                )
    x = array([0.5, -1.0, 2.0])
    yield Sample((x, 2), [array([2.0, 0.5]), array([2, 0], "int64")])
    yield Sample((x, (1,)), [array([2.0]), array([2], "int64")])
    yield Sample((x, 0), [np.zeros(0), np.zeros(0, "int64")], smooth=False)


@composite
def in_top_k(scores: RealFloating, targets: Index, k: Index) -> Logical:
    """Whether the target's score is among the k largest of its row"""
    at = expand_dims(as_int64(targets), (1,))
    own = gather_elements(scores, at, axis=1)
    over = sum_(as_int64(greater(scores, own)), (1,))
    sound = all_(isfinite(own), (1,))
    return logical_and(less(over, as_int64(k)), sound)


in_top_k.not_differentiable("its results are booleans")


@in_top_k.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        scores = array([[0.1, 0.7, 0.7, 0.2], [0.4, 0.3, 0.2, math.inf]], dtype)
        targets, rows = array([2, 1], "int64"), ((1, [True, False]), (3, [True, True]))
        for k, expected in rows:
            yield Sample((scores, targets, array(k, "int64")), array(expected, "bool"))
        last = array([3, 3], "int32")
        expected = array([False, False], "bool")
        yield Sample((scores, last, array(2, "int32")), expected)
    empty = np.zeros((0, 4)), np.zeros(0, "int64"), array(1, "int64")
    yield Sample(empty, np.zeros(0, "bool"))
