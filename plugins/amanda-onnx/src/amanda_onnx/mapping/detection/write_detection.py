"""To ONNX: functions for images, windows and detection."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.shapes.write_shapes import opset, rank, unsqueezed, whole

__all__ = ["WRITE"]

_END = 2**63 - 1


def resize(o: Any, x: Any, sizes: Any, scales: Any = None, region: Any = None, *,
           axes: Any = None, mode: str = "nearest", coordinates: str = "half_pixel",
           rounding: str = "round_prefer_floor", cubic: float = -0.75,
           exclude_outside: bool = False, antialias: bool = False,
           extrapolation: float = 0.0) -> Any:  # fmt: skip
    if scales is not None and not _are_rounded_down(x, sizes, scales, axes):
        raise Decline("Resize takes sizes or scales, and rounds down what it scales")
    if mode not in ("nearest", "linear", "cubic") or rounding == "round_even":
        raise Decline(f"Resize has no mode {mode} with rounding {rounding}")
    if antialias and opset(o) < 18:
        raise Decline("Resize of this opset has no antialias")
    if axes is not None and opset(o) < 18:
        sizes, scales = _of_all(x, sizes, scales, axes, region)
        axes = None
    if opset(o) < 11:
        return _old_resize(o, x, scales, region, mode, coordinates, rounding)
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if region is not None:
        how |= {"coordinate_transformation_mode": "tf_crop_and_resize"}
        how |= {"extrapolation_value": extrapolation} if extrapolation else {}
    if mode == "nearest":
        how |= {"nearest_mode": rounding}
    if mode == "cubic":
        how |= {"cubic_coeff_a": cubic}
    for name, value in (("exclude_outside", exclude_outside), ("antialias", antialias)):
        how |= {name: 1} if value else {}
    if axes is not None:
        how |= {"axes": list(axes)}
    none = Tensor.of(np.zeros(0, "float32")) if opset(o) < 13 else None
    region = none if region is None else region
    if scales is not None:
        return o.Resize(x, region, scales, **how)
    given = whole(sizes) if isinstance(sizes, list | tuple) else sizes
    return o.Resize(x, region, none, given, **how)


def _old_resize(o: Any, x: Any, scales: Any, region: Any, mode: str, coordinates: str,
                rounding: str) -> Any:  # fmt: skip
    is_old = coordinates == "asymmetric" and (
        mode == "linear" or (mode == "nearest" and rounding == "floor")
    )
    if scales is None or region is not None or not is_old:
        raise Decline("Resize of this opset knows scales only")
    if opset(o) == 10:
        return o.Resize(x, scales, mode=mode)
    if opset(o) == 9:
        return o.Upsample(x, scales, mode=mode)
    tensor = scales if isinstance(scales, Tensor) else constant_of(scales)
    if tensor is None:
        raise Decline("Upsample of this opset needs its scales as an attribute")
    return o.Upsample(x, scales=tensor.tolist(), mode=mode)


def _are_rounded_down(x: Any, sizes: Any, scales: Any, axes: Any) -> bool:
    """Whether the sizes are those that ONNX computes from the scales."""
    if isinstance(sizes, OutputPort):
        made = [sizes.op]
        while len(made) < 3 and made[-1].inputs and made[-1].inputs[0] is not None:
            made.append(made[-1].inputs[0].op)
        return [op.type for op in made] == ["Cast", "Floor", "Mul"]
    tensor = constant_of(scales)
    if tensor is None or not isinstance(x.type, TensorType):
        return False
    at = range(rank(x)) if axes is None else axes
    have = [x.type.shape[a] for a in at]
    rows = zip(have, tensor.tolist(), sizes, strict=True)
    return all(isinstance(d, int) and int(np.floor(d * s)) == n for d, s, n in rows)


def _of_all(x: Any, sizes: Any, scales: Any, axes: Any, region: Any) -> tuple[Any, Any]:
    """Sizes or scales of all axes, from those of some."""
    count = rank(x)
    if region is not None:
        raise Decline("Resize of this opset takes the regions of all axes")
    if scales is not None:
        tensor = constant_of(scales)
        if tensor is None:
            raise Decline("scales of some axes, which are computed")
        full = [1.0] * count
        for a, s in zip(axes, tensor.tolist(), strict=True):
            full[a % count] = s
        return None, Tensor.of(np.asarray(full, "float32"))
    if isinstance(sizes, OutputPort) or not isinstance(x.type, TensorType):
        raise Decline("sizes of some axes, which are computed")
    have = list(x.type.shape)
    for a, n in zip(axes, sizes, strict=True):
        have[a % count] = n
    if not all(isinstance(d, int) for d in have):
        raise Decline("the sizes of the other axes are known at run time only")
    return have, None


# -- regions and windows -----------------------------------------------------------


def roi_align(o: Any, x: Any, rois: Any, batch: Any, *, size: Any, scale: float = 1.0,
              ratio: int = 0, mode: str = "avg",
              half_pixel: bool = True) -> Any:  # fmt: skip
    how: dict[str, Any] = {
        "output_height": size[0], "output_width": size[1], "mode": mode,
        "spatial_scale": scale, "sampling_ratio": ratio,
    }  # fmt: skip
    if opset(o) >= 16:
        where = "half_pixel" if half_pixel else "output_half_pixel"
        how["coordinate_transformation_mode"] = where
    elif half_pixel:
        raise Decline("RoiAlign of this opset begins regions at their first element")
    return o.RoiAlign(x, rois, _int64(o, batch), **how)


def roi_pool(o: Any, x: Any, rois: Any, batch: Any, *, size: Any,
             scale: float = 1.0) -> Any:  # fmt: skip
    column = unsqueezed(o, _like(o, batch, rois), [1])
    rows = o.Concat(column, rois, axis=1)
    return o.MaxRoiPool(x, rows, pooled_shape=list(size), spatial_scale=scale)


def _int64(o: Any, x: Any) -> Any:
    known = isinstance(x.type, TensorType) and str(x.type.dtype) == "int64"
    return x if known else o.Cast(x, to=CODES[DType("int64")])


def _like(o: Any, x: Any, like: Any) -> Any:
    dtype = like.type.dtype if isinstance(like.type, TensorType) else None
    if not isinstance(dtype, DType) or dtype not in CODES:
        raise Decline("the element type is not known")
    return o.Cast(x, to=CODES[dtype])


_AUTO = {
    "valid": "VALID",
    "same_upper": "SAME_UPPER",
    "same_lower": "SAME_LOWER",
}


def _windows(window: Any, strides: Any, padding: Any, dilations: Any) -> dict[str, Any]:
    how: dict[str, Any] = {"kernel_shape": list(window)}
    if isinstance(padding, str):
        how["auto_pad"] = _AUTO[padding]
    elif padding is not None:
        how["pads"] = [p[0] for p in padding] + [p[1] for p in padding]
    if strides is not None:
        how["strides"] = list(strides)
    if dilations is not None and any(d != 1 for d in dilations):
        how["dilations"] = list(dilations)
    return how


def max_pool_with_indices(
    o: Any, x: Any, *, window: Any, strides: Any = None, padding: Any = None,
    dilations: Any = None, ceil: bool = False, whole_tensor: bool = False,
    column_major: bool = False,
) -> Any:  # fmt: skip
    """Without `whole_tensor`, the places before the axes of each channel go again."""
    how = _windows(window, strides, padding, dilations)
    how |= {"ceil_mode": 1} if ceil else {}
    how |= {"storage_order": 1} if column_major else {}
    y, at = o.MaxPool(x, outputs=2, **how)
    if whole_tensor:
        return y, at
    shape = o.Shape(x)
    area = o.ReduceProd(o.Slice(shape, whole([2]), whole([_END])), keepdims=0)
    return y, o.Mod(at, area)


def fold(o: Any, x: Any, size: Any, window: Any, *, strides: Any = None,
         padding: Any = None, dilations: Any = None) -> Any:  # fmt: skip
    how = _windows((), strides, padding, dilations)
    how.pop("kernel_shape")
    rows = [whole(v) if isinstance(v, list | tuple) else v for v in (size, window)]
    return o.Col2Im(x, *rows, **how)


# -- detection ---------------------------------------------------------------------


def nms(o: Any, boxes: Any, scores: Any, limit: Any = None, overlap: Any = None,
        least: Any = None, *, centered: bool = False) -> Any:  # fmt: skip
    """Limits are vectors of one here; without any, there is one above all numbers."""
    most = whole([2**31 - 1]) if limit is None else o.Reshape(limit, whole([1]))
    rest = [None if v is None else o.Reshape(v, whole([1])) for v in (overlap, least)]
    more = {"center_point_box": 1} if centered else {}
    return o.NonMaxSuppression(boxes, scores, most, *rest, **more)


def unique(o: Any, x: Any, *, axis: Any = None, sorted: bool = True) -> Any:
    more: dict[str, Any] = {} if axis is None else {"axis": axis}
    return o.Unique(x, sorted=int(sorted), outputs=4, **more)


WRITE: dict[str, Any] = {
    "resize": resize,
    "roi_align": roi_align,
    "roi_pool": roi_pool,
    "max_pool_with_indices": max_pool_with_indices,
    "fold": fold,
    "nms": nms,
    "unique": unique,
}
