"""From PyTorch: indexing by tensors and masks, and writes at indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.reductions.read_reductions import vector_norm
from amanda_torch.mapping.shape_arguments import END, axis_of, dims_of, integer, scalar
from amanda_torch.mapping.shapes.read_joins import pad
from amanda_torch.mapping.shapes.read_shapes import permute
from amanda_torch.mapping.type_promotion import INT as _INT
from amanda_torch.mapping.type_promotion import as_value, number
from amanda_torch.records import PADDING_NOTE

__all__ = ["READ"]


def _is_mask(index: Any) -> bool:
    return index is not None and str(index.dtype) in ("bool", "uint8")


def _expand_masks(indices: Sequence[Any]) -> list[Any]:
    """Masks as the coordinates of their true elements."""
    found: list[Any] = []
    for index in indices:
        if not _is_mask(index):
            found.append(None if index is None else cast_to(index, _INT))
            continue
        rows = ops.nonzero(index)
        found += [ops.gather(rows, np.asarray(i), 0) for i in range(rank_of(index))]
    return found


class _Places(NamedTuple):
    """Coordinates of an indexing, along axes of a tensor that are brought forward."""

    coordinates: Any
    """[*batch, axes]"""
    batch: int
    """The number of axes that the indices have together."""
    perm: list[int]
    """The axes of the tensor: indexed ones first."""
    at: int
    """Where the axes of the indices are in the result."""

    def result_order(self, rank: int) -> list[int]:
        """From [*batch, *rest] to the axes of the result."""
        rest = rank - len(self.perm_indexed)
        order = list(range(self.batch, self.batch + rest))
        return [*order[: self.at], *range(self.batch), *order[self.at :]]

    @property
    def perm_indexed(self) -> list[int]:
        return self.perm[: int(self.coordinates.type.shape.dims[-1])]


def _places(x: Any, indices: Sequence[Any]) -> _Places:
    indices = _expand_masks(indices)
    axes = [i for i, index in enumerate(indices) if index is not None]
    chosen = [_wrap(x, indices[axis], axis) for axis in axes]
    total = chosen[0]
    for other in chosen[1:]:
        total = total + ops.zeros_like(other)
    shape = ops.shape_of(total)
    same = [ops.broadcast_to(c, shape) if len(chosen) > 1 else c for c in chosen]
    coordinates = ops.stack(*same, axis=rank_of(total))
    is_run = axes == list(range(axes[0], axes[0] + len(axes)))
    rest = [i for i in range(rank_of(x)) if i not in axes]
    return _Places(
        coordinates, rank_of(total), [*axes, *rest], axes[0] if is_run else 0
    )


def _wrap(x: Any, index: Any, axis: int) -> Any:
    """Indices from the end counted from the start."""
    size = ops.dim(x, axis=axis)
    return ops.where(ops.less(index, np.int64(0)), index + size, index)


def read_index(x: Any, indices: Sequence[Any]) -> Any:
    present = [i for i, index in enumerate(indices) if index is not None]
    if not present:
        return ops.identity(x)
    if len(present) == 1 and not _is_mask(indices[present[0]]):
        return ops.gather(x, cast_to(indices[present[0]], _INT), present[0])
    places = _places(x, indices)
    y = ops.gather_nd(permute(x, places.perm), places.coordinates)
    return permute(y, places.result_order(rank_of(x)))


def read_index_put(x: Any, indices: Sequence[Any], values: Any,
                   accumulate: bool = False, _unsafe: bool = False) -> Any:  # fmt: skip
    values = cast_to(values, x.dtype)
    if len(indices) == 1 and _is_mask(indices[0]) and not rank_of(values):
        return _fill_masked(x, indices[0], values, accumulate)
    places = _places(x, indices)
    order = places.result_order(rank_of(x))
    moved = permute(x, places.perm)
    target = ops.gather_nd(moved, places.coordinates)
    shape = ops.shape_of(permute(target, order))
    inverse = [order.index(i) for i in range(len(order))]
    updates = permute(ops.broadcast_to(values, shape), inverse)
    reduction = "add" if accumulate else "none"
    y = ops.scatter_nd(moved, places.coordinates, updates, reduction=reduction)
    return permute(y, [places.perm.index(i) for i in range(len(places.perm))])


def _fill_masked(x: Any, mask: Any, value: Any, accumulate: bool) -> Any:
    mask = ops.astype(mask, dtype="bool")
    more = list(range(rank_of(mask), rank_of(x)))
    mask = ops.expand_dims(mask, more) if more else mask
    return ops.where(mask, x + value if accumulate else value, x)


def read_masked_index(x: Any, mask: Any, indices: Sequence[Any], fill: Any) -> Any:
    """Elements at indices where a mask is true, a number elsewhere."""
    found = read_index(x, [None if i is None else _clip_index(x, i, axis)
                           for axis, i in enumerate(indices)])  # fmt: skip
    return ops.where(mask, found, as_value(fill, x.dtype))


def _clip_index(x: Any, index: Any, axis: int) -> Any:
    last = ops.dim(x, axis=axis) - np.int64(1)
    size = last + np.int64(1)
    index = cast_to(index, _INT)
    return ops.minimum(ops.maximum(index, ops.negative(size)), last)


def read_masked_index_put(
    x: Any, mask: Any, indices: Sequence[Any], values: Any
) -> Any:
    values = ops.where(mask, values, number(0, x.dtype))
    clipped = [
        None if i is None else _clip_index(x, i, a) for a, i in enumerate(indices)
    ]
    return read_index_put(x, clipped, values, True)


# -- along one axis --------------------------------------------------------------------


def read_index_select(x: Any, dim: int, index: Any) -> Any:
    if not rank_of(x):
        return ops.identity(x)
    return ops.gather(x, cast_to(ops.reshape(index, [-1]), _INT), axis_of(dim, x))


def _at_rows(x: Any, dim: int, index: Any, updates: Any, reduction: str) -> Any:
    """Write slices at indices along an axis."""
    if not rank_of(x):
        y = _at_rows(
            ops.reshape(x, [1]), 0, index, ops.reshape(updates, [-1]), reduction
        )
        return ops.reshape(y, [])
    axis = axis_of(dim, x)
    perm = [axis, *(i for i in range(rank_of(x)) if i != axis)]
    index = _wrap(x, cast_to(ops.reshape(index, [-1]), _INT), axis)
    y = ops.scatter_nd(
        permute(x, perm), ops.expand_dims(index, [1]),
        permute(cast_to(updates, x.dtype), perm), reduction=reduction,
    )  # fmt: skip
    return permute(y, [perm.index(i) for i in range(len(perm))])


def read_index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    if not rank_of(source) and rank_of(x):
        source = ops.reshape(source, [1] * rank_of(x))
    scaled = source if alpha == 1 else source * as_value(alpha, source.dtype)
    return _at_rows(x, dim, index, scaled, "add")


def read_index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    return _at_rows(x, dim, index, source, "none")


def read_index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    filled = ops.full(ops.shape_of(read_index_select(x, dim, index)),
                      as_value(value, x.dtype))  # fmt: skip
    return _at_rows(x, dim, index, filled, "none")


def read_index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *,
                      include_self: bool = True) -> Any:  # fmt: skip
    return _scatter_reduced(
        x, lambda base, updates, how: _at_rows(base, dim, index, updates, how),
        source, reduce, include_self,
    )  # fmt: skip


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul",
               "mean": "add", "amax": "max", "amin": "min"}  # fmt: skip


def _identity(reduce: str, dtype: Any) -> Any:
    """The element that a reduction starts from."""
    if reduce in ("sum", "add", "mean"):
        return number(0, dtype)
    if reduce in ("prod", "multiply"):
        return number(1, dtype)
    if dtype.kind == "float":
        return number(float("-inf" if reduce == "amax" else "inf"), dtype)
    info = np.iinfo(dtype.numpy)
    return number(int(info.min if reduce == "amax" else info.max), dtype)


def _scatter_reduced(
    x: Any, scatter: Any, updates: Any, reduce: str, include_self: bool
) -> Any:
    """Updates joined with what is there, or with each other only."""
    updates = cast_to(updates, x.dtype)
    start = x
    if not include_self:
        first = _identity(reduce, x.dtype)
        start = scatter(x, ops.full(ops.shape_of(updates), first), "none")
    y = scatter(start, updates, _REDUCTIONS[reduce])
    if reduce != "mean":
        return y
    ones = ops.ones_like(updates)
    base = ops.ones_like(x) if include_self else ops.zeros_like(x)
    size = scatter(base, ones, "add")
    size = ops.maximum(size, number(1, x.dtype))
    return y / size if x.dtype.kind == "float" else ops.floor_divide(y, size)


def _like_index(x: Any, index: Any, axis: int | None) -> Any:
    """The part of a tensor as large as an index, along all axes but one."""
    axes = [
        i for i, (a, b) in enumerate(
            zip(x.type.shape.dims, index.type.shape.dims, strict=True)
        ) if i != axis and str(a) != str(b)
    ]  # fmt: skip
    if not axes:
        return x
    stops = ops.gather(ops.shape_of(index), np.asarray(axes, "int64"), 0)
    dims = [index.type.shape.dims[i] for i in axes]
    known = dims if all(isinstance(d, int) for d in dims) else stops
    return ops.slice_(x, [0] * len(axes), known, axes)


def read_gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    del sparse_grad
    if not rank_of(x) or not rank_of(index):
        flat = ops.gather(ops.reshape(x, [-1]), ops.reshape(index, [-1]), 0)
        return ops.reshape(flat, ops.shape_of(index))
    axis = axis_of(dim, x)
    return ops.gather_elements(_like_index(x, index, axis), index, axis=axis)


def read_take_along(x: Any, index: Any, dim: int | None = None) -> Any:
    if dim is None:
        return ops.gather(ops.reshape(x, [-1]), ops.reshape(index, [-1]), 0)
    axis = axis_of(dim, x)
    dims = [(1 if i == axis else a, 1 if i == axis else b) for i, (a, b) in enumerate(
        zip(x.type.shape.dims, index.type.shape.dims, strict=True))]  # fmt: skip
    if any(a != b for a, b in dims):
        expect(all(isinstance(d, int) for pair in dims for d in pair), "symbolic sizes")
        common = [max(pair) for pair in dims]
        x, index = (
            ops.broadcast_to(v, [v.type.shape.dims[i] if i == axis else n
                                 for i, n in enumerate(common)])
            for v in (x, index)
        )  # fmt: skip
    return ops.gather_elements(x, index, axis=axis)


def _scatter(x: Any, dim: int, index: Any, updates: Any, reduction: str) -> Any:
    if not rank_of(x):
        y = ops.scatter_elements(
            ops.reshape(x, [1]), ops.reshape(index, [-1]),
            ops.reshape(updates, [-1]), axis=0, reduction=reduction,
        )  # fmt: skip
        return ops.reshape(y, [])
    if not rank_of(index):
        index, updates = (ops.reshape(v, [1] * rank_of(x)) for v in (index, updates))
    return ops.scatter_elements(
        x, index, updates, axis=axis_of(dim, x), reduction=reduction
    )


def _updates(x: Any, index: Any, src: Any) -> Any:
    if rank_of(src) != rank_of(index):
        src = ops.reshape(src, [1] * rank_of(index))
    return cast_to(_like_index(src, index, None), x.dtype)


def read_scatter(
    x: Any, dim: int, index: Any, src: Any, *, reduce: str = "none"
) -> Any:
    how = _REDUCTIONS.get(reduce, reduce)
    return _scatter(x, dim, index, _updates(x, index, src), how)


def read_scatter_value(x: Any, dim: int, index: Any, value: Any, *,
                       reduce: str = "none") -> Any:  # fmt: skip
    updates = ops.full(ops.shape_of(index), as_value(value, x.dtype))
    return _scatter(x, dim, index, updates, _REDUCTIONS.get(reduce, reduce))


def read_scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    return _scatter(x, dim, index, _updates(x, index, src), "add")


def read_scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, *,
                        include_self: bool = True) -> Any:  # fmt: skip
    return _scatter_reduced(
        x, lambda base, updates, how: _scatter(base, dim, index, updates, how),
        _updates(x, index, src), reduce, include_self,
    )  # fmt: skip


# -- masks -----------------------------------------------------------------------------


def read_masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return ops.where(mask, as_value(value, x.dtype), x)


def read_masked_select(x: Any, mask: Any) -> Any:
    total = ops.logical_or(mask, ops.astype(ops.zeros_like(x), dtype="bool"))
    x = ops.broadcast_to(x, ops.shape_of(total))
    return ops.compress(ops.reshape(x, [-1]), ops.reshape(total, [-1]), axis=0)


def read_masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Elements of the source, in order, where the mask is true."""
    mask = ops.broadcast_to(mask, ops.shape_of(x))
    run = ops.cumulative_sum(ops.astype(ops.reshape(mask, [-1]), dtype="int64"), 0)
    place = ops.maximum(run - np.int64(1), np.int64(0))
    flat = ops.reshape(source, [-1])
    last = ops.size(flat) - np.int64(1)
    found = ops.gather(flat, ops.minimum(place, last), 0)
    return ops.where(mask, ops.reshape(found, ops.shape_of(x)), x)


