"""From TensorFlow: images scaled and moved, and projective transforms of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, required_content

__all__ = ["READ"]


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        return np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0)

    return kernel


def _cubic(b: float, c: float) -> Callable[[Any], Any]:
    """The cubic filters of Mitchell and Netravali."""

    def kernel(x: Any) -> Any:
        x = np.abs(x)
        near = (12 - 9 * b - 6 * c) * x**3 + (-18 + 12 * b + 6 * c) * x**2 + 6 - 2 * b
        far = (
            (-b - 6 * c) * x**3 + (6 * b + 30 * c) * x**2
            + (-12 * b - 48 * c) * x + 8 * b + 24 * c
        )  # fmt: skip
        return np.where(x < 1, near, np.where(x < 2, far, 0)) / 6

    return kernel


_KERNELS: Final[dict[str, tuple[float, Callable[[Any], Any]]]] = {
    "lanczos1": (1.0, _lanczos(1.0)),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, lambda x: np.where(np.abs(x) < 1.5, np.exp(-2 * x * x), 0)),
    "box": (
        1.0,
        lambda x: np.where(np.abs(x) < 0.5, 1.0, np.where(np.abs(x) == 0.5, 0.5, 0.0)),
    ),
    "triangle": (1.0, lambda x: np.maximum(1 - np.abs(x), 0)),
    "keyscubic": (2.0, _cubic(0.0, 0.5)),
    "mitchellcubic": (2.0, _cubic(1 / 3, 1 / 3)),
}
"""The radius and the function of each kernel."""


def _weights(
    old: int, new: int, scale: float, shift: float, kernel: str, antialias: bool
) -> Any:
    """[new, old]: the share of each source pixel in each new one.

    In float32, as TensorFlow: kernels with steps depend on the last digit.
    """
    radius, function = _KERNELS[kernel]
    step = np.float32(1) / np.float32(scale)
    wide = np.maximum(step, np.float32(1)) if antialias else np.float32(1)
    half = np.float32(0.5)
    at = (np.arange(new, dtype="float32") + half) * step - step * np.float32(shift)
    pixels = np.arange(old, dtype="float32")
    first = np.ceil(at - radius * wide - 0.5)[:, None]
    last = np.floor(at + radius * wide - 0.5)[:, None]
    shares = function((pixels + half - at[:, None]) * (np.float32(1) / wide))
    shares = np.where((pixels >= first) & (pixels <= last), shares, 0)
    inside = (at >= 0) & (at <= old)
    total = shares.sum(1)
    usable = inside & (np.abs(total) > 1e-30)
    norm = np.where(usable, total, 1)[:, None]
    return (np.where(usable[:, None], shares, 0) / norm).astype("float32")


def read_scale_and_translate(
    x: Any, size: Any, scale: Any, translation: Any, *, kernel_type: str = "lanczos3",
    antialias: bool = True,
) -> Any:  # fmt: skip
    """A product with weights along each spatial axis."""
    expect(kernel_type in _KERNELS, f"kernel_type={kernel_type}")
    new, scales, shifts = (
        required_content(v, what)
        for v, what in ((size, "size"), (scale, "scale"), (translation, "translation"))
    )
    old = x.type.shape.dims[1:3]
    expect(all(isinstance(n, int) for n in old), "the size of images is not static")
    rows, columns = (
        _weights(int(old[i]), new[i], scales[i], shifts[i], kernel_type, antialias)
        for i in range(2)
    )
    wide = cast_to(x, "float32")
    tall = ops.einsum(rows, wide, equation="ah,nhwc->nawc")
    return ops.einsum(tall, columns, equation="nawc,bw->nabc")


def _reflect(at: Any, size: int) -> Any:
    """Coordinates mirrored at the edges of pixels."""
    folded = ops.remainder(at, ops.number_like(at, value=2 * size))
    inside = ops.less(folded, ops.number_like(at, value=size))
    return ops.where(inside, folded, (2.0 * size - 1.0) - folded)


def _wrap(at: Any, size: int) -> Any:
    """Coordinates moved by sizes, counted in distances of the outer pixels."""
    last = float(max(size - 1, 1))
    below = at + (ops.floor(ops.negative(at) / last) + 1.0) * float(size)
    above = at - ops.floor(at / last) * float(size)
    beyond = ops.where(ops.greater(at, ops.number_like(at, value=last)), above, at)
    return ops.where(ops.less(at, ops.zeros_like(at)), below, beyond)


def _bring_inside(at: Any, size: int, mode: str) -> Any:
    """Coordinates of any place, brought inside as a fill mode says."""
    if mode == "CONSTANT":
        return at
    if mode != "NEAREST":
        at = _reflect(at, size) if mode == "REFLECT" else _wrap(at, size)
    return ops.clip(at, 0, size - 1)


def _round_from_zero(at: Any) -> Any:
    """The nearest whole number; of two, the one farther from zero, as in C++."""
    size = ops.abs(at)
    whole = ops.floor(size)
    is_near = ops.less(size - whole, ops.number_like(at, value=0.5))
    rounded = ops.where(is_near, whole, whole + 1.0)
    below = ops.less(at, ops.zeros_like(at))
    return ops.where(below, ops.negative(rounded), rounded)


def _pixels(x: Any, rows: Any, columns: Any, fill: Any) -> Any:
    """Pixels at whole coordinates [n, h, w]; `fill` outside of the image."""
    height, width = x.type.shape.dims[1:3]
    inside = None
    for at, size in ((rows, height), (columns, width)):
        last = ops.number_like(at, value=int(size) - 1)
        own = ops.logical_and(
            ops.greater_equal(at, ops.zeros_like(at)), ops.less_equal(at, last)
        )
        inside = own if inside is None else ops.logical_and(inside, own)
    at = ops.stack(
        *(
            ops.astype(ops.clip(v, 0, int(n) - 1), dtype="int64")
            for v, n in ((rows, height), (columns, width))
        ),
        axis=-1,
    )
    found = ops.gather_nd(x, at, batch_dims=1)
    return ops.where(ops.expand_dims(inside, [-1]), found, cast_to(fill, x.dtype))


def read_projective_transform(
    x: Any, transforms: Any, size: Any, fill: Any, *, interpolation: str,
    fill_mode: str = "CONSTANT",
) -> Any:  # fmt: skip
    """Output (x, y) shows input ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)."""
    shape = x.type.shape.dims
    expect(all(isinstance(n, int) for n in shape), "the shape of images is not static")
    batch, height, width = (int(n) for n in shape[:3])
    rows, columns = required_content(size, "output_shape")
    y, own = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    y, own = y.astype("float32"), own.astype("float32")
    t = ops.broadcast_to(transforms, [batch, 8])
    a = [ops.reshape(v, [batch, 1, 1]) for v in ops.split(t, axis=1, outputs=8)]
    k = a[6] * own + a[7] * y + 1.0
    at_x = (a[0] * own + a[1] * y + a[2]) / k
    at_y = (a[3] * own + a[4] * y + a[5]) / k
    at_x, at_y = (
        _bring_inside(at_x, width, fill_mode),
        _bring_inside(at_y, height, fill_mode),
    )
    if interpolation == "NEAREST":
        return _pixels(x, _round_from_zero(at_y), _round_from_zero(at_x), fill)
    wide = cast_to(x, "float32")
    left, top = ops.floor(at_x), ops.floor(at_y)
    share_x, share_y = (ops.expand_dims(v, [-1]) for v in (at_x - left, at_y - top))
    above, below = (
        _pixels(wide, row, left, fill) * (1.0 - share_x)
        + _pixels(wide, row, left + 1.0, fill) * share_x
        for row in (top, top + 1.0)
    )
    return cast_to(above * (1.0 - share_y) + below * share_y, x.dtype)


def read_projective_transform_v2(
    x: Any, transforms: Any, size: Any, **attrs: Any
) -> Any:
    """ImageProjectiveTransformV2, as version 3 with zeros outside."""
    return read_projective_transform(x, transforms, size, np.float32(0), **attrs)


READ: dict[str, Any] = {
    "ScaleAndTranslate": read_scale_and_translate,
    "ImageProjectiveTransformV2": read_projective_transform_v2,
    "ImageProjectiveTransformV3": read_projective_transform,
}
