"""Primitives that move elements, reduce axes, sort, or gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops

__all__ = ["READ"]


def expect(is_supported: object, reason: str) -> None:
    if not is_supported:
        raise Decline(reason)


def broadcast_in_dim(
    x: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any = None
) -> Any:
    del sharding
    dims = list(x.type.shape)
    inner: list[Any] = [1] * len(shape)
    for own, axis in enumerate(broadcast_dimensions):
        inner[axis] = dims[own]
    x = x if inner == dims else ops.reshape(x, inner)
    return x if inner == list(shape) else ops.broadcast_to(x, list(shape))


def reshape(
    x: Any, *, new_sizes: Any, dimensions: Any = None, sharding: Any = None
) -> Any:
    del sharding
    expect(dimensions is None, "axes are reordered as well")
    return ops.reshape(x, list(new_sizes))


def squeeze(x: Any, *, dimensions: Any) -> Any:
    return ops.squeeze(x, tuple(dimensions)) if dimensions else x


def transpose(x: Any, *, permutation: Any) -> Any:
    return ops.transpose(x, perm=tuple(permutation))


def rev(x: Any, *, dimensions: Any) -> Any:
    return ops.flip(x, tuple(dimensions))


def tile(x: Any, *, reps: Any) -> Any:
    return ops.tile(x, list(reps))


def concatenate(*xs: Any, dimension: int) -> Any:
    return ops.concat(*xs, axis=dimension)


def stack(*xs: Any, axis: int) -> Any:
    return ops.stack(*xs, axis=axis)


def unstack(x: Any, *, axis: int) -> Any:
    count = int(x.type.shape[axis])
    parts = ops.split(x, [1] * count, axis=axis, outputs=count)
    return tuple(ops.squeeze(part, (axis,)) for part in parts)


def slice_(
    x: Any, *, start_indices: Any, limit_indices: Any, strides: Any = None
) -> Any:
    axes = list(range(len(start_indices)))
    steps = list(strides) if strides is not None else None
    return ops.slice(x, list(start_indices), list(limit_indices), axes, steps)


def split(x: Any, *, sizes: Any, axis: int) -> Any:
    return ops.split(x, list(sizes), axis=axis, outputs=len(sizes))


def pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    for axis, (_, _, between) in enumerate(padding_config):
        x = interleave(x, axis, between, value)
    cut = [(max(-a, 0), max(-b, 0)) for a, b, _ in padding_config]
    if any(map(any, cut)):
        dims = list(x.type.shape)
        ends = [int(n) - b for n, (_, b) in zip(dims, cut, strict=True)]
        x = ops.slice(x, [a for a, _ in cut], ends, list(range(len(dims))))
    pads = [(max(a, 0), max(b, 0)) for a, b, _ in padding_config]
    return ops.pad(x, pads, value) if any(map(any, pads)) else x


def interleave(x: Any, axis: int, count: int, value: Any = None) -> Any:
    """`count` elements with a value, or 0, between any two along an axis."""
    size = int(x.type.shape[axis])
    if not count or not size:
        return x
    rank = x.ndim
    wide = ops.expand_dims(x, (axis + 1,))
    pads = [(0, count if i == axis + 1 else 0) for i in range(rank + 1)]
    wide = ops.pad(wide, pads, value)
    dims = [*x.type.shape]
    dims[axis] = size * (count + 1)
    return ops.slice(ops.reshape(wide, dims), [0], [dims[axis] - count], [axis])


def iota(*, dtype: Any, shape: Any, dimension: int, sharding: Any = None) -> Any:
    del sharding
    row = np.arange(shape[dimension]).astype(dtype.numpy)
    dims = [-1 if i == dimension else 1 for i in range(len(shape))]
    return ops.broadcast_to(row.reshape(dims), list(shape))


def dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return (
        ops.dynamic_slice(x, _stack_starts(starts), list(slice_sizes)) if starts else x
    )


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
    if len(xs) == 1:
        return ops.sort(xs[0], axis=dimension)
    order = ops.argsort(xs[num_keys - 1], axis=dimension)
    for key in reversed(xs[: num_keys - 1]):
        by_others = ops.gather_elements(key, order, axis=dimension)
        place = ops.argsort(by_others, axis=dimension)
        order = ops.gather_elements(order, place, axis=dimension)
    return tuple(ops.gather_elements(x, order, axis=dimension) for x in xs)


def top_k(x: Any, *, k: int, axis: int | None = None) -> Any:
    values, positions = ops.topk(x, k, axis=-1 if axis is None else axis)
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
    dims = list(x.type.shape)
    count = indices.ndim - 1
    index = ops.squeeze(indices, (count,))
    if mode not in ("CLIP", "FILL_OR_DROP"):
        return ops.gather(x, index, axis)
    last = np.asarray(int(dims[axis]) - 1, index.dtype.numpy)
    clipped_index = clip_index(index, last)
    gathered = ops.gather(x, clipped_index, axis)
    if mode == "CLIP":
        return gathered
    trailing = tuple(range(count, count + len(dims) - axis - 1))
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
    return ops.minimum(ops.maximum(index, np.zeros_like(last)), last)


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
