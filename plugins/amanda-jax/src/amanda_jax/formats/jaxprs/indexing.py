"""Primitives that gather and scatter windows at computed places.

A window is read or written by its positions in the operand as one row: the position of
its first element, and the distances of the others from there, which are constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from amanda_jax.formats.jaxprs.shapes import expect, fill_value_of
from amanda_jax.formats.jaxprs.shapes import gather as gather_along_axis
from amanda_jax.formats.jaxprs.sizes import (
    INT64,
    cast_size,
    compute_dims,
    count_along,
    is_same,
    is_zero,
    shape_argument,
    size_vector,
)
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["READ"]

_REPEATED: Final = (
    "elements that occur repeatedly are updated by a function; "
    "pass unique_indices=True if none does"
)


class Windows(NamedTuple):
    """The positions of windows: the axes of the indices, then those of the operand."""

    positions: Any
    is_valid: Any
    """Whether a window is inside the operand; otherwise the nearest inside is meant."""
    batch: int
    """The number of axes of the indices."""

    def choose(self, valid: Any, other: Any) -> Any:
        """The first where a window is valid, else the other one."""
        axes = tuple(range(self.batch, self.positions.ndim))
        return ops.where(ops.expand_dims(self.is_valid, axes), valid, other)


def find_windows(
    dims: Sequence[Any],
    sizes: Sequence[Any],
    indices: Any,
    axes: Sequence[int],
    batching: Mapping[int, int],
) -> Windows:
    """Windows of these sizes, from indices into some axes of an operand.

    `batching` has the axes of the indices that go with axes of the operand."""
    expect(not any(map(is_zero, dims)), "the operand is empty")
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    batch = indices.ndim - 1
    index = ops.astype(indices, dtype="int64")
    last = size_vector([dims[axis] - sizes[axis] for axis in axes])
    inside = ops.minimum(ops.maximum(index, np.int64(0)), last)
    first = ops.sum(inside * size_vector([strides[axis] for axis in axes]), [-1])
    for axis, index_axis in batching.items():
        first = first + count_along(dims[axis], index_axis, batch) * strides[axis]
    distances: Any = np.int64(0)
    for axis, size in enumerate(sizes):
        distances = distances + count_along(size, axis, len(sizes)) * strides[axis]
    spread = ops.expand_dims(first, tuple(range(batch, batch + len(dims))))
    is_valid = ops.all(ops.equal(index, inside), [-1])
    return Windows(spread + distances, is_valid, batch)


def gather(x: Any, indices: Any, *inputs: Any, **parameters: Any) -> Any:
    """Whole slices along one axis, one window, or windows by their positions."""
    numbers = parameters["dimension_numbers"]
    if _is_along_axis(
        numbers, x.type.shape, parameters["slice_sizes"], indices.ndim - 1
    ):
        return gather_along_axis(x, indices, **parameters)
    sizes = compute_dims(parameters["slice_sizes"], inputs)
    if indices.ndim == 1 and parameters.get("mode") != "FILL_OR_DROP":
        return _gather_window(x, indices, sizes, numbers)
    batched = numbers["operand_batching_dims"]
    index_axes = numbers["start_indices_batching_dims"]
    windows = find_windows(
        list(x.shape), sizes, indices, numbers["start_index_map"],
        dict(zip(batched, index_axes, strict=True)),
    )  # fmt: skip
    found = ops.gather(ops.reshape(x, [-1]), windows.positions, 0)
    if parameters.get("mode") == "FILL_OR_DROP":
        fill = fill_value_of(x.dtype, parameters.get("fill_value"))
        found = windows.choose(found, fill)
    dropped = {*numbers["collapsed_slice_dims"], *batched}
    gone = [windows.batch + axis for axis in sorted(dropped)]
    found = ops.squeeze(found, tuple(gone)) if gone else found
    return _permute(found, _axes_in_result(numbers["offset_dims"], windows.batch))


def _gather_window(
    x: Any, index: Any, sizes: Sequence[Any], numbers: Mapping[str, Any]
) -> Any:
    """The window at one index, moved inside where it is not."""
    starts: list[Any] = [np.int64(0)] * len(sizes)
    for i, axis in enumerate(numbers["start_index_map"]):
        starts[axis] = ops.astype(ops.gather(index, np.int64(i), 0), dtype="int64")
    window = ops.dynamic_slice(x, ops.stack(*starts, axis=0), shape_argument(sizes))
    collapsed = tuple(numbers["collapsed_slice_dims"])
    return ops.squeeze(window, collapsed) if collapsed else window


def _is_along_axis(
    numbers: Mapping[str, Any], dims: Iterable[Any], sizes: Sequence[Any], batch: int
) -> bool:
    """Whether it gathers whole slices along one axis, in the order of `x[i]`."""
    collapsed = list(numbers["collapsed_slice_dims"])
    if len(collapsed) != 1 or list(numbers["start_index_map"]) != collapsed:
        return False
    [axis] = collapsed
    whole = [1 if i == axis else n for i, n in enumerate(dims)]
    places = [i if i < axis else i + batch for i in range(len(whole) - 1)]
    is_whole = is_same(sizes, whole) and list(numbers["offset_dims"]) == places
    return is_whole and not numbers["operand_batching_dims"]


def _axes_in_result(window_axes: Sequence[int], batch: int) -> list[int]:
    """For each axis of a result, its place among the batch axes, then the window's."""
    rank = batch + len(window_axes)
    order = iter(range(batch))
    places = {axis: batch + i for i, axis in enumerate(window_axes)}
    return [places[axis] if axis in places else next(order) for axis in range(rank)]


