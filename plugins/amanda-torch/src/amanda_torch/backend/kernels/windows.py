"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from amanda_std.backends import (
    channels_first_permutation,
    dtype_bound,
    explicit_padding,
    input_first_permutation,
    inverse_permutation,
    per_axis,
    pooled_sizes,
    transposed_windows,
)
from amanda_torch.backend.arrays import numpy_dtype
from amanda_torch.backend.definitions import by_numpy
from amanda_torch.backend.kernels.shapes import pad_last_axes

__all__ = ["KERNELS", "conv", "permute_to_channels_first"]

_CONV: Final = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: Final = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX_POOL: Final = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}


@lru_cache
def _data_order(layout: str, rank: int) -> tuple[int, ...] | None:
    """The permutation to channels first; None if they are first."""
    order = channels_first_permutation(layout, rank)
    return None if order == tuple(range(rank)) else order


def _permute(x: Any, order: tuple[int, ...] | None) -> Any:
    return x if order is None else x.permute(order)


def permute_to_channels_first(x: Any, layout: str) -> Any:
    """Data of a layout, with channels first."""
    return _permute(x, _data_order(layout, x.ndim))


def _restore(y: Any, order: tuple[int, ...] | None) -> Any:
    return y if order is None else y.permute(inverse_permutation(order))


def conv(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int, convolve: Any = None,
) -> Any:  # fmt: skip
    """`convolve` computes it in place of PyTorch, from data with channels first."""
    n = x.ndim - 2
    if n not in _CONV:
        return by_numpy("conv")(
            x, w, b, layout=layout, kernel_layout=kernel_layout, strides=strides,
            padding=padding, dilations=dilations, groups=groups,
        )  # fmt: skip
    order = _data_order(layout, x.ndim)
    x, w = _permute(x, order), _permute(w, _data_order(kernel_layout, w.ndim))
    s, d, pads, extra = _convolution_geometry(
        tuple(x.shape[2:]), tuple(w.shape[2:]), strides, padding, dilations
    )
    if extra:
        x = pad_last_axes(x, extra)
    y = (convolve or _CONV[n])(x, w, b, s, pads, d, groups)
    return _restore(y, order)


@lru_cache
def _convolution_geometry(
    spatial: Any, kernel: Any, strides: Any, padding: Any, dilations: Any
) -> tuple[Any, ...]:
    """Strides, dilations, pads for PyTorch, and pads that it does not have."""
    n = len(kernel)
    s, d = per_axis(strides, n), per_axis(dilations, n)
    pads = explicit_padding(padding, spatial, kernel, s, d)
    if any(low != high or low < 0 for low, high in pads):
        return s, d, (0,) * n, pads
    return s, d, tuple(low for low, _ in pads), None


def conv_transpose(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int, output_padding: Any,
) -> Any:  # fmt: skip
    n = x.ndim - 2
    if n not in _TRANSPOSED:
        return by_numpy("conv_transpose")(
            x, w, b, layout=layout, kernel_layout=kernel_layout, strides=strides,
            padding=padding, dilations=dilations, groups=groups,
            output_padding=output_padding,
        )  # fmt: skip
    order = _data_order(layout, x.ndim)
    x = _permute(x, order)
    w = w.permute(input_first_permutation(kernel_layout, w.ndim))
    rows = transposed_windows(
        x.shape[2:], w.shape[2:], strides, padding, dilations, output_padding
    )
    s, d = per_axis(strides, n), per_axis(dilations, n)
    crops = [(-a, r - c) for _, _, _, (a, c), _, r in rows]
    same = all(low == high <= 0 for low, high in crops)
    pads = [-low for low, _ in crops] if same else [0] * n
    y = _TRANSPOSED[n](x, w, None if not same else b, s, pads, 0, groups, d)
    if not same:
        y = pad_last_axes(y, crops)
        y = y if b is None else y + b.reshape(-1, *(1,) * n)
    return _restore(y, order)


