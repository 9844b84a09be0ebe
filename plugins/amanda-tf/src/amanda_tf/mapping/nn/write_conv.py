"""To TensorFlow: convolutions and pooling.

On CPU, TensorFlow has channels last only: data with channels first is transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std.mappings import rank_of, scalar_like
from amanda_tf.mapping.operands import dims_of, int_tensor

__all__ = ["WRITE"]

_KERNELS: dict[str, Callable[[int], list[int]]] = {
    "OI*": lambda n: [*range(2, n), 1, 0],
    "IO*": lambda n: [*range(2, n), 0, 1],
    "*IO": lambda n: list(range(n)),
    "*OI": lambda n: [*range(n - 2), n - 1, n - 2],
    "O*I": lambda n: [*range(1, n - 1), n - 1, 0],
}
"""The permutation that brings a kernel to *IO."""


def _permute_axes(o: Any, x: Any, order: Sequence[int]) -> Any:
    order = list(order)
    return x if order == list(range(len(order))) else o.Transpose(x, int_tensor(order))


def to_channels_last(o: Any, x: Any, layout: str) -> Any:
    """Data with its channels as the last axis."""
    rank = rank_of(x)
    if layout == "N*C":
        return x
    return _permute_axes(o, x, [0, *range(2, rank), 1])


def from_channels_last(o: Any, y: Any, layout: str, rank: int) -> Any:
    """Data with channels last, in a layout of std."""
    if layout == "N*C":
        return y
    return _permute_axes(o, y, [0, rank - 1, *range(1, rank - 1)])


class _Window:
    """Spatial sizes and what moves over them, with resolved padding."""

    def __init__(
        self, x: Any, layout: str, window: Sequence[int], strides: Any, padding: Any,
        dilations: Any, *, ceil: bool = False,
    ) -> None:  # fmt: skip
        n = len(window)
        self.window = list(window)
        self.strides = list(strides or [1] * n)
        self.dilations = list(dilations or [1] * n)
        dims = dims_of(x)
        self.sizes = list(dims[2:] if layout == "NC*" else dims[1:-1])
        self.same = padding == "same_upper" and not ceil
        self.pads = [(0, 0)] * n if self.same else self._pads(padding, ceil)

    def _pads(self, padding: Any, ceil: bool) -> list[tuple[int, int]]:
        if padding in (None, "valid"):
            pairs = [(0, 0)] * len(self.window)
        elif isinstance(padding, str):
            pairs = [self._same_pads(i, padding) for i in range(len(self.window))]
        else:
            pairs = [(int(low), int(high)) for low, high in padding]
        if not ceil:
            return pairs
        return [self._rounded_up(i, *pair) for i, pair in enumerate(pairs)]

    def _span(self, i: int) -> int:
        return int((self.window[i] - 1) * self.dilations[i] + 1)

    def _static_size(self, i: int) -> int:
        size = self.sizes[i]
        if not isinstance(size, int):
            raise Decline("padding by a size that is known at run time only")
        return int(size)

    def _same_pads(self, i: int, padding: str) -> tuple[int, int]:
        size, step = self._static_size(i), self.strides[i]
        total = max((-(-size // step) - 1) * step + self._span(i) - size, 0)
        less = total // 2
        return (less, total - less) if padding == "same_upper" else (total - less, less)

    def _rounded_up(self, i: int, low: int, high: int) -> tuple[int, int]:
        """More padding at the end, so that the last window is whole."""
        free = self._static_size(i) + low + high - self._span(i)
        step = self.strides[i]
        count = -(-free // step)
        if count * step >= self._static_size(i) + low:
            count -= 1
        return low, high + max(count * step - free, 0)

    def resolve_same(self) -> list[tuple[int, int]]:
        """The pads, as numbers of mode SAME too."""
        if self.same:
            self.same = False
            self.pads = self._pads("same_upper", ceil=False)
        return self.pads

    @property
    def has_padding(self) -> bool:
        """Whether data is padded before the op; mode SAME pads within it."""
        return any(any(pair) for pair in self.pads)

    def pad(self, o: Any, x: Any, value: Any = None) -> Any:
        """Channels-last data with its padding."""
        if not self.has_padding:
            return x
        if any(n < 0 for pair in self.pads for n in pair):
            raise Decline("negative padding")
        pads = int_tensor([(0, 0), *self.pads, (0, 0)])
        return o.Pad(x, pads) if value is None else o.PadV2(x, pads, value)

    def attrs(self, *, dilations: bool = True) -> dict[str, Any]:
        """The attributes strides, padding and dilations."""
        found: dict[str, Any] = {
            "strides": [1, *self.strides, 1],
            "padding": "SAME" if self.same else "VALID",
        }
        if dilations and any(d != 1 for d in self.dilations):
            found["dilations"] = [1, *self.dilations, 1]
        return found


def write_conv(
    o: Any, x: Any, w: Any, b: Any = None, *, layout: str = "NC*",
    kernel_layout: str = "OI*", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    rank = rank_of(x)
    if rank not in (3, 4, 5):
        raise Decline(f"TensorFlow has no convolution of data of rank {rank}")
    order = _KERNELS[kernel_layout](rank)
    kernel = [dims_of(w)[i] for i in order[:-2]]
    if not all(isinstance(k, int) for k in kernel):
        raise Decline("a kernel whose size is not static")
    window = _Window(x, layout, kernel, strides, padding, dilations)
    data, weights = to_channels_last(o, x, layout), _permute_axes(o, w, order)
    if rank == 3:  # rows of height 1
        data, weights = (
            o.ExpandDims(data, int_tensor(1)),
            o.ExpandDims(weights, int_tensor(0)),
        )
        for name, one in (
            ("window", 1),
            ("strides", 1),
            ("dilations", 1),
            ("sizes", 1),
        ):
            getattr(window, name).insert(0, one)
        window.pads = [(0, 0), *window.pads]
        if len(set(window.strides)) > 1:
            window.strides[0] = window.strides[1]
    shape = [dims_of(w)[i] for i in order[-2:]]
    y = _convolve(
        o, window.pad(o, data), weights, window, groups, shape, len(window.window)
    )
    if b is not None:
        y = o.BiasAdd(y, b)
    if rank == 3:
        y = o.Squeeze(y, squeeze_dims=[1])
    return from_channels_last(o, y, layout, rank)


def _convolve(
    o: Any, data: Any, weights: Any, window: _Window, groups: int, shape: list[Any],
    spatial: int,
) -> Any:  # fmt: skip
    if groups == 1:
        op = "Conv2D" if spatial == 2 else "Conv3D"
        if spatial == 3:
            weights = _dilate(o, weights, window.window, window.dilations)
            return o.op(op, data, weights, **window.attrs(dilations=False))
        return o.op(op, data, weights, **window.attrs())
    inner, out = shape
    equal = len(set(window.strides)) == 1
    plain = all(d == 1 for d in window.dilations)
    if spatial == 2 and inner == 1 and equal and isinstance(out, int) and plain:
        kernel = o.Reshape(weights, int_tensor([*window.window, groups, out // groups]))
        return o.DepthwiseConv2dNative(data, kernel, **window.attrs())
    xs = o.Split(int_tensor(spatial + 1), data, num_split=groups, outputs=groups)
    ws = o.Split(int_tensor(spatial + 1), weights, num_split=groups, outputs=groups)
    parts = [
        _convolve(o, a, c, window, 1, shape, spatial)
        for a, c in zip(xs, ws, strict=True)
    ]
    return o.ConcatV2(*parts, int_tensor(spatial + 1), N=groups)


def write_conv_transpose(
    o: Any, x: Any, w: Any, b: Any = None, *, layout: str = "NC*",
    kernel_layout: str = "IO*", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1, output_padding: Any = None,
) -> Any:  # fmt: skip
    """The gradient of a convolution with respect to its data, then a crop."""
    rank = rank_of(x)
    if rank not in (3, 4, 5):
        raise Decline(f"TensorFlow has no convolution of data of rank {rank}")
    order = _KERNELS[kernel_layout](rank)
    order = [*order[:-2], order[-1], order[-2]]  # the kernel of the forward convolution
    n = rank - 2
    w_dims, dims = [dims_of(w)[i] for i in order], dims_of(x)
    batch, sizes = dims[0], list(dims[2:] if layout == "NC*" else dims[1:-1])
    if not all(isinstance(i, int) for i in w_dims):
        raise Decline("a transposed convolution whose kernel has no static sizes")
    s, d = list(strides or [1] * n), list(dilations or [1] * n)
    rests = [(k - 1) * c + 1 - a for a, k, c in zip(s, w_dims, d, strict=False)]
    full = [
        m * a + rest if isinstance(m, int) else (a, rest)
        for m, a, rest in zip(sizes, s, rests, strict=True)
    ]
    data, weights = to_channels_last(o, x, layout), _permute_axes(o, w, order)
    if rank == 3:  # rows of height 1
        data = o.ExpandDims(data, int_tensor(1))
        weights = o.ExpandDims(weights, int_tensor(0))
        s, d = [s[0], *s], [1, *d]
    first = batch if isinstance(batch, int) else (1, 0)
    shape = [first, *[1] * (rank == 3), *full, w_dims[-2]]
    kernel = [*[1] * (rank == 3), *w_dims[:n]]
    y = _convolve_back(o, data, weights, kernel, shape, s, d, groups)
    y = o.Squeeze(y, squeeze_dims=[1]) if rank == 3 else y
    pairs = [(int(low), int(high)) for low, high in padding or [(0, 0)] * n]
    more = [max(e, 0) for e in output_padding or [0] * n]
    y = _crop(o, y, pairs, more)
    if b is not None:
        y = o.BiasAdd(y, b)
    return from_channels_last(o, y, layout, rank)


def _convolve_back(
    o: Any, data: Any, weights: Any, kernel: list[int], shape: list[Any],
    strides: list[int], dilations: list[int], groups: int,
) -> Any:  # fmt: skip
    """The sum of kernels, each weighted by an element; groups one after the other.

    A size that is computed is a pair: a multiple of that of the data, and what is added
    to it."""
    rank = len(shape)
    sizes: Any = int_tensor([n if isinstance(n, int) else 0 for n in shape])
    if not all(isinstance(n, int) for n in shape):
        pairs = [(0, n) if isinstance(n, int) else n for n in shape]
        times, plus = (int_tensor(list(column)) for column in zip(*pairs, strict=True))
        sizes = o.AddV2(o.Mul(o.Shape(data), times), plus)
    attrs: dict[str, Any] = {"strides": [1, *strides, 1], "padding": "VALID"}
    weights = _dilate(o, weights, kernel, dilations)
    op = "Conv2DBackpropInput" if rank == 4 else "Conv3DBackpropInputV2"
    if groups == 1:
        return o.op(op, sizes, weights, data, **attrs)
    last = int_tensor(rank - 1)
    xs, ws = (
        o.Split(last, v, num_split=groups, outputs=groups) for v in (data, weights)
    )
    parts = [
        o.op(op, sizes, kernel, x, **attrs) for x, kernel in zip(xs, ws, strict=True)
    ]
    return o.ConcatV2(*parts, last, N=groups)


def _dilate(o: Any, w: Any, kernel: list[int], dilations: list[int]) -> Any:
    """A kernel *IO with zeros between its elements: on CPU, these ops dilate none."""
    for axis, (size, step) in enumerate(zip(kernel, dilations, strict=True)):
        if step != 1 and size > 1:
            pads = [(0, int(i == axis)) for i in range(len(kernel) + 2)]
            places = np.full((size - 1) * step + 1, size)  # the zero after the end
            places[::step] = np.arange(size)
            w = o.GatherV2(o.Pad(w, int_tensor(pads)), int_tensor(places),
                           int_tensor(axis))  # fmt: skip
    return w


def _crop(o: Any, y: Any, pairs: list[tuple[int, int]], more: list[int]) -> Any:
    """Without padding at both ends; with zeros where the result is longer."""
    grow = [max(m - max(high, 0), 0) for m, (_, high) in zip(more, pairs, strict=True)]
    cut = [max(max(high, 0) - m, 0) for m, (_, high) in zip(more, pairs, strict=True)]
    low = [max(pair[0], 0) for pair in pairs]
    if any(low) or any(cut):
        ends = [0, *(-c for c in cut), 0]
        open_ends = sum(1 << i for i, end in enumerate(ends) if end == 0)
        y = o.StridedSlice(
            y, int_tensor([0, *low, 0]), int_tensor(ends), int_tensor([1] * len(ends)),
            end_mask=open_ends,
        )  # fmt: skip
    if any(grow):
        y = o.Pad(y, int_tensor([(0, 0), *((0, g) for g in grow), (0, 0)]))
    return y


def _pool(kind: str) -> Callable[..., Any]:
    def write(
        o: Any, x: Any, *, window: Any, strides: Any = None, padding: Any = None,
        dilations: Any = None, ceil: bool = False, layout: str = "NC*",
        count_pads: bool = False,
    ) -> Any:  # fmt: skip
        rank = rank_of(x)
        plan = _Window(x, layout, window, strides, padding, dilations, ceil=ceil)
        declared = _Window(x, layout, window, strides, padding, dilations)
        is_counted = kind == "Avg" and count_pads
        counts_some = is_counted and (plan.same or plan.pads != declared.pads)
        if rank > 5 or counts_some or any(d != 1 for d in dilations or ()):
            y = to_channels_last(o, x, layout)
            y = _pool_by_axes(o, kind, y, plan, declared if is_counted else None, x)
            return from_channels_last(o, y, layout, rank)
        y = to_channels_last(o, x, layout)
        if rank == 3:
            y = o.ExpandDims(y, int_tensor(1))
            plan.window.insert(0, 1)
            plan.strides.insert(0, 1)
            plan.pads = [(0, 0), *plan.pads]
        y = _write_pool(o, kind, y, plan, count_pads, x)
        y = o.Squeeze(y, squeeze_dims=[1]) if rank == 3 else y
        return from_channels_last(o, y, layout, rank)

    return write


def _write_pool(
    o: Any, kind: str, y: Any, plan: _Window, count_pads: bool, x: Any
) -> Any:
    spatial = len(plan.window)
    op = f"{kind}Pool" + ("3D" if spatial == 3 else "")
    attrs = {**plan.attrs(dilations=False), "ksize": [1, *plan.window, 1]}
    if kind == "Max":
        low = scalar_like(_least(x), x) if plan.has_padding else None
        return o.op(op, plan.pad(o, y, low), **attrs)
    if not plan.has_padding or count_pads:
        return o.op(op, plan.pad(o, y), **attrs)
    total = o.op(op, plan.pad(o, y), **attrs)
    ones = o.Fill(o.Shape(y), scalar_like(1, x))
    return o.RealDiv(total, o.op(op, plan.pad(o, ones), **attrs))


def _pool_by_axes(
    o: Any, kind: str, y: Any, plan: _Window, counted: _Window | None, x: Any
) -> Any:
    """Pooling of any rank and dilation: one axis after the other.

    The elements of all windows of an axis are gathered along a new axis. An average
    counts the padding of `counted`.
    """
    plan.resolve_same()
    y = plan.pad(o, y, scalar_like(_least(x), x) if kind == "Max" else None)
    shares = np.ones((), "float64")
    for i, (low, high) in enumerate(plan.pads):
        size, step = plan._static_size(i), plan.strides[i]
        count = (size + low + high - plan._span(i)) // step + 1
        taps = np.arange(plan.window[i]) * plan.dilations[i]
        places = np.arange(count)[:, None] * step + taps
        y = o.GatherV2(y, int_tensor(places), int_tensor(i + 1))
        y = o.op("Max" if kind == "Max" else "Sum", y, int_tensor(i + 2))
        first, last = (0, 0) if counted is None else counted.resolve_same()[i]
        inside = (places >= low - first) & (places < low + size + last)
        shares = shares[..., None] * inside.sum(1)
    if kind == "Max":
        return y
    return o.RealDiv(y, scalar_like(shares[..., None], x))


def _least(x: Any) -> Any:
    dtype = x.type.dtype
    return -np.inf if dtype.kind == "float" else np.iinfo(dtype.numpy).min


WRITE: dict[str, Any] = {
    "conv": write_conv,
    "conv_transpose": write_conv_transpose,
    "max_pool": _pool("Max"),
    "avg_pool": _pool("Avg"),
}
