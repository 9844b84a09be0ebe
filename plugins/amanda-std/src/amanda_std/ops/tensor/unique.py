"""Selecting elements by value: unique elements and boolean masks"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Array,
    Index,
    Logical,
    Other,
)
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import reshape


def _differing(x: TensorType, *, axis: int | None = None) -> list[Shape]:
    count = Sym.unknown()
    if axis is None:
        return [Shape([count]), Shape([count]), Shape([x.shape.size]), Shape([count])]
    at = normalize_axis(axis, x.shape.rank)
    whole_: list[Any] = list(x.shape.dims)
    one = x.shape.dims[at]
    whole_[at] = count
    return [Shape(whole_), Shape([count]), Shape([one]), Shape([count])]


@primitive(shape=_differing, numpy_only=True)
def unique(
    x: Array, *, axis: int | None = None, sorted: bool = True
) -> tuple[Array, Index, Index, Index]:
    """The elements (or parts along an axis) that differ, each once

    And where each is first, which one each element of x is, how often it is there.
    In sorted order, or in that of x."""
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        back = np.argsort(order)
        found = np.take(found, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    first, inverse, counts = (p.astype("int64") for p in (first, inverse, counts))
    return found, first, inverse, counts


unique.not_differentiable("which elements differ has no slope")


def _slow_unique(x: list[Any], in_order: bool) -> list[Any]:
    values = list(dict.fromkeys(x))
    values = sorted_(values) if in_order else values
    return [values, [x.index(v) for v in values], [values.index(v) for v in x],
            [x.count(v) for v in values]]  # fmt: skip


sorted_ = sorted


@unique.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bfloat16"):
        x = array([3, 1, 3, 2, 1, 1], dtype)
        for in_order in (True, False):
            values, *places = _slow_unique(x.tolist(), in_order)
            want = [array(values, dtype), *(array(p, "int64") for p in places)]
            yield Sample((x,), want, {"sorted": in_order}, smooth=False)
            yield Sample((x.reshape(2, 3),), want, {"sorted": in_order}, smooth=False)
    x = array([[2, 0, 2], [1, 1, 1]], "int64")
    for in_order in (True, False):
        columns, *places = _slow_unique([tuple(c) for c in x.T.tolist()], in_order)
        want = [array(columns, "int64").T, *(array(p, "int64") for p in places)]
        yield Sample((x,), want, {"axis": 1, "sorted": in_order})
    none = np.zeros(0, "int64")
    yield Sample((np.zeros(0),), [np.zeros(0), none, none, none], smooth=False)


@composite
def compress(x: Array, condition: Logical, *, axis: int | None = None) -> Array:
    """The parts of an axis (or elements) for which a condition holds

    The condition may be shorter than the axis: what is beyond it is left out."""
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    at = reshape(nonzero(reshape(condition, [-1])), [-1])
    return gather(x, at, axis)


@compress.samples
def _() -> Samples:
    flags = array([True, False, True], "bool")
    for dtype in ("float64", "int32"):
        x = arange_of_shape(3, 4, dtype=dtype)
        yield Sample((x, flags), x[[0, 2]], {"axis": 0}, smooth=False)
        yield Sample((x, flags), x[:, [0, 2]], {"axis": -1}, smooth=False)
        yield Sample((x, flags), array([0, 2], dtype), smooth=False)
    yield Sample((ramp(4), ~array([True] * 4, "bool")), np.zeros(0), smooth=False)
    yield Sample((ramp(4), flags), ramp(4)[[0, 2]])


@primitive(shape=lambda x: Shape([x.shape.rank, Sym.unknown()]), numpy_only=True)
def nonzero(x: Other) -> Index:
    """The places that are not zero, a column each, in row-major order"""
    return np.stack(np.nonzero(np.atleast_1d(x)))[: x.ndim].astype("int64")


nonzero.not_differentiable("its results are places")


@nonzero.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bool"):
        x = array([[0, 1, 0], [1, 0, 1]], dtype)
        yield Sample((x,), array([[0, 1, 1], [1, 0, 2]], "int64"))
    yield Sample((np.zeros((0, 2)),), np.zeros((2, 0), "int64"))
    yield Sample((array(5),), np.zeros((0, 1), "int64"))
