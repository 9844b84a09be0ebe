"""From ONNX: Resize and Upsample, which tell new sizes in several ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.static_values import content, expect, ints, rank_of
from amanda_std import ops

__all__ = ["READ"]

_POLICIES = {"not_larger": ops.min, "not_smaller": ops.max}


def resize(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *,
           mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
           nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75,
           exclude_outside: int = 0, extrapolation_value: float = 0.0,
           antialias: int = 0, axes: Any = None,
           keep_aspect_ratio_policy: str = "stretch") -> Any:  # fmt: skip
    how: dict[str, Any] = {"mode": mode}
    if mode == "nearest":
        how |= {"rounding": nearest_mode}
    if mode == "cubic":
        how |= {"cubic": cubic_coeff_a}
    if exclude_outside and mode != "nearest":
        how |= {"exclude_outside": True}
    if antialias and mode != "nearest":
        how |= {"antialias": True}
    region = None
    if coordinate_transformation_mode == "tf_crop_and_resize":
        expect(roi is not None, "a region that is not told")
        region, how["extrapolation"] = roi, extrapolation_value
    else:
        how["coordinates"] = coordinate_transformation_mode
    rank = rank_of(x)
    at = list(range(rank)) if axes is None else [a % rank for a in axes]
    if scales is not None and not _is_empty(scales):
        return _by_scales(x, scales, region, at, how)
    wanted = ints(sizes)
    if keep_aspect_ratio_policy == "stretch":
        return ops.resize(x, wanted, None, region, axes=_some(at, rank), **how)
    policy = _POLICIES[keep_aspect_ratio_policy]
    have = _dims(x, at)
    ratio = policy(ops.divide(_real(wanted), _real(have)))
    grown = ops.floor(_real(have) * ratio + 0.5)
    scale = ops.broadcast_to(ratio, [len(at)])
    grown = ops.astype(grown, dtype="int64")
    return ops.resize(x, grown, scale, region, axes=_some(at, rank), **how)


def _some(at: list[int], rank: int) -> tuple[int, ...] | None:
    return None if at == list(range(rank)) else tuple(at)


def _is_empty(value: Any) -> bool:
    shape = value.type.shape
    return bool(shape.is_static and int(shape.size) == 0)


def _dims(x: Any, at: list[int]) -> Any:
    """Some dims of x, as one tensor."""
    return ops.gather(ops.shape_of(x), np.asarray(at))


def _real(value: Any) -> Any:
    if isinstance(value, list):
        return np.asarray(value, "float64")
    return ops.astype(value, dtype="float64")


def _by_scales(x: Any, scales: Any, region: Any, at: list[int], how: Any) -> Any:
    """Sizes are rounded down; places are computed by the scales as they are told."""
    told = content(scales)
    if told is not None:
        return _told(x, told, region, at, how)
    sizes = ops.astype(ops.floor(_real(_dims(x, at)) * _real(scales)), dtype="int64")
    return ops.resize(x, sizes, scales, region, axes=_some(at, rank_of(x)), **how)


def _told(x: Any, told: list[float], region: Any, at: list[int], how: Any) -> Any:
    """Axes of scale 1 stay as they are."""
    expect(len(told) == len(at), "a scale for each axis")
    rows = [
        (a, s) for a, s in zip(at, told, strict=True) if s != 1 or region is not None
    ]
    if not rows:
        return ops.identity(x)
    at, told = [a for a, _ in rows], [s for _, s in rows]
    own = x.type.shape.dims
    if all(isinstance(own[a], int) for a in at):
        sizes: Any = [int(np.floor(own[a] * s)) for a, s in rows]
    else:
        grown = _real(_dims(x, at)) * np.asarray(told, "float64")
        sizes = ops.astype(ops.floor(grown), dtype="int64")
    scales = np.asarray(told, "float32")
    return ops.resize(x, sizes, scales, region, axes=_some(at, rank_of(x)), **how)


_BEFORE = {"coordinates": "asymmetric"}
"""Places are the scaled ones, rounded down, in the opsets before 11."""


def _how(mode: str) -> dict[str, Any]:
    return _BEFORE | ({"rounding": "floor"} if mode == "nearest" else {"mode": mode})


def resize_10(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return _by_scales(x, scales, None, list(range(rank_of(x))), _how(mode))


def upsample_7(x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    return _told(x, list(scales), None, list(range(rank_of(x))), _how(mode))


READ: dict[str, Any] = {
    "Resize[10:10]": resize_10,
    "Resize[11:]": resize,
    "Upsample[7:8]": upsample_7,
    "Upsample[9:9]": resize_10,
}
