"""Convolutions of any rank. Layouts: data `NC*` or `N*C`, kernels `OI*`, `*IO`, ..."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Dim, Shape, Sym, TensorType, dims_equal
from amanda_std.engine.annotations import Floating
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Operators, dims_of
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import is_static
from amanda_std.ops.math.arithmetic import maximum, multiply
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.manipulation import pad, slice_
from amanda_std.ops.tensor.shape import reshape, transpose

Pairs = tuple[tuple[int, int], ...]
Padding: TypeAlias = str | Sequence[Sequence[Any]] | None
_PerAxis: TypeAlias = Sequence[Any]
"""One setting for each spatial axis: integers, or dims."""
_MOST_AXES = 64  # as in numpy


def resolve_padding(
    padding: Padding, spatial: _PerAxis, kernel: _PerAxis, strides: _PerAxis,
    dilations: _PerAxis,
) -> list[tuple[Any, Any]]:  # fmt: skip
    """(low, high) padding of each spatial axis, also for named padding modes."""
    if padding is None or padding == "valid":
        return [(0, 0)] * len(kernel)
    if not isinstance(padding, str):
        return [tuple(pair) for pair in padding]
    if padding not in ("same_upper", "same_lower"):
        raise InvalidTypeError(
            "unknown padding", expected="pairs, valid, same_upper or same_lower",
            got=padding,
        )  # fmt: skip
    result = []
    for n, k, s, d in _rows_by_axis(
        spatial=spatial, kernel=kernel, strides=strides, dilations=dilations
    ):
        total = (-(-n // s) - 1) * s + (k - 1) * d + 1 - n
        least = 0
        is_computed = isinstance(total, Operators)
        total = maximum(total, np.int64(least)) if is_computed else max(least, total)
        less = total // 2
        result.append(
            (less, total - less) if padding == "same_upper" else (total - less, less)
        )
    return result


def _rows_by_axis(**settings: _PerAxis) -> Iterator[tuple[Any, ...]]:
    """The settings of each axis; InvalidTypeError if one has another number of axes."""
    counts = {name: len(setting) for name, setting in settings.items()}
    if len(set(counts.values())) > 1:
        raise InvalidTypeError(
            "sizes and settings of windows are for different numbers of axes",
            got=", ".join(f"{name} for {count}" for name, count in counts.items()),
        )
    return zip(*settings.values(), strict=True)


def strides_or_ones(given: _PerAxis | None, count: int) -> tuple[int, ...]:
    """Strides or dilations; 1 by default."""
    return (1,) * count if given is None else tuple(given)


def output_sizes(
    spatial: _PerAxis, kernel: _PerAxis, strides: _PerAxis, padding: Padding,
    dilations: _PerAxis,
) -> list[Dim]:  # fmt: skip
    """Number of output positions along each spatial axis."""
    if padding in ("same_upper", "same_lower"):
        rows = _rows_by_axis(spatial=spatial, strides=strides)
        return [-(-n // s) for n, s in rows]
    pads = resolve_padding(padding, spatial, kernel, strides, dilations)
    rows = _rows_by_axis(
        spatial=spatial, kernel=kernel, strides=strides, padding=pads,
        dilations=dilations,
    )  # fmt: skip
    return [(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, (a, b), d in rows]


def to_channels_first(layout: str, rank: int) -> tuple[int, ...]:
    """Permutation that brings data to NC*, or a kernel to OI*."""
    if rank > _MOST_AXES:
        raise InvalidTypeError(
            "too many axes", expected=f"at most {_MOST_AXES}", got=rank
        )
    orders = {
        "NC*": range(rank),
        "N*C": (0, rank - 1, *range(1, rank - 1)),
        "OI*": range(rank),
        "IO*": (1, 0, *range(2, rank)),
        "*IO": (rank - 1, rank - 2, *range(rank - 2)),
        "O*I": (0, rank - 1, *range(1, rank - 1)),
    }
    if layout not in orders:
        raise InvalidTypeError("unknown layout", expected=", ".join(orders), got=layout)
    return tuple(orders[layout])


def permute(values: Any, order: tuple[int, ...]) -> list[Any]:
    return [values[i] for i in order]


def inverse_permute(values: Any, order: tuple[int, ...]) -> list[Any]:
    """Inverse of `ordered`."""
    result = list(values)
    for position, i in enumerate(order):
        result[i] = values[position]
    return result


def _inverse_permutation(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(inverse_permute(range(len(order)), order))


def _conv_shape(
    x: TensorType, w: TensorType, *, layout: str, kernel_layout: str,
    strides: Any, padding: Any, dilations: Any, groups: int,
) -> Shape:  # fmt: skip
    rank = w.shape.rank
    order = to_channels_first(layout, rank)
    out, inner, *kernel = permute(w.shape.dims, to_channels_first(kernel_layout, rank))
    if not x.shape.has_rank:
        free = [Sym.unknown(), out, *(Sym.unknown() for _ in kernel)]
        return Shape(inverse_permute(free, order))
    if x.shape.rank != rank:
        raise InvalidTypeError(
            "data and kernel differ in rank", expected=rank, got=x.shape
        )
    batch, channels, *spatial = permute(x.shape.dims, order)
    shapes.expect_same(
        inner * groups,
        channels,
        "the number of input channels does not match the kernel",
    )
    count = rank - 2
    positions = output_sizes(
        spatial,
        kernel,
        strides_or_ones(strides, count),
        padding,
        strides_or_ones(dilations, count),
    )
    return Shape(inverse_permute([batch, out, *positions], order))


@primitive(shape=_conv_shape, numpy_only=True)
def conv(
    x: Floating, w: Floating, b: Floating | None = None, *, layout: str = "NC*",
    kernel_layout: str = "OI*", strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
    groups: int = 1,
) -> Floating:  # fmt: skip
    """Convolution (cross-correlation) over any number of spatial axes"""
    order = to_channels_first(layout, x.ndim)
    x = x.transpose(order)
    w = w.transpose(to_channels_first(kernel_layout, w.ndim))
    y = channels_first(x, w, strides, padding, dilations, groups)
    if b is not None:
        y += b.reshape(-1, *(1,) * (x.ndim - 2))
    return y.transpose(_inverse_permutation(order))


conv.trait(Trait.LINEAR_LAYER)


def channels_first(
    x: Any, w: Any, strides: Any, padding: Any, dilations: Any, groups: int
) -> Any:
    """Convolve NC* data with an OI* kernel by matrix products (im2col)."""
    n, (out, inner, *kernel) = x.ndim - 2, w.shape
    s, d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
    pads = resolve_padding(padding, x.shape[2:], kernel, s, d)
    x = pad_or_crop(x, pads)
    size = output_sizes(x.shape[2:], kernel, s, None, d)
    if inner == 1 and out == groups:
        return _depthwise(x, w, s, d, size)
    batch = len(x)
    if prod(kernel) == 1:
        cuts = tuple(slice(None, None, q) for q in s)
        columns = x[(..., *cuts)].reshape(batch, groups, inner, prod(size))
    else:
        columns = _im2col(x, kernel, s, d).reshape(
            batch, groups, inner * prod(kernel), prod(size)
        )
    y = w.reshape(groups, out // groups, inner * prod(kernel)) @ columns
    return y.astype(w.dtype, copy=False).reshape(batch, out, *size)


def pad_or_crop(x: Any, pads: Any) -> Any:
    """Pad the last axes with zeros; negative numbers crop."""
    full = [(0, 0)] * (x.ndim - len(pads)) + list(pads)
    cuts = zip(x.shape, full, strict=True)
    x = x[tuple(slice(max(-a, 0), max(n + min(b, 0), 0)) for n, (a, b) in cuts)]
    grow = [(max(a, 0), max(b, 0)) for a, b in full]
    return np.pad(x, grow) if any(map(any, grow)) else x


def _im2col(x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
    """All windows of the data, window offsets before output positions (im2col)."""
    n = len(kernel)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, n + 2)))
    positions = tuple(slice(None, None, s) for s in strides)
    inside = tuple(slice(None, None, d) for d in dilations)
    seen = seen[(slice(None), slice(None), *positions, *inside)]
    return seen.transpose(0, 1, *range(n + 2, 2 * n + 2), *range(2, n + 2))


def _depthwise(x: Any, w: Any, strides: Any, dilations: Any, size: Any) -> Any:
    """Depthwise convolution: a few passes over the data beat tiny products.

    Narrow floats are accumulated in a wider type, as in matrix products."""
    small = x.dtype.itemsize < 4 and x.dtype.kind not in "iub"
    wide = np.dtype("float32") if small else x.dtype
    data, kernel = x.astype(wide, copy=False), w.astype(wide, copy=False)
    y = np.zeros((x.shape[0], x.shape[1], *size), wide)
    for at in np.ndindex(*w.shape[2:]):
        cut = window_slice(at, size, strides, dilations)
        column = kernel[(slice(None), 0, *at)].reshape(-1, *(1,) * len(size))
        y += data[(..., *cut)] * column
    return y.astype(x.dtype, copy=False)


def window_slice(
    at: _PerAxis, size: _PerAxis, strides: _PerAxis, dilations: _PerAxis
) -> tuple[slice, ...]:
    """Slice of the data that one kernel element sees, over all windows."""
    rows = _rows_by_axis(at=at, size=size, strides=strides, dilations=dilations)
    return tuple(
        slice(a * d, a * d + (m - 1) * s + 1, s) if m else slice(0)
        for a, m, s, d in rows
    )


@conv.gradient
def _(
    g: Any, x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str,
    strides: Any, padding: Any, dilations: Any, groups: int,
) -> Any:  # fmt: skip
    rank = w.ndim
    n = rank - 2
    order, kernel_order = (
        to_channels_first(layout, rank),
        to_channels_first(kernel_layout, rank),
    )
    x, g = (transpose(v, perm=order) for v in (x, g))
    w = transpose(w, perm=kernel_order)
    s, d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
    kernel = tuple(int(m) for m in dims_of(w)[2:])
    named = isinstance(padding, str) and any(q > 1 for q in s)
    pads = resolve_padding(
        padding, (x.shape if named else dims_of(x))[2:], kernel, s, d
    )
    outer = pads if is_static(tuple(pads)) else ((0, 0),) * n
    whole = x if outer is pads else pad(x, ((0, 0), (0, 0), *pads))
    to_x = _data_gradient(g, w, whole, s, outer, d, groups)
    if whole is not x:
        to_x = pad(to_x, ((0, 0), (0, 0), *((-a, -b) for a, b in pads)))
    to_w = _kernel_gradient(g, whole, w, s, outer, d, groups)
    to_b = None if b is None else sum_(g, (0, *range(2, rank)))
    return (transpose(to_x, perm=_inverse_permutation(order)),
            transpose(to_w, perm=_inverse_permutation(kernel_order)), to_b)  # fmt: skip


def _data_gradient(
    g: Any, w: Any, x: Any, s: Any, pads: Any, d: Any, groups: int
) -> Any:
    """Gradient of the data: transposed convolution of g, cut to the size of the data.

    Strides may leave up to s - 1 elements at the end that no window covers."""
    sizes, kernel = dims_of(x)[2:], dims_of(w)[2:]
    rows = zip(sizes, kernel, s, pads, d, strict=True)
    rest = [(m + a + c - (k - 1) * e - 1) % q for m, k, q, (a, c), e in rows]
    known = is_static(tuple(rest))
    if not known:
        rest = [q - 1 for q in s]
    y = conv_transpose(g, w, strides=s, padding=tuple(pads), dilations=d,
                       groups=groups, output_padding=tuple(rest))  # fmt: skip
    if known:
        return y
    axes = tuple(range(2, len(sizes) + 2))
    return slice_(y, (0,) * len(sizes), list(x.shape[2:]), axes)


def _kernel_gradient(
    g: Any, x: Any, w: Any, s: Any, pads: Any, d: Any, groups: int
) -> Any:
    """Gradient of the kernel: convolution of the data with g, batch as channels.

    Elements that no window covers may add positions, which are cut off."""
    _, per, *kernel = map(int, dims_of(w))
    n = len(kernel)
    spatial = range(2, n + 2)
    x = pad(x, ((0, 0), (0, 0), *pads))
    swapped = transpose(x, perm=(1, 0, *spatial))
    if groups > 1:  # [batch, group * per, ...] to [per, group * batch, ...]
        batch, _, *size = x.shape
        x = reshape(x, (batch, groups, per, *size))
        x = transpose(x, perm=(2, 1, 0, *(i + 1 for i in spatial)))
        swapped = reshape(x, (per, multiply(batch, groups), *size))
    y = conv(swapped, transpose(g, perm=(1, 0, *spatial)), strides=d, dilations=s,
             groups=groups)  # fmt: skip
    if not all(map(dims_equal, dims_of(y)[2:], kernel)):
        y = slice_(y, (0,) * n, kernel, tuple(spatial))
    return transpose(y, perm=(1, 0, *spatial))


# -- transposed convolution ------------------------------------------------------


def _conv_transpose_shape(
    x: TensorType, w: TensorType, *, layout: str, kernel_layout: str,
    strides: Any, padding: Any, dilations: Any, groups: int, output_padding: Any,
) -> Shape:  # fmt: skip
    rank = w.shape.rank
    order = to_channels_first(layout, rank)
    inner, out, *kernel = permute(w.shape.dims, input_first(kernel_layout, rank))
    if not x.shape.has_rank:
        free = [Sym.unknown(), out * groups, *(Sym.unknown() for _ in kernel)]
        return Shape(inverse_permute(free, order))
    batch, channels, *spatial = permute(x.shape.dims, order)
    shapes.expect_same(
        inner, channels, "the number of input channels does not match the kernel"
    )
    rows = transposed_geometry(
        spatial, kernel, strides, padding, dilations, output_padding
    )
    positions = [
        (m - 1) * s + (k - 1) * d + 1 + r - a - c for m, k, s, (a, c), d, r in rows
    ]
    return Shape(inverse_permute([batch, out * groups, *positions], order))


def transposed_geometry(
    spatial: _PerAxis, kernel: _PerAxis, strides: _PerAxis | None,
    padding: _PerAxis | None, dilations: _PerAxis | None, extra: _PerAxis | None,
) -> list[tuple[Any, ...]]:  # fmt: skip
    n = len(kernel)
    s, d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
    pads = ((0, 0),) * n if padding is None else padding
    rest = (0,) * n if extra is None else extra
    rows = _rows_by_axis(
        spatial=spatial, kernel=kernel, strides=s, padding=pads, dilations=d,
        output_padding=rest,
    )  # fmt: skip
    return list(rows)


@primitive(shape=_conv_transpose_shape, numpy_only=True)
def conv_transpose(
    x: Floating, w: Floating, b: Floating | None = None, *, layout: str = "NC*",
    kernel_layout: str = "IO*", strides: tuple[int, ...] | None = None,
    padding: Pairs | None = None, dilations: tuple[int, ...] | None = None,
    groups: int = 1, output_padding: tuple[int, ...] | None = None,
) -> Floating:  # fmt: skip
    """Transposed convolution: the gradient of a convolution with respect to its data"""
    order = to_channels_first(layout, x.ndim)
    x = x.transpose(order)
    w = w.transpose(input_first(kernel_layout, w.ndim))
    batch, channels, *spatial = x.shape
    inner, out, *kernel = w.shape
    rows = transposed_geometry(
        spatial, kernel, strides, padding, dilations, output_padding
    )
    full = [(m - 1) * s + (k - 1) * d + 1 + max(r, 0) for m, k, s, _, d, r in rows]
    y: Any = np.zeros((batch, out * groups, *full), x.dtype)
    parts = x.reshape(batch, groups, channels // groups, prod(spatial))
    weights = w.reshape(groups, inner // groups, out, *kernel)
    for at in np.ndindex(*kernel):
        spread = np.matmul(weights[(..., *at)].swapaxes(1, 2), parts)
        cut = tuple(
            slice(a * r[4], a * r[4] + (r[0] - 1) * r[2] + 1, r[2])
            for a, r in zip(at, rows, strict=True)
        )
        y[(..., *cut)] += spread.reshape(batch, out * groups, *spatial)
    y = pad_or_crop(y, [(-a, -b) for _, _, _, (a, b), *_ in rows])
    if b is not None:
        y = y + b.reshape(-1, *(1,) * len(kernel))
    return y.transpose(_inverse_permutation(order))


def input_first(layout: str, rank: int) -> tuple[int, ...]:
    """Permutation that brings a kernel to IO*."""
    names = {"IO*": "OI*", "OI*": "IO*", "*OI": "*IO", "*IO": ""}
    if layout == "*IO":
        return (rank - 2, rank - 1, *range(rank - 2))
    if layout not in names:
        raise InvalidTypeError("unknown layout", expected=", ".join(names), got=layout)
    return to_channels_first(names[layout], rank)


@conv_transpose.gradient
def _(
    g: Any, x: Any, w: Any, b: Any = None, *, layout: str, kernel_layout: str,
    strides: Any, padding: Any, dilations: Any, groups: int, output_padding: Any,
) -> Any:  # fmt: skip
    """Convolution of the gradients, with data and gradients exchanged."""
    rank = w.ndim
    n = rank - 2
    order, kernel_order = (
        to_channels_first(layout, rank),
        input_first(kernel_layout, rank),
    )
    x, g = (transpose(v, perm=order) for v in (x, g))
    w = transpose(w, perm=kernel_order)
    s, d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
    pads = ((0, 0),) * n if padding is None else padding
    rest = (0,) * n if output_padding is None else output_padding
    crop = tuple((a, c - r) for (a, c), r in zip(pads, rest, strict=True))
    seen = pad(g, ((0, 0), (0, 0), *crop))
    to_x = conv(seen, w, strides=s, dilations=d, groups=groups)
    to_w = _kernel_gradient(x, g, w, s, crop, d, groups)
    to_b = None if b is None else sum_(g, (0, *range(2, rank)))
    return (transpose(to_x, perm=_inverse_permutation(order)),
            transpose(to_w, perm=_inverse_permutation(kernel_order)), to_b)  # fmt: skip


# -- samples -------------------------------------------------------------------


def _conv_by_loops(
    x: Any, w: Any, b: Any, s: Any, pads: Any, d: Any, groups: int
) -> Any:
    """Convolution by loops over every position and weight."""
    n = x.ndim - 2
    s, d = strides_or_ones(s, n), strides_or_ones(d, n)
    pads = ((0, 0),) * n if pads is None else pads
    out, inner, *kernel = w.shape
    rows = zip(x.shape[2:], kernel, s, pads, d, strict=True)
    size = [(m + a + c - (k - 1) * e - 1) // q + 1 for m, k, q, (a, c), e in rows]
    y = np.zeros((x.shape[0], out, *size), "float64")
    for i, o, *at in np.ndindex(y.shape):
        total = 0.0 if b is None else float(b[o])
        first = o // (out // groups) * inner
        for c, *inside in product(range(inner), *map(range, kernel)):
            where = [
                p * q + k * e - a
                for p, q, k, e, (a, _) in zip(at, s, inside, d, pads, strict=True)
            ]
            if all(0 <= p < m for p, m in zip(where, x.shape[2:], strict=True)):
                total += float(x[(i, first + c, *where)]) * float(w[(o, c, *inside)])
        y[(i, o, *at)] = total
    return y.astype(x.dtype)


_FORMS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 5, 4), (3, 2, 3, 2), {}),
    ((2, 2, 6, 5), (4, 2, 3, 3), {"padding": ((1, 1), (0, 2)), "strides": (2, 1)}),
    ((1, 4, 5, 5), (4, 2, 2, 2), {"groups": 2, "dilations": (2, 1)}),
    ((1, 3, 5, 5), (3, 1, 3, 3),
     {"groups": 3, "padding": ((1, 1),) * 2, "strides": (2, 2)}),
    ((2, 3, 4, 4), (2, 3, 1, 1), {"strides": (2, 2)}),
    ((1, 2, 7), (2, 2, 3), {"strides": (3,)}),
    ((1, 1, 3, 3, 3), (2, 1, 2, 2, 2), {}),
]  # fmt: skip


@conv.samples
def _() -> Samples:
    for data, kernel, attrs in _FORMS:
        x, w, b = ramp(*data), ramp(*kernel, start=0.3), ramp(kernel[0], start=2.0)
        plain = (attrs.get("strides"), attrs.get("padding"), attrs.get("dilations"),
                 attrs.get("groups", 1))  # fmt: skip
        yield Sample((x, w, b), _conv_by_loops(x, w, b, *plain), attrs)
        yield Sample((x, w), _conv_by_loops(x, w, None, *plain), attrs)
    ones = np.ones(
        (1, 1, 3000), "float16"
    )  # a half-precision sum of ones stops at 2048
    yield Sample((ones, ones), np.array([[[3000]]], "float16"))
    x, w = ramp(1, 2, 4), ramp(3, 2, 1, start=0.3)
    for side in ("same_upper", "same_lower"):
        y = _conv_by_loops(x, w, None, (2,), None, None, 1)
        yield Sample((x, w), y, {"strides": (2,), "padding": side})
    x, w = ramp(1, 2, 5, 4), ramp(3, 2, 3, 2, start=0.3)
    y = _conv_by_loops(x, w, None, None, None, None, 1)
    for layout, perm in (
        ("*IO", (2, 3, 1, 0)),
        ("IO*", (1, 0, 2, 3)),
        ("O*I", (0, 2, 3, 1)),
    ):
        attrs = {"layout": "N*C", "kernel_layout": layout}
        moved = np.moveaxis(x, 1, -1), w.transpose(perm)
        yield Sample(moved, np.moveaxis(y, 1, -1), attrs)
    for word, pads in (
        ("same_upper", ((1, 1), (0, 1))),
        ("same_lower", ((1, 1), (1, 0))),
    ):
        y = _conv_by_loops(x, w, None, None, pads, None, 1)
        yield Sample((x, w), y, {"padding": word})
    for dtype in ("float32", "float16"):
        x, w = ramp(1, 2, 4, dtype=dtype), ramp(2, 2, 2, dtype=dtype, start=0.3)
        yield Sample((x, w), _conv_by_loops(x, w, None, None, None, None, 1))
    yield Sample((ramp(0, 2, 4), ramp(2, 2, 2)), np.zeros((0, 2, 3)), smooth=False)


def _conv_transpose_by_loops(x: Any, w: Any, b: Any, rows: Any, groups: int) -> Any:
    inner, out, *kernel = w.shape
    size = [(m - 1) * s + (k - 1) * d + 1 + r - a - c for m, k, s, (a, c), d, r in rows]
    y = np.zeros((x.shape[0], out * groups, *size), "float64")
    for i, c, *at in np.ndindex(x.shape):
        group = c // (inner // groups)
        for o, *inside in product(range(out), *map(range, kernel)):
            where = [
                p * r[2] + k * r[4] - r[3][0]
                for p, k, r in zip(at, inside, rows, strict=True)
            ]
            if all(0 <= p < m for p, m in zip(where, size, strict=True)):
                y[(i, group * out + o, *where)] += x[(i, c, *at)] * w[(c, o, *inside)]
    return y if b is None else y + b.reshape(-1, *(1,) * len(kernel))


@conv_transpose.samples
def _() -> Samples:
    forms: list[Any] = [
        ((1, 2, 3, 3), (2, 3, 2, 2), {}),
        ((1, 2, 3, 3), (2, 3, 3, 3), {"strides": (2, 2), "padding": ((1, 1), (0, 1)),
                                      "output_padding": (1, 0)}),
        ((1, 4, 4), (4, 2, 3), {"groups": 2, "dilations": (2,)}),
    ]  # fmt: skip
    for data, kernel, attrs in forms:
        x, w = ramp(*data), ramp(*kernel, start=0.3)
        groups = attrs.get("groups", 1)
        b = ramp(kernel[1] * groups, start=1.0)
        names = ("strides", "padding", "dilations", "output_padding")
        rows = transposed_geometry(data[2:], kernel[2:], *map(attrs.get, names))
        yield Sample((x, w), _conv_transpose_by_loops(x, w, None, rows, groups), attrs)
        yield Sample((x, w, b), _conv_transpose_by_loops(x, w, b, rows, groups), attrs)
    x, w = ramp(1, 2, 3, 3), ramp(2, 3, 2, 1, start=0.3)
    rows = transposed_geometry((3, 3), (2, 1), None, None, None, None)
    y = _conv_transpose_by_loops(x, w, None, rows, 1)
    for layout, perm in (
        ("OI*", (1, 0, 2, 3)),
        ("*OI", (2, 3, 1, 0)),
        ("*IO", (2, 3, 0, 1)),
    ):
        yield Sample((x, w.transpose(perm)), y, {"kernel_layout": layout})
    back = {"layout": "N*C"}
    yield Sample((np.moveaxis(x, 1, -1), w), np.moveaxis(y, 1, -1), back)
    x, w = ramp(1, 2, 3, dtype="float32"), ramp(2, 1, 2, dtype="float32")
    rows = transposed_geometry((3,), (2,), None, None, None, None)
    yield Sample(
        (x, w), _conv_transpose_by_loops(x, w, None, rows, 1).astype("float32")
    )
    yield Sample((x[:0], w), np.zeros((0, 1, 4), "float32"), smooth=False)