def read_take(x: Any, index: Any) -> Any:
    return ops.gather(ops.reshape(x, [-1]), index, 0)


def read_put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    flat = ops.reshape(x, [-1])
    place = ops.expand_dims(_wrap(flat, ops.reshape(index, [-1]), 0), [1])
    y = ops.scatter_nd(flat, place, ops.reshape(source, [-1]),
                       reduction="add" if accumulate else "none")  # fmt: skip
    return ops.reshape(y, ops.shape_of(x))


# -- writes into views -----------------------------------------------------------------


def read_select_scatter(x: Any, src: Any, dim: int, index: Any) -> Any:
    axis = axis_of(dim, x)
    place = scalar(index)
    if isinstance(index, int) and index < 0:
        place = ops.dim(x, axis=axis) + place
    return ops.where(ops.equal(_positions(x, axis), place),
                     ops.expand_dims(cast_to(src, x.dtype), [axis]), x)  # fmt: skip


def _positions(x: Any, axis: int) -> Any:
    """0, 1, 2 ... along an axis."""
    shape = [1] * rank_of(x)
    shape[axis] = -1
    return ops.reshape(ops.arange(0, ops.dim(x, axis=axis)), shape)


def read_slice_scatter(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    axis = axis_of(dim, x)
    rows = dims_of(src)[axis]
    if isinstance(rows, int) and rows == 0:
        return ops.identity(x)
    if not isinstance(rows, int):  # one row more, as there may be none to gather
        src = pad(src, [0, 0] * (rank_of(src) - 1 - axis) + [0, 1])
    size = ops.dim(x, axis=axis)
    first, stop = (_end_of(v, size, d) for v, d in ((start, 0), (end, END)))
    place = _positions(x, axis)
    row = ops.floor_divide(place - first, np.int64(step))
    inside = ops.logical_and(ops.greater_equal(place, first), ops.less(place, stop))
    if step != 1:
        exact = ops.equal(ops.remainder(place - first, np.int64(step)), np.int64(0))
        inside = ops.logical_and(inside, exact)
    last = ops.dim(src, axis=axis) - np.int64(1)
    row = ops.minimum(ops.maximum(ops.reshape(row, [-1]), np.int64(0)), last)
    return ops.where(inside, ops.gather(cast_to(src, x.dtype), row, axis), x)


def _end_of(value: Any, size: Any, default: int) -> Any:
    """The end of a slice, counted from the start of an axis."""
    if value is None or (isinstance(value, int) and value >= END):
        return np.int64(0) if not default else size
    if isinstance(value, int) and value < 0:
        return ops.maximum(size + np.int64(value), np.int64(0))
    return scalar(value)


# -- embeddings ------------------------------------------------------------------------


def read_embedding(
    weight: Any, indices: Any, padding_idx: int = -1, by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    del by_freq, sparse
    y = ops.gather(weight, indices, 0)
    if padding_idx >= 0:
        y.port.op.attrs[PADDING_NOTE] = padding_idx
    return y


def read_embedding_renorm(weight: Any, indices: Any, max_norm: float,
                          norm_type: float) -> Any:  # fmt: skip
    """The rows that indices take, shortened to a norm where they are longer."""
    rows = integer(weight.type.shape.dims[0], "the number of rows")
    norms = vector_norm(weight, norm_type, [1], keepdim=True)
    counts = ops.bincount(cast_to(ops.reshape(indices, [-1]), _INT), rows)
    is_taken = ops.expand_dims(ops.greater(counts, np.int64(0)), [1])
    limit = number(max_norm, weight.dtype)
    is_long = ops.logical_and(is_taken, ops.greater(norms, limit))
    scale = limit / (norms + number(1e-7, weight.dtype))
    return ops.where(is_long, weight * scale, weight)


def read_where_indices(condition: Any) -> Any:
    rank = rank_of(condition)
    rows = ops.nonzero(condition if rank else ops.reshape(condition, [1]))
    return tuple(ops.gather(rows, np.asarray(i), 0) for i in range(max(rank, 1)))


READ = torch_functions(
    {
        "index.Tensor _unsafe_index.Tensor": read_index,
        "index_put _unsafe_index_put _index_put_impl": read_index_put,
        "_unsafe_masked_index": read_masked_index,
        "_unsafe_masked_index_put_accumulate": read_masked_index_put,
        "index_select": read_index_select,
        "index_add": read_index_add,
        "index_copy": read_index_copy,
        "index_fill.int_Scalar index_fill.int_Tensor": read_index_fill,
        "index_reduce": read_index_reduce,
        "gather": read_gather,
        "take_along_dim": read_take_along,
        "scatter.src scatter.reduce": read_scatter,
        "scatter.value scatter.value_reduce": read_scatter_value,
        "scatter_add": read_scatter_add,
        "scatter_reduce.two": read_scatter_reduce,
        "masked_fill.Scalar masked_fill.Tensor": read_masked_fill,
        "masked_select": read_masked_select,
        "masked_scatter": read_masked_scatter,
        "take": read_take,
        "put": read_put,
        "select_scatter": read_select_scatter,
        "slice_scatter": read_slice_scatter,
        "embedding": read_embedding,
        "embedding_renorm": read_embedding_renorm,
        "where nonzero_numpy": read_where_indices,
    }
)
