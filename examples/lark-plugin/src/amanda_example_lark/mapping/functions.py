"""What is no equation: a lens, and ops whose arguments decide what is built."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, make_table

__all__ = ["LENSES", "WRITE"]

LENSES = [make_table("same", {"same": "same_upper", "valid": "valid"})]
PADDING = {"same_upper": "same", "valid": "valid", None: "valid"}
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def conv(o: Any, x: Any, w: Any, b: Any = None, *, strides: Any = None,
         padding: Any = None, layout: str = "NC*", **others: Any) -> Any:  # fmt: skip
    """A convolution of channels-first images, between transposes."""
    if layout != "NC*" or others["groups"] != 1 or padding not in PADDING:
        raise Decline("Lark has no such layout, groups or padding")
    x = o.Transpose(x, perm=LAST)
    x = o.Conv2D(x, w, b, strides=strides or [1, 1], padding=PADDING[padding])
    return o.Transpose(x, perm=FIRST)


def max_pool(o: Any, x: Any, *, window: Any, strides: Any, **others: Any) -> Any:
    if others["layout"] != "NC*" or others["padding"] not in (None, "valid"):
        raise Decline("Lark has no such layout or padding")
    x = o.MaxPool2D(o.Transpose(x, perm=LAST), size=window, strides=strides)
    return o.Transpose(x, perm=FIRST)


WRITE = {"conv": conv, "max_pool": max_pool}
