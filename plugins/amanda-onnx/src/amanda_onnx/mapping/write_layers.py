"""To ONNX: functions for layers of networks."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda_onnx.mapping.write_shapes import opset

__all__ = ["WRITE"]


def attention(o: Any, q: Any, k: Any, v: Any, mask: Any = None, *,
              scale: float | None = None, causal: bool = False) -> Any:  # fmt: skip
    """The op of opset 23 takes four axes: batch, heads, places, depth."""
    from amanda_onnx.mapping.write_shapes import rank

    if opset(o) < 23 or any(rank(x) != 4 for x in (q, k, v)):
        raise Decline("Attention takes four axes")
    more = {} if scale is None else {"scale": scale}
    if causal:
        more["is_causal"] = 1
    return o.Attention(q, k, v, mask, outputs=1, **more)


WRITE: dict[str, Any] = {"attention": attention}
