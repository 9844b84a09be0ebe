"""From TensorFlow: convolutions, their gradients, and dilations of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, known_content, rank_of
from amanda_tf.mapping.images.read_images import read_resize_bilinear
from amanda_tf.mapping.layouts import (
    explicit_padding,
    layout_of,
    padding_of,
    spatial_items,
)
from amanda_tf.mapping.nn.read_products import apply_fused
from amanda_tf.mapping.shapes.read_shapes import read_mirror_pad

__all__ = ["READ"]


def read_conv(
    x: Any, w: Any, *, strides: Any, padding: str, explicit_paddings: Any = (),
    data_format: str = "NHWC", dilations: Any = None, use_cudnn_on_gpu: bool = True,
) -> Any:  # fmt: skip
    """Groups follow from the channels of the kernel."""
    del use_cudnn_on_gpu
    layout = layout_of(data_format)
    channels = x.shape[1 if layout == "NC*" else -1]
    inner = w.shape[-2]
    groups = 1
    if isinstance(channels, int) and isinstance(inner, int) and inner:
        groups = max(channels // inner, 1)
    ones = [1] * rank_of(x)
    return ops.conv(
        x, w, layout=layout, kernel_layout="*IO",
        strides=tuple(spatial_items(strides, layout)),
        dilations=tuple(spatial_items(dilations or ones, layout)),
        padding=padding_of(padding, explicit_paddings, layout), groups=groups,
    )  # fmt: skip


def read_any_conv(
    x: Any, w: Any, *, data_format: str = "CHANNELS_LAST", batch_dims: int = 1,
    groups: int = 1, strides: Any, dilations: Any = None, **attrs: Any,
) -> Any:  # fmt: skip
    """A convolution in two or three dimensions."""
    del groups  # follow from the channels
    expect(batch_dims == 1, "several axes of the batch")
    last = {4: "NHWC", 5: "NDHWC"}
    expect(rank_of(x) in last, "a convolution in one dimension")
    name = last[rank_of(x)]
    if data_format == "CHANNELS_FIRST":
        name = f"NC{name[1:-1]}"
    return read_conv(
        x, w, data_format=name, strides=strides, dilations=dilations or None, **attrs
    )


def read_fused_conv(
    x: Any, w: Any, *args: Any, fused_ops: Any = (), leakyrelu_alpha: float = 0.2,
    data_format: str = "NHWC", filter_format: str = "HWIO", num_args: int = 0,
    epsilon: float = 1e-4, **attrs: Any,
) -> Any:  # fmt: skip
    """A convolution, with a bias or normalization, a sum and an activation."""
    expect(filter_format == "HWIO", f"filter_format={filter_format}")
    fused, rest = list(map(str, fused_ops)), list(args[:num_args])
    y = read_conv(x, w, data_format=data_format, **attrs)
    if fused and fused[0] == "FusedBatchNorm":
        axis = 1 if layout_of(data_format) == "NC*" else rank_of(y) - 1
        y = ops.batch_norm(y, *rest[:4], axis=axis, epsilon=epsilon)
        fused, rest = fused[1:], rest[4:]
    return apply_fused(
        y, fused, rest, leakyrelu_alpha=leakyrelu_alpha, data_format=data_format
    )


def read_fused_depthwise_conv(
    x: Any, w: Any, *args: Any, fused_ops: Any = (), data_format: str = "NHWC",
    leakyrelu_alpha: float = 0.2, epsilon: float = 1e-4, **attrs: Any,
) -> Any:  # fmt: skip
    """_FusedDepthwiseConv2dNative to `conv`, a bias and an activation."""
    del epsilon
    y = read_depthwise_conv(x, w, data_format=data_format, **attrs)
    return apply_fused(
        y, fused_ops, args, leakyrelu_alpha=leakyrelu_alpha, data_format=data_format
    )


def read_pad_conv(x: Any, paddings: Any, w: Any, *, mode: str, **attrs: Any) -> Any:
    """FusedPadConv2D to `pad` and `conv`."""
    return read_conv(read_mirror_pad(x, paddings, mode=mode), w, **attrs)


def read_resize_pad_conv(
    x: Any, size: Any, paddings: Any, w: Any, *, mode: str,
    resize_align_corners: bool = False, **attrs: Any,
) -> Any:  # fmt: skip
    """FusedResizeAndPadConv2D to `resize`, `pad` and `conv`."""
    resized = cast_to(
        read_resize_bilinear(x, size, align_corners=resize_align_corners), x.dtype
    )
    return read_pad_conv(resized, paddings, w, mode=mode, **attrs)


def read_conv_3d(
    x: Any, w: Any, *, strides: Any, padding: str, data_format: str = "NDHWC",
    dilations: Any = None,
) -> Any:  # fmt: skip
    """Conv3D to `conv`."""
    return read_conv(
        x, w, strides=strides, padding=padding, data_format=data_format,
        dilations=dilations,
    )  # fmt: skip


def read_depthwise_conv(
    x: Any, w: Any, *, strides: Any, padding: str, explicit_paddings: Any = (),
    data_format: str = "NHWC", dilations: Any = None,
) -> Any:  # fmt: skip
    """A kernel [rows, columns, channels, multiplier]: a group for each channel."""
    layout = layout_of(data_format)
    rows, columns, channels, times = w.shape
    kernel = ops.reshape(w, [rows, columns, 1, channels * times])
    return ops.conv(
        x, kernel, layout=layout, kernel_layout="*IO",
        strides=tuple(spatial_items(strides, layout)),
        dilations=tuple(spatial_items(dilations or [1] * 4, layout)),
        padding=padding_of(padding, explicit_paddings, layout), groups=int(channels),
    )  # fmt: skip


def read_conv_backprop_input(
    sizes: Any, w: Any, y: Any, *, strides: Any, padding: str,
    explicit_paddings: Any = (), data_format: str = "NHWC", dilations: Any = None,
    use_cudnn_on_gpu: bool = True,
) -> Any:  # fmt: skip
    """The transposed convolution: the gradient with respect to the data."""
    del use_cudnn_on_gpu
    layout = layout_of(data_format)
    rank = rank_of(y)
    s = spatial_items(strides, layout)
    d = spatial_items(dilations or [1] * rank, layout)
    kernel = [int(k) for k in w.shape[: rank - 2]]
    wanted, small = _spatial(_elements(sizes), layout), _spatial(y.shape, layout)
    mode = padding_of(padding, explicit_paddings, layout)
    if len(wanted) != rank - 2:
        rows = zip(small, s, kernel, d, strict=True)
        wanted = [_usual_size(m, a, k, b, mode) for m, a, k, b in rows]
    pads = explicit_padding(mode, wanted, kernel, s, d)
    sizes_of_axes = zip(small, wanted, s, kernel, d, pads, strict=True)
    small = [_size_of_data(*each) for each in sizes_of_axes]
    extra = [
        n - ((m - 1) * a + (k - 1) * b + 1 - sum(pair))
        for n, m, a, k, b, pair in zip(wanted, small, s, kernel, d, pads, strict=True)
    ]
    expect(all(isinstance(e, int) for e in extra), "the size of the result is unknown")
    return ops.conv_transpose(
        y, w, layout=layout, kernel_layout="*OI", strides=tuple(s), dilations=tuple(d),
        padding=tuple(pads), output_padding=tuple(extra) if any(extra) else None,
    )  # fmt: skip


def _usual_size(small: Any, stride: int, window: int, dilation: int, mode: Any) -> Any:
    """The size that Keras computes where a graph computes it at run time."""
    if mode == "same_upper":
        return small * stride
    expect(mode == "valid", "explicit padding of a size that is not static")
    return (small - 1) * stride + max((window - 1) * dilation + 1, stride)


def _size_of_data(
    small: Any, size: Any, stride: int, window: int, dilation: int, pads: Sequence[Any]
) -> Any:
    """The size of the gradient, which follows from that of the result if known."""
    if not isinstance(size, int):
        return small
    return (size + sum(pads) - (window - 1) * dilation - 1) // stride + 1


def _elements(sizes: Any) -> Any:
    found = known_content(sizes)
    return sizes.type.elements if found is None else found


def _spatial(dims: Any, layout: str) -> list[Any]:
    if dims is None:
        return []
    return list(dims[2:] if layout == "NC*" else dims[1:-1])


def read_conv_3d_backprop_input(
    sizes: Any, w: Any, y: Any, *, strides: Any, padding: str,
    data_format: str = "NDHWC", dilations: Any = None,
) -> Any:  # fmt: skip
    """Conv3DBackpropInputV2 to `conv_transpose`."""
    return read_conv_backprop_input(
        sizes, w, y, strides=strides, padding=padding, data_format=data_format,
        dilations=dilations,
    )  # fmt: skip


def read_conv_3d_backprop_input_1(
    x: Any, w: Any, y: Any, *, strides: Any, padding: str, dilations: Any = None,
) -> Any:  # fmt: skip
    """Conv3DBackpropInput to `conv_transpose`."""
    return read_conv_backprop_input(
        ops.shape_of(x), w, y, strides=strides, padding=padding, data_format="NDHWC",
        dilations=dilations,
    )  # fmt: skip


def read_dilation(x: Any, w: Any, *, strides: Any, rates: Any, padding: str) -> Any:
    """Grayscale dilation of NHWC images by a kernel [rows, columns, channels]."""
    rows, columns, channels = (int(n) for n in w.shape)
    y = ops.dilation(
        ops.transpose(x, perm=(0, 3, 1, 2)),
        ops.transpose(w, perm=(2, 0, 1)),
        window=(rows, columns), strides=tuple(spatial_items(strides, "N*C")),
        dilations=tuple(spatial_items(rates, "N*C")),
        padding=padding_of(padding, (), "N*C"),
    )  # fmt: skip
    del channels
    return ops.transpose(y, perm=(0, 2, 3, 1))


READ: dict[str, Any] = {
    "Conv2D": read_conv,
    "Conv3D": read_conv_3d,
    "Conv": read_any_conv,
    "_FusedConv2D": read_fused_conv,
    "_FusedDepthwiseConv2dNative": read_fused_depthwise_conv,
    "FusedPadConv2D": read_pad_conv,
    "FusedResizeAndPadConv2D": read_resize_pad_conv,
    "DepthwiseConv2dNative": read_depthwise_conv,
    "Conv2DBackpropInput": read_conv_backprop_input,
    "Conv3DBackpropInputV2": read_conv_3d_backprop_input,
    "Conv3DBackpropInput": read_conv_3d_backprop_input_1,
    "Dilation2D": read_dilation,
}
