"""From ONNX: MaxPool, AveragePool, MaxUnpool and Col2Im."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.nn.read_conv import padding_of
from amanda_std import ops
from amanda_std.mappings import expect, known_or_value

__all__ = ["READ"]


def read_max_pool(
    x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", pads: Any = None,
    strides: Any = None, dilations: Any = None, ceil_mode: int = 0,
    storage_order: int = 0, outputs: int,
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {
        "window": kernel_shape, "strides": strides, "dilations": dilations,
        "padding": padding_of(auto_pad, pads), "ceil": bool(ceil_mode),
    }  # fmt: skip
    if outputs == 1:
        return ops.max_pool(x, **attrs)
    return ops.max_pool_with_indices(
        x, whole_tensor=True, column_major=bool(storage_order), **attrs
    )


def read_average_pool(
    x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", pads: Any = None,
    strides: Any = None, dilations: Any = None, ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Any:  # fmt: skip
    return ops.avg_pool(
        x, window=kernel_shape, strides=strides, padding=padding_of(auto_pad, pads),
        dilations=dilations, ceil=bool(ceil_mode), count_pads=bool(count_include_pad),
    )  # fmt: skip


def read_max_unpool(x: Any, indices: Any, size: Any = None, *, kernel_shape: Any,
                    pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """Indices count within the tensor that was pooled, not within the output."""
    n = len(kernel_shape)
    steps, around = strides or [1] * n, pads or [0] * (2 * n)
    dims = list(x.shape)
    expect(len(steps) == n, f"strides for {n} axes expected")
    expect(len(around) == 2 * n, f"pads for {n} axes expected")
    expect(len(dims) == n + 2, f"an input with {n} spatial axes expected")
    pooled = [
        (dims[i + 2] - 1) * steps[i] - around[i] - around[n + i] + kernel_shape[i]
        for i in range(n)
    ]
    y = ops.max_unpool(x, indices, [*dims[:2], *pooled], whole_tensor=True)
    if size is None:
        return y
    wanted = known_or_value(size)
    if isinstance(wanted, list):
        expect(np.shape(wanted) == (len(dims),), "a size for each axis expected")
        pairs: Any = [(0, wanted[i] - d) for i, d in enumerate([*dims[:2], *pooled])]
        return ops.pad(y, pairs)
    more = ops.expand_dims(wanted - ops.shape_of(y), (1,))
    return ops.pad(y, ops.pad(more, [[0, 0], [1, 0]]))


def read_col2im(x: Any, image: Any, block: Any, *, dilations: Any = None,
                pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    return ops.fold(
        x, known_or_value(image), known_or_value(block),
        strides=strides, dilations=dilations,
        padding=padding_of("NOTSET", pads),
    )  # fmt: skip


READ: dict[str, Any] = {
    "MaxPool": read_max_pool,
    "AveragePool": read_average_pool,
    "MaxUnpool": read_max_unpool,
    "Col2Im": read_col2im,
}
