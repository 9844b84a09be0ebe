"""From PyTorch: gradients of convolutions, pooling and interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import expect, gradient_of, gradients_of, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.nn.read_conv import read_convolution
from amanda_torch.mapping.nn.read_pooling import (
    read_adaptive_average,
    read_average_pool,
)

__all__ = ["READ"]


def read_convolution_backward(
    g: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """The gradients of data, kernel and bias; those that the mask omits are unused."""
    del bias_sizes, output_mask

    def forward(x: Any, weight: Any) -> Any:
        return read_convolution(x, weight, None, stride, padding, dilation,
                                transposed, output_padding, groups)  # fmt: skip

    axes = [0, *range(2, rank_of(g))]
    expect(rank_of(x) == rank_of(weight), "data without a batch axis")
    of_data, of_kernel = gradients_of(forward, (x, weight), g)
    return of_data, of_kernel, ops.sum(g, axes)


def _max_pool_backward(axes: int) -> Callable[..., Any]:
    def read(g: Any, x: Any, window: Any, stride: Any, padding: Any, dilation: Any,
             ceil_mode: bool, indices: Any) -> Any:  # fmt: skip
        """Each element of the gradient, added where the window has its maximum."""
        del window, stride, padding, dilation, ceil_mode
        outer = rank_of(x) - axes
        shape = ops.shape_of(x)
        flat = ops.concat(ops.slice(shape, [0], [outer], [0]), [-1], axis=0)
        zeros = ops.reshape(ops.zeros_like(x), flat)
        total = ops.scatter_elements(
            zeros, ops.reshape(indices, flat), ops.reshape(g, flat),
            axis=outer, reduction="add",
        )  # fmt: skip
        return ops.reshape(total, shape)

    return read


def _average_pool_backward(axes: int) -> Callable[..., Any]:
    forward = read_average_pool(axes)

    def read(g: Any, x: Any, *arguments: Any) -> Any:
        return gradient_of(lambda x: forward(x, *arguments), x, g)

    return read


def _adaptive_average_backward(axes: int) -> Callable[..., Any]:
    forward = read_adaptive_average(axes)

    def read(g: Any, x: Any) -> Any:
        sizes = g.type.shape.dims[-axes:]
        return gradient_of(lambda x: forward(x, sizes), x, g)

    return read


READ = torch_functions(
    {
        "convolution_backward": read_convolution_backward,
        **{f"max_pool{n}d_with_indices_backward": _max_pool_backward(n)
           for n in (2, 3)},
        **{f"avg_pool{n}d_backward": _average_pool_backward(n) for n in (2, 3)},
        **{f"_adaptive_avg_pool{n}d_backward": _adaptive_average_backward(n)
           for n in (2, 3)},
    }
)  # fmt: skip
