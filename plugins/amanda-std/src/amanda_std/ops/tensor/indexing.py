"""Elements found by their places, and put at places."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Array,
    Host,
    Index,
)
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, counting, ramp
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import index_of
from amanda_std.ops._late import late
from amanda_std.ops.tensor.creation import number
from amanda_std.ops.tensor.index_arithmetic import (
    is_between,
    parts_of,
    whole,
)


@primitive(shape=shapes.gather, content=True)
def gather(x: Array, indices: Index, axis: Host = 0) -> Array:
    """The parts of x at some places of an axis; negative places count from its end"""
    if indices.dtype == object:
        indices = indices.astype("int64")
    return xp(x, indices).take(x, indices, axis=axis)


@gather.gradient
def _(g: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
    rank, inner = x.ndim, indices.ndim
    at = index_of(axis, rank)
    order = (*range(at, at + inner), *range(at), *range(at + inner, rank + inner - 1))
    front = late.transpose(g, perm=order) if at else g
    places = (at, *(i for i in range(rank) if i != at))
    zero = late.zeros_like(late.transpose(x, perm=places) if at else x)
    row = late.expand_dims(indices, (-1,))
    found = late.scatter_nd(zero, row, front, reduction="add")
    back = tuple(int(i) for i in np.argsort(places))
    return [late.transpose(found, perm=back) if at else found, None, None]


@gather.samples
def _() -> Samples:
    x = counting(3, 4, dtype="float64")
    yield Sample((x, array([2, 0], "int64")), array([[8.0, 9, 10, 11], [0, 1, 2, 3]]))
    yield Sample(
        (x, array([[-1, 1]], "int32"), 1), array([[[3.0, 1]], [[7, 5]], [[11, 9]]])
    )
    yield Sample((x, array(1, "int64"), -1), array([1.0, 5, 9]))
    yield Sample((x, array([], "int64")), np.zeros((0, 4)), smooth=False)
    yield Sample((array([True, False], "bool"), array([1, 1], "int64")),
                 array([False, False], "bool"))  # fmt: skip


def _of_indices(indices: TensorType) -> Shape:
    return indices.shape


@primitive(shape=_of_indices)
def gather_elements(x: Array, indices: Index, *, axis: int = 0) -> Array:
    """y[i, j] = x[indices[i, j], j], for axis 0"""
    at = axis % x.ndim
    cut = tuple(
        slice(None) if i == at else slice(n) for i, n in enumerate(indices.shape)
    )
    return xp(x, indices).take_along_axis(x[cut], indices.astype("int64"), axis=axis)


@gather_elements.gradient
def _(g: Any, x: Any, indices: Any, *, axis: int) -> Any:
    zero = late.zeros_like(x)
    return [late.scatter_elements(zero, indices, g, axis=axis, reduction="add"), None]


@gather_elements.samples
def _() -> Samples:
    x = counting(3, 2, dtype="float64")
    yield Sample((x, array([[2, 0], [-1, 1]], "int64")), array([[4.0, 1], [4, 3]]))
    yield Sample(
        (x, array([[1], [0], [1]], "int32")), array([[1.0], [2], [5]]), {"axis": 1}
    )
    yield Sample((x, array([[1, 1]], "int64")), array([[2.0, 3]]))
    few = array([[1], [0]], "int64")  # of the first two rows
    yield Sample((x, few), array([[1.0], [2]]), {"axis": 1})
    yield Sample((x, np.zeros((0, 2), "int64")), np.zeros((0, 2)), smooth=False)


def _gathered_nd(x: TensorType, indices: TensorType, *, batch_dims: int = 0) -> Shape:
    depth = indices.shape.dims[-1]
    if isinstance(depth, Sym):
        raise Undecided("how many axes the places name is known at run time only")
    return Shape((*indices.shape.dims[:-1], *x.shape.dims[batch_dims + depth :]))


@primitive(shape=_gathered_nd)
def gather_nd(x: Array, indices: Index, *, batch_dims: int = 0) -> Array:
    """The parts of x at places, each a row of the last axis of indices"""
    if not batch_dims:
        return x[tuple(indices[..., i] for i in range(indices.shape[-1]))]
    batch = x.shape[:batch_dims]
    rest = indices.ndim - 1 - batch_dims
    own = [
        np.arange(n).reshape((-1,) + (1,) * (batch_dims - i - 1 + rest))
        for i, n in enumerate(batch)
    ]
    return x[(*own, *(indices[..., i] for i in range(indices.shape[-1])))]


@gather_nd.gradient
def _(g: Any, x: Any, indices: Any, *, batch_dims: int) -> Any:
    if batch_dims:
        indices = _with_batches(indices, batch_dims)
    return [late.scatter_nd(late.zeros_like(x), indices, g, reduction="add"), None]


def _with_batches(indices: Any, batch_dims: int) -> Any:
    """Places that name the axes of the batch, too."""
    rank = indices.ndim
    at = late.astype(indices, dtype="int64")
    one = late.slice(at, (0,), (1,), (rank - 1,))
    own = []
    for i in range(batch_dims):
        row = [-1 if j == i else 1 for j in range(rank)]
        places = late.reshape(late.arange(0, at.shape[i]), row)
        own.append(late.broadcast_like(places, one))
    return late.concat(*own, at, axis=rank - 1)


@gather_nd.samples
def _() -> Samples:
    x = counting(2, 3, 2, dtype="float64")
    yield Sample((x, array([[0, 2], [1, 0]], "int64")), array([[4.0, 5], [6, 7]]))
    yield Sample((x, array([[[1, 2, 1]]], "int32")), array([[11.0]]))
    batched = array([[2.0, 3], [6, 7]])
    yield Sample((x, array([[1], [0]], "int64")), batched, {"batch_dims": 1})
    deep = counting(2, 2, 3, dtype="float64")
    at = array([[[[2], [0]], [[1], [1]]], [[[0], [0]], [[2], [1]]]], "int64")
    places = array([[[2.0, 0], [4, 4]], [[6, 6], [11, 10]]])
    yield Sample((deep, at), places, {"batch_dims": 2})
    yield Sample((x, np.zeros((0, 1), "int64")), np.zeros((0, 3, 2)), smooth=False)


@composite
def unravel_index(indices: Index, shape: Host) -> Index:
    """Places counted through a shape, row by row, as a row of places for each axis"""
    many = len(shape) if isinstance(shape, tuple | list) else shape.shape[0]
    flat = whole(indices)
    found: list[Any] = []
    for d in reversed(parts_of(shape, int(many.__index__()))):
        size = whole(d)
        found.insert(0, late.remainder(flat, size))
        flat = late.floor_divide(flat, size)
    return late.stack(*found, axis=0)


@composite
def ravel_index(places: Index, shape: Host) -> Index:
    """A row of places for each axis, as places counted through a shape, row by row"""
    many = len(shape) if isinstance(shape, tuple | list) else shape.shape[0]
    total: Any = None
    for i, d in enumerate(parts_of(shape, int(many.__index__()))):
        at = whole(late.gather(places, np.asarray(i), 0))
        total = at if total is None else late.add(late.multiply(total, whole(d)), at)
    return total


def _places(back: bool) -> Any:
    def make() -> Samples:
        for dtype in ("int64", "int32"):
            flat = array([[0, 7], [23, 12]], dtype)
            at = [list(p) for p in itertools.product(range(2), range(3), range(4))]
            rows = array([[[at[n][i] for n in row] for row in flat] for i in range(3)],
                         "int64")  # fmt: skip
            args = (rows.astype(dtype), flat) if back else (flat, rows)
            yield Sample((args[0], (2, 3, 4)), args[1].astype("int64"))
        none = np.zeros(0, "int64"), np.zeros((2, 0), "int64")
        args = none[::-1] if back else none
        yield Sample((args[0], (2, 3)), args[1])

    return make


unravel_index.not_differentiable("its results are indices")


ravel_index.not_differentiable("its results are indices")


unravel_index.samples(_places(False))


ravel_index.samples(_places(True))


@composite
def take(
    x: Array, indices: Index, *, axis: int | None = None, mode: str = "clip",
    fill: float = 0.0,
) -> Array:  # fmt: skip
    """The parts of x at places; those beyond the ends clipped, wrapped or filled"""
    if axis is None:
        x, axis = late.reshape(x, [-1]), 0
    at, length = whole(indices), whole(x.shape[axis])
    last = late.subtract(length, 1)
    inside = is_between(at, np.asarray(0), last)
    if mode == "wrap":
        at = late.remainder(at, length)
    elif mode in ("clip", "fill"):
        at = late.minimum(late.maximum(at, np.asarray(0)), last)
    else:
        raise InvalidTypeError("no such mode", expected="clip, wrap, fill", got=mode)
    y = late.gather(x, at, axis)
    if mode != "fill":
        return y
    rest = tuple(range(at.ndim, at.ndim + x.ndim - axis % x.ndim - 1))
    seen = late.expand_dims(inside, rest) if rest else inside
    return late.where(seen, y, number(fill, x))


@take.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = counting(3, 4, dtype=dtype)
        at = array([[1, 7], [-2, 3]], "int64")
        for mode, axis in itertools.product(("clip", "wrap", "fill"), (0, 1, None)):
            parts = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
            n = len(parts)
            rows = []
            for p in at.reshape(-1).tolist():
                where = p % n if mode == "wrap" else min(max(p, 0), n - 1)
                outside = mode == "fill" and not 0 <= p < n
                rows.append(parts[where] * 0 + 9 if outside else parts[where])
            y = np.stack(rows).reshape(2, 2, *parts.shape[1:])
            y = y if axis != 1 else np.moveaxis(y, 2, 0)
            attrs = {"axis": axis, "mode": mode, "fill": 9}
            yield Sample((x, at), y, attrs)
    yield Sample((ramp(2, 3), np.zeros(0, "int32")), np.zeros((0, 3)), {"axis": 0},
                 smooth=False)  # fmt: skip
