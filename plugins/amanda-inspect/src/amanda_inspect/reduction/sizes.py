"""Shapes, weights and feeds are made smaller and simpler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_inspect.reduction.models import Model, is_array
from amanda_inspect.reduction.search import Search

__all__ = ["drop_attributes", "shrink_sizes", "simplify_arrays"]

MAX_SIZES: Final = 32
"""Different sizes of axes that are tried."""


def shrink_sizes(search: Search) -> bool:
    """Make all axes of one size shorter: to 1, 2, half of them."""
    before = len(search.steps)
    for size in _sizes(search.model)[:MAX_SIZES]:
        for smaller in dict.fromkeys((1, 2, size // 2)):
            if smaller >= size:
                continue
            what = f"axes of {smaller}, not {size}"
            if search.accept(_with_size(search.model, size, smaller), what):
                break
    return len(search.steps) > before


def _sizes(model: Model) -> list[int]:
    """The sizes of axes, the largest first."""
    arrays = [*model.feeds.values(), *_weights(model.graph).values()]
    found = {int(n) for array in arrays for n in getattr(array, "shape", ())}
    return sorted((size for size in found if size > 1), reverse=True)


def _weights(graph: Graph) -> dict[Op, Tensor]:
    return {op: op.attrs["value"] for op in graph.walk() if op.is_constant}


def _with_size(model: Model, size: int, smaller: int) -> Model | None:
    """The model with the first elements of all axes of one size."""
    return _map_arrays(model, lambda array: _shorten(array, size, smaller))


def _shorten(array: Any, size: int, smaller: int) -> Any:
    if size in array.shape:
        array = array[tuple(slice(smaller if n == size else n) for n in array.shape)]
    if array.dtype.kind in "iu" and array.ndim == 1 and array.size <= 8:
        array = np.where(array == size, smaller, array).astype(array.dtype)  # a shape
    return array


def simplify_arrays(search: Search) -> bool:
    """Set weights and feeds to zeros, ones or few digits, where it still fails."""
    before = len(search.steps)
    rewrites: dict[str, Callable[[Any], Any]] = {
        "zeros": np.zeros_like, "ones": np.ones_like, "two digits": _round,
    }  # fmt: skip
    for place in _places(search.model):
        for name, rewrite in rewrites.items():
            made = _map_arrays(search.model, _floats(rewrite), only=place)
            if search.accept(made, f"{name} in {place}"):
                break
    return len(search.steps) > before


def _places(model: Model) -> list[str | int]:
    """Names of feeds, and positions of constants at any depth."""
    numbers = [i for i, op in enumerate(model.graph.walk()) if op.is_constant]
    return [*model.feeds, *numbers]


def _round(array: Any) -> Any:
    digits = np.vectorize(lambda x: float(f"{x:.2g}"), otypes=["float64"])
    return digits(array).astype(array.dtype) if array.size < 1 << 16 else array


def _floats(rewrite: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(array: Any) -> Any:
        is_float = array.dtype.kind in "fV" and array.size
        return rewrite(array) if is_float else array

    return apply


def _map_arrays(
    model: Model, change: Callable[[Any], Any], only: str | int | None = None
) -> Model | None:
    """The model with other feeds and weights; None where nothing changes.

    `only` is the name of a feed, or the position of a constant.
    """
    graph, _ = model.copy()
    feeds: Mapping[str, Any] = {
        name: change(array) if only in (None, name) and is_array(array) else array
        for name, array in model.feeds.items()
    }
    changed = any(not _is_same(feeds[name], model.feeds[name]) for name in feeds)
    for i, op in enumerate(graph.walk()):
        if op.is_constant and only in (None, i):
            old = op.attrs["value"].numpy()
            new = change(old) if is_array(old) else old
            if not _is_same(old, new):
                changed = True
                op.attrs["value"] = Tensor.of(np.ascontiguousarray(new))
    if not changed:
        return None
    _set_types(graph, feeds)
    return model.with_graph(graph, feeds)


def _is_same(old: Any, new: Any) -> bool:
    return old is new or (old.shape == new.shape and bool(np.array_equal(old, new)))


def _set_types(graph: Graph, feeds: Mapping[str, Any]) -> None:
    """Types of feeds and constants; none of other values, whose shapes may differ."""
    for part in graph.graphs():
        for op in part:
            for port in op.outputs:
                port.type = op.attrs["value"].type if op.is_constant else None
        for port in part.outputs:
            port.type = None
    for parameter in graph.parameters:
        if is_array(feeds.get(str(parameter.name))):
            parameter.type = Tensor.of(feeds[str(parameter.name)]).type


def drop_attributes(search: Search) -> bool:
    """Remove attributes, so that their defaults are used: all of an op, or each."""
    before = len(search.steps)
    for i, op in enumerate(list(search.model.graph.walk())):
        names = [] if op.is_constant or op.is_graph else list(op.attrs)
        choices = [names, *([name] for name in names)] if len(names) > 1 else [names]
        for choice in filter(None, choices):
            made = _without_attributes(search.model, i, choice)
            what = f"without {', '.join(choice)} of {op.label}"
            if search.accept(made, what) and choice is names:
                break
    return len(search.steps) > before


def _without_attributes(model: Model, position: int, names: list[str]) -> Model:
    graph, _ = model.copy()
    op = list(graph.walk())[position]
    for name in names:
        del op.attrs[name]
    return model.with_graph(graph)
