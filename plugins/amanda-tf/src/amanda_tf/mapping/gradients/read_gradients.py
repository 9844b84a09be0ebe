"""From TensorFlow: gradients of ops that have windows, weights or shapes.

Most are the vector-Jacobian product of what the forward op is in the hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.types import dims_equal
from amanda_std import ops
from amanda_std.dataflow import strided_slice
from amanda_std.mappings import (
    cast_to,
    expect,
    gradient_of,
    gradients_of,
    known_content,
    known_or_value,
    rank_of,
    required_content,
)
from amanda_tf.mapping.images.read_images import (
    read_crop_and_resize,
    read_resize_bicubic,
    read_resize_bilinear,
    read_resize_nearest,
)
from amanda_tf.mapping.layouts import layout_of
from amanda_tf.mapping.nn.read_conv import (
    read_conv,
    read_conv_3d,
    read_depthwise_conv,
    read_dilation,
)
from amanda_tf.mapping.nn.read_normalization import read_lrn
from amanda_tf.mapping.nn.read_pooling import read_avg_pool, read_max_pool
from amanda_tf.mapping.shapes.read_shapes import read_mirror_pad

__all__ = ["READ"]


def zeros_of(sizes: Any, like: Any) -> Any:
    """Zeros of a shape: what a linear function is differentiated at."""
    return ops.full(known_or_value(sizes), ops.number_like(like, value=0))


def read_leaky_relu_grad(g: Any, x: Any, *, alpha: float = 0.2) -> Any:
    """LeakyReluGrad to `where`."""
    slope = ops.number_like(g, value=alpha)
    return ops.where(ops.greater(x, ops.number_like(x, value=0)), g, g * slope)


def read_bias_add_grad(g: Any, *, data_format: str = "NHWC") -> Any:
    """The sum over all axes but that of the channels."""
    rank = rank_of(g)
    channels = 1 if data_format.startswith("NC") else rank - 1
    return ops.sum(g, [axis for axis in range(rank) if axis != channels])


# -- convolutions ----------------------------------------------------------------------


def read_conv_filter_grad(x: Any, sizes: Any, g: Any, **attrs: Any) -> Any:
    """Conv2DBackpropFilter to the gradient of Conv2D."""
    return gradient_of(lambda w: read_conv(x, w, **attrs), zeros_of(sizes, g), g)


def read_conv_3d_filter_grad(x: Any, sizes: Any, g: Any, **attrs: Any) -> Any:
    """Conv3DBackpropFilterV2 to the gradient of Conv3D."""
    return gradient_of(lambda w: read_conv_3d(x, w, **attrs), zeros_of(sizes, g), g)


def read_conv_3d_filter_grad_v1(x: Any, w: Any, g: Any, **attrs: Any) -> Any:
    """Conv3DBackpropFilter to the gradient of Conv3D."""
    return gradient_of(lambda w: read_conv_3d(x, w, **attrs), w, g)


def read_conv_filter_grad_v2(x: Any, w: Any, g: Any, **attrs: Any) -> Any:
    """Conv2DBackpropFilterV2 to the gradient of Conv2D."""
    return gradient_of(lambda w: read_conv(x, w, **attrs), w, g)


def read_conv_input_grad_v2(x: Any, w: Any, g: Any, **attrs: Any) -> Any:
    """Conv2DBackpropInputV2 to the gradient of Conv2D."""
    return gradient_of(lambda x: read_conv(x, w, **attrs), x, g)


def read_depthwise_filter_grad(x: Any, sizes: Any, g: Any, **attrs: Any) -> Any:
    """DepthwiseConv2dNativeBackpropFilter to a gradient of the convolution."""
    return gradient_of(
        lambda w: read_depthwise_conv(x, w, **attrs), zeros_of(sizes, g), g
    )


def read_depthwise_input_grad(sizes: Any, w: Any, g: Any, **attrs: Any) -> Any:
    """DepthwiseConv2dNativeBackpropInput to a gradient of the convolution."""
    return gradient_of(
        lambda x: read_depthwise_conv(x, w, **attrs), zeros_of(sizes, g), g
    )


def read_dilation_input_grad(x: Any, w: Any, g: Any, **attrs: Any) -> Any:
    """Dilation2DBackpropInput to the gradient of Dilation2D."""
    return gradient_of(lambda x: read_dilation(x, w, **attrs), x, g)


def read_dilation_filter_grad(x: Any, w: Any, g: Any, **attrs: Any) -> Any:
    """Dilation2DBackpropFilter to the gradient of Dilation2D."""
    return gradient_of(lambda w: read_dilation(x, w, **attrs), w, g)


# -- pooling ---------------------------------------------------------------------------


def read_max_pool_grad(x: Any, y: Any, g: Any, **attrs: Any) -> Any:
    """MaxPoolGrad to the gradient of MaxPool."""
    del y
    return gradient_of(lambda x: read_max_pool(x, **attrs), x, g)


def read_max_pool_grad_grad(x: Any, y: Any, g: Any, **attrs: Any) -> Any:
    """Gradients of gradients: those at the greatest element of each window."""

    def backward(up: Any) -> Any:
        return gradient_of(lambda x: read_max_pool(x, **attrs), x, up)

    return gradient_of(backward, y, g)


def read_max_pool_3d_grad(x: Any, y: Any, g: Any, *,
                          data_format: str = "NDHWC", **attrs: Any) -> Any:  # fmt: skip
    """MaxPool3DGrad to the gradient of MaxPool3D."""
    attrs.pop("TInput", None)
    return read_max_pool_grad(x, y, g, data_format=data_format, **attrs)


def read_max_pool_grad_v2(
    x: Any, y: Any, g: Any, ksize: Any, strides: Any, **attrs: Any
) -> Any:
    """MaxPoolGradV2 to the gradient of MaxPoolV2."""
    return read_max_pool_grad(
        x, y, g, ksize=required_content(ksize, "ksize"),
        strides=required_content(strides, "strides"), **attrs,
    )  # fmt: skip


def read_avg_pool_grad(sizes: Any, g: Any, **attrs: Any) -> Any:
    """AvgPoolGrad to the gradient of AvgPool."""
    return gradient_of(lambda x: read_avg_pool(x, **attrs), zeros_of(sizes, g), g)


def read_avg_pool_3d_grad(
    sizes: Any, g: Any, *, data_format: str = "NDHWC", **attrs: Any
) -> Any:
    """AvgPool3DGrad to the gradient of AvgPool3D."""
    return read_avg_pool_grad(sizes, g, data_format=data_format, **attrs)


def _at_maxima(x: Any, at: Any, *, include_batch_in_index: bool) -> Any:
    """Indices of a max pooling as indices of all elements."""
    at = ops.astype(at, dtype="int64")
    if include_batch_in_index:
        return at
    batch, *image = x.shape
    size = int(np.prod([int(n) for n in image]))
    first = ops.reshape(ops.arange(0, batch), [-1, 1, 1, 1])
    return at + first * np.int64(size)


def read_max_pool_grad_with_argmax(
    x: Any, g: Any, at: Any, *, include_batch_in_index: bool = False, **_: Any
) -> Any:
    """Gradients added to the elements that were the greatest of their windows."""
    places = _at_maxima(x, at, include_batch_in_index=include_batch_in_index)
    flat = ops.reshape(ops.zeros_like(x), [-1])
    added = ops.scatter_nd(
        flat, ops.reshape(places, [-1, 1]), ops.reshape(g, [-1]), reduction="add"
    )
    return ops.reshape(added, ops.shape_of(x))


# -- normalization ---------------------------------------------------------------------


def read_fused_batch_norm_grad(
    g: Any, x: Any, scale: Any, mean: Any, variance: Any, *_: Any,
    epsilon: float = 1e-4, data_format: str = "NHWC", is_training: bool = True,
) -> Any:  # fmt: skip
    """The gradients of data, scale and offset, and two values that nothing uses.

    In training, mean and variance are those of the batch, so data has a part in them.
    """
    rank = rank_of(x)
    axis = 1 if layout_of(data_format) == "NC*" else rank - 1
    axes = [i for i in range(rank) if i != axis]
    wide, up = cast_to(x, scale.dtype), cast_to(g, scale.dtype)
    shape = [1] * rank
    shape[axis] = -1
    m, v, s = (ops.reshape(each, shape) for each in (mean, variance, scale))
    factor = ops.rsqrt(v + ops.number_like(v, value=epsilon))
    normal = (wide - m) * factor
    d_scale, d_offset = ops.sum(up * normal, axes), ops.sum(up, axes)
    if is_training:
        up = up - ops.mean(up, axes, keepdims=True)
        up = up - normal * ops.mean(up * normal, axes, keepdims=True)
    dx = cast_to(up * factor * s, x.dtype)
    unused = ops.zeros([0], dtype=scale.dtype)
    return dx, d_scale, d_offset, unused, unused


def read_batch_norm_global_grad(
    x: Any, mean: Any, variance: Any, gamma: Any, g: Any, *,
    variance_epsilon: float, scale_after_normalization: bool,
) -> Any:  # fmt: skip
    """The gradients of data, mean, variance, offset and scale."""

    def forward(x: Any, m: Any, v: Any, gamma: Any) -> Any:
        y = (x - m) * ops.rsqrt(v + ops.number_like(v, value=variance_epsilon))
        return y * gamma if scale_after_normalization else y

    dx, dm, dv, dg = gradients_of(forward, (x, mean, variance, gamma), g)
    return dx, dm, dv, ops.sum(g, list(range(rank_of(g) - 1))), dg


def read_lrn_grad(g: Any, x: Any, y: Any, **attrs: Any) -> Any:
    """LRNGrad to the gradient of LRN."""
    del y
    return gradient_of(lambda x: read_lrn(x, **attrs), x, g)


# -- images ----------------------------------------------------------------------------


def _resize_grad(forward: Any) -> Any:
    """The gradient of a resized image, with respect to one like the second input."""

    def read(g: Any, like: Any, **attrs: Any) -> Any:
        size = ops.slice_(ops.shape_of(g), [1], [3])
        image = ops.zeros_like(cast_to(like, "float32"))
        return cast_to(gradient_of(lambda x: forward(x, size, **attrs), image, g),
                       like.dtype)  # fmt: skip

    return read


def read_resize_nearest_grad(g: Any, size: Any, **attrs: Any) -> Any:
    """ResizeNearestNeighborGrad to the gradient of the resize."""
    rows, columns = required_content(size, "size")
    batch, _, _, channels = g.shape
    expect(isinstance(batch, int) and isinstance(channels, int), "the images are not static")  # fmt: skip  # noqa: E501
    image = ops.zeros([batch, rows, columns, channels], dtype=g.dtype)
    new = ops.slice_(ops.shape_of(g), [1], [3])
    return gradient_of(lambda x: read_resize_nearest(x, new, **attrs), image, g)


def read_crop_image_grad(
    g: Any, boxes: Any, indices: Any, size: Any, *, T: Any,  # noqa: N803
    method: str = "bilinear",
) -> Any:  # fmt: skip
    """CropAndResizeGradImage to the gradient of CropAndResize."""
    image = ops.zeros(required_content(size, "image_size"), dtype="float32")
    crop = ops.slice_(ops.shape_of(g), [1], [3])

    def forward(x: Any) -> Any:
        return read_crop_and_resize(x, boxes, indices, crop, method=method)

    return cast_to(gradient_of(forward, image, g), T)


def read_crop_boxes_grad(
    g: Any, x: Any, boxes: Any, indices: Any, *, method: str = "bilinear"
) -> Any:
    """CropAndResizeGradBoxes to the gradient of CropAndResize."""
    crop = ops.slice_(ops.shape_of(g), [1], [3])
    image = cast_to(x, "float32")

    def forward(boxes: Any) -> Any:
        return read_crop_and_resize(image, boxes, indices, crop, method=method)

    return gradient_of(forward, boxes, g)


# -- shapes ----------------------------------------------------------------------------


def read_mirror_pad_grad(g: Any, paddings: Any, *, mode: str) -> Any:
    """MirrorPadGrad to the gradient of MirrorPad."""
    pairs = required_content(paddings, "paddings")
    expect(g.type.shape.is_static, "the size of the gradient is not static")
    rows = zip(g.type.shape.dims, pairs, strict=True)
    x = ops.zeros([int(n) - low - high for n, (low, high) in rows], dtype=g.dtype)
    return gradient_of(lambda x: read_mirror_pad(x, paddings, mode=mode), x, g)


def read_strided_slice_grad(
    sizes: Any, begin: Any, end: Any, strides: Any, g: Any, **masks: Any
) -> Any:
    """StridedSliceGrad to the gradient of StridedSlice."""

    def forward(x: Any) -> Any:
        return strided_slice(x, begin, end, strides, **masks)

    return gradient_of(forward, zeros_of(sizes, g), g)


def read_broadcast_gradient_args(a: Any, b: Any) -> Any:
    """The axes along which the gradients of two shapes are summed.

    They are computed where unknown sizes may be 1."""
    rows = [_sizes_in(v) for v in (a, b)]
    rank = max(map(len, rows))
    left, right = ([1] * (rank - len(row)) + row for row in rows)
    none = np.zeros(0, str(a.dtype))
    if len(rows[0]) == len(rows[1]) and all(map(_are_equal, left, right)):
        return none, none
    return _summed_axes(a, left, right), _summed_axes(b, right, left)


def _sizes_in(shape: Any) -> list[Any]:
    """The sizes that a vector holds; None for those that are not known."""
    found = known_content(shape)
    if found is not None:
        return list(found)
    elements = getattr(shape.type, "elements", None)
    if elements is not None:
        return list(elements)
    expect(shape.type.shape.is_static, "the rank of a shape is not known")
    return [None] * int(shape.type.shape.dims[0])


def _are_equal(one: Any, other: Any) -> bool:
    return None not in (one, other) and dims_equal(one, other) is True


def _summed_axes(shape: Any, own: Sequence[Any], other: Sequence[Any]) -> Any:
    """The axes along which a shape has one element, with those that it lacks."""
    are_known = [
        isinstance(size, int) or _are_equal(size, against) or _are_equal(against, 1)
        for size, against in zip(own, other, strict=True)
    ]
    if all(are_known):
        ones = [i for i, size in enumerate(own) if isinstance(size, int) and size == 1]
        return np.array(ones, str(shape.dtype))
    missing = np.ones(len(own) - int(shape.type.shape.dims[0]), str(shape.dtype))
    sizes = ops.concat(missing, shape, axis=0)
    axes = ops.nonzero(ops.equal(sizes, ops.number_like(sizes, value=1)))
    return ops.astype(ops.reshape(axes, [-1]), dtype=shape.dtype)


READ: dict[str, Any] = {
    "LeakyReluGrad": read_leaky_relu_grad,
    "BiasAddGrad": read_bias_add_grad,
    "Conv2DBackpropFilter": read_conv_filter_grad,
    "Conv2DBackpropFilterV2": read_conv_filter_grad_v2,
    "Conv2DBackpropInputV2": read_conv_input_grad_v2,
    "Conv3DBackpropFilter": read_conv_3d_filter_grad_v1,
    "Conv3DBackpropFilterV2": read_conv_3d_filter_grad,
    "DepthwiseConv2dNativeBackpropFilter": read_depthwise_filter_grad,
    "DepthwiseConv2dNativeBackpropInput": read_depthwise_input_grad,
    "Dilation2DBackpropInput": read_dilation_input_grad,
    "Dilation2DBackpropFilter": read_dilation_filter_grad,
    "MaxPoolGrad": read_max_pool_grad,
    "MaxPoolGradGrad": read_max_pool_grad_grad,
    "MaxPoolGradV2": read_max_pool_grad_v2,
    "MaxPool3DGrad": read_max_pool_3d_grad,
    "MaxPoolGradWithArgmax": read_max_pool_grad_with_argmax,
    "AvgPoolGrad": read_avg_pool_grad,
    "AvgPool3DGrad": read_avg_pool_3d_grad,
    "FusedBatchNormGrad": read_fused_batch_norm_grad,
    "FusedBatchNormGradV2": read_fused_batch_norm_grad,
    "FusedBatchNormGradV3": read_fused_batch_norm_grad,
    "BatchNormWithGlobalNormalizationGrad": read_batch_norm_global_grad,
    "LRNGrad": read_lrn_grad,
    "ResizeBilinearGrad": _resize_grad(read_resize_bilinear),
    "ResizeBicubicGrad": _resize_grad(read_resize_bicubic),
    "ResizeNearestNeighborGrad": read_resize_nearest_grad,
    "CropAndResizeGradImage": read_crop_image_grad,
    "CropAndResizeGradBoxes": read_crop_boxes_grad,
    "MirrorPadGrad": read_mirror_pad_grad,
    "StridedSliceGrad": read_strided_slice_grad,
    "BroadcastGradientArgs": read_broadcast_gradient_args,
}
