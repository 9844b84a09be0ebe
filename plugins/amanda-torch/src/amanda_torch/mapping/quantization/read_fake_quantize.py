"""From PyTorch: fake quantization, of training that is aware of quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import axis_of
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ"]


def read_fake_quantize(x: Any, scale: Any, zero_point: Any, quant_min: int,
                       quant_max: int) -> Any:  # fmt: skip
    """One scale for all elements: numbers, or scalar tensors."""
    if isinstance(scale, int | float):
        scale, zero_point = number(scale, x.dtype), np.int32(zero_point)
    else:
        scale, zero_point = (ops.reshape(v, []) for v in (scale, zero_point))
    scale = cast_to(scale, x.dtype)
    return ops.fake_quantize(x, scale, zero_point, low=quant_min, high=quant_max)


def read_fake_quantize_by_channel(x: Any, scale: Any, zero_point: Any, axis: int,
                                  quant_min: int, quant_max: int) -> Any:  # fmt: skip
    return ops.fake_quantize(
        x, cast_to(scale, x.dtype), zero_point, axis=axis_of(axis, x), low=quant_min,
        high=quant_max,
    )  # fmt: skip


def read_fake_quantize_with_mask(x: Any, scale: Any, zero_point: Any, quant_min: int,
                                 quant_max: int) -> Any:  # fmt: skip
    """With the mask of the elements that were in range, which gradients pass."""
    y = read_fake_quantize(x, scale, zero_point, quant_min, quant_max)
    whole = read_fake_quantize(x, scale, zero_point, -(2**30), 2**30)
    return y, ops.equal(y, whole)


READ = torch_functions(
    {
        "fake_quantize_per_tensor_affine "
        "fake_quantize_per_tensor_affine.tensor_qparams": read_fake_quantize,
        "fake_quantize_per_channel_affine": read_fake_quantize_by_channel,
        "fake_quantize_per_tensor_affine_cachemask": read_fake_quantize_with_mask,
    }
)
