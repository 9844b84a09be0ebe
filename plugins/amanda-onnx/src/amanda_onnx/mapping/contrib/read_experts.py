"""From ONNX: mixtures of experts of com.microsoft, as onnxruntime's CPU kernels compute
them.

Each token goes to the experts with its `k` largest router logits, of equal ones to the
last. Rows are sorted by expert, so that each layer is a grouped product. MatMulFpQ4 has
no rule: the layout of its weights is that of one version of onnxruntime's library, for
one instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.mapping.contrib.read_contrib_quantization import (
    unpack,
    unpack_zeros,
)
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, tensor_type_of

__all__ = ["READ"]

_FLOAT32: Final = DType("float32")
_INT64: Final = DType("int64")
_ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {
    "relu": ops.relu,
    "gelu": lambda x: ops.gelu(x, approximate=True),
    "silu": ops.silu,
    "identity": lambda x: x,
}


class Activation(NamedTuple):
    """An activation and its parameters; those are of swiglu alone."""

    name: str
    alpha: float
    beta: float
    limit: float | None

    def apply(self, x: Any) -> Any:
        """Of swiglu, even columns of x are the gate, odd ones what it multiplies."""
        if self.name != "swiglu":
            return _ACTIVATIONS[self.name](x)
        gate, up = (ops.slice(x, [i], [x.shape[1]], [1], [2]) for i in (0, 1))
        if self.limit is not None:
            gate = ops.minimum(gate, self.limit)
            up = ops.clip(up, -self.limit, self.limit)
        return ops.swiglu(up + self.beta, gate, alpha=self.alpha)


class Layer(NamedTuple):
    """One layer of all experts: weights [experts, out, in], and a bias."""

    weights: Any
    bias: Any

    def apply(self, x: Any, experts: Any, ends: Any) -> Any:
        y = ops.grouped_matmul(x, ops.swap_last(self.weights), ends)
        return y if self.bias is None else y + ops.gather(self.bias, experts, axis=0)


# -- routing -----------------------------------------------------------------------


def _select_experts(logits: Any, k: int) -> tuple[Any, Any]:
    """The largest logits of each token, and their experts; of equal ones, the last."""
    largest, places = ops.topk(ops.flip(logits, [1]), k=k)
    return largest, (int(_static_size(logits, 1)) - 1) - places


def _static_size(x: Any, axis: int) -> Any:
    size = tensor_type_of(x).shape.dims[axis]
    expect(isinstance(size, int), "the number of experts is dynamic")
    return size


def _mix_experts(
    x: Any, chosen: Any, shares: Any, layers: tuple[Layer, Layer], act: Activation
) -> Any:
    """The sum of the results of the chosen experts, times their shares.

    x: [..., features]; chosen, shares: [tokens, k]."""
    k, count = (tensor_type_of(each).shape.dims[i] for each, i in
                ((chosen, 1), (layers[0].weights, 0)))  # fmt: skip
    tokens = ops.reshape(x, [-1, x.shape[-1]])
    every = ops.reshape(chosen, [-1])
    order = ops.argsort(every)
    experts = ops.gather(every, order, axis=0)
    below = ops.less_equal(ops.expand_dims(experts, (0,)),
                           ops.expand_dims(ops.arange(0, count), (1,)))  # fmt: skip
    ends = ops.sum(cast_to(below, _INT64), (1,))
    rows = ops.gather(tokens, ops.floor_divide(order, k), axis=0)
    hidden = act.apply(layers[0].apply(rows, experts, ends))
    y = layers[1].apply(hidden, experts, ends)
    back = ops.gather(y, ops.argsort(order), axis=0)
    parts = ops.reshape(back, [-1, k, y.shape[1]]) * ops.expand_dims(shares, (2,))
    return ops.reshape(ops.sum(parts, (1,)), x.shape)


def _activation(
    name: str, alpha: float, beta: float, limit: float | None, fusion: int,
    after: int,
) -> Activation:  # fmt: skip
    expect(name in (*_ACTIVATIONS, "swiglu"), f"the activation {name}")
    expect(name != "swiglu" or fusion == 1, "swiglu whose layers are not interleaved")
    expect(not after, "a limit after the activation")
    return Activation(name, alpha, beta, limit)


# -- ops ---------------------------------------------------------------------------


def read_moe(
    x: Any, logits: Any, w1: Any, b1: Any, w2: Any, b2: Any = None, w3: Any = None,
    b3: Any = None, *, k: int = 1, activation_type: str = "relu",
    activation_alpha: float = 1.0, activation_beta: float = 0.0,
    swiglu_limit: float | None = None, swiglu_fusion: int = 0,
    swiglu_limit_after_activation: int = 0, normalize_routing_weights: int = 0,
    use_sparse_mixer: int = 0,
) -> Any:  # fmt: skip
    expect(w3 is None and b3 is None, "a third layer")
    expect(not use_sparse_mixer, "a sparse mixer")
    act = _activation(
        activation_type, activation_alpha, activation_beta, swiglu_limit,
        swiglu_fusion, swiglu_limit_after_activation,
    )  # fmt: skip
    largest, chosen = _select_experts(logits, k)
    if normalize_routing_weights:
        shares = ops.softmax(largest, axes=(1,))
    else:
        shares = ops.gather_elements(ops.softmax(logits, axes=(1,)), chosen, axis=1)
    layers = Layer(w1, b1), Layer(w2, b2)
    return _mix_experts(x, chosen, shares, layers, act)


def read_quantized_moe(
    x: Any, logits: Any, w1: Any, s1: Any, b1: Any, w2: Any, s2: Any, b2: Any = None,
    w3: Any = None, s3: Any = None, b3: Any = None, z1: Any = None, z2: Any = None,
    z3: Any = None, shares: Any = None, *others: Any, k: int = 1,
    activation_type: str = "relu", activation_alpha: float = 1.0,
    activation_beta: float = 0.0, swiglu_limit: float | None = None,
    swiglu_fusion: int = 0, swiglu_limit_after_activation: int = 0,
    normalize_routing_weights: int = 0, use_sparse_mixer: int = 0,
    expert_weight_bits: int = 4, block_size: int = 0, quant_type: str = "int",
    weights_prepacked: int = -1, accuracy_level: int = 0,
    fc1_expert_weight_bits: int | None = None,
    fc2_expert_weight_bits: int | None = None,
    fc3_expert_weight_bits: int | None = None,
) -> Any:  # fmt: skip
    """Without `shares`, those are normalized whatever the attribute says, as in
    onnxruntime on a CPU; -1 for `weights_prepacked` is the layout of the schema there.
    """
    del accuracy_level, fc3_expert_weight_bits
    expect(all(v is None for v in (w3, s3, b3, z3, *others)), "a third layer, or FP8")
    expect(quant_type == "int", f"weights quantized as {quant_type}")
    expect(weights_prepacked < 1 and not use_sparse_mixer, "prepacked, or sparse")
    act = _activation(
        activation_type, activation_alpha, activation_beta, swiglu_limit,
        swiglu_fusion, swiglu_limit_after_activation,
    )  # fmt: skip
    largest, chosen = _select_experts(logits, k)
    if shares is None:
        shares = ops.softmax(largest, axes=(1,))
    else:
        shares = ops.gather_elements(shares, chosen, axis=1)
        if normalize_routing_weights:
            shares = shares / ops.sum(shares, (1,), keepdims=True)
    bits = expert_weight_bits
    layers = (
        Layer(_dequantize(w1, s1, z1, fc1_expert_weight_bits or bits, block_size), b1),
        Layer(_dequantize(w2, s2, z2, fc2_expert_weight_bits or bits, block_size), b2),
    )
    return _mix_experts(x, chosen, shares, layers, act)


def _dequantize(packed: Any, scales: Any, zeros: Any, bits: int, block: int) -> Any:
    """Weights [experts, out, in] of packed integers, in blocks along the last axis."""
    expect(bits in (2, 4, 8), f"weights of {bits} bits")
    experts, rows, width = tensor_type_of(packed).shape.dims
    own, size = DType(f"uint{bits}"), width * 8 // bits
    blocks = size // (block or size)
    weight = unpack(packed, own, (experts, rows, size))
    lines = (experts * rows, blocks) if block else (experts, rows)
    middle = unpack_zeros(zeros, own, *lines).numpy().reshape(experts, rows, blocks)
    wide = ops.dequantize(
        weight, ops.reshape(scales, [experts, rows, blocks]),
        Tensor.of(middle, own), axis=2, block=block or size,
    )  # fmt: skip
    return cast_to(wide, scales.dtype)


READ: dict[str, Any] = {
    "com.microsoft.MoE": read_moe,
    "com.microsoft.QMoE": read_quantized_moe,
}
