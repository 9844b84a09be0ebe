"""From PyTorch: shapes, views, permutations, and expansion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import (
    END,
    axis_of,
    count_up,
    dims_of,
    integer,
    scalar,
    shape_argument,
)
from amanda_torch.records import MEMORY_NOTE

__all__ = ["READ", "permute", "take_slice"]


def read_reshape(x: Any, size: Sequence[Any]) -> Any:
    return ops.reshape(x, shape_argument(size))


def read_view_dtype(x: Any, dtype: Any) -> Any:
    """The bits of the last axis as elements of another type."""
    y = ops.bitcast(x, dtype=dtype)
    ratio = x.dtype.bits // dtype.bits
    if ratio > 1:
        shape = ops.concat(ops.slice_(ops.shape_of(x), [0], [-1]), np.asarray([-1]))
        return ops.reshape(y, shape)
    return y


def read_like(x: Any, other: Any) -> Any:
    return ops.reshape(x, ops.shape_of(other))


def read_flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not rank_of(x):
        return ops.reshape(x, [1])
    first, last = axis_of(start_dim, x), axis_of(end_dim, x)
    if first == last:
        return ops.identity(x)
    dims = [ops.dim(x, axis=i) for i in range(rank_of(x))]
    return ops.reshape(
        x, _sizes([*dims[:first], -1, *dims[last + 1 :]], x, first, last)
    )


def _sizes(items: list[Any], x: Any, first: int, last: int) -> Any:
    """Sizes as numbers where the dims of x are."""
    static = [*x.type.shape.dims[:first], -1, *x.type.shape.dims[last + 1 :]]
    return shape_argument(
        [s if isinstance(s, int) else v for s, v in zip(static, items, strict=True)]
    )


def read_unflatten(x: Any, dim: int, sizes: Sequence[Any]) -> Any:
    axis = axis_of(dim, x)
    dims = [
        d if isinstance(d, int) else ops.dim(x, axis=i)
        for i, d in enumerate(x.type.shape.dims)
    ]
    return ops.reshape(x, shape_argument([*dims[:axis], *sizes, *dims[axis + 1 :]]))


def read_ravel(x: Any) -> Any:
    return ops.reshape(x, [-1])


def read_squeeze(x: Any, dim: Any = None) -> Any:
    """Axes of another length than 1 stay, also those of symbolic length."""
    rank = rank_of(x)
    chosen = [dim] if isinstance(dim, int) else dim
    wanted = range(rank) if dim is None else [axis_of(d, x) for d in chosen]
    dims = x.type.shape.dims
    axes = {a for a in wanted if rank and isinstance(dims[a], int) and dims[a] == 1}
    return ops.squeeze(x, sorted(axes)) if axes else ops.identity(x)


def read_unsqueeze(x: Any, dim: int) -> Any:
    return ops.expand_dims(x, [axis_of(dim, x, 1)])


def permute(x: Any, dims: Sequence[int]) -> Any:
    return ops.transpose(x, perm=tuple(d % max(rank_of(x), 1) for d in dims))


def read_permute(x: Any, dims: Sequence[int]) -> Any:
    return permute(x, dims) if rank_of(x) else ops.identity(x)


def read_transpose(x: Any, a: int, b: int) -> Any:
    if rank_of(x) < 2:
        return ops.identity(x)
    perm = list(range(rank_of(x)))
    a, b = axis_of(a, x), axis_of(b, x)
    perm[a], perm[b] = perm[b], perm[a]
    return ops.transpose(x, perm=tuple(perm))


def read_reversed(x: Any) -> Any:
    return ops.transpose(x) if rank_of(x) > 1 else ops.identity(x)


def read_matrix_transpose(x: Any) -> Any:
    return ops.swap_last(x) if rank_of(x) > 1 else ops.identity(x)


def read_adjoint(x: Any) -> Any:
    y = read_matrix_transpose(x)
    return ops.conj(y) if y.dtype.kind == "complex" else y


def read_movedim(x: Any, source: Any, destination: Any) -> Any:
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    moved = {
        axis_of(t, x): axis_of(s, x) for s, t in zip(sources, targets, strict=True)
    }
    rest = iter(i for i in range(rank_of(x)) if i not in moved.values())
    return permute(
        x, [moved[i] if i in moved else next(rest) for i in range(rank_of(x))]
    )


def read_expand(x: Any, size: Sequence[Any], implicit: bool = False) -> Any:
    """-1 keeps the size of an axis."""
    del implicit
    new = len(size) - rank_of(x)
    items = [
        _kept_size(x, i - new) if isinstance(s, int) and s == -1 else s
        for i, s in enumerate(size)
    ]
    return ops.broadcast_to(x, shape_argument(items))


def _kept_size(x: Any, axis: int) -> Any:
    size = x.type.shape.dims[axis]
    return size if isinstance(size, int) else ops.dim(x, axis=axis)


def read_expand_as(x: Any, other: Any) -> Any:
    return ops.broadcast_to(x, ops.shape_of(other))


def read_broadcast_tensors(xs: Sequence[Any]) -> Any:
    total = ops.zeros_like(xs[0])
    shape = total
    for x in xs:
        shape = shape + cast_to(ops.zeros_like(x), total.dtype)
    return tuple(ops.broadcast_to(x, ops.shape_of(shape)) for x in xs)


def read_sum_to_size(x: Any, size: Sequence[Any]) -> Any:
    rank, count = rank_of(x), len(size)
    if any(not isinstance(s, int) for s in size):
        raise Decline("sum_to_size of sizes known at run time only")
    dims = x.type.shape.dims
    axes = list(range(rank - count)) + [
        rank - count + i
        for i, s in enumerate(size)
        if s == 1 and dims[rank - count + i] != 1
    ]
    y = ops.sum(x, axes, keepdims=True) if axes else x
    return ops.reshape(y, list(size))


def read_repeat(x: Any, repeats: Sequence[Any]) -> Any:
    more = len(repeats) - rank_of(x)
    y = ops.expand_dims(x, list(range(more))) if more else x
    return ops.tile(y, shape_argument(repeats)) if repeats else ops.identity(x)


def read_tile(x: Any, dims: Sequence[Any]) -> Any:
    missing = max(rank_of(x) - len(dims), 0)
    return read_repeat(x, [1] * missing + list(dims))


def read_repeat_interleave(x: Any, repeats: Any, dim: int | None = None, *,
                           output_size: Any = None) -> Any:  # fmt: skip
    del output_size
    if dim is None or not rank_of(x):
        x, dim = ops.reshape(x, [-1]), 0
    axis = axis_of(dim, x)
    if isinstance(repeats, int):
        return ops.repeat(x, repeats, axis=axis)
    return ops.repeat(x, ops.reshape(scalar(repeats), [-1]), axis=axis)


def read_repeated_indices(repeats: Any, *, output_size: Any = None) -> Any:
    """Each index as often as its item says."""
    del output_size
    return ops.repeat(ops.arange(0, ops.size(repeats)), repeats, axis=0)


def read_sym_size(x: Any, dim: int) -> Any:
    return ops.dim(x, axis=axis_of(dim, x))


def read_numel(x: Any) -> Any:
    return ops.size(x)


def read_at_least(count: int) -> Any:
    """A tensor of at least this rank: a matrix becomes [..., 1], a vector a row."""

    def read(x: Any) -> Any:
        rank = rank_of(x)
        if rank >= count:
            return ops.identity(x)
        if rank == 0:
            return ops.reshape(x, [1] * count)
        if rank == 1:
            return ops.expand_dims(x, [0] if count == 2 else [0, 2])
        return ops.expand_dims(x, [2])

    return read


def read_at_least_each(count: int) -> Any:
    def read(xs: Sequence[Any]) -> Any:
        return tuple(read_at_least(count)(x) for x in xs)

    return read


def take_slice(x: Any, axis: int, start: Any, stop: Any, step: int = 1) -> Any:
    """A slice along one axis; ends may be values."""
    starts, stops = (shape_argument([v]) for v in (start, stop))
    return ops.slice_(x, starts, stops, [axis], [step])


def read_slice(x: Any, dim: int = 0, start: Any = None, end: Any = None,
               step: Any = 1) -> Any:  # fmt: skip
    stop = END if end is None or (isinstance(end, int) and end > END) else end
    return take_slice(x, axis_of(dim, x), 0 if start is None else start, stop,
                      integer(step, "step"))  # fmt: skip


def read_narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    axis = axis_of(dim, x)
    if isinstance(start, int) and start < 0 and isinstance(length, int):
        start = start + integer(x.type.shape.dims[axis], "the size")
    both = isinstance(start, int) and isinstance(length, int)
    stop = start + length if both else scalar(start) + scalar(length)
    return take_slice(x, axis, start, stop)


def read_select(x: Any, dim: int, index: Any) -> Any:
    at = np.asarray(index, "int64") if isinstance(index, int) else index
    return ops.gather(x, at, axis_of(dim, x))


def read_unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    """Windows along an axis; their elements are a new last axis."""
    if not rank_of(x):
        return ops.reshape(
            ops.gather(ops.reshape(x, [1]), np.zeros(size, "int64")), [size]
        )
    axis = axis_of(dimension, x)
    last = rank_of(x) - 1
    y = read_movedim(x, axis, last)
    count = (dims_of(x)[axis] - size) // step + 1
    starts = ops.expand_dims(count_up(0, count) * np.int64(step), [1])
    y = ops.gather(y, starts + np.arange(size, dtype="int64")[None, :], last)
    return read_movedim(y, last, axis)


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    place = np.full([1] * len(size), offset)
    for axis, (n, s) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = n
        place = place + (np.arange(n) * s).reshape(shape)
    return place.astype("int64")


def read_as_strided(x: Any, size: Any, stride: Any, storage_offset: int | None = None,
                    *, context: Any) -> Any:  # fmt: skip
    """Elements of a tensor that lies in rows, as functionalization gives it."""
    _require_known_memory(context)
    flat = ops.reshape(x, [-1])
    return ops.gather(flat, _places(size, stride, storage_offset or 0), 0)


def read_as_strided_scatter(x: Any, src: Any, size: Any, stride: Any,
                            storage_offset: int | None = None,
                            *, context: Any) -> Any:  # fmt: skip
    _require_known_memory(context)
    place = _places(size, stride, storage_offset or 0).reshape(-1)
    flat = ops.scatter_elements(
        ops.reshape(x, [-1]), place, ops.reshape(src, [-1]), axis=0
    )
    return ops.reshape(flat, ops.shape_of(x))


def _require_known_memory(context: Any) -> None:
    reason = context.source.attrs.get(MEMORY_NOTE)
    if reason is not None:
        raise Decline(reason)


def read_flip(x: Any, dims: Sequence[int]) -> Any:
    axes = [axis_of(d, x) for d in dims]
    return ops.flip(x, axes) if axes and rank_of(x) else ops.identity(x)


def read_roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        flat = ops.roll(ops.reshape(x, [-1]), shape_argument(shifts), axes=(0,))
        return ops.reshape(flat, ops.shape_of(x))
    if not rank_of(x):
        return ops.identity(x)
    dims = [dims] if isinstance(dims, int) else dims
    return ops.roll(x, shape_argument(shifts), axes=tuple(axis_of(d, x) for d in dims))


def read_rot90(x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    a, b = (axis_of(d, x) for d in dims)
    turns = k % 4
    if turns == 0:
        return ops.identity(x)
    if turns == 2:
        return ops.flip(x, [a, b])
    if turns == 1:
        return read_transpose(ops.flip(x, [b]), a, b)
    return ops.flip(read_transpose(x, a, b), [b])


def read_pixel_shuffle(x: Any, factor: int) -> Any:
    """Channels become blocks of the last two axes."""
    *batch, c, h, w = _dims(x)
    r, rank = factor, rank_of(x)
    y = ops.reshape(x, shape_argument([*batch, _ratio(c, r * r), r, r, h, w]))
    n = len(batch)
    y = permute(y, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    del rank
    return ops.reshape(
        y, shape_argument([*batch, _ratio(c, r * r), _product(h, r), _product(w, r)])
    )


def read_pixel_unshuffle(x: Any, factor: int) -> Any:
    *batch, c, h, w = _dims(x)
    r, n = factor, len(_dims(x)) - 3
    y = ops.reshape(x, shape_argument([*batch, c, _ratio(h, r), r, _ratio(w, r), r]))
    y = permute(y, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return ops.reshape(
        y, shape_argument([*batch, _product(c, r * r), _ratio(h, r), _ratio(w, r)])
    )


def read_channel_shuffle(x: Any, groups: int) -> Any:
    n, c, *rest = _dims(x)
    y = ops.reshape(x, shape_argument([n, groups, _ratio(c, groups), *rest]))
    y = permute(y, [0, 2, 1, *range(3, 3 + len(rest))])
    return ops.reshape(y, shape_argument([n, c, *rest]))


def _dims(x: Any) -> list[Any]:
    return [
        d if isinstance(d, int) else ops.dim(x, axis=i)
        for i, d in enumerate(x.type.shape.dims)
    ]


def _ratio(a: Any, b: int) -> Any:
    return a // b if isinstance(a, int) else a // np.int64(b)


def _product(a: Any, b: int) -> Any:
    return a * b if isinstance(a, int) else a * np.int64(b)


def read_resize(x: Any, size: Sequence[Any], *, context: Any) -> Any:
    """The first elements in a new shape, zeros behind them."""
    _require_known_memory(context)
    expect(all(isinstance(n, int) for n in size), "a size known at run time only")
    flat, count = ops.reshape(x, [-1]), math.prod(size)
    more = ops.zeros([count], dtype=x.dtype)
    return ops.reshape(ops.slice_(ops.concat(flat, more), [0], [count]), list(size))


def read_resize_as(x: Any, other: Any, *, context: Any) -> Any:
    return read_resize(x, list(other.type.shape.dims), context=context)


READ = torch_functions(
    {
        "view reshape _unsafe_view view_copy _reshape_alias": read_reshape,
        "view.dtype view_copy.dtype": read_view_dtype,
        "view_as reshape_as": read_like,
        "flatten.using_ints": read_flatten,
        "unflatten.int": read_unflatten,
        "ravel": read_ravel,
        "squeeze squeeze.dim squeeze.dims squeeze_copy squeeze_copy.dim "
        "squeeze_copy.dims": read_squeeze,
        "unsqueeze unsqueeze_copy": read_unsqueeze,
        "permute permute_copy": read_permute,
        "transpose.int transpose_copy.int swapaxes swapdims": read_transpose,
        "t t_copy numpy_T": read_reversed,
        "mT": read_matrix_transpose,
        "mH matrix_H adjoint": read_adjoint,
        "movedim.int movedim.intlist moveaxis.int moveaxis.intlist": read_movedim,
        "expand expand_copy broadcast_to": read_expand,
        "expand_as": read_expand_as,
        "broadcast_tensors": read_broadcast_tensors,
        "sum_to_size": read_sum_to_size,
        "repeat": read_repeat,
        "tile": read_tile,
        "repeat_interleave.self_int repeat_interleave.self_Tensor":
            read_repeat_interleave,
        "repeat_interleave.Tensor": read_repeated_indices,
        "sym_size.int": read_sym_size,
        "sym_numel": read_numel,
        "atleast_1d": read_at_least(1),
        "atleast_2d": read_at_least(2),
        "atleast_3d": read_at_least(3),
        "atleast_1d.Sequence": read_at_least_each(1),
        "atleast_2d.Sequence": read_at_least_each(2),
        "atleast_3d.Sequence": read_at_least_each(3),
        "slice.Tensor slice_copy.Tensor": read_slice,
        "narrow narrow_copy narrow.Tensor": read_narrow,
        "select.int select_copy.int": read_select,
        "unfold unfold_copy": read_unfold,
        "as_strided as_strided_copy": read_as_strided,
        "as_strided_scatter": read_as_strided_scatter,
        "flip": read_flip,
        "fliplr": lambda x: ops.flip(x, [1]),
        "flipud": lambda x: ops.flip(x, [0]),
        "roll": read_roll,
        "rot90": read_rot90,
        "pixel_shuffle": read_pixel_shuffle,
        "pixel_unshuffle": read_pixel_unshuffle,
        "channel_shuffle native_channel_shuffle": read_channel_shuffle,
        "resize": read_resize,
        "resize_as": read_resize_as,
    }
)  # fmt: skip
