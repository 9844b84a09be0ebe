"""From TensorFlow: images: resizing, colours, boxes, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.dataflow import (
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    as_float32,
    hsv_to_rgb,
    image_patches,
    resize_area,
    resize_bicubic,
    resize_coordinates,
    rgb_to_hsv,
    select_boxes,
)
from amanda_std.mappings import (
    known_or_value,
    required_content,
    required_integer,
)
from amanda_tf.mapping.layouts import layout_of, padding_of, spatial_items
from amanda_tf.mapping.shapes.read_computed_axes import (
    batch_to_space_by_block,
    content_or_none,
    space_to_batch_by_block,
)

__all__ = ["READ"]


def read_resize_bilinear(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """ResizeBilinear to `resize`."""
    places = resize_coordinates(
        align_corners=align_corners, half_pixel=half_pixel_centers
    )
    return ops.resize(
        as_float32(x), known_or_value(size), axes=(1, 2), mode="linear",
        coordinates=places,
    )  # fmt: skip


def read_resize_bicubic(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """ResizeBicubic to `resize`, or to products with weights."""
    return resize_bicubic(
        x, size, align_corners=align_corners, half_pixel=half_pixel_centers
    )


def read_resize_nearest(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """ResizeNearestNeighbor to `resize`."""
    coordinates = "tf_half_pixel_for_nn" if half_pixel_centers else "asymmetric"
    if align_corners:
        coordinates = "align_corners"
    return ops.resize(
        x, known_or_value(size), axes=(1, 2), mode="nearest", coordinates=coordinates,
        rounding="round_prefer_ceil" if align_corners else "floor",
    )  # fmt: skip


def read_resize_area(x: Any, size: Any, *, align_corners: bool = False) -> Any:
    """ResizeArea to products with weights."""
    return resize_area(x, size, align_corners=align_corners)


def read_crop_and_resize(
    x: Any, boxes: Any, indices: Any, size: Any, *, method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Any:  # fmt: skip
    """CropAndResize to `crop_and_resize`."""
    y = ops.crop_and_resize(
        ops.transpose(x, perm=(0, 3, 1, 2)), boxes, indices, known_or_value(size),
        mode="linear" if method == "bilinear" else "nearest",
        extrapolation=extrapolation_value,
    )  # fmt: skip
    return ops.transpose(y, perm=(0, 2, 3, 1))


def read_depth_to_space(x: Any, *, block_size: int, data_format: str = "NHWC") -> Any:
    """DepthToSpace to `depth_to_space`."""
    return ops.depth_to_space(x, block=block_size, layout=layout_of(data_format))


def read_space_to_depth(x: Any, *, block_size: int, data_format: str = "NHWC") -> Any:
    """SpaceToDepth to `space_to_depth`."""
    return ops.space_to_depth(x, block=block_size, layout=layout_of(data_format))


def read_space_to_batch(x: Any, block: Any, pads: Any) -> Any:
    """SpaceToBatchND to `space_to_batch`."""
    sizes = content_or_none(block)
    if sizes is None:
        return space_to_batch_by_block(x, block, pads)
    return ops.space_to_batch(x, known_or_value(pads), block=tuple(sizes))


def read_batch_to_space(x: Any, block: Any, crops: Any) -> Any:
    """BatchToSpaceND to `batch_to_space`."""
    sizes = content_or_none(block)
    if sizes is None:
        return batch_to_space_by_block(x, block, crops)
    return ops.batch_to_space(x, known_or_value(crops), block=tuple(sizes))


def read_space_to_batch_1(x: Any, pads: Any, *, block_size: int) -> Any:
    """SpaceToBatch to `space_to_batch`."""
    return ops.space_to_batch(x, known_or_value(pads), block=(block_size,) * 2)


def read_batch_to_space_1(x: Any, crops: Any, *, block_size: int) -> Any:
    """BatchToSpace to `batch_to_space`."""
    return ops.batch_to_space(x, known_or_value(crops), block=(block_size,) * 2)


def read_extract_patches(
    x: Any, *, ksizes: Any, strides: Any, rates: Any, padding: str
) -> Any:
    """Patches of NHWC images, row by row, each with its channels last."""
    window, steps, rate = (spatial_items(v, "N*C") for v in (ksizes, strides, rates))
    return image_patches(
        x, window=window, strides=steps, dilations=rate,
        padding=padding_of(padding, (), "N*C"),
    )  # fmt: skip


def read_extract_volume_patches(
    x: Any, *, ksizes: Any, strides: Any, padding: str
) -> Any:
    """Patches of NDHWC volumes, each with its channels last."""
    return read_extract_patches(
        x, ksizes=ksizes, strides=strides, rates=[1] * 5, padding=padding
    )


# -- boxes -----------------------------------------------------------------------------


def read_nms_1(
    boxes: Any, scores: Any, limit: Any, *, iou_threshold: float = 0.5
) -> Any:
    """NonMaxSuppression to `non_max_suppression`."""
    return select_boxes(boxes, scores, limit, np.float32(iou_threshold))


def read_nms_v4(
    boxes: Any, scores: Any, limit: Any, overlap: Any, least: Any, *,
    pad_to_max_output_size: bool = False,
) -> Any:  # fmt: skip
    """NonMaxSuppressionV4 to `non_max_suppression`, padded on request."""
    found = select_boxes(boxes, scores, limit, overlap, least)
    count = ops.astype(ops.size(found), dtype="int32")
    if pad_to_max_output_size:
        most = required_integer(limit, "max_output_size")
        rest = ops.subtract(np.int64(most), ops.size(found))
        zero = np.int64(0)
        found = ops.pad(found, ops.reshape(ops.stack(zero, rest), [1, 2]))
    return found, count


def read_nms_v5(
    boxes: Any, scores: Any, limit: Any, overlap: Any, least: Any, sigma: Any, *,
    pad_to_max_output_size: bool = False,
) -> Any:  # fmt: skip
    """Soft non-maximum suppression, with the scores that are left."""
    numbers = [required_content(v, "a threshold") for v in (overlap, least, sigma)]
    most = required_integer(limit, "max_output_size")
    found, left, count = ops.soft_nms(
        boxes, scores, most, overlap=numbers[0], least=numbers[1], sigma=numbers[2]
    )
    if not pad_to_max_output_size:
        size = ops.reshape(count, [1])
        found, left = (ops.slice_(v, np.array([0]), size, [0]) for v in (found, left))
    return ops.astype(found, dtype="int32"), left, ops.astype(count, dtype="int32")


READ: dict[str, Any] = {
    "ResizeBilinear": read_resize_bilinear,
    "ResizeBicubic": read_resize_bicubic,
    "ResizeNearestNeighbor": read_resize_nearest,
    "ResizeArea": read_resize_area,
    "CropAndResize": read_crop_and_resize,
    "DepthToSpace": read_depth_to_space,
    "SpaceToDepth": read_space_to_depth,
    "SpaceToBatchND": read_space_to_batch,
    "BatchToSpaceND": read_batch_to_space,
    "SpaceToBatch": read_space_to_batch_1,
    "BatchToSpace": read_batch_to_space_1,
    "ExtractImagePatches": read_extract_patches,
    "ExtractVolumePatches": read_extract_volume_patches,
    "RGBToHSV": rgb_to_hsv,
    "HSVToRGB": hsv_to_rgb,
    "AdjustContrastv2": adjust_contrast,
    "AdjustHue": adjust_hue,
    "AdjustSaturation": adjust_saturation,
    "NonMaxSuppression": read_nms_1,
    "NonMaxSuppressionV2": select_boxes,
    "NonMaxSuppressionV3": select_boxes,
    "NonMaxSuppressionV4": read_nms_v4,
    "NonMaxSuppressionV5": read_nms_v5,
}
