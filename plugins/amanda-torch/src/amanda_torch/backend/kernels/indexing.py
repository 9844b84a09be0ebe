"""Gather and scatter, sorting, and the order of elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import torch

from amanda_std.ops import OPS
from amanda_torch.backend.arrays import to_numpy

__all__ = ["KERNELS"]

_REDUCTIONS: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def gather(x: Any, indices: Any, axis: Any = 0) -> Any:
    at = (axis[0] if isinstance(axis, tuple) else axis) % x.ndim
    return x[(slice(None),) * at + (_as_positions(indices),)]


def _as_positions(indices: Any) -> Any:
    """Indices of a type with which PyTorch indexes."""
    narrow = indices.dtype not in (torch.int64, torch.int32)
    return indices.to(torch.int64) if narrow else indices


def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    rest = indices.ndim - 1 - batch_dims
    batch = x.shape[:batch_dims]
    if not indices.shape[-1]:  # all of x, for each row of indices
        whole = x.reshape((*batch, *(1,) * rest, *x.shape[batch_dims:]))
        return whole.expand((*indices.shape[:-1], *x.shape[batch_dims:]))
    own = [
        torch.arange(n, device=x.device).reshape(
            (-1,) + (1,) * (batch_dims - i - 1 + rest)
        )
        for i, n in enumerate(batch)
    ]
    return x[(*own, *_as_positions(indices).unbind(-1))]


def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return torch.gather(x, axis, _wrap_negative(indices, x.shape[axis]))


def _wrap_negative(indices: Any, size: int) -> Any:
    """Indices in which negative ones count from the end."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    return _scatter(x, axis, _wrap_negative(indices, x.shape[axis]), updates, reduction)


def _scatter(x: Any, axis: int, at: Any, updates: Any, reduction: str) -> Any:
    if reduction == "none":
        return x.scatter(axis, at, updates)
    if x.dtype == torch.bool:
        bits = _scatter(x.to(torch.uint8), axis, at, updates.to(torch.uint8), reduction)
        return bits.to(torch.bool)
    if reduction == "add":
        return x.scatter_add(axis, at, updates)
    return x.scatter_reduce(axis, at, updates, _REDUCTIONS[reduction])


def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    depth = indices.shape[-1]
    if not depth:
        return _scatter_whole(x, updates, reduction)
    at = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
    for i in range(depth):  # the number of the row in the flattened tensor
        at = at * x.shape[i] + _wrap_negative(indices[..., i], x.shape[i])
    width, count = prod(x.shape[depth:]), at.numel()
    rows = x.reshape(prod(x.shape[:depth]), width)
    wide = at.reshape(count, 1).expand(count, width)
    y = _scatter(rows, 0, wide, updates.reshape(count, width), reduction)
    return y.reshape(x.shape)


def _scatter_whole(x: Any, updates: Any, reduction: str) -> Any:
    """Updates of the whole tensor, one after another."""
    for update in updates.reshape(-1, *x.shape):
        if reduction == "none":
            x = update
        else:
            name = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
            x = getattr(torch, name[reduction])(x, update)
    return x


# -- order -----------------------------------------------------------------------------


def _sort(x: Any, axis: int, descending: bool) -> Any:
    """Values and positions in a stable order."""
    if x.dtype == torch.bool:
        values, order = _sort(x.to(torch.uint8), axis, descending)
        return values.to(torch.bool), order
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def sort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return _sort(x, axis, descending)[0]


def argsort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return _sort(x, axis, descending)[1]


def topk(x: Any, k: Any, *, axis: int = -1, largest: bool = True) -> Any:
    """By a stable sort: `torch.topk` does not say which of equal elements it takes."""
    count = k if isinstance(k, int) else k[0]
    if count > x.shape[axis]:
        raise ValueError(f"the {count} largest of {x.shape[axis]}")
    values, order = _sort(x, axis, largest)
    return values.narrow(axis, 0, count), order.narrow(axis, 0, count)


def _extreme_position(
    x: Any, axis: Any, keepdims: bool, last: bool, function: Callable[..., Any]
) -> Any:
    at = (axis[0] if isinstance(axis, tuple) else axis) % x.ndim if x.ndim else 0
    if not last:
        return function(x, at, keepdims)
    found = function(x.flip(at), at, keepdims)
    return x.shape[at] - 1 - found


def argmax(x: Any, axis: Any = 0, *, keepdims: bool = False, last: bool = False) -> Any:
    return _extreme_position(x, axis, keepdims, last, torch.argmax)


def argmin(x: Any, axis: Any = 0, *, keepdims: bool = False, last: bool = False) -> Any:
    return _extreme_position(x, axis, keepdims, last, torch.argmin)


def searchsorted(x: Any, values: Any, *, right: bool = False) -> Any:
    if x.dtype.itemsize <= 2 and x.dtype.is_floating_point:
        x, values = x.float(), values.float()
    return torch.searchsorted(x.contiguous(), values.contiguous(), right=right)


def unique(x: Any, *, axis: int | None = None, sorted: bool = True) -> Any:
    """NumPy finds the positions; the elements are gathered from the tensor."""
    _, *found = OPS["unique"].function(to_numpy(x), axis=axis, sorted=sorted)
    first, inverse, counts = (torch.from_numpy(p).to(x.device) for p in found)
    whole, at = (x.reshape(-1), 0) if axis is None else (x, axis)
    return whole.index_select(at, first), first, inverse, counts


def nonzero(x: Any) -> Any:
    return torch.nonzero(x).T.contiguous()


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        gather, gather_nd, gather_elements, scatter_elements, scatter_nd, sort, argsort,
        topk, argmax, argmin, searchsorted, unique, nonzero,
    )
}  # fmt: skip
