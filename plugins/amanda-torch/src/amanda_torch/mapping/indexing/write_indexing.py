"""To PyTorch: gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.types import TensorType
from amanda_std.mappings import rank_of, static_value
from amanda_torch.mapping.written_arguments import (
    INT,
    dims_of,
    dtype_of,
    number_or_value,
    required_static,
    write_call,
    write_constant,
    write_size,
)
from amanda_torch.records import PADDING_NOTE

__all__ = ["WRITE"]


def _as_positions(o: Any, indices: Any) -> Any:
    """Indices of a type with which PyTorch indexes."""
    if str(dtype_of(indices)) in ("int32", "int64"):
        return indices
    cast = write_call(o, "to.dtype", indices, dtype=INT)
    cast.type = TensorType(INT, dims_of(indices))
    return cast


def write_gather(o: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
    """Negative indices count from the end."""
    at = int(np.ravel(required_static(axis, "the axis"))[0]) % max(rank_of(x), 1)
    padding = o.source.attrs.get(PADDING_NOTE, -1)
    if padding >= 0 and at == 0 and rank_of(x) == 2:
        places = _as_positions(o, indices)
        return write_call(o, "embedding", x, places, padding_idx=padding)
    number = number_or_value(indices)
    if not isinstance(number, OutputPort):
        return write_call(o, "select.int", x, dim=at, index=int(number))
    known = static_value(indices)
    is_counted = known is not None and np.size(known) and np.min(known) >= 0
    if is_counted and rank_of(indices) == 1:
        return write_call(o, "index_select", x, _as_positions(o, indices), dim=at)
    if is_counted and at == 0 and rank_of(x) == 2:
        return write_call(o, "embedding", x, _as_positions(o, indices))
    places = [None] * at + [_as_positions(o, indices)]
    return write_call(o, "index.Tensor", x, places)


def _columns(o: Any, indices: Any) -> list[Any]:
    """The coordinates along the last axis of indices."""
    count = dims_of(indices)[-1]
    if not isinstance(count, int):
        raise Decline("the number of coordinates is known at run time only")
    places = _as_positions(o, indices)
    columns = [
        write_call(o, "select.int", places, dim=-1, index=i) for i in range(count)
    ]
    for column in columns:
        column.type = TensorType(dtype_of(places), dims_of(indices)[:-1])
    return columns


def write_gather_nd(o: Any, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    columns = _columns(o, indices)
    rest = rank_of(indices) - 1 - batch_dims
    if not columns:
        raise Decline("coordinates without elements")
    own = []
    for i, dim in enumerate(dims_of(x)[:batch_dims]):
        steps = write_call(o, "arange", end=write_size(o, dim), dtype=INT)
        shape = [-1] + [1] * (batch_dims - i - 1 + rest)
        own.append(write_call(o, "reshape", steps, shape=shape))
    return write_call(o, "index.Tensor", x, [*own, *columns])


def _from_start(o: Any, indices: Any, dim: Any) -> Any:
    """Indices of int64 in which none counts from the end."""
    known = static_value(indices)
    if known is not None:
        array = np.asarray(known, "int64").reshape([int(n) for n in dims_of(indices)])
        if not array.size or array.min() >= 0:
            return write_constant(o, array)
        if isinstance(dim, int):
            return write_constant(o, np.where(array < 0, array + dim, array))
    if str(dtype_of(indices)) != "int64":
        indices = write_call(o, "to.dtype", indices, dtype=INT)
    below = write_call(o, "lt.Scalar", indices, other=0)
    turned = write_call(o, "add.Tensor", indices, write_size(o, dim))
    return write_call(o, "where.self", below, turned, indices)


def write_gather_elements(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    at = _from_start(o, indices, dims_of(x)[axis])
    return write_call(o, "gather", x, at, dim=axis)


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def write_scatter_elements(o: Any, x: Any, indices: Any, updates: Any, *,
                           axis: int = 0, reduction: str = "none") -> Any:  # fmt: skip
    at = _from_start(o, indices, dims_of(x)[axis])
    if reduction == "none":
        return write_call(o, "scatter.src", x, at, updates, dim=axis)
    _expect_numbers(x)
    if reduction == "add":
        return write_call(o, "scatter_add", x, at, updates, dim=axis)
    return write_call(o, "scatter_reduce.two", x, at, updates, dim=axis,
                      reduce=_REDUCTIONS[reduction])  # fmt: skip


def _expect_numbers(x: Any) -> None:
    if dtype_of(x).kind == "bool":
        raise Decline("PyTorch has no scatter of truth values with a reduction")


def write_scatter_nd(o: Any, x: Any, indices: Any, updates: Any, *,
                     reduction: str = "none") -> Any:  # fmt: skip
    columns = _columns(o, indices)
    if not columns:
        raise Decline("coordinates without elements")
    if reduction == "none" or (reduction == "add" and dtype_of(x).kind != "bool"):
        more = {"accumulate": True} if reduction == "add" else {}
        return write_call(o, "index_put", x, columns, updates, **more)
    _expect_numbers(x)
    dims = dims_of(x)
    if not all(isinstance(n, int) for n in (*dims, *dims_of(indices))):
        raise Decline(f"a scatter with reduction {reduction} of unknown sizes")
    depth = len(columns)
    flat: Any = None
    for dim, column in zip(dims, columns, strict=False):
        place = _from_start(o, column, dim)
        place = (
            place
            if flat is None
            else write_call(
                o, "add.Tensor", write_call(o, "mul.Tensor", flat, dim), place
            )
        )
        flat = place
    width, count = int(np.prod(dims[depth:])), int(np.prod(dims_of(indices)[:-1]))
    rows = write_call(o, "reshape", x, shape=[int(np.prod(dims[:depth])), width])
    wide = write_call(o, "expand", write_call(o, "reshape", flat, shape=[count, 1]),
                      size=[count, width])  # fmt: skip
    new = write_call(o, "reshape", updates, shape=[count, width])
    y = write_call(o, "scatter_reduce.two", rows, wide, new, dim=0,
                   reduce=_REDUCTIONS[reduction])  # fmt: skip
    return write_call(o, "reshape", y, shape=list(dims))


WRITE: dict[str, Any] = {
    "gather": write_gather,
    "gather_nd": write_gather_nd,
    "gather_elements": write_gather_elements,
    "scatter_elements": write_scatter_elements,
    "scatter_nd": write_scatter_nd,
}
