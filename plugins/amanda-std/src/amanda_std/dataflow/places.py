"""Elements by their places: coordinates, partitions, diagonals, orders of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    known_or_value,
    known_scalar,
    rank_of,
    required_content,
)

__all__ = [
    "broadcast_of_shapes",
    "coordinates_of_nonzero",
    "diagonal_of_tensor",
    "elements_not_in",
    "pad_symmetric",
    "partition_rows",
    "scatter_into_zeros",
    "stitch_rows",
    "tensor_of_diagonal",
    "transpose_by",
]

_END = 2**63 - 1


def coordinates_of_nonzero(x: Any) -> Any:
    """The coordinates of the elements that are not zero, a row for each."""
    if x.dtype.kind != "bool":
        x = ops.not_equal(x, ops.number_like(x, value=0))
    return ops.transpose(ops.nonzero(x), perm=(1, 0))


def scatter_into_zeros(indices: Any, updates: Any, shape: Any) -> Any:
    """Slices added to zeros of a shape, at coordinates."""
    if updates.dtype.kind == "bool":  # whose sum is their disjunction
        numbers = ops.astype(updates, dtype="int32")
        return ops.not_equal(scatter_into_zeros(indices, numbers, shape), np.int32(0))
    zero = ops.full(known_or_value(shape), ops.number_like(updates, value=0))
    return ops.scatter_nd(zero, indices, updates, reduction="add")


def partition_rows(x: Any, parts: Any, count: int) -> tuple[Any, ...]:
    """The slices of x with each number of a part."""
    flat = ops.reshape(parts, [-1])
    rank = rank_of(parts)
    shape = ops.slice_(ops.shape_of(x), [rank], [2**31])
    rows = ops.reshape(x, ops.concat(np.array([-1]), shape)) if rank != 1 else x
    return tuple(
        ops.compress(rows, ops.equal(flat, ops.number_like(flat, value=i)), axis=0)
        for i in range(count)
    )


def stitch_rows(places: Any, data: Any) -> Any:
    """Data interleaved at indices; the last of equal indices wins."""
    at = ops.concat(*(ops.reshape(place, [-1]) for place in places), axis=0)
    first = rank_of(places[0])
    shape = ops.slice_(ops.shape_of(data[0]), [first], [2**31])
    rows = ops.concat(
        *(ops.reshape(each, ops.concat(np.array([-1]), shape)) for each in data), axis=0
    )
    size = ops.reshape(ops.max(ops.astype(at, dtype="int64")) + np.int64(1), [1])
    known = known_scalar(size)
    whole = ops.concat(size if known is None else np.array([known]), shape)
    zero = ops.full(known_or_value(whole), ops.number_like(rows, value=0))
    return ops.scatter_nd(zero, ops.expand_dims(at, [-1]), rows)


def elements_not_in(x: Any, y: Any, index: Any) -> tuple[Any, Any]:
    """The elements of x that are not in y, and their indices, of a type."""
    expect(rank_of(x) == 1, "a vector is expected")
    first, second = known_content(x), known_content(y)
    if first is not None and second is not None:
        places = [i for i, item in enumerate(first) if item not in second]
        rest = np.array([first[i] for i in places], x.dtype.numpy)
        return rest, np.array(places, str(index))
    same = ops.equal(ops.expand_dims(x, [1]), ops.expand_dims(y, [0]))
    keep = ops.logical_not(ops.any(same, [1]))
    at = ops.reshape(ops.nonzero(keep), [-1])
    return ops.gather(x, at), cast_to(at, index)


def tensor_of_diagonal(x: Any) -> Any:
    """A tensor of twice the rank, with x on its diagonal."""
    flat = ops.diagonal_matrix(ops.reshape(x, [-1]))
    return ops.reshape(flat, ops.concat(ops.shape_of(x), ops.shape_of(x)))


def diagonal_of_tensor(x: Any) -> Any:
    """What `tensor_of_diagonal` gives a tensor of: the diagonal of a matrix of it."""
    half = rank_of(x) // 2
    shape = ops.slice_(ops.shape_of(x), [0], [half])
    size = ops.prod(shape)
    square = ops.reshape(x, ops.stack(size, size))
    return ops.reshape(ops.diagonal(square), shape)


def transpose_by(x: Any, perm: Any) -> Any:
    """Axes in an order that is computed: a gather of the elements of the result."""
    rank = rank_of(x)
    numbers = ops.reshape(ops.astype(perm, dtype="int64"), [rank])
    order = ops.remainder(numbers, np.int64(rank))
    shape = ops.shape_of(x)
    steps = ops.cumulative_prod(shape, 0, exclusive=True, reverse=True)
    wanted = ops.gather(shape, order)
    at = ops.unravel_index(ops.arange(0, ops.size(x)), wanted)
    places = ops.sum(at * ops.expand_dims(ops.gather(steps, order), [1]), [0])
    return ops.reshape(ops.gather(ops.reshape(x, [-1]), places), wanted)


def pad_symmetric(x: Any, paddings: Any) -> Any:
    """Copies of both ends of each axis, reversed, the outermost elements included."""
    for axis, (low, high) in enumerate(required_content(paddings, "paddings")):
        parts = [x]
        if low:
            parts.insert(0, ops.flip(ops.slice_(x, [0], [low], [axis]), [axis]))
        if high:
            parts.append(ops.flip(ops.slice_(x, [-high], [_END], [axis]), [axis]))
        x = ops.concat(*parts, axis=axis) if len(parts) > 1 else x
    return x


def broadcast_of_shapes(a: Any, b: Any) -> Any:
    """The shape of the result of broadcasting tensors of two shapes."""
    rows = [_length_of(v) for v in (a, b)]
    size = max(rows)
    a, b = (
        ops.pad(v, [[size - n, 0]], ops.number_like(v, value=1)) if n < size else v
        for v, n in zip((a, b), rows, strict=True)
    )
    return ops.where(ops.equal(a, ops.number_like(a, value=1)), b, a)


def _length_of(value: Any) -> int:
    size: Any = value.type.shape.dims[0] if rank_of(value) == 1 else None
    expect(isinstance(size, int), "the number of axes is not static")
    return int(size)
