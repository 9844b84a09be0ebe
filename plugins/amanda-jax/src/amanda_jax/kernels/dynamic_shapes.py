"""Ops of which data decides how much comes out: made at the largest, then cut.

XLA makes everything and counts how much of it there is; the host reads the count, and
that is all it does. What has no element to look at is left to the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda.errors import UsageError
from amanda_std.backends import NUMPY, use_kernels
from amanda_std.ops import OPS

__all__ = ["MOST", "ROWS", "by_numpy"]

INDEX: Final = "int64"
Cut = tuple[int | None, ...]
"""The axis along which each result is cut to the count; None: it is whole."""


def by_numpy(name: str) -> Callable[..., Any]:
    """The op as its definition has it, on the host."""
    function = OPS[name].implementation(NUMPY)

    def kernel(*args: Any, **attrs: Any) -> Any:
        with use_kernels(NUMPY):
            return function(*map(_on_host, args), **attrs)

    return kernel


def _on_host(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return jax.tree.map(_on_host, value)
    return np.asarray(value) if isinstance(value, jax.Array) else value


def _sized(
    name: str, most: Callable[..., Any], cut: Callable[[Mapping[str, Any]], Cut]
) -> Callable[..., Any]:
    """A kernel of what makes the most there can be, and the count behind it."""
    plainly = by_numpy(name)
    by_attrs: dict[Any, Any] = {}

    @wraps(OPS[name].function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        if any(np.size(a) == 0 for a in args if a is not None):
            return plainly(*args, **attrs)
        key = tuple(sorted(attrs.items()))
        jitted = by_attrs.get(key)
        if jitted is None:
            jitted = by_attrs[key] = jax.jit(partial(most, **attrs))
        *found, counted = jitted(*args)
        count = int(counted)
        if count < 0:
            raise UsageError(f"{name}: a place beyond the end was asked for")
        made = tuple(
            whole if axis is None else lax.slice_in_dim(whole, 0, count, axis=axis)
            for whole, axis in zip(found, cut(attrs), strict=True)
        )
        return made if OPS[name].form.many else made[0]

    return kernel


# -- places ------------------------------------------------------------------------


def _places(flags: Any) -> tuple[Any, Any]:
    """Where a row of flags is true, those places first; and how many there are."""
    rank = jnp.cumsum(flags, dtype=INDEX)
    at = jnp.where(flags, rank - 1, flags.size)
    row = jnp.arange(flags.size, dtype=INDEX)
    return jnp.zeros_like(row).at[at].set(row, mode="drop"), rank[-1]


def _nonzero(x: Any) -> Any:
    x = jnp.asarray(x)
    at, count = _places((x != jnp.zeros((), x.dtype)).reshape(-1))
    rows = jnp.unravel_index(at, x.shape)
    none = jnp.zeros((0, x.size), INDEX)
    return jnp.stack(rows).astype(INDEX) if rows else none, count


def _compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    x = jnp.asarray(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    flags = jnp.asarray(condition).reshape(-1)
    size = x.shape[axis]
    at, count = _places(flags[:size])
    return jnp.take(x, at, axis), jnp.where(jnp.any(flags[size:]), -1, count)


def _unique(x: Any, *, axis: int | None = None, sorted: bool = True) -> Any:
    x = jnp.asarray(x)
    most = x.size if axis is None else x.shape[axis]
    found, first, inverse, counts = jnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis,
        size=most,
    )  # fmt: skip
    inverse, there = inverse.reshape(-1), counts > 0
    if not sorted:
        order = jnp.argsort(jnp.where(there, first, most))
        back = jnp.argsort(order)
        found = jnp.take(found, order, axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    rest = (part.astype(INDEX) for part in (first, inverse, counts))
    return found, *rest, jnp.sum(there)


# -- boxes -------------------------------------------------------------------------


def _nms(
    boxes: Any, scores: Any, limit: Any = None, overlap: Any = None, least: Any = None,
    *, centered: bool = False,
) -> Any:  # fmt: skip
    """Each class on its own: the best that is left stays, what it covers goes."""
    boxes, scores = (jnp.asarray(v).astype("float64") for v in (boxes, scores))
    told = (limit, scores.shape[-1]), (overlap, 0.0), (least, -jnp.inf)
    most, share, low = (
        jnp.asarray(other) if value is None else jnp.asarray(value).reshape(())
        for value, other in told
    )
    of_class = partial(_kept, most=most, share=share, low=low)
    each = jax.vmap(jax.vmap(of_class, (None, 0)), (0, 0))
    order, kept = each(_corners(boxes, centered), scores)
    at, count = _places(kept.reshape(-1))
    batch, class_, _ = jnp.unravel_index(at, kept.shape)
    rows = (batch, class_, order.reshape(-1)[at])
    return jnp.stack([row.astype(INDEX) for row in rows], 1), count


def _corners(boxes: Any, centered: bool) -> Any:
    a, b = boxes[..., :2], boxes[..., 2:]
    if centered:
        return jnp.concatenate([a - b / 2, a + b / 2], -1)
    return jnp.concatenate([jnp.minimum(a, b), jnp.maximum(a, b)], -1)


def _kept(boxes: Any, scores: Any, *, most: Any, share: Any, low: Any) -> Any:
    """The order of the boxes of a class, best first, and which of them stay."""
    order = jnp.argsort(-scores, stable=True)
    boxes = boxes[order]
    areas = jnp.prod(boxes[:, 2:] - boxes[:, :2], -1)

    def goes_on(now: Any) -> Any:
        left, _, count = now
        return jnp.any(left) & (count < most)

    def once(now: Any) -> Any:
        left, kept, count = now
        best = jnp.argmax(left)
        box = boxes[best]
        low_, high = (
            jnp.maximum(box[:2], boxes[:, :2]),
            jnp.minimum(box[2:], boxes[:, 2:]),
        )
        both = jnp.prod(jnp.maximum(high - low_, 0), -1)
        total = areas + areas[best] - both
        good = (both > 0) & (areas > 0) & (areas[best] > 0) & (total > 0)
        covered = jnp.where(good, both / jnp.where(good, total, 1), 0)
        left = (left & (covered <= share)).at[best].set(False)
        return left, kept.at[best].set(True), count + 1

    none = jnp.zeros(scores.shape, bool)
    start = (scores[order] > low, none, jnp.zeros((), most.dtype))
    return order, lax.while_loop(goes_on, once, start)[1]


MOST: Final[dict[str, tuple[Callable[..., Any], Callable[[Any], Cut]]]] = {
    "nonzero": (_nonzero, lambda _: (1,)),
    "compress": (_compress, lambda told: (told["axis"] or 0,)),
    "unique": (_unique, lambda told: (told["axis"] or 0, 0, None, 0)),
    "nms": (_nms, lambda _: (0,)),
}
"""What makes the most there can be, with the count, and where its results are cut."""

ROWS: Final[dict[str, Callable[..., Any]]] = {
    name: _sized(name, most, cut) for name, (most, cut) in MOST.items()
}
"""Ops around which a graph is cut, though XLA runs them."""