class _Windows:
    """The windows of one call: sizes, strides, pads and their number."""

    def __init__(
        self, spatial: Any, window: Any, strides: Any, padding: Any, dilations: Any,
        ceil: bool,
    ) -> None:  # fmt: skip
        n = len(window)
        self.spatial, self.window = tuple(spatial), tuple(window)
        self.strides, self.dilations = per_axis(strides, n), per_axis(dilations, n)
        self.pads = explicit_padding(
            padding, self.spatial, window, self.strides, self.dilations
        )
        self.sizes = pooled_sizes(
            self.spatial, window, self.strides, self.pads, self.dilations, ceil
        )
        self.pads_by_axis = self._needed_pads()
        """The pads, or crops, for exactly the windows that there are."""

    def _needed_pads(self) -> list[tuple[int, int]]:
        rows = zip(self.spatial, self.window, self.strides, self.pads, self.dilations,
                   self.sizes, strict=True)  # fmt: skip
        return [
            (a, (count - 1) * s + (k - 1) * d + 1 - n - a)
            for n, k, s, (a, _), d, count in rows
        ]

    def unfold(self, x: Any, value: Any) -> Any:
        """All windows of NC* data, their elements in the last axes."""
        x = pad_last_axes(x, self.pads_by_axis, value)
        rows = zip(self.window, self.strides, self.dilations, strict=True)
        for axis, (k, s, d) in enumerate(rows, start=2):
            x = x.unfold(axis, (k - 1) * d + 1, s)[..., ::d]
        return x

    def counts(self, count_pads: bool) -> Any:
        """How many elements each window has, with those of the pads or without."""
        total: Any = np.ones(())
        rows = zip(self.spatial, self.window, self.strides, self.pads, self.dilations,
                   self.sizes, strict=True)  # fmt: skip
        for n, k, s, (a, b), d, count in rows:
            at = np.arange(count)[:, None] * s + np.arange(k)[None, :] * d - a
            low, high = (-a, n + b) if count_pads else (0, n)
            total = total[..., None] * ((at >= low) & (at < high)).sum(1)
        return total


_windows = lru_cache(_Windows)


def max_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str,
) -> Any:  # fmt: skip
    order = _data_order(layout, x.ndim)
    x = _permute(x, order)
    windows = _windows(tuple(x.shape[2:]), window, strides, padding, dilations, ceil)
    low = dtype_bound(numpy_dtype(x), True)
    if not x.dtype.is_floating_point:
        return _restore(_largest(x, windows, low), order)
    pool = _max_pool_by_library if len(window) in _MAX_POOL else _largest
    pool = pool if x.numel() else _largest
    y = pool(x, windows, low) if x.device.type == "cpu" else None
    if y is None or torch.isnan(y.sum()):  # or it has infinities of both signs
        number = torch.nan_to_num(x, nan=low, posinf=torch.inf, neginf=low)
        y = pool(number, windows, low)
    return _restore(y, order)


def _largest(x: Any, windows: _Windows, low: Any) -> Any:
    return torch.amax(windows.unfold(x, low), tuple(range(-len(windows.window), 0)))


def _max_pool_by_library(x: Any, windows: _Windows, low: Any) -> Any:
    """NaN is the maximum here."""
    pads = windows.pads_by_axis
    rows = zip(pads, windows.window, strict=True)
    if any(a != b or a < 0 or 2 * a > k for (a, b), k in rows):
        x, pads = pad_last_axes(x, pads, low), [(0, 0)] * len(pads)
    return _MAX_POOL[len(pads)](
        x, windows.window, windows.strides, [a for a, _ in pads], windows.dilations
    )


def avg_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str, count_pads: bool,
) -> Any:  # fmt: skip
    order = _data_order(layout, x.ndim)
    x = _permute(x, order)
    windows = _windows(tuple(x.shape[2:]), window, strides, padding, dilations, ceil)
    if len(window) == 2 and set(windows.dilations) == {1} and x.numel():
        whole = pad_last_axes(x, windows.pads_by_axis)
        y = functional.avg_pool2d(
            whole, windows.window, windows.strides, divisor_override=1
        )
    else:
        inner = tuple(range(-len(window), 0))
        y = torch.sum(windows.unfold(x, 0), inner)
    counts = windows.counts(count_pads)
    if np.all(counts == prod(window)):
        y = y / prod(window)
    else:
        y = y / torch.from_numpy(counts).to(y.device, y.dtype)
    return _restore(y, order)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
}
