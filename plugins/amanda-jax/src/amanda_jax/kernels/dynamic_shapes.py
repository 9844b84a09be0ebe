"""Kernels of ops whose result size depends on data: computed at the maximum size, then
cut.

XLA computes the largest result possible and counts its valid elements; Python reads the
count, and cuts. Empty inputs are left to the NumPy definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda.errors import UsageError
from amanda_jax.kernels.array_ops import is_nonzero
from amanda_std.backends import NUMPY, use_kernels
from amanda_std.ops import OPS

__all__ = ["KERNELS", "MAXIMUM_KERNELS", "numpy_kernel"]

INDEX: Final = "int64"
Cut = tuple[int | None, ...]
"""The axis along which each result is cut to the count, or None."""


def numpy_kernel(name: str) -> Callable[..., Any]:
    """The op by its definition on NumPy arrays."""
    function = OPS[name].implementation(NUMPY)

    def kernel(*args: Any, **attrs: Any) -> Any:
        with use_kernels(NUMPY):
            return function(*map(_to_numpy, args), **attrs)

    return kernel


def _to_numpy(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return jax.tree.map(_to_numpy, value)
    return np.asarray(value) if isinstance(value, jax.Array) else value


def _cutting_kernel(
    name: str, maximum: Callable[..., Any], cut: Callable[[Mapping[str, Any]], Cut]
) -> Callable[..., Any]:
    """A kernel that computes the maximum result and its count in XLA, and cuts it."""
    definition = numpy_kernel(name)
    jitted_by_attrs: dict[Any, Any] = {}

    @wraps(OPS[name].function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        if any(np.size(a) == 0 for a in args if a is not None):
            return definition(*args, **attrs)
        key = tuple(sorted(attrs.items()))
        jitted = jitted_by_attrs.get(key)
        if jitted is None:
            jitted = jitted_by_attrs[key] = jax.jit(partial(maximum, **attrs))
        *results, valid = jitted(*args)
        count = int(valid)
        if count < 0:
            raise UsageError(
                f"{name}: the condition is true beyond the end of the axis"
            )
        cut_results = tuple(
            whole if axis is None else _first(whole, count, axis)
            for whole, axis in zip(results, cut(attrs), strict=True)
        )
        return cut_results if OPS[name].form.many else cut_results[0]

    return kernel


def _first(whole: jax.Array, count: int, axis: int) -> Any:
    """The first elements along an axis; of an array in host memory without a copy.

    JAX compiles a slice for each count."""
    if all(device.platform == "cpu" for device in whole.devices()):
        at = axis % whole.ndim
        return np.asarray(whole)[(slice(None),) * at + (slice(count),)]
    return lax.slice_in_dim(whole, 0, count, axis=axis)


# -- indices -----------------------------------------------------------------------


def _true_indices(flags: Any) -> tuple[Any, Any]:
    """The indices at which a row of flags is true, these first; and their number."""
    rank = jnp.cumsum(flags, dtype=INDEX)
    indices = jnp.where(flags, rank - 1, flags.size)
    row = jnp.arange(flags.size, dtype=INDEX)
    return jnp.zeros_like(row).at[indices].set(row, mode="drop"), rank[-1]


def _nonzero(x: Any) -> Any:
    x = jnp.asarray(x)
    indices, count = _true_indices(is_nonzero(x).reshape(-1))
    rows = jnp.unravel_index(indices, x.shape)
    nothing = jnp.zeros((0, x.size), INDEX)
    return jnp.stack(rows).astype(INDEX) if rows else nothing, count


def _compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    x = jnp.asarray(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    flags = jnp.asarray(condition).reshape(-1)
    size = x.shape[axis]
    indices, count = _true_indices(flags[:size])
    return jnp.take(x, indices, axis), jnp.where(jnp.any(flags[size:]), -1, count)


def _unique(x: Any, *, axis: int | None = None, sorted: bool = True) -> Any:
    x = jnp.asarray(x)
    maximum = x.size if axis is None else x.shape[axis]
    results, first, inverse, counts = jnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis,
        size=maximum,
    )  # fmt: skip
    inverse, is_valid = inverse.reshape(-1), counts > 0
    if not sorted:
        order = jnp.argsort(jnp.where(is_valid, first, maximum))
        back = jnp.argsort(order)
        results = jnp.take(results, order, axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    rest = (part.astype(INDEX) for part in (first, inverse, counts))
    return results, *rest, jnp.sum(is_valid)


# -- boxes -------------------------------------------------------------------------


def _nms(
    boxes: Any, scores: Any, limit: Any = None, overlap: Any = None, least: Any = None,
    *, centered: bool = False,
) -> Any:  # fmt: skip
    """Non-maximum suppression (NMS) of each class."""
    boxes, scores = (jnp.asarray(v).astype("float64") for v in (boxes, scores))
    defaults = (limit, scores.shape[-1]), (overlap, 0.0), (least, -jnp.inf)
    maximum, max_overlap, min_score = (
        jnp.asarray(other) if value is None else jnp.asarray(value).reshape(())
        for value, other in defaults
    )
    select = partial(
        _select_boxes, maximum=maximum, max_overlap=max_overlap, min_score=min_score
    )
    select_all = jax.vmap(jax.vmap(select, (None, 0)), (0, 0))
    order, selected = select_all(_corners(boxes, centered), scores)
    indices, count = _true_indices(selected.reshape(-1))
    batch, class_, _ = jnp.unravel_index(indices, selected.shape)
    rows = (batch, class_, order.reshape(-1)[indices])
    return jnp.stack([row.astype(INDEX) for row in rows], 1), count


def _corners(boxes: Any, centered: bool) -> Any:
    a, b = boxes[..., :2], boxes[..., 2:]
    if centered:
        return jnp.concatenate([a - b / 2, a + b / 2], -1)
    return jnp.concatenate([jnp.minimum(a, b), jnp.maximum(a, b)], -1)


def _select_boxes(
    boxes: Any, scores: Any, *, maximum: Any, max_overlap: Any, min_score: Any
) -> Any:
    """The order of the boxes of a class, best first, and which of them are selected."""
    order = jnp.argsort(-scores, stable=True)
    boxes = boxes[order]
    areas = jnp.prod(boxes[:, 2:] - boxes[:, :2], -1)

    def has_candidates(state: Any) -> Any:
        candidates, _, count = state
        return jnp.any(candidates) & (count < maximum)

    def step(state: Any) -> Any:
        candidates, selected, count = state
        best = jnp.argmax(candidates)
        box = boxes[best]
        begin, end = (
            jnp.maximum(box[:2], boxes[:, :2]),
            jnp.minimum(box[2:], boxes[:, 2:]),
        )
        overlap_area = jnp.prod(jnp.maximum(end - begin, 0), -1)
        total = areas + areas[best] - overlap_area
        is_overlapping = (
            (overlap_area > 0) & (areas > 0) & (areas[best] > 0) & (total > 0)
        )
        overlap_ratio = jnp.where(
            is_overlapping, overlap_area / jnp.where(is_overlapping, total, 1), 0
        )
        kept = ~(overlap_ratio > max_overlap)  # all if it is NaN
        candidates = (candidates & kept).at[best].set(False)
        return candidates, selected.at[best].set(True), count + 1

    nothing = jnp.zeros(scores.shape, bool)
    start = (scores[order] > min_score, nothing, jnp.zeros((), maximum.dtype))
    return order, lax.while_loop(has_candidates, step, start)[1]


MAXIMUM_KERNELS: Final[dict[str, tuple[Callable[..., Any], Callable[[Any], Cut]]]] = {
    "nonzero": (_nonzero, lambda _: (1,)),
    "compress": (_compress, lambda attrs: (attrs["axis"] or 0,)),
    "unique": (_unique, lambda attrs: (attrs["axis"] or 0, 0, None, 0)),
    "nms": (_nms, lambda _: (0,)),
}
"""Functions of the maximum result with its count, and how the results are cut."""

KERNELS: Final[dict[str, Callable[..., Any]]] = {
    name: _cutting_kernel(name, maximum, cut)
    for name, (maximum, cut) in MAXIMUM_KERNELS.items()
}
"""Kernels of ops around which a graph is cut, though XLA runs them."""
