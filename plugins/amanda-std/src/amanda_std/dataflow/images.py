"""NHWC images: sizes by matrices of weights, patches, and selections of boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_or_value,
    required_content,
)

__all__ = [
    "as_float32",
    "image_patches",
    "resize_area",
    "resize_bicubic",
    "resize_coordinates",
    "select_boxes",
]


def as_float32(x: Any) -> Any:
    """A tensor in float32."""
    return x if str(x.dtype) == "float32" else ops.astype(x, dtype="float32")


def resize_coordinates(*, align_corners: bool, half_pixel: bool) -> str:
    """The name of the hub for how pixels of a resized image are placed."""
    if align_corners:
        return "align_corners"
    return "half_pixel" if half_pixel else "asymmetric"


def resize_bicubic(x: Any, size: Any, *, align_corners: bool, half_pixel: bool) -> Any:
    """Keys' kernel with -0.5 where half pixel centers are used, else with -0.75.

    TensorFlow rounds weights to a table, which shows in the numbers of integer images.
    """
    if x.dtype.kind in ("int", "uint"):

        def weights(old: int, new: int) -> Any:
            return _cubic_weights(old, new, align_corners, half_pixel)

        return _resize_by_weights(as_float32(x), size, weights)
    return ops.resize(
        as_float32(x), known_or_value(size), axes=(1, 2), mode="cubic",
        coordinates=resize_coordinates(
            align_corners=align_corners, half_pixel=half_pixel
        ),
        cubic=-0.5 if half_pixel else -0.75, exclude_outside=half_pixel,
    )  # fmt: skip


def resize_area(x: Any, size: Any, *, align_corners: bool) -> Any:
    """The mean over the area of the source that each pixel covers."""
    return _resize_by_weights(
        as_float32(x), size, lambda old, new: _area_weights(old, new, align_corners)
    )


def _resize_by_weights(x: Any, size: Any, weights_of: Callable[[int, int], Any]) -> Any:
    """NHWC images times a matrix for each axis, a column for each new pixel."""
    sizes = size if isinstance(size, list) else required_content(size, "size")
    for axis, new in ((1, int(sizes[0])), (2, int(sizes[1]))):
        old = x.shape[axis]
        expect(isinstance(old, int), "the size of images is not static")
        weights = weights_of(int(old), new)
        moved = ops.swap_last(x) if axis == 2 else ops.transpose(x, perm=(0, 2, 3, 1))
        y = ops.matmul(moved, weights)
        x = ops.swap_last(y) if axis == 2 else ops.transpose(y, perm=(0, 3, 1, 2))
    return x


def _scale(old: int, new: int, align_corners: bool) -> float:
    return (old - 1) / (new - 1) if align_corners and new > 1 else old / new


def _cubic_weights(old: int, new: int, align_corners: bool, half_pixel: bool) -> Any:
    """[old, new]: weights of Keys' kernel, at the 1024 offsets of a table."""
    shift = 0.5 if half_pixel else 0.0
    place = (np.arange(new) + shift) * _scale(old, new, align_corners) - shift
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
    scale = _scale(old, new, align_corners)
    edges = np.arange(old)[:, None]
    start = np.arange(new)[None, :] * scale
    share = np.minimum(edges + 1, start + scale) - np.maximum(edges, start)
    weights = np.clip(share, 0, None)
    beyond = np.clip(start[0] + scale - np.maximum(start[0], old), 0, None)
    weights[-1] += beyond  # pixels outside repeat the last one
    return (weights / scale).astype("float32")


def image_patches(
    x: Any, *, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    padding: Any,
) -> Any:  # fmt: skip
    """Patches of images or volumes, row by row, each with its channels last.

    They are a convolution, in which NaN and infinity reach all elements of a patch."""
    if x.dtype.kind == "complex":
        real, imaginary = (
            image_patches(
                part(x), window=window, strides=strides, dilations=dilations,
                padding=padding,
            ) for part in (ops.real, ops.imag)
        )  # fmt: skip
        return cast_to(ops.complex_(real, imaginary), x.dtype)
    channels = x.shape[-1]
    expect(isinstance(channels, int), "the number of channels is not static")
    kernel = np.eye(int(np.prod(window)) * int(channels))
    kernel = kernel.reshape(*window, int(channels), -1)
    wide = x if x.dtype.kind == "float" else ops.astype(x, dtype="float64")
    y = ops.conv(
        wide, kernel.astype(str(wide.dtype)), layout="N*C", kernel_layout="*IO",
        strides=tuple(strides), dilations=tuple(dilations), padding=padding,
    )  # fmt: skip
    return cast_to(y, x.dtype)


def select_boxes(
    boxes: Any, scores: Any, limit: Any, overlap: Any = None, least: Any = None
) -> Any:
    """Non-maximum suppression of boxes [n, 4]; the indices of those selected."""
    found = ops.nms(
        ops.reshape(boxes, [1, -1, 4]), ops.reshape(scores, [1, 1, -1]),
        ops.astype(limit, dtype="int64"), _like(overlap, boxes), _like(least, boxes),
    )  # fmt: skip
    return ops.astype(ops.gather(found, np.asarray(2), axis=1), dtype="int32")


def _like(value: Any, like: Any) -> Any:
    return None if value is None else ops.astype(value, dtype=like.dtype)
