"""To ONNX: convolutions whose padding keeps the size."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda.types import TensorType
from amanda_onnx.mapping.operands import padding_attributes

__all__ = ["WRITE"]


def write_conv(
    o: Any, x: Any, w: Any, b: Any = None, *, layout: str = "NC*",
    kernel_layout: str = "OI*", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1,
) -> Any:  # fmt: skip
    """With dilations the padding is explicit where sizes are static or all strides 1,
    since runtimes refuse `auto_pad` with dilations."""
    if (layout, kernel_layout) != ("NC*", "OI*") or not isinstance(padding, str):
        raise Decline("Conv has channels first, and rows of its own for other padding")
    attrs: dict[str, Any] = {"strides": list(strides)} if strides else {}
    if any(d != 1 for d in dilations or ()):
        attrs["dilations"] = list(dilations)
        padding = _explicit(x, w, padding, strides, dilations)
    attrs |= padding_attributes(padding)
    return o.Conv(x, w, b, **attrs, **({"group": groups} if groups != 1 else {}))


def _explicit(x: Any, w: Any, padding: str, strides: Any, dilations: Any) -> Any:
    """The padding of each spatial axis; as it is where it depends on unknown sizes."""
    types = x.type, w.type
    if not all(isinstance(t, TensorType) and t.shape.has_rank for t in types):
        return padding
    sizes, kernel = (t.shape.dims[2:] for t in types)
    pads = []
    steps = strides or [1] * len(sizes)
    for n, k, s, d in zip(sizes, kernel, steps, dilations, strict=True):
        if not isinstance(k, int) or (s != 1 and not isinstance(n, int)):
            return padding
        rest = 0 if s == 1 else n - (-(-n // s) - 1) * s - 1
        total = max((k - 1) * d - rest, 0)
        least = total // 2
        pair = (least, total - least)
        pads.append(pair if padding == "same_upper" else pair[::-1])
    return pads


WRITE: dict[str, Any] = {
    "conv": write_conv,
}
