"""Primitives that move elements, reduce axes, or look elements up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops

__all__ = ["READ"]


def expect(fine: object, why: str) -> None:
    if not fine:
        raise Decline(why)


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
    expect(dimensions is None, "axes are reordered on the way")
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


def slice_(
    x: Any, *, start_indices: Any, limit_indices: Any, strides: Any = None
) -> Any:
    axes = list(range(len(start_indices)))
    steps = list(strides) if strides is not None else None
    return ops.slice(x, list(start_indices), list(limit_indices), axes, steps)


def split(x: Any, *, sizes: Any, axis: int) -> Any:
    return ops.split(x, list(sizes), axis=axis, outputs=len(sizes))


def pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    expect(not any(row[2] for row in padding_config), "elements are spread")
    cut = [(max(-a, 0), max(-b, 0)) for a, b, _ in padding_config]
    if any(map(any, cut)):
        dims = list(x.type.shape)
        ends = [int(n) - b for n, (_, b) in zip(dims, cut, strict=True)]
        x = ops.slice(x, [a for a, _ in cut], ends, list(range(len(dims))))
    pads = [(max(a, 0), max(b, 0)) for a, b, _ in padding_config]
    return ops.pad(x, pads, value) if any(map(any, pads)) else x


def iota(*, dtype: Any, shape: Any, dimension: int, sharding: Any = None) -> Any:
    del sharding
    row = np.arange(shape[dimension]).astype(dtype.numpy)
    dims = [-1 if i == dimension else 1 for i in range(len(shape))]
    return ops.broadcast_to(row.reshape(dims), list(shape))


def dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return ops.dynamic_slice(x, _together(starts), list(slice_sizes))


def dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    return ops.dynamic_update_slice(x, update, _together(starts))


def _together(starts: Sequence[Any]) -> Any:
    return ops.stack(*(ops.astype(s, dtype="int64") for s in starts), axis=0)


# -- reductions ----------------------------------------------------------------------


def _reduction(name: str) -> Callable[..., Any]:
    operation = ops.OPS[name]

    def read(x: Any, *, axes: Any, out_sharding: Any = None) -> Any:
        del out_sharding
        return operation(x, list(axes)) if axes else x

    return read


def _place(name: str) -> Callable[..., Any]:
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
    """One key; what goes along is put in its order."""
    del is_stable
    expect(num_keys == 1, "it is sorted by several keys")
    key, *others = xs
    if not others:
        return ops.sort(key, axis=dimension)
    order = ops.argsort(key, axis=dimension)
    return tuple(ops.gather_elements(x, order, axis=dimension) for x in xs)


def top_k(x: Any, *, k: int, axis: int | None = None) -> Any:
    values, places = ops.topk(x, k, axis=-1 if axis is None else axis)
    return values, ops.astype(places, dtype="int32")


# -- looking up ----------------------------------------------------------------------


def gather(
    x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any = None,
    fill_value: Any = None, indices_are_sorted: Any = None, unique_indices: Any = None,
) -> Any:  # fmt: skip
    """Whole slices along one axis, as `x[i]` and `jnp.take` look them up.

    Places outside are those at the ends, or filled, or promised not to be there.
    """
    del indices_are_sorted, unique_indices
    numbers = dimension_numbers
    collapsed = tuple(numbers["collapsed_slice_dims"])
    dims = list(x.type.shape)
    fine = len(collapsed) == 1 and tuple(numbers["start_index_map"]) == collapsed
    fine = fine and not numbers["operand_batching_dims"]
    expect(fine, "it looks along several axes at once")
    [axis] = collapsed
    whole = [1 if i == axis else n for i, n in enumerate(dims)]
    expect(list(slice_sizes) == whole, "it takes parts of slices")
    count = indices.ndim - 1
    places = [i if i < axis else i + count for i in range(len(dims) - 1)]
    expect(list(numbers["offset_dims"]) == places, "its axes come in another order")
    at = ops.squeeze(indices, (count,))
    if mode not in ("CLIP", "FILL_OR_DROP"):
        return ops.gather(x, at, axis)
    last = np.asarray(int(dims[axis]) - 1, at.dtype.numpy)
    inside = clipped(at, last)
    found = ops.gather(x, inside, axis)
    if mode == "CLIP":
        return found
    behind = tuple(range(count, count + len(dims) - axis - 1))
    kept = ops.expand_dims(ops.equal(at, inside), behind)
    return ops.where(kept, found, filling(x.dtype, fill_value))


def filling(dtype: Any, told: Any) -> Any:
    """What stands where nothing is: NaN, or the number at the end of a whole kind."""
    if told is None:
        kind = str(dtype.kind)
        told = np.nan
        if kind in ("int", "uint"):
            ends = np.iinfo(dtype.numpy)
            told = ends.min if kind == "int" else ends.max
        elif kind == "bool":
            told = True
    return np.asarray(told, dtype.numpy)


def clipped(at: Any, last: Any) -> Any:
    return ops.minimum(ops.maximum(at, np.zeros_like(last)), last)


READ: Final[dict[str, Callable[..., Any]]] = {
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": reshape,
    "squeeze": squeeze,
    "transpose": transpose,
    "rev": rev,
    "tile": tile,
    "concatenate": concatenate,
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
    "argmax": _place("argmax"),
    "argmin": _place("argmin"),
    "cumsum": _cumulative("cumulative_sum"),
    "cumprod": _cumulative("cumulative_prod"),
    "cummax": _cumulative("cumulative_max"),
    "cummin": _cumulative("cumulative_min"),
    "cumlogsumexp": _cumulative("cumulative_logsumexp"),
    "sort": sort,
    "top_k": top_k,
    "gather": gather,
}
