"""From PyTorch: convolutions of any rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import equal_pairs, integer, spatial

__all__ = ["READ", "with_batch"]


def with_batch(op: Callable[..., Any], x: Any, axes: int) -> Any:
    """An op on data with a batch axis, which is added where it is absent."""
    if rank_of(x) == axes + 2:
        return op(x)
    found = op(ops.expand_dims(x, [0]))
    if isinstance(found, tuple | list):
        return tuple(ops.squeeze(y, [0]) for y in found)
    return ops.squeeze(found, [0])


def _pairs(padding: Any, weight: Any, dilations: Sequence[int]) -> Any:
    if padding == "valid":
        return ((0, 0),) * len(dilations)
    if padding == "same":
        sizes = [integer(n, "the size of a kernel") for n in weight.type.shape.dims[2:]]
        totals = [d * (n - 1) for d, n in zip(dilations, sizes, strict=True)]
        return tuple((t // 2, t - t // 2) for t in totals)
    return equal_pairs(padding, len(dilations))


def read_conv(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
              dilation: Any = 1, groups: int = 1) -> Any:  # fmt: skip
    axes = rank_of(weight) - 2
    dilations = spatial(dilation, axes)
    pairs = _pairs(padding, weight, dilations)
    return with_batch(
        lambda x: ops.conv(
            x, weight, bias, strides=spatial(stride, axes), padding=pairs,
            dilations=dilations, groups=groups,
        ), x, axes,
    )  # fmt: skip


def read_conv_transpose(x: Any, weight: Any, bias: Any = None, stride: Any = 1,
                        padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                        dilation: Any = 1) -> Any:  # fmt: skip
    axes = rank_of(weight) - 2
    dilations = spatial(dilation, axes)
    pairs = _pairs(padding, weight, dilations)
    more = spatial(output_padding, axes)
    return with_batch(
        lambda x: ops.conv_transpose(
            x, weight, bias, strides=spatial(stride, axes), padding=pairs,
            dilations=dilations, groups=groups, output_padding=more,
        ), x, axes,
    )  # fmt: skip


def read_convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any,
                     dilation: Any, transposed: bool, output_padding: Any,
                     groups: int) -> Any:  # fmt: skip
    if transposed:
        return read_conv_transpose(
            x, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return read_conv(x, weight, bias, stride, padding, dilation, groups)


def read_conv_of_kernel_size(
    x: Any, weight: Any, kernel_size: Any, bias: Any = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1,
) -> Any:  # fmt: skip
    """A convolution by the name of its implementation; depthwise if the kernel has
    one input channel of several."""
    del kernel_size
    axes = rank_of(weight) - 2
    channels, own = x.type.shape.dims[-axes - 1], weight.type.shape.dims[1]
    groups = integer(channels, "channels") // integer(own, "channels of the kernel")
    return read_conv(x, weight, bias, stride, padding, dilation, groups)


def read_im2col(x: Any, window: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    def unfold(x: Any) -> Any:
        return ops.unfold(
            x, window=spatial(window, 2), strides=spatial(stride, 2),
            padding=equal_pairs(padding, 2),
            dilations=spatial(dilation, 2),
        )  # fmt: skip

    return with_batch(unfold, x, 2)


def read_col2im(x: Any, size: Any, window: Any, dilation: Any, padding: Any,
                stride: Any) -> Any:  # fmt: skip
    def fold(x: Any) -> Any:
        return ops.fold(
            x, list(size), spatial(window, 2), strides=spatial(stride, 2),
            padding=equal_pairs(padding, 2),
            dilations=spatial(dilation, 2),
        )  # fmt: skip

    return with_batch(fold, x, 1)


def read_conv_tbc(x: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Data [length, batch, channels], a kernel [width, in, out]."""
    data, kernel = ops.transpose(x, perm=(1, 2, 0)), ops.transpose(weight)
    y = ops.conv(data, kernel, bias, padding=((pad, pad),))
    return ops.transpose(y, perm=(2, 0, 1))


READ = torch_functions(
    {
        "conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding": read_conv,
        "conv_transpose1d conv_transpose2d.input conv_transpose3d.input":
            read_conv_transpose,
        "convolution _convolution": read_convolution,
        "thnn_conv2d slow_conv3d slow_conv_dilated2d slow_conv_dilated3d "
        "_conv_depthwise2d conv_depthwise3d": read_conv_of_kernel_size,
        "im2col": read_im2col,
        "col2im": read_col2im,
        "conv_tbc": read_conv_tbc,
    }
)  # fmt: skip
