"""Kernels of PyTorch for 36 primitives of the hub.

A kernel has the signature of its op in `amanda/std/1`: tensors first, then shape
arguments, which are integers in tuples, attributes by name.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["KERNELS"]

SAME_NAME = (
    "abs add cos erf exp greater isnan less log logical_and logical_not matmul maximum "
    "minimum multiply negative sin sqrt subtract tanh where"
)


def conv(x: Any, w: Any, b: Any = None, **attrs: Any) -> Any:
    steps = attrs["strides"] or 1, 0, attrs["dilations"] or 1
    x = add_padding(x, attrs["padding"], 0.0)
    return getattr(torch, f"conv{x.ndim - 2}d")(x, w, b, *steps, attrs["groups"])


def max_pool(x: Any, **attrs: Any) -> Any:
    steps = attrs["strides"] or 1, 0, attrs["dilations"] or 1
    x = add_padding(x, attrs["padding"], -torch.inf)
    return getattr(torch, f"max_pool{x.ndim - 2}d")(x, attrs["window"], *steps)


def add_padding(x: Any, pairs: Any, value: float) -> Any:
    widths = [n for pair in reversed(pairs or ()) for n in pair]
    return torch.nn.functional.pad(x, widths, value=value)


def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, **_: Any) -> Any:
    axes = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    given = dict(zip(axes, pads, strict=True))
    pairs = [given.get(axis, (0, 0)) for axis in range(x.ndim)]
    return add_padding(x, pairs, 0 if value is None else value.item())


def slice_(x: Any, starts: Any, stops: Any, axes: Any = None, steps: Any = None) -> Any:
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else steps[i]
        rows = range(x.shape[axis])[starts[i] : stops[i] : step]
        x = x.index_select(axis, torch.tensor(rows, dtype=torch.int64))
    return x


def reshape(x: Any, shape: Any, copy_zero: bool) -> Any:
    sizes = [n or x.shape[i] for i, n in enumerate(shape)] if copy_zero else shape
    return x.reshape(sizes)


def expand_dims(x: Any, axes: Any) -> Any:
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def gather(x: Any, indices: Any, axis: Any = 0) -> Any:
    size, axis = x.shape[axis], axis % x.ndim
    found = x.index_select(axis, (indices % size).flatten())
    return found.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def divide(a: Any, b: Any) -> Any:
    rounding = None if a.dtype.is_floating_point else "trunc"
    return torch.div(a, b, rounding_mode=rounding)


def sum_(x: Any, axes: Any = None, *, keepdims: bool) -> Any:
    return x if axes == () else x.sum(axes, keepdims, dtype=x.dtype)


def max_(x: Any, axes: Any = None, *, keepdims: bool) -> Any:
    return x if axes == () else x.amax(axes or (), keepdims)


OWN = (
    conv, divide, expand_dims, gather, max_, max_pool, pad, reshape, slice_, sum_,
)  # fmt: skip
KERNELS = {
    **{name: getattr(torch, name) for name in SAME_NAME.split()},
    **{kernel.__name__.rstrip("_"): kernel for kernel in OWN},
    "broadcast_to": lambda x, to: x.broadcast_to(torch.broadcast_shapes(x.shape, to)),
    "concat": lambda *xs, axis: torch.cat(xs, axis),
    "equal": torch.eq,
    "squeeze": lambda x, axes=None: x.squeeze(*() if axes is None else (axes,)),
    "transpose": lambda x, perm: x.permute(perm or [*range(x.ndim)][::-1]),
}
