"""Images of another size, as Keras interpolates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from amanda_keras.mapping.layer_calls import expect
from amanda_std import ops

__all__ = ["interpolate"]

_MODES: Final[dict[str, dict[str, Any]]] = {
    "nearest": {"mode": "nearest", "rounding": "round_prefer_ceil"},
    "bilinear": {"mode": "linear"},
    "bicubic": {"mode": "cubic", "cubic": -0.5, "exclude_outside": True},
}


def interpolate(
    x: Any, sizes: Sequence[Any], axes: tuple[int, int], interpolation: str,
    antialias: bool = False,
) -> Any:  # fmt: skip
    """Images resized along two axes.

    At the borders, the weights of the pixels that exist add up to one.
    """
    known = interpolation in _MODES
    expect(known, f"interpolation={interpolation!r:.60} is not supported")
    attrs = dict(_MODES[interpolation])
    if antialias and interpolation != "nearest":
        attrs |= {"antialias": True, "exclude_outside": True}
    return ops.resize(x, list(sizes), axes=axes, **attrs)
