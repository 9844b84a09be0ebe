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
from amanda_std.mappings import (
    cast_to,
    expect,
    known_or_value,
    rank_of,
    required_content,
)

__all__ = ["READ"]


# -- resizing --------------------------------------------------------------------------


def _as_float(x: Any) -> Any:
    return x if str(x.dtype) == "float32" else ops.astype(x, dtype="float32")


def _sizes(size: Any, height: Any, width: Any) -> Any:
    return [int(height), int(width)] if size is None else known_or_value(size)


def _coordinates(align_corners: Any, half_pixel: Any) -> str:
    if align_corners:
        return "align_corners"
    return "half_pixel" if half_pixel else "asymmetric"


def read_resize_bilinear(
    x: Any, size: Any = None, *, alignCorners: Any = False,
    halfPixelCenter: Any = False, height: Any = None, width: Any = None,
) -> Any:  # fmt: skip
    """resize_bilinear to `resize`."""
    return ops.resize(
        _as_float(x), _sizes(size, height, width), axes=(1, 2), mode="linear",
        coordinates=_coordinates(alignCorners, halfPixelCenter),
    )  # fmt: skip


def read_resize_bicubic(
    x: Any,
    size: Any,
    *,
    alignCorners: Any = False,
    alignPixelCenters: Any = False,
) -> Any:
    """Keys' kernel with -0.5 where pixels are aligned by their centers, else -0.75."""
    half = bool(alignPixelCenters)
    if x.dtype.kind in ("int", "uint"):
        corners = bool(alignCorners)
        return _resize_by_weights(
            _as_float(x), size, lambda old, new: _cubic_weights(old, new, corners, half)
        )
    return ops.resize(
        _as_float(x), known_or_value(size), axes=(1, 2), mode="cubic",
        coordinates=_coordinates(alignCorners, half), cubic=-0.5 if half else -0.75,
        exclude_outside=half,
    )  # fmt: skip


def read_resize_nearest(
    x: Any, size: Any = None, *, alignCorners: Any = False,
    halfPixelCenter: Any = False, height: Any = None, width: Any = None,
) -> Any:  # fmt: skip
    """resize_nearest_neighbor to `resize`."""
    places = _coordinates(alignCorners, halfPixelCenter)
    return ops.resize(
        x, _sizes(size, height, width), axes=(1, 2), mode="nearest",
        coordinates="tf_half_pixel_for_nn" if places == "half_pixel" else places,
        rounding="round_prefer_ceil" if alignCorners else "floor",
    )  # fmt: skip


