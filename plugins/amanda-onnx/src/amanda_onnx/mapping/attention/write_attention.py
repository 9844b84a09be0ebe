"""To ONNX: Attention and RotaryEmbedding of opset 23 and later."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.attention.read_attention import QK_OUTPUT_MODES
from amanda_onnx.mapping.operands import opset_of
from amanda_std.mappings import rank_of, tensor_type_of

__all__ = ["WRITE"]


def _attributes(o: Any, xs: Any, scale: float | None, causal: bool,
                softcap: float) -> dict[str, Any]:  # fmt: skip
    if opset_of(o) < 23 or any(rank_of(x) != 4 for x in xs):
        raise Decline("Attention needs [batch, heads, length, depth] and opset 23")
    attrs: dict[str, Any] = {} if scale is None else {"scale": scale}
    attrs |= {"is_causal": 1} if causal else {}
    return attrs | ({"softcap": softcap} if softcap else {})


def write_attention(o: Any, q: Any, k: Any, v: Any, mask: Any = None, *,
                    scale: float | None = None, causal: bool = False,
                    softcap: float = 0.0) -> Any:  # fmt: skip
    attrs = _attributes(o, (q, k, v), scale, causal, softcap)
    return o.Attention(q, k, v, mask, outputs=1, **attrs)


def write_attention_with_cache(
    o: Any, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None, *, scale: float | None = None,
    causal: bool = False, softcap: float = 0.0, left: int = -1, right: int = -1,
    dtype: Any = None, scores: str = "raw",
) -> Any:  # fmt: skip
    attrs = _attributes(o, (q, k, v), scale, causal, softcap)
    if lengths is not None and opset_of(o) < 24:
        raise Decline("Attention of this opset has no lengths")
    windows = {"left_window_size": left, "right_window_size": right}
    attrs |= {name: size for name, size in windows.items() if size >= 0}
    attrs |= {} if dtype is None else {"softmax_precision": CODES[dtype]}
    mode = QK_OUTPUT_MODES.index(scores)
    attrs |= {"qk_matmul_output_mode": mode} if mode else {}
    inputs = [q, k, v, mask, past_key, past_value]
    if lengths is None:
        return o.Attention(*inputs, outputs=4, **attrs)
    if past_key is not None:
        raise Decline("Attention has lengths or past keys, not both")
    # Nor has it present keys beside lengths, and so no scores, which come after them.
    return o.Attention(*inputs, lengths, outputs=1, **attrs), k, v


def write_rotary_embedding(
    o: Any, x: Any, cos: Any, sin: Any, position: Any = None, *,
    interleaved: bool = False, size: int = 0,
) -> Any:  # fmt: skip
    if opset_of(o) < 23 or rank_of(x) != 4:
        raise Decline("RotaryEmbedding needs rank 4 and opset 23")
    attrs = {"interleaved": 1} if interleaved else {}
    depth = tensor_type_of(x).shape[3]
    if size and not (isinstance(depth, int) and depth == size):
        attrs["rotary_embedding_dim"] = size
    return o.RotaryEmbedding(x, cos, sin, position, **attrs)


WRITE: dict[str, Any] = {
    "attention": write_attention,
    "attention_with_cache": write_attention_with_cache,
    "rotary_embedding": write_rotary_embedding,
}
