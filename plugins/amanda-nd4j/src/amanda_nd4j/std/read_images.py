"""From nd4j: images: resizing, colours, boxes, blocks."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda_nd4j.std.arguments import (
    as_integers,
    flag_of,
    integer_of,
    known_numbers,
    number_of,
    numbers_of,
)
from amanda_std import ops
from amanda_std.dataflow import (
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    as_float32,
    colour_channels,
    hsv_to_rgb,
    image_patches,
    resize_area,
    resize_bicubic,
    resize_coordinates,
    rgb_to_hsv,
    select_boxes,
)
from amanda_std.mappings import expect, known_or_value, rank_of

__all__ = ["READ"]


# -- resizing --------------------------------------------------------------------------


def _sizes(size: Any, height: Any, width: Any) -> Any:
    return [int(height), int(width)] if size is None else known_or_value(size)


def read_resize_bilinear(
    x: Any, size: Any = None, *, alignCorners: Any = False,
    halfPixelCenter: Any = False, height: Any = None, width: Any = None,
) -> Any:  # fmt: skip
    """resize_bilinear to `resize`."""
    places = resize_coordinates(
        align_corners=flag_of(alignCorners), half_pixel=flag_of(halfPixelCenter)
    )
    return ops.resize(
        as_float32(x), _sizes(size, height, width), axes=(1, 2), mode="linear",
        coordinates=places,
    )  # fmt: skip


def read_resize_bicubic(
    x: Any,
    size: Any,
    *,
    alignCorners: Any = False,
    alignPixelCenters: Any = False,
) -> Any:
    """resize_bicubic to `resize`, or to products with weights."""
    return resize_bicubic(
        x, size, align_corners=flag_of(alignCorners),
        half_pixel=flag_of(alignPixelCenters),
    )  # fmt: skip


def read_resize_nearest(
    x: Any, size: Any = None, *, alignCorners: Any = False,
    halfPixelCenter: Any = False, height: Any = None, width: Any = None,
) -> Any:  # fmt: skip
    """resize_nearest_neighbor to `resize`."""
    places = resize_coordinates(
        align_corners=flag_of(alignCorners), half_pixel=flag_of(halfPixelCenter)
    )
    return ops.resize(
        x, _sizes(size, height, width), axes=(1, 2), mode="nearest",
        coordinates="tf_half_pixel_for_nn" if places == "half_pixel" else places,
        rounding="round_prefer_ceil" if alignCorners else "floor",
    )  # fmt: skip


def read_resize_area(
    x: Any, size: Any = None, *, alignCorners: Any = False, height: Any = None,
    width: Any = None,
) -> Any:  # fmt: skip
    """resize_area to products with weights."""
    sizes = [int(height), int(width)] if size is None else size
    return resize_area(x, sizes, align_corners=flag_of(alignCorners))


def read_crop_and_resize(
    x: Any, boxes: Any, indices: Any, size: Any, *, method: Any = 0,
    extrapolationVal: float = 0.0,
) -> Any:  # fmt: skip
    """crop_and_resize; the method is 0 for bilinear, 1 for nearest."""
    y = ops.crop_and_resize(
        ops.transpose(x, perm=(0, 3, 1, 2)), boxes, indices, known_or_value(size),
        mode="nearest" if method else "linear", extrapolation=extrapolationVal or 0.0,
    )  # fmt: skip
    return ops.transpose(y, perm=(0, 2, 3, 1))


# -- blocks ----------------------------------------------------------------------------


def _blocks_of_channels(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, *, block_size: Any, isNHWC: Any = 1) -> Any:
        return op(x, block=int(block_size), layout="N*C" if isNHWC else "NC*")

    return read


def _blocks_of_batch(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, block: Any, pads: Any, *, blocks: Any = None) -> Any:
        del blocks
        sizes = known_numbers(block, "the size of blocks")
        return op(x, known_or_value(pads), block=tuple(sizes))

    return read


def _square_blocks_of_batch(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, pads: Any, rest: Any = None, *, blockSize: Any = None) -> Any:
        if rest is not None:  # the size of blocks is an input
            return _blocks_of_batch(op)(x, as_integers(pads), as_integers(rest))
        return op(x, known_or_value(pads), block=(int(blockSize),) * 2)

    return read


def read_image_patches(
    x: Any, *, ksizeRows: Any, ksizeCols: Any, kstrideRows: Any = 1,
    kstrideCols: Any = 1, krateRows: Any = 1, krateCols: Any = 1,
    isSameMode: Any = None, dtype: Any = None, **same: Any,
) -> Any:  # fmt: skip
    """Patches of NHWC images, row by row, each with its channels last."""
    del dtype
    is_same = flag_of(isSameMode, *same.values())
    return image_patches(
        x, window=(int(ksizeRows), int(ksizeCols)),
        strides=(int(kstrideRows), int(kstrideCols)),
        dilations=(int(krateRows), int(krateCols)),
        padding="same_upper" if is_same else "valid",
    )  # fmt: skip


def read_dilation(
    x: Any, w: Any, *, rates: Any = None, strides: Any = None, isSameMode: Any = None,
    **same: Any,
) -> Any:  # fmt: skip
    """Grayscale dilation of NHWC images by a kernel [rows, columns, channels]."""
    steps, rate = numbers_of(strides), numbers_of(rates)
    y = ops.dilation(
        ops.transpose(x, perm=(0, 3, 1, 2)), ops.transpose(w, perm=(2, 0, 1)),
        window=tuple(int(n) for n in w.shape[:2]), strides=tuple(steps[1:3] or (1, 1)),
        dilations=tuple(rate[1:3] or (1, 1)),
        padding="same_upper" if flag_of(isSameMode, *same.values()) else "valid",
    )  # fmt: skip
    return ops.transpose(y, perm=(0, 2, 3, 1))


# -- colours ---------------------------------------------------------------------------


def _expect_channels_last(x: Any, dim: Any) -> None:
    axis = -1 if dim is None else int(dim)
    expect(axis in (-1, rank_of(x) - 1), "channels in the last axis")


def _colours(convert: Callable[[Any], Any]) -> Callable[..., Any]:
    def read(x: Any, *, dimC: Any = None) -> Any:
        _expect_channels_last(x, dimC)
        return convert(x)

    return read


def read_adjust_contrast(x: Any, given: Any = None, *, factor: Any = None) -> Any:
    """Distances from the mean of each channel, times a factor."""
    return adjust_contrast(x, number_of(given, factor, x, 1))


def read_adjust_hue(x: Any, given: Any = None, *, delta: Any = None,
                    dimC: Any = None) -> Any:  # fmt: skip
    """The hue turns; least and greatest channel of each pixel stay."""
    _expect_channels_last(x, dimC)
    return adjust_hue(x, number_of(given, delta, x, 0))


def read_adjust_saturation(x: Any, given: Any = None, *, factor: Any = None,
                           dimC: Any = None) -> Any:  # fmt: skip
    """adjust_saturation to the formulas of HSV, with a scaled saturation."""
    _expect_channels_last(x, dimC)
    return adjust_saturation(x, number_of(given, factor, x, 1))


_GREY: Final = (0.2989, 0.5870, 0.1140)
_YIQ: Final = (
    (0.299, 0.587, 0.114),
    (0.5959, -0.2746, -0.3213),
    (0.2115, -0.5227, 0.3112),
)
_YUV: Final = (
    (0.299, 0.587, 0.114),
    (-0.14714119, -0.28886916, 0.43601035),
    (0.61497538, -0.51496512, -0.10001026),
)


def read_rgb_to_grey(x: Any, *, dimC: Any = None) -> Any:
    """rgb_to_grs: one channel."""
    _expect_channels_last(x, dimC)
    parts = zip(colour_channels(x), _GREY, strict=True)
    r, g, b = (c * ops.number_like(c, value=w) for c, w in parts)
    return ops.expand_dims(r + g + b, [-1])


def _colour_matrix(rows: Any, *, inverse: bool = False) -> Callable[..., Any]:
    matrix = np.array(rows)
    matrix = np.linalg.inv(matrix) if inverse else matrix

    def read(x: Any, *, dimC: Any = None) -> Any:
        _expect_channels_last(x, dimC)
        return ops.matmul(x, matrix.T.astype(str(x.dtype)))

    return read


# -- boxes -----------------------------------------------------------------------------


def read_nms(
    boxes: Any, scores: Any, limit: Any = None, overlap: Any = None, least: Any = None,
    *, maxOutputSize: Any = None, outputs: int = 1, **thresholds: Any,
) -> Any:  # fmt: skip
    """Non-maximum suppression of boxes [n, 4]; the indices of those selected.

    A threshold of overlaps may be the argument `outputs.double`; a
    `scoreThreshold.double` is not read by nd4j where there is one number only.
    """
    number = integer_of(limit, maxOutputSize, "the number of boxes")
    known = thresholds.get("outputs.double")
    if overlap is None and known is not None:
        overlap = np.float32(known)
    chosen = select_boxes(boxes, scores, np.int64(number), overlap, least)
    if outputs == 1:
        return chosen
    return chosen, ops.astype(ops.size(chosen), dtype="int32")


READ: dict[str, Any] = {
    "resize_bilinear": read_resize_bilinear,
    "resize_bicubic": read_resize_bicubic,
    "resize_nearest_neighbor": read_resize_nearest,
    "resize_area": read_resize_area,
    "crop_and_resize": read_crop_and_resize,
    "depth_to_space": _blocks_of_channels(ops.depth_to_space),
    "space_to_depth": _blocks_of_channels(ops.space_to_depth),
    "space_to_batch_nd": _blocks_of_batch(ops.space_to_batch),
    "batch_to_space_nd": _blocks_of_batch(ops.batch_to_space),
    "space_to_batch": _square_blocks_of_batch(ops.space_to_batch),
    "batch_to_space": _square_blocks_of_batch(ops.batch_to_space),
    "extract_image_patches": read_image_patches,
    "dilation2d": read_dilation,
    "rgb_to_hsv": _colours(rgb_to_hsv),
    "hsv_to_rgb": _colours(hsv_to_rgb),
    "rgb_to_grs": read_rgb_to_grey,
    "rgb_to_yiq": _colour_matrix(_YIQ),
    "rgb_to_yuv": _colour_matrix(_YUV),
    "yiq_to_rgb": _colour_matrix(_YIQ, inverse=True),
    "yuv_to_rgb": _colour_matrix(_YUV, inverse=True),
    "adjust_contrast": read_adjust_contrast,
    "adjust_contrast_v2": read_adjust_contrast,
    "adjust_hue": read_adjust_hue,
    "adjust_saturation": read_adjust_saturation,
    "non_max_suppression": read_nms,
    "non_max_suppression_v3": read_nms,
}
