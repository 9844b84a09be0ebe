"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["KERNELS"]

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


def _permute(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == tuple(range(x.ndim)) else x.permute(order)


def conv(
    x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str, strides: Any,
    padding: Any, dilations: Any, groups: int,
) -> Any:  # fmt: skip
    n = x.ndim - 2
    if n not in _CONV:
        return by_numpy("conv")(
            x, w, b, layout=layout, kernel_layout=kernel_layout, strides=strides,
            padding=padding, dilations=dilations, groups=groups,
        )  # fmt: skip
    order = channels_first_permutation(layout, x.ndim)
    x = _permute(x, order)
    w = _permute(w, channels_first_permutation(kernel_layout, w.ndim))
    s, d = per_axis(strides, n), per_axis(dilations, n)
    pads = explicit_padding(padding, x.shape[2:], w.shape[2:], s, d)
    if any(low != high or low < 0 for low, high in pads):
        x, pads = pad_last_axes(x, pads), [(0, 0)] * n
    y = _CONV[n](x, w, b, s, [low for low, _ in pads], d, groups)
    return _permute(y, inverse_permutation(order))


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
    order = channels_first_permutation(layout, x.ndim)
    x = _permute(x, order)
    w = _permute(w, input_first_permutation(kernel_layout, w.ndim))
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
    return _permute(y, inverse_permutation(order))


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

    def needed_pads(self) -> list[tuple[int, int]]:
        """The pads, or crops, for exactly the windows that there are."""
        rows = zip(self.spatial, self.window, self.strides, self.pads, self.dilations,
                   self.sizes, strict=True)  # fmt: skip
        return [
            (a, (count - 1) * s + (k - 1) * d + 1 - n - a)
            for n, k, s, (a, _), d, count in rows
        ]

    def unfold(self, x: Any, value: Any) -> Any:
        """All windows of NC* data, their elements in the last axes."""
        x = pad_last_axes(x, self.needed_pads(), value)
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


def max_pool(
    x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any, ceil: bool,
    layout: str,
) -> Any:  # fmt: skip
    order = channels_first_permutation(layout, x.ndim)
    x = _permute(x, order)
    windows = _Windows(x.shape[2:], window, strides, padding, dilations, ceil)
    low = dtype_bound(numpy_dtype(x), True)
    if x.dtype.is_floating_point:
        x = torch.nan_to_num(x, nan=low, posinf=torch.inf, neginf=low)
    if x.dtype.is_floating_point and len(window) in _MAX_POOL and x.numel():
        y = _max_pool_by_library(x, windows, low)
    else:
        inner = tuple(range(-len(window), 0))
        y = torch.amax(windows.unfold(x, low), inner)
    return _permute(y, inverse_permutation(order))


def _max_pool_by_library(x: Any, windows: _Windows, low: Any) -> Any:
    pads = windows.needed_pads()
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
    order = channels_first_permutation(layout, x.ndim)
    x = _permute(x, order)
    windows = _Windows(x.shape[2:], window, strides, padding, dilations, ceil)
    if len(window) == 2 and set(windows.dilations) == {1} and x.numel():
        whole = pad_last_axes(x, windows.needed_pads())
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
    return _permute(y, inverse_permutation(order))


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
}
