"""To ONNX: regions of interest, non-maximum suppression."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda.types import DType, TensorType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import int64_tensor, opset_of, unsqueeze
from amanda_std.mappings import tensor_type_of

__all__ = ["WRITE"]


def write_roi_align(
    o: Any, x: Any, rois: Any, batch: Any, *, size: Any, scale: float = 1.0,
    ratio: int = 0, mode: str = "avg", half_pixel: bool = True,
) -> Any:  # fmt: skip
    attrs: dict[str, Any] = {
        "output_height": size[0], "output_width": size[1], "mode": mode,
        "spatial_scale": scale, "sampling_ratio": ratio,
    }  # fmt: skip
    if opset_of(o) >= 16:
        transform = "half_pixel" if half_pixel else "output_half_pixel"
        attrs["coordinate_transformation_mode"] = transform
    elif half_pixel:
        raise Decline("RoiAlign of this opset has no half-pixel coordinates")
    return o.RoiAlign(x, rois, _to_int64(o, batch), **attrs)


def write_roi_pool(o: Any, x: Any, rois: Any, batch: Any, *, size: Any,
                   scale: float = 1.0) -> Any:  # fmt: skip
    column = unsqueeze(o, _cast_like(o, batch, x), [1])
    rows = o.Concat(column, _cast_like(o, rois, x), axis=1)
    return o.MaxRoiPool(x, rows, pooled_shape=list(size), spatial_scale=scale)


def _to_int64(o: Any, x: Any) -> Any:
    is_int64 = (
        isinstance(x.type, TensorType) and str(tensor_type_of(x).dtype) == "int64"
    )
    return x if is_int64 else o.Cast(x, to=CODES[DType("int64")])


def _cast_like(o: Any, x: Any, like: Any) -> Any:
    dtype = like.type.dtype if isinstance(like.type, TensorType) else None
    if not isinstance(dtype, DType) or dtype not in CODES:
        raise Decline("MaxRoiPool needs the dtype of its data")
    return o.Cast(x, to=CODES[dtype])


def write_nms(o: Any, boxes: Any, scores: Any, limit: Any = None, overlap: Any = None,
              least: Any = None, *, centered: bool = False) -> Any:  # fmt: skip
    """ONNX selects no boxes without a limit, so there always is one."""
    vector = int64_tensor([1])
    most = int64_tensor([2**31 - 1]) if limit is None else o.Reshape(limit, vector)
    rest = [None if v is None else o.Reshape(v, vector) for v in (overlap, least)]
    more = {"center_point_box": 1} if centered else {}
    return o.NonMaxSuppression(boxes, scores, most, *rest, **more)


WRITE: dict[str, Any] = {
    "roi_align": write_roi_align,
    "roi_pool": write_roi_pool,
    "nms": write_nms,
}
