"""Scatter: updates written at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std.engine.annotations import (
    Array,
    Index,
)
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.inference import shapes
from amanda_std.ops.math.arithmetic import where as where_
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.tensor.creation import arange, ones_like, zeros_like
from amanda_std.ops.tensor.indexing import gather_elements, gather_nd
from amanda_std.ops.tensor.shape import astype, reshape, shape_of, size

_REDUCE: Any = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _write_at(y: Any, at: Any, updates: Any, reduction: str) -> None:
    if reduction == "none":
        y[at] = updates
    else:
        _REDUCE[reduction].at(y, at, updates)


@primitive(shape=shapes.same_as_first, numpy_only=True)
def scatter_elements(
    x: Array, indices: Index, updates: Array, *, axis: int = 0, reduction: str = "none"
) -> Array:
    """x with y[indices[i, j], j] = updates[i, j], for axis 0"""
    y = np.array(x)
    at = list(np.indices(indices.shape, sparse=True))
    at[axis % x.ndim] = indices
    _write_at(y, tuple(at), updates, reduction)
    return y


@scatter_elements.gradient
def _(
    g: Any, y: Any, x: Any, indices: Any, updates: Any, *, axis: int, reduction: str
) -> Any:
    def put(to: Any, values: Any, reduction: str = "none") -> Any:
        return scatter_elements(to, indices, values, axis=axis, reduction=reduction)

    def take(of: Any) -> Any:
        return gather_elements(of, indices, axis=axis)

    own, new = _SLOPES[reduction](g, y, x, updates, put, take)
    return [own, None, new]


Put = Callable[..., Any]


Take = Callable[[Any], Any]


def _replace_gradient(
    g: Any, _y: Any, x: Any, updates: Any, put: Put, take: Take
) -> Any:
    """Of several updates of one element, the one that was written has the gradient."""
    number = reshape(arange(0, size(updates)), shape_of(updates))
    last = put(astype(zeros_like(x), dtype="int64"), number)
    stays = equal(take(last), number)
    zero = zeros_like(updates)
    return put(g, zero), where_(stays, take(g), zero)


def _sum_gradient(g: Any, _y: Any, _x: Any, _u: Any, _put: Put, take: Take) -> Any:
    return g, take(g)


def product_gradient(
    g: Any, _y: Any, x: Any, updates: Any, put: Put, take: Take
) -> Any:
    """Each factor gets the product of the others; zeros are counted separately."""
    others = put(ones_like(x), updates, "mul")
    empty = equal(updates, zeros_like(updates))
    safe = where_(empty, ones_like(updates), updates)
    zeros = put(zeros_like(x), astype(empty, dtype=x.dtype), "add")
    product, count = take(g * put(x, safe, "mul")), take(zeros)
    nothing = product * 0.0
    if_zero = where_(equal(count, 1.0), product, nothing)
    if_not = where_(equal(count, 0.0), product / safe, nothing)
    return g * others, where_(empty, if_zero, if_not)


def _extreme_gradient(
    g: Any, y: Any, x: Any, updates: Any, put: Put, take: Take
) -> Any:
    """Shared equally by all elements equal to the extreme."""
    mine, theirs = equal(x, y), equal(updates, take(y))
    both = (astype(hit, dtype=x.dtype) for hit in (mine, theirs))
    weight = g / put(*both, "add")
    nothing = weight * 0.0
    to_new = take(weight)
    return where_(mine, weight, nothing), where_(theirs, to_new, to_new * 0.0)


_SLOPES: dict[str, Any] = {
    "none": _replace_gradient,
    "add": _sum_gradient,
    "mul": product_gradient,
    "max": _extreme_gradient,
    "min": _extreme_gradient,
}


@scatter_elements.samples
def _() -> Samples:
    x = ramp(3, 2)
    at = array([[1, 0], [2, -1]], "int64")
    new = array([[10.0, 20.0], [30.0, 40.0]])
    for reduction in ("none", "add", "mul", "max", "min"):
        for axis in (0, 1):
            positions = at if axis == 0 else at % 2
            y = x.copy()
            for i, j in np.ndindex(2, 2):
                where = (positions[i, j], j) if axis == 0 else (i, positions[i, j])
                y[where] = _merge(reduction, y[where], new[i, j])
            attrs = {"axis": axis, "reduction": reduction}
            yield Sample((x, positions, new), y, attrs)
    twice = array([[1, 0], [1, 0]], "int64")
    zeros = array([[0.0, 2.0], [3.0, 0.0]])
    for reduction in ("none", "add", "mul", "max", "min"):
        y = x.copy()
        for i, j in np.ndindex(2, 2):
            y[twice[i, j], j] = _merge(reduction, y[twice[i, j], j], zeros[i, j])
        yield Sample((x, twice, zeros), y, {"reduction": reduction})
    yield Sample((x, np.zeros((0, 2), "int64"), np.zeros((0, 2))), x, smooth=False)
    yield Sample((array([1, 2], "int8"), array([1], "int64"), array([7], "int8")),
                 array([1, 7], "int8"))  # fmt: skip


def _merge(reduction: str, old: float, new: float) -> float:
    return {"none": new, "add": old + new, "mul": old * new, "max": max(old, new),
            "min": min(old, new)}[reduction]  # fmt: skip


@primitive(shape=shapes.same_as_first, numpy_only=True)
def scatter_nd(
    x: Array, indices: Index, updates: Array, *, reduction: str = "none"
) -> Array:
    """x with slices updated at coordinates, which are the last axis of indices"""
    y = np.array(x)
    at = tuple(indices[..., i] for i in range(indices.shape[-1]))
    _write_at(y, at or ..., updates, reduction)
    return y


@scatter_nd.gradient
def _(g: Any, y: Any, x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    def put(to: Any, values: Any, reduction: str = "none") -> Any:
        return scatter_nd(to, indices, values, reduction=reduction)

    def take(of: Any) -> Any:
        return gather_nd(of, indices)

    own, new = _SLOPES[reduction](g, y, x, updates, put, take)
    return [own, None, new]


@scatter_nd.samples
def _() -> Samples:
    x = ramp(3, 2)
    rows = array([[2], [0]], "int64")
    new = array([[10.0, 20.0], [30.0, 40.0]])
    for reduction in ("none", "add", "mul", "max", "min"):
        y = x.copy()
        for i, j in np.ndindex(2, 2):
            y[rows[i, 0], j] = _merge(reduction, y[rows[i, 0], j], new[i, j])
        yield Sample((x, rows, new), y, {"reduction": reduction})
    one = array([[0, 1], [0, 1]], "int32")
    y = x.copy()
    y[0, 1] += 3.0
    yield Sample((x, one, array([1.0, 2.0])), y, {"reduction": "add"})
    grid = array([[[0], [2]]], "int64")
    y = array([[7.0, 8.0], x[1].tolist(), [9.0, 6.0]])
    yield Sample((x, grid, array([[[7.0, 8.0], [9.0, 6.0]]])), y)
    yield Sample((x, np.zeros((0, 1), "int64"), np.zeros((0, 2))), x, smooth=False)
