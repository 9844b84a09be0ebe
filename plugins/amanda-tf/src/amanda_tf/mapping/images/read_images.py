"""From TensorFlow: images: resizing, colours, boxes, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    expect,
    known_or_value,
    rank_of,
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


def _resize(
    x: Any, size: Any, mode: str, *, align_corners: bool, half_pixel_centers: bool,
    **more: Any,
) -> Any:  # fmt: skip
    coordinates = "half_pixel" if half_pixel_centers else "asymmetric"
    if align_corners:
        coordinates = "align_corners"
    return ops.resize(
        x, known_or_value(size), axes=(1, 2), mode=mode, coordinates=coordinates, **more
    )


def read_resize_bilinear(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """ResizeBilinear to `resize`."""
    return _resize(
        _as_float(x), size, "linear", align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )  # fmt: skip


def _as_float(x: Any) -> Any:
    return x if str(x.dtype) == "float32" else ops.astype(x, dtype="float32")


def read_resize_bicubic(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    """Keys' kernel with -0.5 where half pixel centers are used, else with -0.75.

    TensorFlow rounds weights to a table, which shows in the numbers of integer images.
    """
    if x.dtype.kind in ("int", "uint"):

        def weights(old: int, new: int) -> Any:
            return _cubic_weights(old, new, align_corners, half_pixel_centers)

        return _resize_by_weights(_as_float(x), size, weights)
    return _resize(
        _as_float(x), size, "cubic", align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        cubic=-0.5 if half_pixel_centers else -0.75,
        exclude_outside=half_pixel_centers,
    )  # fmt: skip


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
    """The mean over the area of the source that each pixel covers."""
    return _resize_by_weights(
        _as_float(x), size, lambda old, new: _area_weights(old, new, align_corners)
    )


def _resize_by_weights(x: Any, size: Any, weights_of: Callable[[int, int], Any]) -> Any:
    """NHWC images times a matrix for each axis, a column for each new pixel."""
    rows, columns = required_content(size, "size")
    for axis, new in ((1, int(rows)), (2, int(columns))):
        old = x.shape[axis]
        expect(isinstance(old, int), "the size of images is not static")
        weights = weights_of(int(old), new)
        moved = ops.swap_last(x) if axis == 2 else ops.transpose(x, perm=(0, 2, 3, 1))
        y = ops.matmul(moved, weights)
        x = ops.swap_last(y) if axis == 2 else ops.transpose(y, perm=(0, 3, 1, 2))
    return x


def _cubic_weights(old: int, new: int, align_corners: bool, half_pixel: bool) -> Any:
    """[old, new]: weights of Keys' kernel, at the 1024 offsets of a table."""
    corners = align_corners and new > 1
    scale = (old - 1) / (new - 1) if corners else old / new
    shift = 0.5 if half_pixel else 0.0
    place = (np.arange(new) + shift) * scale - shift
    start = np.floor(place)
    offset = np.rint((place - start) * 1024) / 1024
    a = -0.5 if half_pixel else -0.75
    weights = np.zeros((old, new))
    for i in range(-1, 3):
        d = np.abs(i - offset)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        value = np.where(d <= 1, near, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
        at = start + i
        inside = (at >= 0) & (at < old) | (not half_pixel)
        pixel = np.clip(at, 0, old - 1).astype(int)
        np.add.at(weights, (pixel, np.arange(new)), np.where(inside, value, 0))
    if half_pixel:
        weights /= weights.sum(0)
    return weights.astype("float32")


def _area_weights(old: int, new: int, align_corners: bool) -> Any:
    """[old, new]: the share of each source pixel in each new one."""
    corners = align_corners and new > 1
    scale = (old - 1) / (new - 1) if corners else old / new
    start = np.arange(new) * scale
    low, high = np.floor(start), np.ceil(start + scale)
    weights = np.zeros((old, new))
    for j in range(new):
        for i in range(int(low[j]), int(high[j])):
            left = max(i, start[j])
            share = min(i + 1, start[j] + scale) - left
            weights[min(max(i, 0), old - 1), j] += share / scale
    return weights.astype("float32")


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
    window = spatial_items(ksizes, "N*C")
    steps, rate = spatial_items(strides, "N*C"), spatial_items(rates, "N*C")
    channels = x.shape[-1]
    expect(isinstance(channels, int), "the number of channels is not static")
    kernel = np.eye(int(np.prod(window)) * int(channels)).reshape(
        *window, int(channels), -1
    )
    if x.dtype.kind == "float":
        return ops.conv(
            x, kernel.astype(str(x.dtype)), layout="N*C", kernel_layout="*IO",
            strides=tuple(steps), dilations=tuple(rate),
            padding=padding_of(padding, (), "N*C"),
        )  # fmt: skip
    wide = ops.conv(
        ops.astype(x, dtype="float64"), kernel, layout="N*C", kernel_layout="*IO",
        strides=tuple(steps), dilations=tuple(rate),
        padding=padding_of(padding, (), "N*C"),
    )  # fmt: skip
    return ops.astype(wide, dtype=x.dtype)


def read_extract_volume_patches(
    x: Any, *, ksizes: Any, strides: Any, padding: str
) -> Any:
    """Patches of NDHWC volumes, each with its channels last."""
    return read_extract_patches(
        x, ksizes=ksizes, strides=strides, rates=[1] * 5, padding=padding
    )


# -- colours ---------------------------------------------------------------------------


def _channels(x: Any) -> Any:
    return tuple(ops.squeeze(c, [-1]) for c in ops.split(x, axis=-1, outputs=3))


def read_rgb_to_hsv(x: Any) -> Any:
    """RGBToHSV to its formula."""
    return ops.stack(*_to_hsv(*_channels(x)), axis=-1)


def _to_hsv(r: Any, g: Any, b: Any) -> tuple[Any, Any, Any]:
    value = ops.maximum(ops.maximum(r, g), b)
    spread = value - ops.minimum(ops.minimum(r, g), b)
    saturation = _divide_or_zero(spread, value)
    norm = _divide_or_zero(ops.ones_like(spread) / 6.0, spread)
    hue = ops.where(
        ops.equal(value, r),
        (g - b) * norm,
        ops.where(
            ops.equal(value, g), (b - r) * norm + 2.0 / 6.0, (r - g) * norm + 4.0 / 6.0
        ),
    )
    zero = ops.zeros_like(hue)
    hue = ops.where(ops.greater(spread, zero), hue, zero)
    hue = ops.where(ops.less(hue, zero), hue + 1.0, hue)
    return hue, saturation, value


def _divide_or_zero(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is not positive."""
    good = ops.greater(b, ops.zeros_like(b))
    return ops.where(good, a / ops.where(good, b, ops.ones_like(b)), ops.zeros_like(b))


def read_hsv_to_rgb(x: Any) -> Any:
    """HSVToRGB to its formula."""
    return ops.stack(*_to_rgb(*_channels(x)), axis=-1)


def _to_rgb(h: Any, s: Any, v: Any) -> tuple[Any, Any, Any]:
    one = ops.ones_like(h)
    r, g, b = ((one - s + s * share) * v for share in _shares_of_hue(h))
    return r, g, b


def _shares_of_hue(h: Any) -> tuple[Any, Any, Any]:
    """Where red, green and blue of a hue are between the least and greatest channel."""
    h = h * 6.0
    one, zero = ops.ones_like(h), ops.zeros_like(h)

    def clip_share(y: Any) -> Any:
        return ops.minimum(ops.maximum(y, zero), one)

    r = clip_share(ops.abs(h - 3.0) - 1.0)
    g = clip_share(2.0 - ops.abs(h - 2.0))
    b = clip_share(2.0 - ops.abs(h - 4.0))
    return r, g, b


def read_adjust_contrast(x: Any, factor: Any) -> Any:
    """Distances from the mean of each channel, times a factor."""
    rank = rank_of(x)
    mean = ops.mean(x, [rank - 3, rank - 2], keepdims=True)
    return (x - mean) * ops.astype(factor, dtype=x.dtype) + mean


def read_adjust_hue(x: Any, delta: Any) -> Any:
    """The hue turns; least and greatest channel of each pixel stay."""
    channels = _channels(x)
    h, _, high = _to_hsv(*channels)
    low = ops.minimum(ops.minimum(channels[0], channels[1]), channels[2])
    turned = h + ops.astype(delta, dtype=x.dtype)
    h = ops.remainder(turned, ops.number_like(h, value=1))
    rgb = (low + (high - low) * share for share in _shares_of_hue(h))
    return ops.stack(*rgb, axis=-1)


def read_adjust_saturation(x: Any, factor: Any) -> Any:
    """AdjustSaturation to the formulas of HSV, with a scaled saturation."""
    h, s, v = _to_hsv(*_channels(x))
    s = ops.clip(s * ops.astype(factor, dtype=x.dtype), 0, 1)
    return ops.stack(*_to_rgb(h, s, v), axis=-1)


# -- boxes -----------------------------------------------------------------------------


def read_nms(
    boxes: Any, scores: Any, limit: Any, overlap: Any = None, least: Any = None
) -> Any:
    """Non-maximum suppression of boxes [n, 4]; the indices of those selected."""
    shape = [1, 1, -1]
    found = ops.nms(
        ops.reshape(boxes, [1, -1, 4]), ops.reshape(scores, shape),
        ops.astype(limit, dtype="int64"), _like(overlap, boxes), _like(least, boxes),
    )  # fmt: skip
    return ops.astype(ops.gather(found, np.asarray(2), axis=1), dtype="int32")


def _like(value: Any, like: Any) -> Any:
    return None if value is None else ops.astype(value, dtype=like.dtype)


def read_nms_1(
    boxes: Any, scores: Any, limit: Any, *, iou_threshold: float = 0.5
) -> Any:
    """NonMaxSuppression to `non_max_suppression`."""
    return read_nms(boxes, scores, limit, np.float32(iou_threshold))


def read_nms_v4(
    boxes: Any, scores: Any, limit: Any, overlap: Any, least: Any, *,
    pad_to_max_output_size: bool = False,
) -> Any:  # fmt: skip
    """NonMaxSuppressionV4 to `non_max_suppression`, padded on request."""
    found = read_nms(boxes, scores, limit, overlap, least)
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
    "RGBToHSV": read_rgb_to_hsv,
    "HSVToRGB": read_hsv_to_rgb,
    "AdjustContrastv2": read_adjust_contrast,
    "AdjustHue": read_adjust_hue,
    "AdjustSaturation": read_adjust_saturation,
    "NonMaxSuppression": read_nms_1,
    "NonMaxSuppressionV2": read_nms,
    "NonMaxSuppressionV3": read_nms,
    "NonMaxSuppressionV4": read_nms_v4,
    "NonMaxSuppressionV5": read_nms_v5,
}
