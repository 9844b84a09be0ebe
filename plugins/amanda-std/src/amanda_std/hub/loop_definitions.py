"""Loops and scans as `while`, for targets that have no other loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import TensorType
from amanda_std import ops
from amanda_std.hub.dim_values import dims_as_vector
from amanda_std.hub.mapping_values import rank_of
from amanda_std.ops.control.bodies import inline as inline_body

__all__ = ["loop_as_while", "scan_as_while"]


def loop_as_while(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    """A loop as `while` with a counter; stacked results grow by a row each time."""
    count = len(init)
    start = np.int64(0)
    go = np.asarray(True) if condition is None else condition
    empty = [_zeros([0], row, init) for row in body.results[count + 1 :]]

    def goes_on(i: Any, go: Any, *_: Any) -> Any:
        return go if trips is None else ops.logical_and(go, ops.less(i, trips))

    def step(i: Any, go: Any, *xs: Any) -> Any:
        again, *found = inline_body(body, (i, go, *xs[:count]))
        grown = [
            ops.concat(old, ops.expand_dims(row, [0]), axis=0)
            for old, row in zip(xs[count:], found[count:], strict=True)
        ]
        return (i + np.int64(1), again, *found[:count], *grown)

    return tuple(ops.while_(goes_on, step, start, go, *init, *empty))[2:]


def scan_as_while(
    body: Any, length: Any, *values: Any, carried: int, axes: Any = None,
    reverse: Any = None, out_axes: Any = None, out_reverse: Any = None,
) -> Any:  # fmt: skip
    """A scan as `while` with a counter, which writes rows of its stacked results."""
    xs = values[carried:]
    at, back = axes or [0] * len(xs), reverse or [False] * len(xs)
    outs = body.results[carried:]
    to, out_back = out_axes or [0] * len(outs), out_reverse or [False] * len(outs)
    size = _length(length, xs, at)
    stacks = [_zeros([size], row, values) for row in outs]

    def goes_on(i: Any, *_: Any) -> Any:
        return ops.less(i, size)

    def place(i: Any, turned: bool) -> Any:
        return size - np.int64(1) - i if turned else i

    def step(i: Any, *state: Any) -> Any:
        rows = [
            ops.gather(x, place(i, turned), axis=axis)
            for x, axis, turned in zip(xs, at, back, strict=True)
        ]
        found = inline_body(body, (*state[:carried], *rows))
        written = [
            ops.scatter_nd(
                stack, ops.reshape(place(i, turned), [1, 1]), ops.expand_dims(row, [0])
            )
            for stack, row, turned in zip(
                state[carried:], found[carried:], out_back, strict=True
            )
        ]
        return (i + np.int64(1), *found[:carried], *written)

    found = ops.while_(goes_on, step, np.int64(0), *values[:carried], *stacks)[1:]
    moved = [
        _move_first_axis(y, axis) for y, axis in zip(found[carried:], to, strict=True)
    ]
    return (*found[:carried], *moved)


def _length(length: Any, xs: tuple[Any, ...], axes: Any) -> Any:
    """The number of iterations, as a scalar of int64."""
    if length is None:
        size = xs[0].shape[axes[0]]
        return np.int64(size) if isinstance(size, int) else size
    if isinstance(length, int | np.integer):
        return np.int64(length)
    return ops.reshape(ops.astype(length, dtype="int64"), [])


def _zeros(lead: list[Any], row: Any, values: tuple[Any, ...]) -> Any:
    """Zeros like rows of a result, as many as `lead` says."""
    if not isinstance(row.type, TensorType) or not row.type.shape.has_rank:
        raise Decline("stacked results of an unknown rank")
    tail = dims_as_vector(row.type.shape.dims, values)
    first = [n if isinstance(n, int) else ops.reshape(n, [1]) for n in lead]
    sizes = first if isinstance(first[0], int) else None
    whole = ops.concat(np.array(sizes) if sizes else first[0], tail, axis=0)
    shape = whole.tolist() if isinstance(whole, np.ndarray) else whole
    return ops.full(shape, np.zeros((), row.type.dtype.numpy))


def _move_first_axis(y: Any, axis: int) -> Any:
    rank = rank_of(y)
    if axis % rank == 0:
        return y
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return ops.transpose(y, perm=tuple(order))
