"""To ONNX: functions for layers of networks."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.attention.read_attention import STAGES
from amanda_onnx.mapping.shapes.write_shapes import opset, rank

__all__ = ["WRITE"]


def _how(o: Any, xs: Any, scale: float | None, causal: bool,
         softcap: float) -> dict[str, Any]:  # fmt: skip
    """The op of opset 23 takes four axes: batch, heads, places, depth."""
    if opset(o) < 23 or any(rank(x) != 4 for x in xs):
        raise Decline("Attention takes four axes")
    how: dict[str, Any] = {} if scale is None else {"scale": scale}
    how |= {"is_causal": 1} if causal else {}
    return how | ({"softcap": softcap} if softcap else {})


def attention(o: Any, q: Any, k: Any, v: Any, mask: Any = None, *,
              scale: float | None = None, causal: bool = False,
              softcap: float = 0.0) -> Any:  # fmt: skip
    how = _how(o, (q, k, v), scale, causal, softcap)
    return o.Attention(q, k, v, mask, outputs=1, **how)


def attention_with_cache(
    o: Any, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None, *, scale: float | None = None,
    causal: bool = False, softcap: float = 0.0, left: int = -1, right: int = -1,
    dtype: Any = None, scores: str = "raw",
) -> Any:  # fmt: skip
    how = _how(o, (q, k, v), scale, causal, softcap)
    if lengths is not None and opset(o) < 24:
        raise Decline("Attention of this opset takes no lengths")
    windows = {"left_window_size": left, "right_window_size": right}
    how |= {name: size for name, size in windows.items() if size >= 0}
    how |= {} if dtype is None else {"softmax_precision": CODES[dtype]}
    mode = STAGES.index(scores)
    how |= {"qk_matmul_output_mode": mode} if mode else {}
    inputs = [q, k, v, mask, past_key, past_value]
    inputs += [] if lengths is None else [lengths]
    return o.Attention(*inputs, outputs=4, **how)


def rotary_embedding(o: Any, x: Any, cos: Any, sin: Any, at: Any = None, *,
                     interleaved: bool = False, size: int = 0) -> Any:  # fmt: skip
    if opset(o) < 23 or rank(x) != 4:
        raise Decline("RotaryEmbedding takes four axes, from opset 23 on")
    more = {"interleaved": 1} if interleaved else {}
    depth = x.type.shape[3]
    if size and not (isinstance(depth, int) and depth == size):
        more["rotary_embedding_dim"] = size
    return o.RotaryEmbedding(x, cos, sin, at, **more)


WRITE: dict[str, Any] = {
    "attention": attention,
    "attention_with_cache": attention_with_cache,
    "rotary_embedding": rotary_embedding,
}
