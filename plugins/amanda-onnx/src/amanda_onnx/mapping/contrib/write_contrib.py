"""To ONNX: ops of onnxruntime, where a graph imports com.microsoft.

What a row cannot say: outputs that are left out between others, weights of few bits
that become bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType, same
from amanda_onnx.mapping.shapes.write_shapes import rank

__all__ = ["WRITE", "house"]

_HOUSE = "com.microsoft."
_STEP = 8
"""Heads of GroupQueryAttention have some eights of numbers, or are refused."""


def house(o: Any, name: str) -> str:
    """An op of onnxruntime by its full name; Decline where nobody imports it."""
    if o.side.signature(_HOUSE + name) is None:
        raise Decline(f"the graph does not import com.microsoft, which has {name}")
    return _HOUSE + name


def bias_gelu(o: Any, x: Any, b: Any, *, approximate: bool = False) -> Any:
    """The kernels refuse a bias that is repeated, or that makes the data wider."""
    type = house(o, "FastGelu" if approximate else "BiasGelu")
    wide, own = x.type.shape.dims[-1:], b.type.shape.dims
    if not (len(wide) == len(own) == 1 and same(wide[0], own[0]) is True):
        raise Decline("a bias that is not known to be as long as the last axis")
    return o.op(type, x, b)


def skip_layer_norm(
    o: Any, x: Any, skip: Any, scale: Any, shift: Any = None, bias: Any = None, *,
    epsilon: float = 1e-12, centred: bool = True,
) -> Any:  # fmt: skip
    name = "SkipLayerNormalization" if centred else "SkipSimplifiedLayerNormalization"
    type = house(o, name)
    if not centred and shift is not None:
        raise Decline(f"{name} moves nothing")
    if x.type != skip.type or rank(x) != 3:
        raise Decline(f"{name} takes [batch, places, size], both of one shape")
    inputs = [x, skip, scale, shift, bias] if centred else [x, skip, scale, bias]
    made = o.op(type, *inputs, epsilon=epsilon, outputs=4)
    return made[0], made[3]


def multi_head_attention(
    o: Any, q: Any, k: Any, v: Any, bias: Any = None, seen: Any = None,
    added: Any = None, past_key: Any = None, past_value: Any = None, *, heads: int,
    scale: float | None = None, causal: bool = False, fill: float = -10000.0,
) -> Any:  # fmt: skip
    """With something that is added to its scores; without, a row has it."""
    type = house(o, "MultiHeadAttention")
    if added is None or rank(q) != 3 or (seen is not None and rank(seen) != 2):
        raise Decline("MultiHeadAttention of com.microsoft takes three axes")
    _expect_scores(added, q, k, past_key, heads)
    how: dict[str, Any] = {"scale": scale} if scale else {}
    how |= {"unidirectional": 1} if causal else {}
    how |= {"mask_filter_value": fill} if fill != -10000.0 else {}
    return o.op(
        type, q, k, v, bias, seen, added, past_key, past_value, num_heads=heads,
        outputs=3, **how,
    )  # fmt: skip


def _expect_scores(added: Any, q: Any, k: Any, past: Any, heads: int) -> None:
    """Its kernels repeat what they add for batches and heads, for nothing else."""
    batch, places = q.type.shape.dims[:2]
    keys = k.type.shape.dims[1 if rank(k) == 3 else 2]
    keys = keys if past is None else keys + past.type.shape.dims[2]
    wanted = (batch, heads, places, keys)
    if rank(added) != len(wanted):
        raise Decline("MultiHeadAttention adds [batch, heads, places, keys]")
    pairs = zip(added.type.shape.dims, wanted, strict=True)
    for axis, (own, other) in enumerate(pairs):
        if axis < 2 and same(own, 1):
            continue
        told = same(own, other)
        if told is False or (told is None and same(own, 1)):
            raise Decline(f"{own} scores on axis {axis}, where there are {other}")


def grouped_attention(
    o: Any, q: Any, last: Any, k: Any = None, v: Any = None, past_key: Any = None,
    past_value: Any = None, total: Any = None, cos: Any = None, sin: Any = None,
    at: Any = None, added: Any = None, *, heads: int, shared: int,
    scale: float | None = None, interleaved: bool = False, half: int = 0,
    window: int = -1, softcap: float = 0.0, grows: str = "total",
) -> Any:  # fmt: skip
    """How the cache grows is said by the types of its values."""
    del half, grows  # which the tables and the types tell
    type = house(o, "GroupQueryAttention")
    if total is None or any(str(x.type.dtype) != "int32" for x in (last, total)):
        raise Decline("GroupQueryAttention is told lengths as int32")
    wide, count = q.type.shape.dims[-1], heads + (2 * shared if k is None else 0)
    if isinstance(wide, int) and wide // count % _STEP:
        raise Decline(f"GroupQueryAttention of heads of {wide // count}")
    how: dict[str, Any] = {"scale": scale} if scale else {}
    how |= {"do_rotary": 1} if cos is not None else {}
    how |= {"rotary_interleaved": 1} if interleaved else {}
    how |= {"softcap": softcap} if softcap else {}
    return o.op(
        type, q, k, v, past_key, past_value, last, total, cos, sin, at, added,
        num_heads=heads, kv_num_heads=shared, local_window_size=window, outputs=3,
        **how,
    )  # fmt: skip


def rotary_embedding(o: Any, x: Any, cos: Any, sin: Any, at: Any = None, *,
                     interleaved: bool = False, size: int = 0) -> Any:  # fmt: skip
    type = house(o, "RotaryEmbedding")
    if at is None or rank(x) != 4 or rank(at) != 2:
        raise Decline("RotaryEmbedding of com.microsoft is told places")
    more: dict[str, Any] = {"interleaved": 1} if interleaved else {}
    _, heads, _, depth = x.type.shape.dims
    if not (isinstance(depth, int) and size in (0, depth)):
        if not size or not isinstance(heads, int):
            raise Decline("how much of each head is turned is not known")
        more |= {"rotary_embedding_dim": size, "num_heads": heads}
    if str(at.type.dtype) != "int64":
        at = o.Cast(at, to=7)
    return o.op(type, x, at, cos, sin, **more)


def quantized_linear(o: Any, x: Any, w: Any, scales: Any, zeros: Any = None,
                     bias: Any = None, *, block: int) -> Any:  # fmt: skip
    """The bytes of a weight of few bits are those of MatMulNBits."""
    type = house(o, "MatMulNBits")
    weight, size = constant_of(w), x.type.shape.dims[-1]
    if weight is None or not isinstance(size, int):
        raise Decline("weights that are no constant, or data of an unknown width")
    dtype = weight.dtype
    if not isinstance(dtype, DType):
        raise Decline("a weight with a scale of its own")
    if str(dtype) not in ("uint2", "uint4", "uint8") or block < 16 or block & block - 1:
        raise Decline(f"MatMulNBits of {dtype} by {block}")
    if scales.type.dtype != x.type.dtype:
        raise Decline("scales of another element type than the data")
    rows, wide = (int(d) for d in w.type.shape)
    if wide != -(-size // block) * block:
        raise Decline("rows that are no whole number of blocks")
    blocks = wide // block
    packed = Tensor.lazy(
        lambda: _bytes(weight).reshape(rows, blocks, -1), DType("uint8"),
        (rows, blocks, block * dtype.bits // 8),
    )  # fmt: skip
    return o.op(
        type, x, packed, _in_one_row(o, scales),
        _packed_zeros(zeros, dtype, rows, blocks), None, bias, K=size, N=rows,
        bits=dtype.bits, block_size=block,
    )  # fmt: skip


def _in_one_row(o: Any, scales: Any) -> Any:
    """As all versions of the op take them."""
    tensor = constant_of(scales)
    if tensor is None:
        return o.Reshape(scales, [-1])
    return Tensor.of(tensor.numpy().reshape(-1), tensor.dtype)


def _bytes(tensor: Tensor) -> Any:
    """What lies in memory, several numbers to a byte."""
    return np.frombuffer(b"".join(tensor.chunks()), "uint8")


def _packed_zeros(zeros: Any, dtype: DType, rows: int, blocks: int) -> Any:
    """In bytes, each row filled up to whole ones. Without, they are in the middle."""
    numbers = np.zeros((rows, blocks), "uint8")
    if zeros is not None:
        tensor = constant_of(zeros)
        if tensor is None or tensor.dtype != dtype:
            raise Decline("zero points that are no constant of the weight's type")
        numbers = np.asarray(tensor.tolist(), "uint8").reshape(rows, blocks)
    if (numbers == 1 << (dtype.bits - 1)).all():
        return None
    each = 8 // dtype.bits
    padded = np.zeros((rows, -(-blocks // each) * each), "uint8")
    padded[:, :blocks] = numbers
    shifts = np.arange(each, dtype="uint8") * dtype.bits
    parts = padded.reshape(rows, -1, each) << shifts
    return Tensor.of(np.bitwise_or.reduce(parts, axis=2).astype("uint8"))


WRITE: dict[str, Any] = {
    "bias_gelu": bias_gelu,
    "grouped_attention": grouped_attention,
    "multi_head_attention": multi_head_attention,
    "quantized_linear": quantized_linear,
    "rotary_embedding": rotary_embedding,
    "skip_layer_norm": skip_layer_norm,
}
