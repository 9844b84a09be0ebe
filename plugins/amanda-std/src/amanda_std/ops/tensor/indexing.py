"""Gather: elements and slices read at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Array,
    Index,
    ShapeArg,
)
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops._late import late
from amanda_std.ops.tensor.creation import arange, zeros_like
from amanda_std.ops.tensor.shape import (
    astype,
    broadcast_like,
    expand_dims,
    reshape,
    transpose,
)


@primitive(shape=shapes.gather, content=True)
def gather(x: Array, indices: Index, axis: ShapeArg = 0) -> Array:
    """Slices of x at indices along an axis; negative indices count from the end"""
    if indices.dtype == object:
        indices = indices.astype("int64")
    return xp(x, indices).take(x, indices, axis=axis)


gather.trait(Trait.MOVES_ELEMENTS)


@gather.gradient
def _(g: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
    rank, inner = x.ndim, indices.ndim
    at = normalize_axis(axis, rank)
    order = (*range(at, at + inner), *range(at), *range(at + inner, rank + inner - 1))
    front = transpose(g, perm=order) if at else g
    positions = (at, *(i for i in range(rank) if i != at))
    zero = zeros_like(transpose(x, perm=positions) if at else x)
    row = expand_dims(indices, (-1,))
    result = late.scatter_nd(zero, row, front, reduction="add")
    back = tuple(int(i) for i in np.argsort(positions))
    return [transpose(result, perm=back) if at else result, None, None]


@gather.samples
def _() -> Samples:
    x = arange_of_shape(3, 4, dtype="float64")
    yield Sample((x, array([2, 0], "int64")), array([[8.0, 9, 10, 11], [0, 1, 2, 3]]))
    yield Sample(
        (x, array([[-1, 1]], "int32"), 1), array([[[3.0, 1]], [[7, 5]], [[11, 9]]])
    )
    yield Sample((x, array(1, "int64"), -1), array([1.0, 5, 9]))
    yield Sample((x, array([], "int64")), np.zeros((0, 4)), smooth=False)
    yield Sample((array([True, False], "bool"), array([1, 1], "int64")),
                 array([False, False], "bool"))  # fmt: skip


def _gather_elements_shape(
    x: TensorType, indices: TensorType, *, axis: int = 0
) -> Shape:
    if x.shape.has_rank:
        normalize_axis(axis, x.shape.rank)
        if indices.shape.has_rank and indices.shape.rank != x.shape.rank:
            raise InvalidTypeError(
                "indices have another rank than the tensor",
                expected=x.shape.rank,
                got=indices.shape.rank,
            )
    return indices.shape


@primitive(shape=_gather_elements_shape)
def gather_elements(x: Array, indices: Index, *, axis: int = 0) -> Array:
    """Elements at indices along an axis: y[i, j] = x[indices[i, j], j] for axis 0"""
    at = axis % x.ndim
    cut = tuple(
        slice(None) if i == at else slice(n) for i, n in enumerate(indices.shape)
    )
    return xp(x, indices).take_along_axis(x[cut], indices.astype("int64"), axis=axis)


gather_elements.trait(Trait.MOVES_ELEMENTS)


@gather_elements.gradient
def _(g: Any, x: Any, indices: Any, *, axis: int) -> Any:
    zero = zeros_like(x)
    return [late.scatter_elements(zero, indices, g, axis=axis, reduction="add"), None]


@gather_elements.samples
def _() -> Samples:
    x = arange_of_shape(3, 2, dtype="float64")
    yield Sample((x, array([[2, 0], [-1, 1]], "int64")), array([[4.0, 1], [4, 3]]))
    yield Sample(
        (x, array([[1], [0], [1]], "int32")), array([[1.0], [2], [5]]), {"axis": 1}
    )
    yield Sample((x, array([[1, 1]], "int64")), array([[2.0, 3]]))
    few = array([[1], [0]], "int64")  # of the first two rows
    yield Sample((x, few), array([[1.0], [2]]), {"axis": 1})
    yield Sample((x, np.zeros((0, 2), "int64")), np.zeros((0, 2)), smooth=False)


def _gather_nd_shape(
    x: TensorType, indices: TensorType, *, batch_dims: int = 0
) -> Shape:
    depth = indices.shape.dims[-1]
    if isinstance(depth, Sym):
        raise Undecided("the number of indexed axes is unknown until run time")
    axes = min(indices.shape.rank - 1, x.shape.rank - depth)
    if not 0 <= batch_dims <= axes:
        raise InvalidTypeError(
            "batch_dims out of range", expected=f"0 to {axes}", got=batch_dims
        )
    return Shape((*indices.shape.dims[:-1], *x.shape.dims[batch_dims + depth :]))


@primitive(shape=_gather_nd_shape)
def gather_nd(x: Array, indices: Index, *, batch_dims: int = 0) -> Array:
    """Slices of x at coordinates, which are the last axis of indices"""
    batch = x.shape[:batch_dims]
    rest = indices.ndim - 1 - batch_dims
    if not indices.shape[-1]:  # all of x, for each row of indices
        whole = x.reshape((*batch, *(1,) * rest, *x.shape[batch_dims:]))
        shape = (*indices.shape[:-1], *x.shape[batch_dims:])
        return xp(x, indices).broadcast_to(whole, shape)
    if not batch_dims:
        return x[tuple(indices[..., i] for i in range(indices.shape[-1]))]
    own = [
        np.arange(n).reshape((-1,) + (1,) * (batch_dims - i - 1 + rest))
        for i, n in enumerate(batch)
    ]
    return x[(*own, *(indices[..., i] for i in range(indices.shape[-1])))]


gather_nd.trait(Trait.MOVES_ELEMENTS)


@gather_nd.gradient
def _(g: Any, x: Any, indices: Any, *, batch_dims: int) -> Any:
    if batch_dims:
        indices = _add_batch_coordinates(indices, batch_dims)
    return [late.scatter_nd(zeros_like(x), indices, g, reduction="add"), None]


def _add_batch_coordinates(indices: Any, batch_dims: int) -> Any:
    """Coordinates extended by those of the batch axes."""
    rank = indices.ndim
    at = astype(indices, dtype="int64")
    one = late.slice(at, (0,), (1,), (rank - 1,))
    own = []
    for i in range(batch_dims):
        row = [-1 if j == i else 1 for j in range(rank)]
        positions = reshape(arange(0, at.shape[i]), row)
        own.append(broadcast_like(positions, one))
    return late.concat(*own, at, axis=rank - 1)


@gather_nd.samples
def _() -> Samples:
    x = arange_of_shape(2, 3, 2, dtype="float64")
    yield Sample((x, array([[0, 2], [1, 0]], "int64")), array([[4.0, 5], [6, 7]]))
    yield Sample((x, array([[[1, 2, 1]]], "int32")), array([[11.0]]))
    batched = array([[2.0, 3], [6, 7]])
    yield Sample((x, array([[1], [0]], "int64")), batched, {"batch_dims": 1})
    deep = arange_of_shape(2, 2, 3, dtype="float64")
    at = array([[[[2], [0]], [[1], [1]]], [[[0], [0]], [[2], [1]]]], "int64")
    positions = array([[[2.0, 0], [4, 4]], [[6, 6], [11, 10]]])
    yield Sample((deep, at), positions, {"batch_dims": 2})
    yield Sample((x, np.zeros((0, 1), "int64")), np.zeros((0, 3, 2)), smooth=False)
