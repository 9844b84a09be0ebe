"""Deformable convolution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Floating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.values import dims_of
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.nn.convolution import Pairs, resolve_padding, strides_or_ones
from amanda_std.ops.tensor.index_arithmetic import (
    dtype_of,
    float_range,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import expand_dims, reshape, transpose
from amanda_std.ops.vision.grid_sample import (
    cast_like,
    flatten_positions,
    initial_offsets,
    interpolate_at,
    interpolate_rows,
)


@composite
def deform_conv(
    x: Floating, w: Floating, offset: Floating, b: Floating | None = None,
    mask: Floating | None = None, *, strides: tuple[int, ...] | None = None,
    padding: Pairs | None = None, dilations: tuple[int, ...] | None = None,
    groups: int = 1, offset_groups: int = 1, window: tuple[int, ...] | None = None,
) -> Floating:  # fmt: skip
    """Deformable convolution of NC* data: kernel positions are moved by offsets

    `offset`: [batch, offset groups * kernel * axes, *output]; `mask` weights the
    samples: [batch, offset groups * kernel, *output]. `window`: the kernel size, where
    the type of w does not have it."""
    n = x.ndim - 2
    kernel = [k.__index__() for k in window or dims_of(w)[2:]]
    many = math.prod(kernel)
    s, d = strides_or_ones(strides, n), strides_or_ones(dilations, n)
    pads = resolve_padding(padding, x.shape[2:], kernel, s, d)
    batch, channels, *_ = x.shape
    positions = offset.shape[2:]
    fraction = channels // offset_groups
    parted = reshape(
        x, [-1, fraction, *x.shape[2:]]
    )  # merge offset groups into the batch
    rows, spatial = flatten_positions(parted)
    moved = reshape(offset, [-1, many, n, *positions])
    result = []
    for axis in range(n):
        start = cast_like(
            float_range(positions[axis]) * float(s[axis]) - pads[axis][0], x
        )
        inner = np.arange(kernel[axis]) * d[axis]
        wide = inner.reshape([-1 if a == axis else 1 for a in range(n)])
        inner = np.broadcast_to(wide, kernel).reshape([many, *[1] * n])
        rest = tuple(a for a in range(n + 1) if a != axis + 1)
        at = add(expand_dims(start, rest),
                      inner.astype(dtype_of(x).numpy))  # fmt: skip
        result.append(add(gather(moved, np.asarray(axis), 2), at))
    seen = interpolate_rows(
        rows, initial_offsets(parted, spatial, n + 2), spatial, result
    )
    if mask is not None:
        weight = reshape(mask, [-1, many, *positions])
        seen = multiply(seen, expand_dims(weight, (-1,)))
    # [batch * offset groups, kernel, *output, channels] -> columns of a product
    transposed = transpose(seen, perm=(0, n + 2, 1, *range(2, n + 2)))
    out = w.shape[0]
    inside = w.shape[1] * many
    columns = reshape(transposed, [batch, groups, inside, math.prod(positions)])
    y = matmul(reshape(w, [groups, out // groups, inside]), columns)
    y = reshape(y, [batch, out, *positions])
    return y if b is None else add(y, reshape(b, [-1, *[1] * n]))


def _deform_conv_by_loops(x: Any, w: Any, offset: Any, b: Any, mask: Any, s: Any,
                   pads: Any, d: Any, groups: int, parts: int) -> Any:  # fmt: skip
    batch, channels = x.shape[:2]
    out, inner, *kernel = w.shape
    positions = offset.shape[2:]
    moved = offset.reshape(batch, parts, *kernel, len(kernel), *positions)
    weights = np.ones((batch, parts, *kernel, *positions)) if mask is None else (
        mask.reshape(batch, parts, *kernel, *positions))  # fmt: skip
    y = np.zeros((batch, out, *positions))
    for i, o, *at in np.ndindex(y.shape):
        total = 0.0 if b is None else float(b[o])
        for k, *tap in np.ndindex(inner, *kernel):
            c = o // (out // groups) * inner + k
            part = c // (channels // parts)
            where = [
                at[a] * s[a] - pads[a][0] + tap[a] * d[a]
                + float(moved[(i, part, *tap, a, *at)])
                for a in range(len(kernel))
            ]  # fmt: skip
            seen = interpolate_at(x[i, c], where)
            total += seen * float(w[(o, k, *tap)]) * float(
                weights[(i, part, *tap, *at)])  # fmt: skip
        y[(i, o, *at)] = total
    return y.astype(x.dtype)


@deform_conv.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, w = ramp(2, 2, 4, 3, dtype=dtype), ramp(2, 2, 2, 2, dtype=dtype)
        offset = ramp(2, 8, 3, 2, dtype=dtype) % 1.7 - 0.6
        offset = offset.astype(dtype)
        y = _deform_conv_by_loops(
            x, w, offset, None, None, (1, 1), ((0, 0),) * 2, (1, 1), 1, 1
        )
        yield Sample((x, w, offset), y, {"window": (2, 2)})
    w, b = ramp(4, 1, 2, 2), ramp(4)
    s, pads, d = (2, 1), ((1, 0), (1, 1)), (1, 2)
    offset, mask = ramp(2, 16, 2, 3) % 1.31 - 0.4137, ramp(2, 8, 2, 3)
    y = _deform_conv_by_loops(x.astype("float64"), w, offset, b, mask, s, pads, d, 2, 2)
    attrs = {"strides": s, "padding": pads, "dilations": d, "groups": 2,
             "offset_groups": 2, "window": (2, 2)}  # fmt: skip
    yield Sample((x.astype("float64"), w, offset, b, mask), y, attrs)
    x, w, offset = ramp(0, 2, 4, 3), ramp(2, 2, 2, 2), ramp(0, 8, 3, 2)
    yield Sample((x, w, offset), np.zeros((0, 2, 3, 2)), smooth=False)
