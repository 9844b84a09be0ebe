"""From PyTorch: the ops of torchao, whose scales are of blocks of any form.

An axis has blocks of 1, of all its elements, or of some, which are groups. With blocks
of one element along one axis, scales are per channel; of a matrix, per group of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.quantization.read_quantization import (
    as_single,
    clip_integers,
    expect_integers,
)
from amanda_torch.mapping.shape_arguments import shape_argument
from amanda_torch.mapping.type_promotion import FLOAT, as_value

__all__ = ["READ"]


_finfo: Any = ml_dtypes.finfo  # which has no annotations


class _Blocks(NamedTuple):
    """How blocks divide a tensor."""

    shape: list[Any]
    """The shape in which each group has an axis of its own."""
    axes: list[int]
    """The axes of that shape that lie within a block."""

    @property
    def scale_shape(self) -> list[Any]:
        """The shape with one element for each block."""
        return [1 if i in self.axes else n for i, n in enumerate(self.shape)]


def _divide(x: Any, block_size: Sequence[Any]) -> _Blocks:
    blocks = _Blocks([], [])
    for i, (dim, size) in enumerate(zip(x.type.shape.dims, block_size, strict=True)):
        if size == 1:
            blocks.shape.append(dim if isinstance(dim, int) else ops.dim(x, axis=i))
            continue
        if dim != size:
            if not isinstance(dim, int) or not isinstance(size, int) or dim % size:
                raise Decline(f"blocks of {size} of an axis of {dim}")
            blocks.shape.append(dim // size)
        blocks.axes.append(len(blocks.shape))
        blocks.shape.append(size)
    return blocks


def _quantization(x: Any, block_size: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """The shape of scales, and the attributes of quantization; without any where the
    blocks are none that quantization has."""
    dims = list(x.type.shape.dims)
    single = [i for i, n in enumerate(block_size) if n == 1 and dims[i] != 1]
    whole = [i for i, n in enumerate(block_size) if n == dims[i]]
    if len(whole) == len(dims):
        return [], {}
    if len(single) == 1 and len(whole) == len(dims) - 1:
        return [-1], {"axis": single[0]}
    if len(dims) == 2 and block_size[0] == 1 and isinstance(dims[1], int):
        shape = shape_argument([_divide(x, block_size).shape[0], -1])
        return shape, {"axis": 1, "block": block_size[1]}
    return None, {}


def read_quantize(
    x: Any, scale: Any, zero_point: Any = None, *, block_size: Sequence[Any],
    output_dtype: Any, quant_min: Any = None, quant_max: Any = None,
) -> Any:  # fmt: skip
    expect_integers(output_dtype)
    x, scale, zero = as_single(x), cast_to(scale, FLOAT), zero_point
    zero = as_value(zero, output_dtype)
    shape, attrs = _quantization(x, block_size)
    if shape is None:
        y = _by_blocks(
            lambda x, s, z: ops.quantize(x, s, z, dtype=output_dtype),
            x, scale, zero, block_size,
        )  # fmt: skip
    else:
        scale, zero = _reshape_all(shape, scale, zero)
        y = ops.quantize(x, scale, zero, dtype=output_dtype, **attrs)
    info = np.iinfo(output_dtype.numpy)
    low, high = (quant_min, info.min), (quant_max, info.max)
    return clip_integers(y, *(d if n is None else n for n, d in (low, high)))


def read_dequantize(
    x: Any, scale: Any, zero_point: Any = None, *, block_size: Sequence[Any],
    input_dtype: Any = None, quant_min: Any = None, quant_max: Any = None,
    output_dtype: Any = None,
) -> Any:  # fmt: skip
    del input_dtype, quant_min, quant_max
    expect_integers(x.dtype)
    scale, zero = cast_to(scale, FLOAT), as_value(zero_point, x.dtype)
    shape, attrs = _quantization(x, block_size)
    if shape is None:
        y = _by_blocks(ops.dequantize, x, scale, zero, block_size)
    else:
        y = ops.dequantize(x, *_reshape_all(shape, scale, zero), **attrs)
    return cast_to(y, output_dtype or FLOAT)


def _reshape_all(shape: Any, *values: Any) -> list[Any]:
    return [None if v is None else ops.reshape(v, shape) for v in values]


def _by_blocks(
    op: Callable[..., Any], x: Any, scale: Any, zero: Any, block_size: Sequence[Any]
) -> Any:
    """An op on a tensor in which each group has an axis, with scales that broadcast."""
    blocks = _divide(x, block_size)
    scales = _reshape_all(shape_argument(blocks.scale_shape), scale, zero)
    y = op(ops.reshape(x, shape_argument(blocks.shape)), *scales)
    dims = [
        n if isinstance(n, int) else ops.dim(x, axis=i)
        for i, n in enumerate(x.type.shape.dims)
    ]
    return ops.reshape(y, shape_argument(dims))


# -- dynamic quantization ------------------------------------------------------------


def read_choose(
    x: Any, *, mapping_type: str, block_size: Sequence[Any], target_dtype: Any,
    quant_min: Any = None, quant_max: Any = None, eps: float | None = None,
    scale_dtype: Any = None, zero_point_dtype: Any = None, keepdim: bool = False,
) -> Any:  # fmt: skip
    """Scale and zero point of the range of each block, with 0 in it."""
    expect_integers(target_dtype)
    info = np.iinfo(target_dtype.numpy)
    low = float(info.min if quant_min is None else quant_min)
    high = float(info.max if quant_max is None else quant_max)
    least, most = _ranges(x, _divide(x, block_size), keepdim)
    if eps is None:
        eps = float(_finfo(x.dtype.numpy).smallest_normal)
    if mapping_type == "ASYMMETRIC":
        scale = ops.maximum((most - least) / (high - low), eps)
        zero = ops.clip(low - ops.round(least / scale), low, high)
    else:
        scale = _symmetric_scale(mapping_type, least, most, low, high)
        scale = ops.maximum(scale, eps)
        zero = ops.zeros_like(scale) + float(int((high + low + 1) / 2))
    return (
        cast_to(scale, scale_dtype or x.dtype),
        cast_to(zero, zero_point_dtype or scale.dtype),
    )


def _symmetric_scale(kind: str, least: Any, most: Any, low: float, high: float) -> Any:
    if kind == "SYMMETRIC":
        return ops.maximum(-least, most) / ((high - low) / 2)
    expect(kind == "SYMMETRIC_NO_CLIPPING_ERR", f"quantization of the kind {kind}")
    return ops.maximum(least / low, most / high)


def _ranges(x: Any, blocks: _Blocks, keepdim: bool) -> tuple[Any, Any]:
    """The least and the greatest element of each block, or 0."""
    groups = len(blocks.shape) > rank_of(x)
    shaped = ops.reshape(x, shape_argument(blocks.shape)) if groups else x
    keeps = keepdim and not groups
    expect(keepdim is keeps, "scales of groups that keep the axes of the data")
    least = ops.min(shaped, blocks.axes, keepdims=keeps)
    most = ops.max(shaped, blocks.axes, keepdims=keeps)
    return ops.minimum(least, 0.0), ops.maximum(most, 0.0)


def decline_subclass(*values: Any, context: Any, attr: str = "") -> Any:
    del values, context
    raise Decline(
        f"{attr} is a part of a weight of a class of its own; call "
        "run_decompositions({}) before saving, which makes it a tensor"
    )


READ: dict[str, Any] = {
    "torchao.quantize_affine.default": read_quantize,
    "torchao.dequantize_affine.default": read_dequantize,
    "torchao.choose_qparams_affine.default": read_choose,
    "export.access_subclass_inner_tensor.default": decline_subclass,
}
