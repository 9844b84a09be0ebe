"""Colours of images, with the channels red, green and blue in the last axis."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import rank_of

__all__ = [
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "colour_channels",
    "hsv_to_rgb",
    "rgb_to_hsv",
]


def colour_channels(x: Any) -> tuple[Any, ...]:
    """The three channels, each without the last axis."""
    return tuple(ops.squeeze(c, [-1]) for c in ops.split(x, axis=-1, outputs=3))


def rgb_to_hsv(x: Any) -> Any:
    """Hue, saturation and value of red, green and blue."""
    return ops.stack(*_to_hsv(*colour_channels(x)), axis=-1)


def hsv_to_rgb(x: Any) -> Any:
    """Red, green and blue of hue, saturation and value."""
    return ops.stack(*_to_rgb(*colour_channels(x)), axis=-1)


def _to_hsv(r: Any, g: Any, b: Any) -> tuple[Any, Any, Any]:
    value = ops.maximum(ops.maximum(r, g), b)
    spread = value - ops.minimum(ops.minimum(r, g), b)
    saturation = _divide_or_zero(spread, value)
    norm = _divide_or_zero(ops.ones_like(spread) / 6.0, spread)
    green = ops.where(
        ops.equal(value, g), (b - r) * norm + 2.0 / 6.0, (r - g) * norm + 4.0 / 6.0
    )
    hue = ops.where(ops.equal(value, r), (g - b) * norm, green)
    zero = ops.zeros_like(hue)
    hue = ops.where(ops.greater(spread, zero), hue, zero)
    return ops.where(ops.less(hue, zero), hue + 1.0, hue), saturation, value


def _divide_or_zero(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is not positive."""
    good = ops.greater(b, ops.zeros_like(b))
    return ops.where(good, a / ops.where(good, b, ops.ones_like(b)), ops.zeros_like(b))


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


def adjust_contrast(x: Any, factor: Any) -> Any:
    """Distances from the mean of each channel, times a factor."""
    rank = rank_of(x)
    mean = ops.mean(x, [rank - 3, rank - 2], keepdims=True)
    return (x - mean) * ops.astype(factor, dtype=x.dtype) + mean


def adjust_hue(x: Any, delta: Any) -> Any:
    """The hue turns; least and greatest channel of each pixel stay."""
    channels = colour_channels(x)
    h, _, high = _to_hsv(*channels)
    low = ops.minimum(ops.minimum(channels[0], channels[1]), channels[2])
    turned = h + ops.astype(delta, dtype=x.dtype)
    h = ops.remainder(turned, ops.number_like(h, value=1))
    rgb = (low + (high - low) * share for share in _shares_of_hue(h))
    return ops.stack(*rgb, axis=-1)


def adjust_saturation(x: Any, factor: Any) -> Any:
    """The formulas of HSV, with a scaled saturation."""
    h, s, v = _to_hsv(*colour_channels(x))
    s = ops.clip(s * ops.astype(factor, dtype=x.dtype), 0, 1)
    return ops.stack(*_to_rgb(h, s, v), axis=-1)
