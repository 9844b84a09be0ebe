"""Slices whose bounds are known only at run time: only their sizes decide shapes.

A slice clamps its bounds, so its size follows from both of them. It is computed apart:
XLA slices at any start, and a program serves all bounds with the same sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_std import ops
from amanda_std.backends import Value, op_arguments, tracing

__all__ = ["expose_slice_sizes"]


def expose_slice_sizes(graph: Graph) -> int:
    """Replace slices at bounds that data decides by dynamic slices; returns how many.

    Those with computed axes or steps stay."""
    count = 0
    for op in analyze_static_values(graph).readers:
        if op.type == "slice":
            count += _replace_slice(graph, op)
    return count


def _replace_slice(graph: Graph, op: Op) -> bool:
    (x, starts, stops, axes, steps), _ = op_arguments(op, lambda port: port)
    own = x.type
    count = _length(starts)
    if not isinstance(own, TensorType) or not own.shape.has_rank or count is None:
        return False
    rank = own.shape.rank
    steps = [1] * count if steps is None else _integers(steps)
    axes = [*range(count)] if axes is None else _integers(axes)
    if steps is None or axes is None or any(step != 1 for step in steps):
        return False
    axes = [axis % rank for axis in axes]
    if len({*axes}) != count:
        return False
    with tracing(graph, op):
        result = _dynamic_slice(x, starts, stops, axes, rank)
    result.port.type = op.output.type
    graph.replace_uses(op.output, result.port)
    graph.remove(op, "expose_slice_sizes")
    return True


def _dynamic_slice(x: Any, starts: Any, stops: Any, axes: list[int], rank: int) -> Any:
    """`x[starts:stops]` along axes, at a start that is computed within the program."""
    value = Value(x)
    dims = ops.stack(*[ops.dim(value, axis=axis) for axis in axes])
    first = _clamp_bounds(starts, dims)
    sizes = ops.maximum(_clamp_bounds(stops, dims) - first, np.asarray(0))
    others = [axis for axis in range(rank) if axis not in axes]
    order = np.argsort([*axes, *others])
    if others:
        whole = ops.stack(*[ops.dim(value, axis=axis) for axis in others])
        sizes = ops.concat(sizes, whole, axis=0)
        first = ops.concat(first, np.zeros(len(others), "int64"), axis=0)
    if [*order] != [*range(rank)]:
        first, sizes = ops.gather(first, order), ops.gather(sizes, order)
    return ops.dynamic_slice(value, first, sizes)


def _clamp_bounds(bounds: Any, dims: Any) -> Any:
    """Bounds of a slice from the front, and within the axes."""
    if isinstance(bounds, OutputPort):
        at = ops.astype(Value(bounds), dtype="int64")
    else:
        at = np.asarray(bounds, "int64")
    zero = np.asarray(0, "int64")
    at = ops.where(ops.less(at, zero), ops.add(at, dims), at)
    return ops.minimum(ops.maximum(at, zero), dims)


def _length(bounds: Any) -> int | None:
    """The number of bounds, if it is known."""
    if not isinstance(bounds, OutputPort):
        return len(bounds)
    own = bounds.type
    if not isinstance(own, TensorType) or not own.shape.is_static:
        return None
    return int(own.shape.dims[0]) if own.shape.rank == 1 else None


def _integers(value: Any) -> list[int] | None:
    """A shape argument as integers; None where it is computed."""
    if not isinstance(value, OutputPort):
        return [int(each) for each in value]
    if value.op.is_constant:
        return [int(each) for each in value.op.attrs["value"].numpy()]
    return None
