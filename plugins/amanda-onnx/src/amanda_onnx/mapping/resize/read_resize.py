"""From ONNX: Resize and Upsample, whose output size is given by scales or sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.static_values import axis_of
from amanda_std import ops
from amanda_std.mappings import (
    expect,
    known_content,
    known_or_value,
    rank_of,
    tensor_type_of,
)

__all__ = ["READ", "read_upsample_8"]

_ASPECT_RATIOS = {"not_larger": ops.min, "not_smaller": ops.max}


def read_resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *,
    mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, antialias: int = 0,
    axes: Any = None, keep_aspect_ratio_policy: str = "stretch",
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {"mode": mode}
    if mode == "nearest":
        attrs |= {"rounding": nearest_mode}
    if mode == "cubic":
        attrs |= {"cubic": cubic_coeff_a}
    if exclude_outside and mode != "nearest":
        attrs |= {"exclude_outside": True}
    if antialias and mode != "nearest":
        attrs |= {"antialias": True}
    region = None
    if coordinate_transformation_mode == "tf_crop_and_resize":
        expect(roi is not None, "tf_crop_and_resize needs the input roi")
        region, attrs["extrapolation"] = roi, extrapolation_value
    else:
        attrs["coordinates"] = coordinate_transformation_mode
    rank = rank_of(x)
    axes = list(range(rank)) if axes is None else [axis_of(a, rank) for a in axes]
    if scales is not None and not _is_empty(scales):
        return _resize_by_scales(x, scales, region, axes, attrs)
    wanted = known_or_value(sizes)
    some = _some_axes(axes, rank)
    if keep_aspect_ratio_policy == "stretch":
        return ops.resize(x, wanted, None, region, axes=some, **attrs)
    dims = _dims(x, axes)
    ratios = ops.divide(_float64(wanted), _float64(dims))
    ratio = _ASPECT_RATIOS[keep_aspect_ratio_policy](ratios)
    rounded = ops.floor(_float64(dims) * ratio + 0.5)
    scale = ops.broadcast_to(ratio, [len(axes)])
    size = ops.astype(rounded, dtype="int64")
    return ops.resize(x, size, scale, region, axes=some, **attrs)


def _some_axes(axes: list[int], rank: int) -> tuple[int, ...] | None:
    return None if axes == list(range(rank)) else tuple(axes)


def _is_empty(value: Any) -> bool:
    shape = tensor_type_of(value).shape
    return bool(shape.is_static and int(shape.size) == 0)


def _dims(x: Any, axes: list[int]) -> Any:
    """The dims of some axes, as one tensor."""
    return ops.gather(ops.shape_of(x), np.asarray(axes))


def _float64(value: Any) -> Any:
    if isinstance(value, list):
        return np.asarray(value, "float64")
    return ops.astype(value, dtype="float64")


def _resize_by_scales(
    x: Any, scales: Any, region: Any, axes: list[int], attrs: dict[str, Any]
) -> Any:
    """Sizes are rounded down; coordinates are computed with the scales as given."""
    known = known_content(scales)
    if known is not None:
        return _resize_by_known_scales(x, known, region, axes, attrs)
    grown = ops.floor(_float64(_dims(x, axes)) * _float64(scales))
    sizes = ops.astype(grown, dtype="int64")
    some = _some_axes(axes, rank_of(x))
    return ops.resize(x, sizes, scales, region, axes=some, **attrs)


def _resize_by_known_scales(
    x: Any, scales: list[float], region: Any, axes: list[int], attrs: dict[str, Any]
) -> Any:
    """Axes of scale 1 are left out."""
    expect(np.shape(scales) == (len(axes),), "a scale for each axis expected")
    expect(all(0 < s < np.inf for s in scales), f"scales={scales}: positive expected")
    pairs = [
        (a, s)
        for a, s in zip(axes, scales, strict=True)
        if s != 1 or region is not None
    ]
    if not pairs:
        return ops.identity(x)
    axes, scales = [a for a, _ in pairs], [s for _, s in pairs]
    dims = tensor_type_of(x).shape.dims
    if all(isinstance(dims[a], int) for a in axes):
        sizes: Any = [int(np.floor(dims[a] * s)) for a, s in pairs]
    else:
        grown = _float64(_dims(x, axes)) * np.asarray(scales, "float64")
        sizes = ops.astype(ops.floor(grown), dtype="int64")
    operand = np.asarray(scales, "float32")
    some = _some_axes(axes, rank_of(x))
    return ops.resize(x, sizes, operand, region, axes=some, **attrs)


def _attributes_10(mode: str) -> dict[str, Any]:
    """Before opset 11: asymmetric coordinates, rounded down."""
    attrs = {"coordinates": "asymmetric"}
    return attrs | ({"rounding": "floor"} if mode == "nearest" else {"mode": mode})


def read_resize_10(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    axes = list(range(rank_of(x)))
    return _resize_by_scales(x, scales, None, axes, _attributes_10(mode))


def read_upsample_8(x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    axes = list(range(rank_of(x)))
    attrs = _attributes_10(mode)
    return _resize_by_known_scales(x, list(scales), None, axes, attrs)


READ: dict[str, Any] = {
    "Resize[10:10]": read_resize_10,
    "Resize[11:]": read_resize,
    "Upsample[7:8]": read_upsample_8,
    "Upsample[9:9]": read_resize_10,
}
