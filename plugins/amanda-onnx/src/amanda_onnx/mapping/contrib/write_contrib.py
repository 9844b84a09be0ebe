"""To ONNX: ops of com.microsoft, where the graph imports that domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType, dims_equal
from amanda_std.mappings import rank_of, tensor_type_of

__all__ = ["WRITE"]

_HEAD_MULTIPLE = 8
"""GroupQueryAttention needs a head size that is a multiple of this."""
_MASKED = -10000.0
"""The default of `mask_filter_value`."""


def _contrib_type(o: Any, name: str) -> str:
    """The full name of an op; Decline where the graph does not import the domain."""
    type = f"com.microsoft.{name}"
    if o.side.signature(type) is None:
        raise Decline(f"the graph does not import com.microsoft, which has {name}")
    return type


def write_bias_gelu(o: Any, x: Any, b: Any, *, approximate: bool = False) -> Any:
    """onnxruntime's kernels do not broadcast: the bias is as long as the last axis."""
    type = _contrib_type(o, "FastGelu" if approximate else "BiasGelu")
    last, own = tensor_type_of(x).shape.dims[-1:], tensor_type_of(b).shape.dims
    if not (len(last) == len(own) == 1 and dims_equal(last[0], own[0]) is True):
        raise Decline("BiasGelu needs a bias as long as the last axis")
    return o.op(type, x, b)


def write_skip_layer_norm(
    o: Any, x: Any, skip: Any, scale: Any, shift: Any = None, bias: Any = None, *,
    epsilon: float = 1e-12, centred: bool = True,
) -> Any:  # fmt: skip
    name = "SkipLayerNormalization" if centred else "SkipSimplifiedLayerNormalization"
    type = _contrib_type(o, name)
    if not centred and shift is not None:
        raise Decline(f"{name} has no beta")
    if x.type != skip.type or rank_of(x) != 3:
        raise Decline(f"{name} needs two inputs of one shape [batch, length, size]")
    inputs = [x, skip, scale, shift, bias] if centred else [x, skip, scale, bias]
    results = o.op(type, *inputs, epsilon=epsilon, outputs=4)
    return results[0], results[3]


# -- attention ---------------------------------------------------------------------


def write_multi_head_attention(
    o: Any, q: Any, k: Any, v: Any, bias: Any = None, seen: Any = None,
    added: Any = None, past_key: Any = None, past_value: Any = None, *, heads: int,
    scale: float | None = None, causal: bool = False, fill: float = _MASKED,
) -> Any:  # fmt: skip
    """With an attention bias; without, a rule writes it."""
    type = _contrib_type(o, "MultiHeadAttention")
    if added is None or rank_of(q) != 3 or (seen is not None and rank_of(seen) != 2):
        raise Decline("MultiHeadAttention needs queries of rank 3 and a mask of rank 2")
    _check_attention_bias(added, q, k, past_key, heads)
    attrs: dict[str, Any] = {"scale": scale} if scale else {}
    attrs |= {"unidirectional": 1} if causal else {}
    attrs |= {"mask_filter_value": fill} if fill != _MASKED else {}
    return o.op(
        type, q, k, v, bias, seen, added, past_key, past_value, num_heads=heads,
        outputs=3, **attrs,
    )  # fmt: skip


def _check_attention_bias(added: Any, q: Any, k: Any, past: Any, heads: int) -> None:
    """onnxruntime's kernels broadcast the bias over batch and heads only."""
    batch, length = tensor_type_of(q).shape.dims[:2]
    keys = tensor_type_of(k).shape.dims[1 if rank_of(k) == 3 else 2]
    keys = keys if past is None else keys + tensor_type_of(past).shape.dims[2]
    wanted = (batch, heads, length, keys)
    if rank_of(added) != len(wanted):
        raise Decline("MultiHeadAttention needs a bias [batch, heads, length, keys]")
    pairs = zip(tensor_type_of(added).shape.dims, wanted, strict=True)
    for axis, (own, other) in enumerate(pairs):
        if axis < 2 and dims_equal(own, 1):
            continue
        equal = dims_equal(own, other)
        if equal is False or (equal is None and dims_equal(own, 1)):
            raise Decline(
                f"axis {axis} of the attention bias: {other} expected, got {own}"
            )


def write_grouped_attention(
    o: Any, q: Any, last: Any, k: Any = None, v: Any = None, past_key: Any = None,
    past_value: Any = None, total: Any = None, cos: Any = None, sin: Any = None,
    at: Any = None, added: Any = None, *, heads: int, shared: int,
    scale: float | None = None, interleaved: bool = False, half: int = 0,
    window: int = -1, softcap: float = 0.0, grows: str = "total",
) -> Any:  # fmt: skip
    """How the cache grows is declared by the types of its values."""
    del half, grows  # implied by the cos/sin cache and by the types
    type = _contrib_type(o, "GroupQueryAttention")
    if total is None or any(
        str(tensor_type_of(x).dtype) != "int32" for x in (last, total)
    ):
        raise Decline("GroupQueryAttention needs lengths in int32")
    width, count = (
        tensor_type_of(q).shape.dims[-1],
        heads + (2 * shared if k is None else 0),
    )
    if isinstance(width, int) and width // count % _HEAD_MULTIPLE:
        raise Decline(f"GroupQueryAttention with a head size of {width // count}")
    attrs: dict[str, Any] = {"scale": scale} if scale else {}
    attrs |= {"do_rotary": 1} if cos is not None else {}
    attrs |= {"rotary_interleaved": 1} if interleaved else {}
    attrs |= {"softcap": softcap} if softcap else {}
    return o.op(
        type, q, k, v, past_key, past_value, last, total, cos, sin, at, added,
        num_heads=heads, kv_num_heads=shared, local_window_size=window, outputs=3,
        **attrs,
    )  # fmt: skip


