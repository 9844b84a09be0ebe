"""From TensorFlow: pooling."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect
from amanda_tf.mapping.layouts import layout_of, padding_of, spatial_items
from amanda_tf.mapping.shapes.read_computed_axes import (
    content_or_none,
    max_pool_by_window,
)

__all__ = ["READ"]


def _window(ksize: Any, strides: Any, layout: str) -> dict[str, Any]:
    return {
        "window": tuple(spatial_items(ksize, layout)),
        "strides": tuple(spatial_items(strides, layout)),
        "layout": layout,
    }


def read_max_pool(
    x: Any, *, ksize: Any, strides: Any, padding: str, explicit_paddings: Any = (),
    data_format: str = "NHWC",
) -> Any:  # fmt: skip
    """MaxPool to `max_pool`."""
    layout = layout_of(data_format)
    mode = padding_of(padding, explicit_paddings, layout)
    return ops.max_pool(x, padding=mode, **_window(ksize, strides, layout))


def read_max_pool_v2(
    x: Any, ksize: Any, strides: Any, *, padding: str, data_format: str = "NHWC"
) -> Any:
    """MaxPoolV2, whose window is an input, to `max_pool`."""
    window, steps = content_or_none(ksize), content_or_none(strides)
    if window is None or steps is None:
        return max_pool_by_window(x, ksize, strides, padding)
    return read_max_pool(
        x, ksize=window, strides=steps, padding=padding, data_format=data_format
    )


def read_avg_pool(
    x: Any, *, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC"
) -> Any:
    """AvgPool to `avg_pool`."""
    layout = layout_of(data_format)
    mode = padding_of(padding, (), layout)
    return ops.avg_pool(x, padding=mode, **_window(ksize, strides, layout))


def read_max_pool_3d(
    x: Any, *, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC"
) -> Any:
    """MaxPool3D to `max_pool`."""
    return read_max_pool(
        x, ksize=ksize, strides=strides, padding=padding, data_format=data_format
    )


def read_avg_pool_3d(
    x: Any, *, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC"
) -> Any:
    """AvgPool3D to `avg_pool`."""
    return read_avg_pool(
        x, ksize=ksize, strides=strides, padding=padding, data_format=data_format
    )


def read_max_pool_with_argmax(
    x: Any, *, ksize: Any, strides: Any, padding: str, Targmax: Any = None,  # noqa: N803
    include_batch_in_index: bool = False,
) -> Any:  # fmt: skip
    """Indices count elements of channels-last images."""
    window = spatial_items(ksize, "N*C")
    steps = spatial_items(strides, "N*C")
    y, at = ops.max_pool_with_indices(
        ops.transpose(x, perm=(0, 3, 1, 2)), window=tuple(window), strides=tuple(steps),
        padding=padding_of(padding, (), "N*C"),
    )  # fmt: skip
    y, at = (ops.transpose(v, perm=(0, 2, 3, 1)) for v in (y, at))
    batch, height, width, channels = x.shape
    expect(isinstance(channels, int), "the number of channels is not static")
    at = at * channels + ops.arange(0, channels)
    if include_batch_in_index:
        expect(isinstance(height * width, int), "the size of images is not static")
        whole = height * width * channels
        at = at + ops.reshape(ops.arange(0, batch), [-1, 1, 1, 1]) * whole
    return y, cast_to(at, Targmax or "int64")


READ: dict[str, Any] = {
    "MaxPool": read_max_pool,
    "MaxPoolV2": read_max_pool_v2,
    "AvgPool": read_avg_pool,
    "MaxPool3D": read_max_pool_3d,
    "AvgPool3D": read_avg_pool_3d,
    "MaxPoolWithArgmax": read_max_pool_with_argmax,
}
