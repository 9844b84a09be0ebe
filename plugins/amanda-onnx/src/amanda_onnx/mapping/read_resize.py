"""From ONNX: Resize and Upsample, which tell new sizes in several ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.known import content, dims, expect, ints, rank_of
from amanda_std import ops

__all__ = ["READ"]


def _modes(mode: str, where: str, rounding: str, cubic: float, outside: int) -> Any:
    expect(where != "tf_crop_and_resize", "no resizing of regions yet")
    return {
        "mode": mode,
        "coordinates": where,
        "rounding": rounding,
        "cubic": cubic,
        "exclude_outside": bool(outside),
    }


def resize(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *,  # noqa: ARG001
           mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel",
           nearest_mode: str = "round_prefer_floor", cubic_coeff_a: float = -0.75,
           exclude_outside: int = 0, extrapolation_value: float = 0.0,  # noqa: ARG001
           antialias: int = 0, axes: Any = None,
           keep_aspect_ratio_policy: str = "stretch") -> Any:  # fmt: skip
    expect(not antialias, "no resizing against aliasing yet")
    how = _modes(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a,
                 exclude_outside)  # fmt: skip
    rank = rank_of(x)
    places = list(range(rank)) if axes is None else [a % rank for a in axes]
    if scales is not None and not _is_empty(scales):
        told = content(scales)
        expect(told is not None, "scales that are known at run time only")
        return _by_scales(x, _full(told, places, [1.0] * rank), how)
    wanted = ints(sizes)
    if keep_aspect_ratio_policy != "stretch":
        return _in_ratio(x, wanted, places, keep_aspect_ratio_policy, how)
    if len(places) == rank and places == sorted(places):
        return ops.resize(x, wanted, **how)
    if not isinstance(wanted, list):
        wanted = [ops.gather(wanted, np.int64(i)) for i in range(len(places))]
    return ops.resize(x, _full(wanted, places, list(x.shape)), **how)


def _is_empty(value: Any) -> bool:
    shape = value.type.shape
    return bool(shape.is_static and int(shape.size) == 0)


def _full(values: Any, places: list[int], rest: list[Any]) -> list[Any]:
    full = list(rest)
    for place, value in zip(places, values, strict=True):
        full[place] = value
    return full


def _by_scales(x: Any, scales: list[float], how: Any) -> Any:
    """Sizes are rounded down; places are computed by the scales as they are told."""
    if x.type.shape.is_static:
        sizes: Any = [
            int(np.floor(d * s)) for d, s in zip(dims(x), scales, strict=True)
        ]
    else:
        grown = ops.astype(ops.shape_of(x), dtype="float64") * np.asarray(scales)
        sizes = ops.astype(ops.floor(grown), dtype="int64")
    return ops.resize(x, sizes, scales=tuple(map(float, scales)), **how)


def _in_ratio(x: Any, wanted: Any, places: list[int], policy: str, how: Any) -> Any:
    expect(isinstance(wanted, list), "sizes in a ratio, known at run time only")
    have = dims(x)
    ratios = [w / have[p] for w, p in zip(wanted, places, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    sizes = list(have)
    scales = [1.0] * len(have)
    for place in places:
        sizes[place] = int(np.floor(have[place] * scale + 0.5))
        scales[place] = scale
    return ops.resize(x, sizes, scales=tuple(scales), **how)


def resize_10(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    told = content(scales)
    expect(told is not None, "scales that are known at run time only")
    how = _modes(mode, "asymmetric", "floor", -0.75, 0)
    return _by_scales(x, told, how)


def upsample_7(x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    return _by_scales(x, scales, _modes(mode, "asymmetric", "floor", -0.75, 0))


READ: dict[str, Any] = {
    "Resize[10:10]": resize_10,
    "Resize[11:]": resize,
    "Upsample[7:8]": upsample_7,
    "Upsample[9:9]": resize_10,
}
