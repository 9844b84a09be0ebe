"""To ONNX: Resize, and Upsample in opsets before 10."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Op, OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_onnx.mapping.operands import int64_tensor, opset_of
from amanda_std.mappings import rank_of, tensor_type_of

__all__ = ["WRITE"]


def write_resize(
    o: Any, x: Any, sizes: Any, scales: Any = None, region: Any = None, *,
    axes: Any = None, mode: str = "nearest", coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor", cubic: float = -0.75,
    exclude_outside: bool = False, antialias: bool = False, extrapolation: float = 0.0,
) -> Any:  # fmt: skip
    if scales is not None and not _are_scaled_sizes(o.source, x, sizes, scales, axes):
        raise Decline("Resize has sizes or scales, and rounds down the scaled sizes")
    if mode not in ("nearest", "linear", "cubic") or rounding == "round_even":
        raise Decline(f"Resize has no mode {mode} with rounding {rounding}")
    if antialias and opset_of(o) < 18:
        raise Decline("Resize of this opset has no antialias")
    if axes is not None and opset_of(o) < 18:
        sizes, scales = _of_all_axes(x, sizes, scales, axes, region)
        axes = None
    if opset_of(o) < 11:
        return _resize_10(o, x, scales, region, mode, coordinates, rounding)
    attrs: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
    }
    if region is not None:
        attrs |= {"coordinate_transformation_mode": "tf_crop_and_resize"}
        attrs |= {"extrapolation_value": extrapolation} if extrapolation else {}
    if mode == "nearest":
        attrs |= {"nearest_mode": rounding}
    if mode == "cubic":
        attrs |= {"cubic_coeff_a": cubic}
    attrs |= {"antialias": 1} if antialias else {}
    if exclude_outside and (mode == "cubic" or antialias):  # else it changes nothing
        attrs |= {"exclude_outside": 1}
    if axes is not None:
        attrs |= {"axes": list(axes)}
    # Inputs that are not given are empty tensors before opset 13.
    absent = Tensor.of(np.zeros(0, "float32")) if opset_of(o) < 13 else None
    region = absent if region is None else region
    if scales is not None:
        return o.Resize(x, region, scales, **attrs)
    operand = int64_tensor(sizes) if isinstance(sizes, list | tuple) else sizes
    return o.Resize(x, region, absent, operand, **attrs)


def _resize_10(o: Any, x: Any, scales: Any, region: Any, mode: str, coordinates: str,
               rounding: str) -> Any:  # fmt: skip
    """Resize of opset 10 or Upsample: asymmetric coordinates, rounded down."""
    is_supported = coordinates == "asymmetric" and (
        mode == "linear" or (mode == "nearest" and rounding == "floor")
    )
    if scales is None or region is not None or not is_supported:
        raise Decline("Resize of this opset has scales and asymmetric coordinates only")
    if opset_of(o) == 10:
        return o.Resize(x, scales, mode=mode)
    if opset_of(o) == 9:
        return o.Upsample(x, scales, mode=mode)
    tensor = scales if isinstance(scales, Tensor) else constant_of(scales)
    if tensor is None:
        raise Decline("Upsample of this opset needs its scales as an attribute")
    return o.Upsample(x, scales=tensor.tolist(), mode=mode)


def _are_scaled_sizes(source: Op, x: Any, sizes: Any, scales: Any, axes: Any) -> bool:
    """Whether the sizes are those that ONNX computes from the scales."""
    if isinstance(sizes, OutputPort):
        return _producer_types(source.inputs[1]) == ["astype", "floor", "multiply"]
    tensor = constant_of(scales)
    if tensor is None or not isinstance(x.type, TensorType):
        return False
    dims = [
        tensor_type_of(x).shape[a]
        for a in (range(rank_of(x)) if axes is None else axes)
    ]
    rows = zip(dims, tensor.tolist(), sizes, strict=True)
    return all(isinstance(d, int) and int(np.floor(d * s)) == n for d, s, n in rows)


def _producer_types(value: OutputPort | None) -> list[str | None]:
    """The types of the op that computes a value, and of two ops before it."""
    types: list[str | None] = []
    while value is not None and len(types) < 3:
        types.append(value.op.type)
        value = next(iter(value.op.inputs), None)
    return types


def _of_all_axes(
    x: Any, sizes: Any, scales: Any, axes: Any, region: Any
) -> tuple[Any, Any]:
    """Sizes or scales of all axes, from those of some."""
    rank = rank_of(x)
    if region is not None:
        raise Decline("Resize of this opset needs the region on all axes")
    if scales is not None:
        tensor = constant_of(scales)
        if tensor is None:
            raise Decline("Resize of this opset needs scales of all axes")
        every = [1.0] * rank
        for a, s in zip(axes, tensor.tolist(), strict=True):
            every[a % rank] = s
        return None, Tensor.of(np.asarray(every, "float32"))
    if isinstance(sizes, OutputPort) or not isinstance(x.type, TensorType):
        raise Decline("Resize of this opset needs sizes of all axes")
    dims = list(tensor_type_of(x).shape)
    for a, n in zip(axes, sizes, strict=True):
        dims[a % rank] = n
    if not all(isinstance(d, int) for d in dims):
        raise Decline("Resize of this opset needs static dims of the other axes")
    return dims, None


WRITE: dict[str, Any] = {"resize": write_resize}