def _permute(x: Any, order: Sequence[int]) -> Any:
    perm = tuple(order)
    return x if perm == tuple(range(len(perm))) else ops.transpose(x, perm=perm)


def scatter(
    x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any,
    indices_are_sorted: Any = None, unique_indices: Any = None,
    update_jaxpr: Any = None, update_consts: Any = None, reduction: str = "none",
) -> Any:  # fmt: skip
    """Write windows; those that are not inside are left out, unless `mode` clips."""
    del indices_are_sorted, update_consts
    numbers = dimension_numbers
    dims = list(x.shape)
    window_axes = list(numbers["update_window_dims"])
    batched = numbers["operand_batching_dims"]
    inserted = {*numbers["inserted_window_dims"], *batched}
    of_window = iter([updates.shape[axis] for axis in window_axes])
    sizes = [1 if axis in inserted else next(of_window) for axis in range(len(dims))]
    windows = find_windows(
        dims, sizes, indices, numbers["scatter_dims_to_operand_dims"],
        dict(zip(batched, numbers["scatter_indices_batching_dims"], strict=True)),
    )  # fmt: skip
    is_scatter = [axis for axis in range(updates.ndim) if axis not in window_axes]
    row = ops.reshape(_permute(updates, [*is_scatter, *window_axes]), [-1])
    count = prod(dims)
    outside = cast_size(count, INT64)
    positions = windows.positions
    flat = ops.reshape(x, [-1])
    if mode != "CLIP":
        positions = windows.choose(positions, outside)
        flat = ops.pad(flat, [(0, 1)])
    places = ops.reshape(positions, [-1])
    if reduction == "none" and update_jaxpr is not None:
        expect(unique_indices or indices.ndim == 1, _REPEATED)
        in_place = ops.gather(flat, ops.minimum(places, outside - 1), 0)
        [row] = inline_body(update_jaxpr, (in_place, row))
    made = ops.scatter_elements(flat, places, row, axis=0, reduction=reduction)
    kept = ops.slice(made, [0], shape_argument([count]), [0])
    return ops.reshape(kept, shape_argument(dims))


def _scatter_by(reduction: str) -> Callable[..., Any]:
    def read(x: Any, indices: Any, updates: Any, **parameters: Any) -> Any:
        return scatter(x, indices, updates, reduction=reduction, **parameters)

    return read


def scatter_subtract(x: Any, indices: Any, updates: Any, **parameters: Any) -> Any:
    return scatter(x, indices, -updates, reduction="add", **parameters)


READ: Final[dict[str, Callable[..., Any]]] = {
    "gather": gather,
    "scatter": scatter,
    "scatter-add": _scatter_by("add"),
    "scatter-sub": scatter_subtract,
    "scatter-mul": _scatter_by("mul"),
    "scatter-max": _scatter_by("max"),
    "scatter-min": _scatter_by("min"),
}
