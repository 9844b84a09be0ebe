"""Primitives that move elements, reduce axes, sort, or gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda.types import Dim, Sym
from amanda_jax.formats.jaxprs.sizes import (
    END,
    cast_size,
    compute_dims,
    count_up,
    is_same,
    is_zero,
    shape_argument,
)
from amanda_std import ops

__all__ = [
    "READ",
    "clip_index",
    "expect",
    "fill_value_of",
    "gather",
    "interleave",
    "pad_ends",
]


def expect(is_supported: object, reason: str) -> None:
    if not is_supported:
        raise Decline(reason)


def broadcast_in_dim(
    x: Any, *sizes: Any, shape: Any, broadcast_dimensions: Any, sharding: Any = None
) -> Any:
    del sharding
    dims: list[Any] = [1] * len(shape)
    for own, axis in zip(x.type.shape, broadcast_dimensions, strict=True):
        dims[axis] = own
    new_axes = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    x = ops.expand_dims(x, new_axes) if new_axes else x
    if is_same(dims, shape):
        return x
    return ops.broadcast_to(x, shape_argument(compute_dims(shape, sizes)))


def reshape(
    x: Any, *sizes: Any, new_sizes: Any, dimensions: Any = None, sharding: Any = None
) -> Any:
    """With one symbolic size, the shape is a list, from which that size is inferred.

    `dimensions` is the order in which the axes are read."""
    del sharding
    if dimensions is not None:
        x = ops.transpose(x, perm=tuple(dimensions))
    symbolic = [isinstance(size, Sym) for size in new_sizes]
    if symbolic.count(True) == 1 and not any(map(is_zero, new_sizes)):
        return ops.reshape(x, [-1 if isinstance(n, Sym) else n for n in new_sizes])
    return ops.reshape(x, shape_argument(compute_dims(new_sizes, sizes)))


def squeeze(x: Any, *, dimensions: Any) -> Any:
    return ops.squeeze(x, tuple(dimensions)) if dimensions else x


def transpose(x: Any, *, permutation: Any) -> Any:
    return ops.transpose(x, perm=tuple(permutation))


def rev(x: Any, *, dimensions: Any) -> Any:
    return ops.flip(x, tuple(dimensions))


def tile(x: Any, *sizes: Any, reps: Any) -> Any:
    return ops.tile(x, shape_argument(compute_dims(reps, sizes)))


def concatenate(*xs: Any, dimension: int) -> Any:
    return ops.concat(*xs, axis=dimension)


def stack(*xs: Any, axis: int) -> Any:
    return ops.stack(*xs, axis=axis)


def unstack(x: Any, *, axis: int) -> Any:
    count = int(x.type.shape[axis])
    parts = ops.split(x, [1] * count, axis=axis, outputs=count)
    return tuple(ops.squeeze(part, (axis,)) for part in parts)


def slice_(
    x: Any, *sizes: Any, start_indices: Any, limit_indices: Any, strides: Any = None
) -> Any:
    axes = list(range(len(start_indices)))
    starts, stops = (
        shape_argument(compute_dims(dims, sizes))
        for dims in (start_indices, limit_indices)
    )
    return ops.slice(x, starts, stops, axes, None if strides is None else list(strides))


def split(x: Any, *inputs: Any, sizes: Any, axis: int) -> Any:
    parts = shape_argument(compute_dims(sizes, inputs))
    return ops.split(x, parts, axis=axis, outputs=len(sizes))


def pad(x: Any, value: Any, *sizes: Any, padding_config: Any) -> Any:
    """Elements between others and at the ends are added before any are cut off."""
    for axis, (_, _, between) in enumerate(padding_config):
        x = interleave(x, axis, between, value)
    return pad_ends(x, value, [pair for *pair, _ in padding_config], sizes)


def pad_ends(x: Any, value: Any, padding: Any, sizes: Sequence[Any]) -> Any:
    """An array with elements added, or cut off, at both ends of each axis."""
    ends = [_added_and_cut(count) for pair in padding for count in pair]
    if not ends:
        return x
    added, cut = (compute_dims(counts, sizes) for counts in zip(*ends, strict=True))
    if any(not is_zero(n) for n in added):
        x = ops.pad(x, shape_argument(added, width=2), value)
    return _cut_off(x, cut[::2], cut[1::2])


def _added_and_cut(count: Dim) -> tuple[Dim, Dim]:
    """How many elements a padding adds, and how many it cuts off."""
    return (0, -count) if count < 0 else (count, 0)


def _cut_off(x: Any, before: Sequence[Any], after: Sequence[Any]) -> Any:
    """All but so many first and last elements along each axis."""
    rows = enumerate(zip(before, after, strict=True))
    axes = [i for i, pair in rows if not all(map(is_zero, pair))]
    if not axes:
        return x
    starts = shape_argument([before[i] for i in axes])
    stops = [END if is_zero(after[i]) else -after[i] for i in axes]
    return ops.slice(x, starts, shape_argument(stops), axes)


def interleave(x: Any, axis: int, count: int, value: Any = None) -> Any:
    """`count` elements with a value, or 0, between any two along an axis."""
    if not count:
        return x
    rank = x.ndim
    wide = ops.expand_dims(x, (axis + 1,))
    pads = [(0, count if i == axis + 1 else 0) for i in range(rank + 1)]
    wide = ops.pad(wide, pads, value)
    dims = [*x.shape]
    dims[axis] = dims[axis] * (count + 1)
    merged = ops.reshape(wide, shape_argument(dims))
    return ops.slice(merged, [0], [-count], [axis])


def iota(
    *sizes: Any, dtype: Any, shape: Any, dimension: int, sharding: Any = None
) -> Any:
    del sharding
    computed = compute_dims(shape, sizes)
    row = count_up(computed[dimension], dtype)
    if len(shape) == 1:
        return row
    dims = [-1 if i == dimension else 1 for i in range(len(shape))]
    return ops.broadcast_to(ops.reshape(row, dims), shape_argument(computed))


def dim_as_value(*sizes: Any, dim: Any, context: Any) -> Any:
    [size] = compute_dims([dim], sizes)
    return cast_size(size, context.source.output.type.dtype)


def dimension_size(x: Any, *, dimension: int) -> Any:
    return ops.dim(x, axis=dimension)


def dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    if not slice_sizes:
        return x
    rank = len(slice_sizes)
    sizes = shape_argument(compute_dims(slice_sizes, starts[rank:]))
    return ops.dynamic_slice(x, _stack_starts(starts[:rank]), sizes)


def dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    return (
        ops.dynamic_update_slice(x, update, _stack_starts(starts)) if starts else update
    )


def _stack_starts(starts: Sequence[Any]) -> Any:
    return ops.stack(*(ops.astype(s, dtype="int64") for s in starts), axis=0)


# -- reductions ----------------------------------------------------------------------


def _reduction(name: str) -> Callable[..., Any]:
    operation = ops.OPS[name]

    def read(x: Any, *, axes: Any, out_sharding: Any = None) -> Any:
        del out_sharding
        return operation(x, list(axes)) if axes else x

    return read


def _arg_reduction(name: str) -> Callable[..., Any]:
    operation = ops.OPS[name]

    def read(x: Any, *, axes: Any, index_dtype: Any) -> Any:
        [axis] = axes
        x = ops.astype(x, dtype="uint8") if x.dtype.kind == "bool" else x
        return ops.astype(operation(x, axis), dtype=index_dtype)

    return read


def _cumulative(name: str) -> Callable[..., Any]:
    operation = ops.OPS[name]

    def read(x: Any, *, axis: int, reverse: bool) -> Any:
        return operation(x, axis, reverse=reverse)

    return read


def sort(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """By the first operands; the others are permuted in the same order."""
    del is_stable
    keys = [part for key in xs[:num_keys] for part in _sortable_parts(key)]
    if len(xs) == 1 and keys[0] is xs[0]:
        return ops.sort(xs[0], axis=dimension)
    order = ops.argsort(keys[-1], axis=dimension)
    for key in reversed(keys[:-1]):
        by_others = ops.gather_elements(key, order, axis=dimension)
        place = ops.argsort(by_others, axis=dimension)
        order = ops.gather_elements(order, place, axis=dimension)
    return tuple(ops.gather_elements(x, order, axis=dimension) for x in xs)


def _sortable_parts(key: Any) -> list[Any]:
    """Conditions as integers, complex numbers as their real and imaginary parts."""
    if key.dtype.kind == "complex":
        return [ops.real(key), ops.imag(key)]
    return [ops.astype(key, dtype="uint8") if key.dtype.kind == "bool" else key]


def top_k(x: Any, *sizes: Any, k: Dim, axis: int | None = None) -> Any:
    [count] = compute_dims([k], sizes)
    values, positions = ops.topk(x, count, axis=-1 if axis is None else axis)
    return values, ops.astype(positions, dtype="int32")


# -- looking up ----------------------------------------------------------------------


def gather(
    x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any = None,
    fill_value: Any = None, indices_are_sorted: Any = None, unique_indices: Any = None,
) -> Any:  # fmt: skip
    """Whole slices along one axis, as `x[i]` and `jnp.take` gather them.

    Indices out of bounds are clipped, filled, or guaranteed not to occur."""
    del slice_sizes, indices_are_sorted, unique_indices
    [axis] = dimension_numbers["collapsed_slice_dims"]
    count = indices.ndim - 1
    index = ops.squeeze(indices, (count,))
    if mode not in ("CLIP", "FILL_OR_DROP"):
        return ops.gather(x, index, axis)
    last = cast_size(x.shape[axis] - 1, index.dtype)
    clipped_index = clip_index(index, last)
    gathered = ops.gather(x, clipped_index, axis)
    if mode == "CLIP":
        return gathered
    trailing = tuple(range(count, count + x.ndim - axis - 1))
    is_valid = ops.expand_dims(ops.equal(index, clipped_index), trailing)
    return ops.where(is_valid, gathered, fill_value_of(x.dtype, fill_value))


def fill_value_of(dtype: Any, fill: Any) -> Any:
    """The fill value of a gather: NaN, or the limit of an integer type."""
    if fill is None:
        kind = str(dtype.kind)
        fill = np.nan
        if kind in ("int", "uint"):
            ends = np.iinfo(dtype.numpy)
            fill = ends.min if kind == "int" else ends.max
        elif kind == "bool":
            fill = True
    return np.asarray(fill, dtype.numpy)


def clip_index(index: Any, last: Any) -> Any:
    return ops.minimum(ops.maximum(index, np.zeros((), index.dtype.numpy)), last)


READ: Final[dict[str, Callable[..., Any]]] = {
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": reshape,
    "squeeze": squeeze,
    "transpose": transpose,
    "rev": rev,
    "tile": tile,
    "concatenate": concatenate,
    "stack": stack,
    "unstack": unstack,
    "slice": slice_,
    "split": split,
    "pad": pad,
    "iota": iota,
    "dim_as_value": dim_as_value,
    "dimension_size": dimension_size,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "reduce_sum": _reduction("sum"),
    "reduce_prod": _reduction("prod"),
    "reduce_max": _reduction("max"),
    "reduce_min": _reduction("min"),
    "reduce_and": _reduction("all"),
    "reduce_or": _reduction("any"),
    "argmax": _arg_reduction("argmax"),
    "argmin": _arg_reduction("argmin"),
    "cumsum": _cumulative("cumulative_sum"),
    "cumprod": _cumulative("cumulative_prod"),
    "cummax": _cumulative("cumulative_max"),
    "cummin": _cumulative("cumulative_min"),
    "cumlogsumexp": _cumulative("cumulative_logsumexp"),
    "sort": sort,
    "top_k": top_k,
}
