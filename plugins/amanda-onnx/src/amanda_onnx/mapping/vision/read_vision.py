"""From ONNX: regions of interest, non-maximum suppression, image files."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.static_values import to_scalar
from amanda_std import ops
from amanda_std.mappings import expect

__all__ = ["READ"]

_COLORS = {"RGB": "RGB", "BGR": "BGR", "Grayscale": "grey"}


def read_roi_align(
    x: Any, rois: Any, batch: Any, *, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
) -> Any:  # fmt: skip
    return ops.roi_align(
        x, rois, batch, mode=mode, size=(output_height, output_width),
        ratio=sampling_ratio, scale=spatial_scale,
        half_pixel=coordinate_transformation_mode == "half_pixel",
    )  # fmt: skip


def read_roi_align_15(
    x: Any, rois: Any, batch: Any, *, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Without the half-pixel shift of later opsets."""
    return read_roi_align(
        x, rois, batch, mode=mode, output_height=output_height,
        output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        coordinate_transformation_mode="output_half_pixel",
    )  # fmt: skip


def read_max_roi_pool(x: Any, rois: Any, *, pooled_shape: Any,
                      spatial_scale: float = 1.0) -> Any:  # fmt: skip
    batch = ops.astype(ops.gather(rois, np.asarray(0), 1), dtype="int64")
    boxes = ops.slice_(rois, [1], [5], [1])
    return ops.roi_pool(x, boxes, batch, size=tuple(pooled_shape), scale=spatial_scale)


def read_nms(
    boxes: Any, scores: Any, max_output: Any = None, iou_threshold: Any = None,
    score_threshold: Any = None, *, center_point_box: int = 0,
) -> Any:  # fmt: skip
    """By default, at most 0 boxes are selected."""
    limit = np.asarray(0, "int64") if max_output is None else to_scalar(max_output)
    zero = np.asarray(0, boxes.dtype.numpy)
    overlap = zero if iou_threshold is None else to_scalar(iou_threshold)
    least = None if score_threshold is None else to_scalar(score_threshold)
    centered = bool(center_point_box)
    return ops.nms(boxes, scores, limit, overlap, least, centered=centered)


def read_image_decoder(x: Any, *, pixel_format: str = "RGB") -> Any:
    expect(pixel_format in _COLORS, f"unknown pixel_format {pixel_format}")
    return ops.decode_image(x, colours=_COLORS[pixel_format])


READ: dict[str, Any] = {
    "RoiAlign[16:]": read_roi_align,
    "RoiAlign[:15]": read_roi_align_15,
    "MaxRoiPool": read_max_roi_pool,
    "NonMaxSuppression": read_nms,
    "ImageDecoder": read_image_decoder,
}
