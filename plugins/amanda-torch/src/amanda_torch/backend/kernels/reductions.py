"""Reductions and cumulative ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from amanda_std.backends import dtype_bound
from amanda_torch.backend.arrays import numpy_dtype
from amanda_torch.backend.kernels.shapes import as_axes

__all__ = ["FUSED", "KERNELS"]


def sum_(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    if axes == ():
        return x
    return torch.sum(x, as_axes(axes, x.ndim), keepdims, dtype=x.dtype)


def mean(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    return x if axes == () else torch.mean(x, as_axes(axes, x.ndim), keepdims)


def prod(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    for axis in sorted(as_axes(axes, x.ndim), reverse=True):
        x = torch.prod(x, axis, keepdims, dtype=x.dtype)
    return x


def _extreme(x: Any, axes: Any, keepdims: bool, is_max: bool) -> Any:
    along = as_axes(axes, x.ndim)
    if not along:
        return x
    if not x.numel() and any(not x.shape[a] for a in along):
        bound = dtype_bound(numpy_dtype(x), is_max)
        shape = [
            1 if i in along else n
            for i, n in enumerate(x.shape)
            if keepdims or i not in along
        ]
        return torch.full(shape, bound, dtype=x.dtype, device=x.device)
    return (torch.amax if is_max else torch.amin)(x, along, keepdims)


def max_(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    return _extreme(x, axes, keepdims, True)


def min_(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    return _extreme(x, axes, keepdims, False)


def all_(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    return x if axes == () else torch.all(x, as_axes(axes, x.ndim), keepdims)


def any_(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    return x if axes == () else torch.any(x, as_axes(axes, x.ndim), keepdims)


# -- cumulative ------------------------------------------------------------------------


def _cumulative(
    x: Any, axis: Any, exclusive: bool, reverse: bool, run: Any, start: Any
) -> Any:
    """A cumulative op: from the end if `reverse`, from `start` on if `exclusive`."""
    at = (axis[0] if isinstance(axis, tuple) else axis) % x.ndim
    if reverse:
        x = x.flip(at)
    if exclusive and x.shape[at]:
        first = torch.full_like(x.narrow(at, 0, 1), start)
        x = torch.cat([first, x.narrow(at, 0, x.shape[at] - 1)], at)
    y = run(x, at)
    return y.flip(at) if reverse else y


def cumulative_sum(
    x: Any, axis: Any = 0, *, exclusive: bool = False, reverse: bool = False
) -> Any:
    def run(x: Any, at: int) -> Any:
        return torch.cumsum(x, at, dtype=x.dtype)

    return _cumulative(x, axis, exclusive, reverse, run, 0)


def cumulative_prod(
    x: Any, axis: Any = 0, *, exclusive: bool = False, reverse: bool = False
) -> Any:
    def run(x: Any, at: int) -> Any:
        return torch.cumprod(x, at, dtype=x.dtype)

    return _cumulative(x, axis, exclusive, reverse, run, 1)


def cumulative_max(x: Any, axis: Any = 0, *, reverse: bool = False) -> Any:
    def run(x: Any, at: int) -> Any:
        return torch.cummax(x, at)[0]

    return _cumulative(x, axis, False, reverse, run, None)


def cumulative_min(x: Any, axis: Any = 0, *, reverse: bool = False) -> Any:
    def run(x: Any, at: int) -> Any:
        return torch.cummin(x, at)[0]

    return _cumulative(x, axis, False, reverse, run, None)


def cumulative_logsumexp(
    x: Any, axis: Any = 0, *, exclusive: bool = False, reverse: bool = False
) -> Any:
    return _cumulative(x, axis, exclusive, reverse, torch.logcumsumexp, -torch.inf)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__.rstrip("_"): function
    for function in (
        sum_, prod, max_, min_, all_, any_, cumulative_sum, cumulative_prod,
        cumulative_max, cumulative_min, cumulative_logsumexp,
    )
}  # fmt: skip

FUSED: Final[dict[str, Callable[..., Any]]] = {"mean": mean}
