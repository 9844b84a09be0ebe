"""To PyTorch: quantization, as ops of `quantized_decomposed`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std.mappings import rank_of
from amanda_torch.mapping.type_promotion import FLOAT
from amanda_torch.mapping.written_arguments import (
    dims_of,
    dtype_of,
    number_or_value,
    write_call,
    write_constant,
)

__all__ = ["WRITE"]

_TYPES: Final = ("uint8", "int8", "uint16", "int16", "int32")


def _limits(dtype: DType) -> dict[str, Any]:
    """The arguments with the quantized type and its limits."""
    if str(dtype) not in _TYPES:
        raise Decline(f"PyTorch quantizes to {', '.join(_TYPES)}", got=dtype)
    info = np.iinfo(dtype.numpy)
    return {"quant_min": int(info.min), "quant_max": int(info.max), "dtype": dtype}


def _expect_single(value: Any) -> None:
    if dtype_of(value) != FLOAT:
        raise Decline("PyTorch quantizes float32", got=dtype_of(value))


def _call(o: Any, kind: str, x: Any, scale: Any, zero: Any, dtype: DType,
          axis: int | None, block: int) -> Any:  # fmt: skip
    """An op that quantizes, or one that dequantizes, by the form of its scale."""
    limits = _limits(dtype)
    if block:
        return _call_groups(o, kind, x, scale, zero, limits, axis, block)
    if rank_of(scale) == 0:
        return _call_tensor(o, kind, x, scale, zero, limits)
    if axis is None:
        raise Decline("several scales need an axis")
    zeros = _zero_points(o, scale, zero)
    name = f"quantized_decomposed.{kind}_per_channel.default"
    return o.op(name, x, scale, zeros, axis=axis % rank_of(x), **limits)


def _call_tensor(
    o: Any, kind: str, x: Any, scale: Any, zero: Any, limits: dict[str, Any]
) -> Any:
    name = f"quantized_decomposed.{kind}_per_tensor"
    step, start = number_or_value(scale), 0 if zero is None else number_or_value(zero)
    if isinstance(step, float) and isinstance(start, int):
        attrs = {"scale": step, "zero_point": start} | limits
        return o.op(f"{name}.default", x, **attrs)
    return o.op(f"{name}.tensor", x, scale, _zero_points(o, scale, zero), **limits)


def _call_groups(
    o: Any, kind: str, x: Any, scale: Any, zero: Any, limits: dict[str, Any],
    axis: int | None, block: int,
) -> Any:  # fmt: skip
    size = dims_of(x)[-1]
    if rank_of(x) != 2 or axis is None or axis % 2 != 1:
        raise Decline("PyTorch has groups along the rows of matrices")
    if not isinstance(size, int) or size % block:
        raise Decline("PyTorch has groups that divide the size of a row")
    attrs = limits | {"group_size": block}
    if kind == "dequantize":
        attrs["output_dtype"] = FLOAT
    zeros = _zero_points(o, scale, zero)
    name = f"quantized_decomposed.{kind}_per_channel_group.default"
    return o.op(name, x, scale, zeros, **attrs)


def _zero_points(o: Any, scale: Any, zero: Any) -> Any:
    """Zero points as int64, as PyTorch has them: zeros where there are none."""
    if zero is not None:
        return write_call(o, "to.dtype", zero, dtype=DType("int64"))
    dims = dims_of(scale)
    if not all(isinstance(dim, int) for dim in dims):
        raise Decline("the number of zero points is known at run time only")
    return write_constant(o, np.zeros(dims, "int64"))


def write_quantize(
    o: Any, x: Any, scale: Any, zero_point: Any = None, *, dtype: Any = None,
    axis: int | None = None, block: int = 0, saturate: bool = True,
) -> Any:  # fmt: skip
    del saturate  # integers always do
    _expect_single(x)
    _expect_single(scale)
    own = DType("uint8") if zero_point is None else dtype_of(zero_point)
    return _call(o, "quantize", x, scale, zero_point, dtype or own, axis, block)


def write_dequantize(o: Any, x: Any, scale: Any, zero_point: Any = None, *,
                     axis: int | None = None, block: int = 0) -> Any:  # fmt: skip
    _expect_single(scale)
    return _call(o, "dequantize", x, scale, zero_point, dtype_of(x), axis, block)


WRITE: dict[str, Any] = {"quantize": write_quantize, "dequantize": write_dequantize}