def read_resize_area(
    x: Any, size: Any = None, *, alignCorners: Any = False, height: Any = None,
    width: Any = None,
) -> Any:  # fmt: skip
    """The mean over the area of the source that each pixel covers."""
    sizes = [int(height), int(width)] if size is None else size
    return _resize_by_weights(
        _as_float(x),
        sizes,
        lambda old, new: _area_weights(old, new, bool(alignCorners)),
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
    window = (int(ksizeRows), int(ksizeCols))
    channels = x.shape[-1]
    expect(isinstance(channels, int), "the number of channels is not static")
    count = window[0] * window[1] * int(channels)
    kernel = np.eye(count).reshape(*window, int(channels), -1)
    wide = x if x.dtype.kind == "float" else ops.astype(x, dtype="float64")
    is_same = flag_of(isSameMode, *same.values())
    y = ops.conv(
        wide, kernel.astype(str(wide.dtype)), layout="N*C", kernel_layout="*IO",
        strides=(int(kstrideRows), int(kstrideCols)),
        dilations=(int(krateRows), int(krateCols)),
        padding="same_upper" if is_same else "valid",
    )  # fmt: skip
    return cast_to(y, x.dtype)


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


def _channels(x: Any, dim: Any) -> Any:
    axis = -1 if dim is None else int(dim)
    expect(axis in (-1, rank_of(x) - 1), "channels in the last axis")
    return tuple(ops.squeeze(c, [-1]) for c in ops.split(x, axis=-1, outputs=3))


def read_rgb_to_hsv(x: Any, *, dimC: Any = None) -> Any:
    """rgb_to_hsv to its formula."""
    return ops.stack(*_to_hsv(*_channels(x, dimC)), axis=-1)


def _to_hsv(r: Any, g: Any, b: Any) -> tuple[Any, Any, Any]:
    value = ops.maximum(ops.maximum(r, g), b)
    spread = value - ops.minimum(ops.minimum(r, g), b)
    saturation = _divide_or_zero(spread, value)
    norm = _divide_or_zero(ops.ones_like(spread) / 6.0, spread)
    green = ops.where(
        ops.equal(value, g), (b - r) * norm + 1 / 3, (r - g) * norm + 2 / 3
    )
    hue = ops.where(ops.equal(value, r), (g - b) * norm, green)
    zero = ops.zeros_like(hue)
    hue = ops.where(ops.greater(spread, zero), hue, zero)
    return ops.where(ops.less(hue, zero), hue + 1.0, hue), saturation, value


def _divide_or_zero(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is not positive."""
    good = ops.greater(b, ops.zeros_like(b))
    return ops.where(good, a / ops.where(good, b, ops.ones_like(b)), ops.zeros_like(b))


def read_hsv_to_rgb(x: Any, *, dimC: Any = None) -> Any:
    """hsv_to_rgb to its formula."""
    return ops.stack(*_to_rgb(*_channels(x, dimC)), axis=-1)


def _to_rgb(h: Any, s: Any, v: Any) -> tuple[Any, Any, Any]:
    one = ops.ones_like(h)
    r, g, b = ((one - s + s * share) * v for share in _shares_of_hue(h))
    return r, g, b


def _shares_of_hue(h: Any) -> tuple[Any, Any, Any]:
    """Where red, green and blue of a hue are between the least and greatest channel."""
    h = h * 6.0
    raw = (ops.abs(h - 3.0) - 1.0, 2.0 - ops.abs(h - 2.0), 2.0 - ops.abs(h - 4.0))
    r, g, b = (ops.clip(y, 0, 1) for y in raw)
    return r, g, b


def read_adjust_contrast(x: Any, given: Any = None, *, factor: Any = None) -> Any:
    """Distances from the mean of each channel, times a factor."""
    rank = rank_of(x)
    mean = ops.mean(x, [rank - 3, rank - 2], keepdims=True)
    return (x - mean) * number_of(given, factor, x, 1) + mean


def read_adjust_hue(x: Any, given: Any = None, *, delta: Any = None,
                    dimC: Any = None) -> Any:  # fmt: skip
    """The hue turns; least and greatest channel of each pixel stay."""
    channels = _channels(x, dimC)
    h, _, high = _to_hsv(*channels)
    low = ops.minimum(ops.minimum(channels[0], channels[1]), channels[2])
    turned = h + number_of(given, delta, x, 0)
    h = ops.remainder(turned, ops.number_like(h, value=1))
    rgb = (low + (high - low) * share for share in _shares_of_hue(h))
    return ops.stack(*rgb, axis=-1)


def read_adjust_saturation(x: Any, given: Any = None, *, factor: Any = None,
                           dimC: Any = None) -> Any:  # fmt: skip
    """adjust_saturation to the formulas of HSV, with a scaled saturation."""
    h, s, v = _to_hsv(*_channels(x, dimC))
    s = ops.clip(s * number_of(given, factor, x, 1), 0, 1)
    return ops.stack(*_to_rgb(h, s, v), axis=-1)


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
    parts = zip(_channels(x, dimC), _GREY, strict=True)
    r, g, b = (c * ops.number_like(c, value=w) for c, w in parts)
    return ops.expand_dims(r + g + b, [-1])


def _colour_matrix(rows: Any, *, inverse: bool = False) -> Callable[..., Any]:
    matrix = np.array(rows)
    matrix = np.linalg.inv(matrix) if inverse else matrix

    def read(x: Any, *, dimC: Any = None) -> Any:
        _channels(x, dimC)
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
    found = ops.nms(
        ops.reshape(boxes, [1, -1, 4]), ops.reshape(scores, [1, 1, -1]),
        np.int64(number), _like(overlap, boxes), _like(least, boxes),
    )  # fmt: skip
    chosen = ops.astype(ops.gather(found, np.asarray(2), axis=1), dtype="int32")
    if outputs == 1:
        return chosen
    return chosen, ops.astype(ops.size(chosen), dtype="int32")


def _like(value: Any, like: Any) -> Any:
    return None if value is None else ops.astype(value, dtype=like.dtype)


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
    "rgb_to_hsv": read_rgb_to_hsv,
    "hsv_to_rgb": read_hsv_to_rgb,
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
