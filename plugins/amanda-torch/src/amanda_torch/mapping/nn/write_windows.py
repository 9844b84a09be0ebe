"""To PyTorch: convolutions and pooling, of data with channels first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import TensorType
from amanda_std.backends import (
    explicit_padding,
    input_first_permutation,
    per_axis,
    pooled_sizes,
    transposed_windows,
)
from amanda_std.mappings import rank_of
from amanda_torch.mapping.shapes.write_shapes import pad_axes
from amanda_torch.mapping.written_arguments import (
    dims_of,
    dtype_of,
    write_call,
    write_constant,
    write_size,
)

__all__ = ["WRITE"]


def _expect_floats(x: Any, layout: str) -> int:
    """The number of spatial axes, of which PyTorch has one to three."""
    axes = rank_of(x) - 2
    if layout != "NC*":
        raise Decline(f"PyTorch has data with channels first, not {layout}")
    if axes not in (1, 2, 3):
        raise Decline(f"PyTorch has windows of one to three axes, not {axes}")
    if dtype_of(x).kind != "float":
        raise Decline(f"PyTorch has no windows of {dtype_of(x)}")
    return axes


def _pads(padding: Any, x: Any, window: Sequence[int], strides: Sequence[int],
          dilations: Sequence[int]) -> list[tuple[int, int]]:  # fmt: skip
    """The padding as numbers; Decline where it depends on sizes that are not known."""
    sizes = dims_of(x)[2:]
    if isinstance(padding, str) and not all(isinstance(n, int) for n in sizes):
        if padding != "valid" and any(s != 1 for s in strides):
            raise Decline(f"padding {padding} of sizes known at run time only")
        sizes = (1,) * len(window)
    return [
        (int(a), int(b))
        for a, b in explicit_padding(padding, sizes, window, strides, dilations)
    ]


def _kernel_sizes(w: Any) -> list[int]:
    sizes = dims_of(w)[2:]
    if not all(isinstance(n, int) for n in sizes):
        raise Decline("the size of the kernel is known at run time only")
    return list(sizes)


def write_conv(
    o: Any, x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str,
    strides: Any, padding: Any, dilations: Any, groups: int,
) -> Any:  # fmt: skip
    axes = _expect_floats(x, layout)
    window = _kernel_sizes(w)
    if kernel_layout != "OI*":
        first, second, *rest = input_first_permutation(kernel_layout, axes + 2)
        window = [dims_of(w)[i] for i in rest]
        w = write_call(o, "permute", w, dims=[second, first, *rest])
    s, d = per_axis(strides, axes), per_axis(dilations, axes)
    pads = _pads(padding, x, window, s, d)
    plain = all(low == high >= 0 for low, high in pads)
    if not plain:
        x = pad_axes(o, x, [(0, 0), (0, 0), *pads])
    return write_call(
        o, f"conv{axes}d", x, w, b, stride=list(s), dilation=list(d), groups=groups,
        padding=[low for low, _ in pads] if plain else [0] * axes,
    )  # fmt: skip


def write_conv_transpose(
    o: Any, x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str,
    strides: Any, padding: Any, dilations: Any, groups: int, output_padding: Any,
) -> Any:  # fmt: skip
    axes = _expect_floats(x, layout)
    order = input_first_permutation(kernel_layout, axes + 2)
    window = [dims_of(w)[i] for i in order[2:]]
    if order != tuple(range(axes + 2)):
        w = write_call(o, "permute", w, dims=list(order))
    sizes = [n if isinstance(n, int) else 1 for n in dims_of(x)[2:]]
    rows = transposed_windows(
        sizes, window, strides, padding, dilations, output_padding
    )
    s, d = per_axis(strides, axes), per_axis(dilations, axes)
    crops = [(-a, r - c) for _, _, _, (a, c), _, r in rows]
    more = [high - low for low, high in crops]
    limits = [max(pair) for pair in zip(s, d, strict=True)]
    is_plain = all(low <= 0 for low, _ in crops) and all(
        0 <= extra < limit for extra, limit in zip(more, limits, strict=True)
    )
    name = "conv_transpose1d" if axes == 1 else f"conv_transpose{axes}d.input"
    if is_plain:
        return write_call(
            o, name, x, w, b, stride=list(s), padding=[-low for low, _ in crops],
            output_padding=more, groups=groups, dilation=list(d),
        )  # fmt: skip
    y = write_call(o, name, x, w, None, stride=list(s), padding=[0] * axes,
                   groups=groups, dilation=list(d))  # fmt: skip
    y = pad_axes(o, _with_element_type(y, x), [(0, 0), (0, 0), *crops])
    if b is None:
        return y
    shape = [-1] + [1] * axes
    return write_call(o, "add.Tensor", y, write_call(o, "reshape", b, shape=shape))


def _with_element_type(y: Any, like: Any) -> Any:
    """A value with the element type of another, for ops that read it."""
    if y.type is None:
        y.type = TensorType(dtype_of(like), None)
    return y


# -- pooling -----------------------------------------------------------------------


def _needed_pads(
    x: Any, window: Sequence[int], s: Sequence[int], pads: Any, d: Sequence[int],
    ceil: bool,
) -> tuple[list[tuple[int, int]], bool]:  # fmt: skip
    """The pads for exactly the windows that there are, and whether the last window
    may be beyond them, as only PyTorch can decide where sizes are not known."""
    sizes = dims_of(x)[2:]
    if not all(isinstance(n, int) for n in sizes):
        return list(pads), ceil
    counts = pooled_sizes(sizes, window, s, pads, d, ceil)
    rows = zip(sizes, window, s, pads, d, counts, strict=True)
    return [
        (a, max((count - 1) * step + (k - 1) * apart + 1 - n - a, b if a == b else 0))
        for n, k, step, (a, b), apart, count in rows
    ], False


def write_max_pool(
    o: Any, x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any,
    ceil: bool, layout: str,
) -> Any:  # fmt: skip
    axes = _expect_floats(x, layout)
    s, d = per_axis(strides, axes), per_axis(dilations, axes)
    pads = _pads(padding, x, window, s, d)
    pads, ceil = _needed_pads(x, window, s, pads, d, ceil)
    rows = zip(pads, window, strict=True)
    if any(a != b or a < 0 or 2 * a > k for (a, b), k in rows):
        if ceil:
            raise Decline("unequal padding of sizes known at run time only")
        x = pad_axes(o, x, [(0, 0), (0, 0), *pads], -np.inf)
        pads = [(0, 0)] * axes
    return write_call(
        o, f"max_pool{axes}d", x, kernel_size=list(window), stride=list(s),
        padding=[a for a, _ in pads], dilation=list(d), ceil_mode=ceil,
    )  # fmt: skip


def write_avg_pool(
    o: Any, x: Any, *, window: Any, strides: Any, padding: Any, dilations: Any,
    ceil: bool, layout: str, count_pads: bool,
) -> Any:  # fmt: skip
    axes = _expect_floats(x, layout)
    s, d = per_axis(strides, axes), per_axis(dilations, axes)
    pads = _pads(padding, x, window, s, d)
    is_plain = set(d) == {1} and all(a == b and 0 <= 2 * a <= k
                   for (a, b), k in zip(pads, window, strict=True))  # fmt: skip
    if is_plain and not (ceil and any(a for a, _ in pads)):
        return write_call(
            o, f"avg_pool{axes}d", x, kernel_size=list(window), stride=list(s),
            padding=[a for a, _ in pads], ceil_mode=ceil, count_include_pad=count_pads,
        )  # fmt: skip
    return _weighted_average(o, x, window, s, d, pads, ceil, count_pads)


def _weighted_average(
    o: Any, x: Any, window: Any, s: Any, d: Any, pads: Any, ceil: bool, count_pads: bool
) -> Any:
    """Averages of windows at unequal pads, or dilated: of all elements, times their
    number over that of those that count."""
    sizes = dims_of(x)[2:]
    if not all(isinstance(n, int) for n in sizes):
        raise Decline("unequal padding of sizes known at run time only")
    counts = pooled_sizes(sizes, window, s, pads, d, ceil)
    factor: Any = np.ones(())
    wide = []
    rows = zip(sizes, window, s, d, pads, counts, strict=True)
    for n, k, step, apart, (a, b), count in rows:
        at = np.arange(count)[:, None] * step + np.arange(k)[None, :] * apart - a
        low, high = (-a, n + b) if count_pads else (0, n)
        factor = factor[..., None] * ((at >= low) & (at < high)).sum(1)
        wide.append((a, (count - 1) * step + (k - 1) * apart + 1 - n - a))
    padded = pad_axes(o, x, [(0, 0), (0, 0), *wide])
    y = _average(o, padded, window, s, d, dtype_of(x))
    scale = (prod(window) / factor).astype(dtype_of(x).numpy)
    return write_call(o, "mul.Tensor", y, write_constant(o, scale))


def _average(o: Any, x: Any, window: Any, s: Any, d: Any, dtype: Any) -> Any:
    """Averages of windows; of dilated ones by a convolution of each channel."""
    axes = len(window)
    if set(d) == {1}:
        return write_call(o, f"avg_pool{axes}d", x, kernel_size=list(window),
                          stride=list(s))  # fmt: skip
    weight = np.full((1, 1, *window), 1 / prod(window)).astype(dtype.numpy)
    channels = write_call(o, "unsqueeze", x, dim=2)
    flat = write_call(o, "flatten.using_ints", channels, start_dim=0, end_dim=1)
    y = write_call(o, f"conv{axes}d", flat, write_constant(o, weight), None,
                   stride=list(s), dilation=list(d))  # fmt: skip
    y = write_call(o, "squeeze.dim", y, dim=1)
    batch, count = (write_size(o, n) for n in dims_of(o.source.inputs[0])[:2])
    return write_call(o, "unflatten.int", y, dim=0, sizes=[batch, count])


def _global_pool(name: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, *, layout: str = "NC*") -> Any:
        axes = _expect_floats(x, layout)
        last = list(range(-axes, 0))
        return write_call(o, name, x, dim=last, keepdim=True)

    return write


WRITE: dict[str, Any] = {
    "conv": write_conv,
    "conv_transpose": write_conv_transpose,
    "max_pool": write_max_pool,
    "avg_pool": write_avg_pool,
    "global_avg_pool": _global_pool("mean.dim"),
    "global_max_pool": _global_pool("amax"),
}