def write_rotary_embedding(
    o: Any, x: Any, cos: Any, sin: Any, position: Any = None, *,
    interleaved: bool = False, size: int = 0,
) -> Any:  # fmt: skip
    type = _contrib_type(o, "RotaryEmbedding")
    if position is None or rank_of(x) != 4 or rank_of(position) != 2:
        raise Decline(
            "RotaryEmbedding of com.microsoft needs positions [batch, length]"
        )
    attrs: dict[str, Any] = {"interleaved": 1} if interleaved else {}
    _, heads, _, depth = tensor_type_of(x).shape.dims
    if not (isinstance(depth, int) and size in (0, depth)):
        if not size or not isinstance(heads, int):
            raise Decline("RotaryEmbedding with a dynamic head size")
        attrs |= {"rotary_embedding_dim": size, "num_heads": heads}
    if str(tensor_type_of(position).dtype) != "int64":
        position = o.Cast(position, to=7)
    return o.op(type, x, position, cos, sin, **attrs)


# -- weights packed in bytes -------------------------------------------------------


def write_quantized_linear(o: Any, x: Any, w: Any, scales: Any, zeros: Any = None,
                           bias: Any = None, *, block: int) -> Any:  # fmt: skip
    """The bytes of a weight of 2, 4 or 8 bits are those that MatMulNBits has."""
    type = _contrib_type(o, "MatMulNBits")
    weight, size = constant_of(w), tensor_type_of(x).shape.dims[-1]
    if weight is None or not isinstance(size, int):
        raise Decline("MatMulNBits needs a constant weight and a static last dim")
    dtype = weight.dtype
    if not isinstance(dtype, DType):
        raise Decline("MatMulNBits of a weight whose dtype has a scale")
    if str(dtype) not in ("uint2", "uint4", "uint8") or block < 16 or block & block - 1:
        raise Decline(f"MatMulNBits of {dtype} in blocks of {block}")
    if tensor_type_of(scales).dtype != tensor_type_of(x).dtype:
        raise Decline("MatMulNBits needs scales in the dtype of the data")
    rows, width = (int(d) for d in tensor_type_of(w).shape)
    if width != -(-size // block) * block:
        raise Decline("MatMulNBits needs whole blocks")
    blocks = width // block
    packed = Tensor.lazy(
        lambda: _raw_bytes(weight).reshape(rows, blocks, -1), DType("uint8"),
        (rows, blocks, block * dtype.bits // 8),
    )  # fmt: skip
    return o.op(
        type, x, packed, _to_vector(o, scales),
        _pack_zeros(zeros, dtype, rows, blocks), None, bias, K=size, N=rows,
        bits=dtype.bits, block_size=block,
    )  # fmt: skip


def _to_vector(o: Any, scales: Any) -> Any:
    """As a vector, which all versions of the op accept."""
    tensor = constant_of(scales)
    if tensor is None:
        return o.Reshape(scales, [-1])
    return Tensor.of(tensor.numpy().reshape(-1), tensor.dtype)


def _raw_bytes(tensor: Tensor) -> Any:
    return np.frombuffer(b"".join(tensor.chunks()), "uint8")


def _pack_zeros(zeros: Any, dtype: DType, rows: int, blocks: int) -> Any:
    """Zero points packed in bytes, each row padded; None where all are the default."""
    numbers = np.zeros((rows, blocks), "uint8")
    if zeros is not None:
        tensor = constant_of(zeros)
        if tensor is None or tensor.dtype != dtype:
            raise Decline(
                "MatMulNBits needs constant zero points in the weight's dtype"
            )
        numbers = np.asarray(tensor.tolist(), "uint8").reshape(rows, blocks)
    if (numbers == 1 << (dtype.bits - 1)).all():
        return None
    per_byte = 8 // dtype.bits
    padded = np.zeros((rows, -(-blocks // per_byte) * per_byte), "uint8")
    padded[:, :blocks] = numbers
    shifts = np.arange(per_byte, dtype="uint8") * dtype.bits
    parts = padded.reshape(rows, -1, per_byte) << shifts
    return Tensor.of(np.bitwise_or.reduce(parts, axis=2).astype("uint8"))


WRITE: dict[str, Any] = {
    "bias_gelu": write_bias_gelu,
    "grouped_attention": write_grouped_attention,
    "multi_head_attention": write_multi_head_attention,
    "quantized_linear": write_quantized_linear,
    "rotary_embedding": write_rotary_embedding,
    "skip_layer_norm": write_skip_layer_norm,
}
