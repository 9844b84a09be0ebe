"""Ops that move elements: shapes, slices, padding, casts and creation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from amanda_torch.backend.arrays import torch_dtype

__all__ = ["KERNELS", "as_axes", "pad_last_axes"]


def as_axes(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes as a tuple of nonnegative numbers; all of them if None."""
    if axes is None:
        return tuple(range(rank))
    return tuple(a % rank for a in ((axes,) if isinstance(axes, int) else axes))


def reshape(x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    if copy_zero:
        shape = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
    return x.reshape(shape)


def transpose(x: Any, *, perm: Any = None) -> Any:
    return x.permute(tuple(range(x.ndim))[::-1] if perm is None else perm)


def expand_dims(x: Any, axes: Any) -> Any:
    added = (axes,) if isinstance(axes, int) else axes
    for axis in sorted(a % (x.ndim + len(added)) for a in added):
        x = x.unsqueeze(axis)
    return x


def squeeze(x: Any, axes: Any = None) -> Any:
    return x.squeeze() if axes is None else x.squeeze(axes)


def broadcast_to(x: Any, shape: Any) -> Any:
    return x.expand(np.broadcast_shapes(tuple(x.shape), tuple(shape)))


def concat(*xs: Any, axis: int = 0) -> Any:
    return torch.cat(xs, axis)


def stack(*xs: Any, axis: int = 0) -> Any:
    return torch.stack(xs, axis)


def split(x: Any, sizes: Any = None, *, axis: int = 0, outputs: int = 0) -> Any:
    if sizes is None:
        size = x.shape[axis]
        step = -(-size // outputs)
        edges = [min(step * i, size) for i in range(outputs + 1)]
        sizes = [b - a for a, b in pairwise(edges)]
    return tuple(torch.split(x, list(sizes), axis))


def slice_(x: Any, starts: Any, stops: Any, axes: Any = None, steps: Any = None) -> Any:
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = steps[i] if steps else 1
        x = _slice_axis(x, axis, slice(starts[i], stops[i], step))
    return x


def _slice_axis(x: Any, axis: int, cut: slice) -> Any:
    """A slice along one axis; PyTorch has no negative steps."""
    start, stop, step = cut.indices(x.shape[axis])
    if step > 0:
        return torch.ops.aten.slice.Tensor(x, axis, start, max(start, stop), step)
    positions = range(start, stop, step)
    if not positions:
        return x.narrow(axis, 0, 0)
    low, high = positions[-1], positions[0] + 1
    return torch.ops.aten.slice.Tensor(x, axis, low, high, -step).flip(axis)


def flip(x: Any, axes: Any = None) -> Any:
    return x.flip(as_axes(axes, x.ndim))


def tile(x: Any, repeats: Any) -> Any:
    return torch.tile(x, tuple(repeats))


def pad_last_axes(x: Any, pads: Any, value: Any = 0) -> Any:
    """Pad, or crop, the last axes by (low, high) elements."""
    widths = [width for pair in reversed(pads) for width in pair]
    return functional.pad(x, widths, value=value) if any(widths) else x


def pad(
    x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant"
) -> Any:
    rows = [(0, 0)] * x.ndim
    for i, axis in enumerate(range(x.ndim) if axes is None else axes):
        rows[axis] = tuple(pads[i])
    if mode != "constant":
        return _pad_by_elements(x, rows, mode)
    if value is None or not (value.requires_grad and torch.is_grad_enabled()):
        return _pad_by_number(x, rows, 0 if value is None else value.item())
    inside = _pad_by_number(torch.ones_like(x, dtype=torch.bool), rows, False)
    return torch.where(inside, _pad_by_number(x, rows, 0), value.reshape(()))


def _pad_by_number(x: Any, rows: Any, value: Any) -> Any:
    if x.dtype != torch.bool:
        return pad_last_axes(x, rows, value)
    return pad_last_axes(x.to(torch.uint8), rows, int(value)).to(torch.bool)


def _pad_by_elements(x: Any, rows: Any, mode: str) -> Any:
    """Padding with elements of the tensor, whose positions NumPy computes."""
    for axis, (low, high) in enumerate(rows):
        size = x.shape[axis]
        at = np.arange(size)[max(-low, 0) : size - max(-high, 0)]
        grow: Any = (max(low, 0), max(high, 0))
        if low or high:
            at = np.pad(at, grow, mode=mode)  # type: ignore[call-overload]
            x = x.index_select(axis, torch.from_numpy(at).to(x.device))
    return x


def view(x: Any, shape: Any, strides: Any, offset: Any = 0) -> Any:
    """By the positions of elements, since strides of PyTorch are not negative."""
    flat = x.reshape(-1)
    grid = np.full((), offset, "int64")
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        rest = (1,) * (len(shape) - axis - 1)
        grid = grid + (np.arange(size) * step).reshape(-1, *rest)
    at = np.broadcast_to(grid, tuple(shape)).reshape(-1)
    return flat[torch.from_numpy(at.copy()).to(x.device)].reshape(shape)


def astype(x: Any, *, dtype: Any) -> Any:
    if x.dtype.is_complex and dtype.kind != "complex":
        x = x != 0 if dtype.kind == "bool" else x.real
    own = torch_dtype(dtype)
    if own in _WITHOUT_INFINITY and x.is_floating_point():
        x = torch.where(_WITHOUT_INFINITY[own](x), torch.nan, x)
    return x.to(own)


_WITHOUT_INFINITY: Final = {
    torch.float8_e4m3fn: lambda x: x.abs() > 464,  # half a step above the largest
    torch.float8_e8m0fnu: lambda x: x <= 0,
}
"""Which elements become NaN in types for which casts of PyTorch saturate."""


def full(shape: Any, value: Any) -> Any:
    return value.expand(np.broadcast_shapes(tuple(value.shape), tuple(shape)))


def tril(x: Any, k: Any = 0) -> Any:
    return torch.tril(x, k)


def triu(x: Any, k: Any = 0) -> Any:
    return torch.triu(x, k)


def diagonal(x: Any, *, offset: int = 0) -> Any:
    return torch.diagonal(x, offset, -2, -1)


def bitcast(x: Any, *, dtype: Any) -> Any:
    """PyTorch has no bitcast of bools: they go as bytes."""
    own = torch_dtype(dtype)
    if x.dtype == torch.bool:
        x = x.to(torch.uint8)
    if own == torch.bool:
        return bitcast(x, dtype=np.uint8) != 0
    old, new = x.dtype.itemsize, own.itemsize
    if old == new:
        return x.view(own)
    x = x.contiguous()
    return x.unsqueeze(-1).view(own) if old > new else x.view(own).squeeze(-1)


def identity(x: Any) -> Any:
    return x


def stop_gradient(x: Any) -> Any:
    return x.detach()


def transfer(x: Any, *, to: str, source: str = "") -> Any:
    """A graph runs on one device, whatever others it names."""
    del to, source
    return x


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__.rstrip("_"): function
    for function in (
        reshape, transpose, expand_dims, squeeze, broadcast_to, concat, stack, split,
        slice_, flip, tile, pad, view, astype, full, tril, triu, diagonal, bitcast,
        identity, stop_gradient, transfer,
    )
}  # fmt: skip
