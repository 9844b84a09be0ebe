"""From ONNX: ops that onnxruntime adds, which exported and quantised models use.

Scales and zero points stay what they are, as inputs of dequantize and quantize. Weights
of 4 bits in bytes become tensors of 4 bits over the same bytes.
"""

# ruff: noqa: N803  (attributes are called as they are called there)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format.element_types import DTYPES
from amanda_onnx.mapping.nn.read_nn import gemm, padding_of
from amanda_onnx.mapping.quantization.read_quantization import dequantize, quantize
from amanda_onnx.mapping.static_values import content, expect, rank_of
from amanda_std import ops

__all__ = ["READ"]

_SINGLE = DType("float32")


# -- norms ---------------------------------------------------------------------------


def skip_norm(x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *,
              epsilon: float = 1e-12, outputs: int) -> Any:  # fmt: skip
    y, total = ops.skip_layer_norm(x, skip, gamma, beta, bias, epsilon=epsilon)
    return _with_statistics(y, total, epsilon, outputs, centred=True)


def skip_simple(x: Any, skip: Any, gamma: Any, bias: Any = None, *,
                epsilon: float = 1e-12, outputs: int) -> Any:  # fmt: skip
    y, total = ops.skip_layer_norm(
        x, skip, gamma, None, bias, epsilon=epsilon, centred=False
    )
    return _with_statistics(y, total, epsilon, outputs, centred=False)


def simple_norm(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5,
                stash_type: int = 1, outputs: int) -> Any:  # fmt: skip
    wide = _as(x, DTYPES[stash_type])
    if wide.dtype == scale.dtype:
        y = ops.rms_norm(wide, scale, axis=axis, epsilon=epsilon)
    else:
        y = _as(ops.rms_norm(wide, axis=axis, epsilon=epsilon), scale.dtype) * scale
    if outputs == 1:
        return (y,)
    axes = tuple(range(axis % rank_of(x), rank_of(x)))
    around = ops.mean(ops.square(wide), axes, keepdims=True)
    return (y, ops.rsqrt(around + epsilon))


def _with_statistics(
    y: Any, total: Any, epsilon: float, outputs: int, *, centred: bool
) -> tuple[Any, ...]:
    if outputs == 1:
        return (y,)
    single = _as(total, _SINGLE)
    mean = ops.mean(single, (-1,), keepdims=True)
    around = ops.square(single - mean if centred else single)
    spread = ops.rsqrt(ops.mean(around, (-1,), keepdims=True) + epsilon)
    return (y, mean, spread, total)[:outputs]


def embed(ids: Any, segments: Any, words: Any, places: Any, kinds: Any, gamma: Any,
          beta: Any, mask: Any = None, at: Any = None, *, epsilon: float = 1e-12,
          mask_index_type: int | None = None, outputs: int) -> Any:  # fmt: skip
    where = at if at is not None else ops.arange(0, ids.shape[1])
    total = ops.gather(words, ids, axis=0) + ops.gather(places, where, axis=0)
    if segments is not None and kinds is not None:
        total = total + ops.gather(kinds, segments, axis=0)
    y = ops.layer_norm(total, gamma, beta, epsilon=epsilon)
    if outputs == 1:
        return (y,)
    expect(mask_index_type != 1, "a mask that is passed on in another form")
    counted = ops.zeros_like(ids) if mask is None else mask
    lengths = ops.sum(_as(counted, DType("int32")), (1,))
    return (y, _as(lengths, DType("int32")), total)[:outputs]


# -- activations and products --------------------------------------------------------


def bias_split_gelu(x: Any, bias: Any) -> Any:
    size = x.type.shape.dims[-1]
    expect(isinstance(size, int), "halves of an unknown width")
    left, right = ops.split(x + bias, [int(size) // 2] * 2, axis=-1, outputs=2)
    return left * ops.gelu(right)


def bias_softmax(x: Any, bias: Any, *, axis: int = 1, is_inner_broadcast: int) -> Any:
    rank = rank_of(x)
    axis %= rank
    expect(
        not is_inner_broadcast or rank_of(bias) == rank,
        "a bias whose places are repeated by batch",
    )
    return ops.softmax(x + bias, axes=tuple(range(axis, rank)))


def fused_matmul(a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0,
                 transB: int = 0, transBatchA: int = 0,
                 transBatchB: int = 0) -> Any:  # fmt: skip
    expect(not transBatchA and not transBatchB, "batches that are turned, too")
    y = ops.matmul(_turned(a, transA), _turned(b, transB))
    return y if alpha == 1 else y * alpha


def _turned(x: Any, turn: int) -> Any:
    return ops.swap_last(x) if turn and rank_of(x) > 1 else x


_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Relu": ops.relu,
    "Sigmoid": ops.sigmoid,
    "Tanh": ops.tanh,
    "LeakyRelu": lambda x, a=0.01: ops.leaky_relu(x, slope=a),
}


def _activated(y: Any, name: str | None, *given: Any) -> Any:
    if not name:
        return y
    expect(name in _ACTIVATIONS, f"there is no activation {name} here")
    return _ACTIVATIONS[name](y, *[v for v in given if v is not None])


def fused_gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
               transA: int = 0, transB: int = 0, activation: str | None = None,
               activation_alpha: float | None = None) -> Any:  # fmt: skip
    y = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    slope = activation_alpha if activation == "LeakyRelu" else None
    return _activated(y, activation, slope)


def fused_conv(
    x: Any, w: Any, b: Any = None, z: Any = None, *, activation: str | None = None,
    activation_params: Any = None, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    del kernel_shape  # which the kernel says
    y = ops.conv(
        x, w, b, padding=padding_of(auto_pad, pads), strides=strides,
        dilations=dilations, groups=group,
    )  # fmt: skip
    y = y if z is None else y + z
    return _activated(y, activation, *(activation_params or ())[:1])


# -- few bits ------------------------------------------------------------------------


def matmul_bits(
    a: Any, b: Any, scales: Any, zeros: Any = None, order: Any = None,
    bias: Any = None, *, K: int, N: int, accuracy_level: int = 0,
    bits: int = 4, block_size: int, weight_prepacked: int = 0,
) -> Any:  # fmt: skip
    """A product with a weight of few bits, in blocks along what is summed over."""
    del accuracy_level  # how exact the product has to be at least
    expect(order is None and not weight_prepacked, "weights in another order")
    expect(bits in (2, 4, 8), f"weights of {bits} bits")
    blocks = -(-K // block_size)
    own = DType(f"uint{bits}")
    weight = _unpacked(b, own, (N, blocks * block_size))
    return ops.quantized_linear(
        a, weight, _in_rows(scales, N, blocks), _zeros(zeros, own, N, blocks),
        bias, block=block_size,
    )  # fmt: skip


def _in_rows(scales: Any, rows: int, blocks: int) -> Any:
    tensor = constant_of(scales.port)
    if tensor is None:
        return ops.reshape(scales, [rows, blocks])
    return Tensor.of(tensor.numpy().reshape(rows, blocks), tensor.dtype)


def _zeros(zeros: Any, own: DType, rows: int, blocks: int) -> Any:
    middle = 1 << (own.bits - 1)
    if zeros is None:
        return Tensor.splat(own, (rows, blocks), middle)
    expect(str(zeros.dtype) == "uint8", "zero points that are no whole numbers")
    each = 8 // own.bits
    padded = -(-blocks // each) * each
    whole = _unpacked(zeros, own, (rows, padded))
    return whole if padded == blocks else _cut(whole, blocks)


def _cut(whole: Tensor, blocks: int) -> Tensor:
    return Tensor.of(np.ascontiguousarray(whole.numpy()[:, :blocks]), whole.dtype)


def _unpacked(value: Any, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """Bytes that hold several numbers each, as a tensor over the same bytes."""
    tensor = constant_of(value.port)
    if tensor is None:
        raise Decline("bytes of weights that are no constant")
    raw = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    return Tensor.from_buffer(raw, dtype, shape)


def gather_blocks(
    data: Any, indices: Any, scales: Any, zeros: Any = None, *, bits: int = 4,
    block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1,
) -> Any:  # fmt: skip
    """Rows of a table of few bits, with their scales. In bytes the middle is 0."""
    rank = rank_of(data)
    told = (gather_axis % rank, quantize_axis % rank)
    expect(rank == 2 and told == (0, 1), "blocks along another axis than the last")
    own = data.dtype
    if str(own) == "uint8" and bits < 8:
        own = DType(f"uint{bits}")
        rows, width = data.type.shape.dims
        data = _unpacked(data, own, (rows, width * 8 // bits))
        blocks = -(-int(data.shape[1]) // block_size)
        zeros = _zeros(zeros, own, rows, blocks)
    else:
        expect(str(own) != "uint8", "whole bytes in blocks")
    whole = DType("int8" if str(own.kind) == "int" else "uint8")
    rows = ops.gather(_bytes(data, whole), indices, axis=0)
    steps = ops.gather(_as(scales, _SINGLE), indices, axis=0)
    middle = None
    if zeros is not None:
        middle = ops.gather(_bytes(zeros, whole), indices, axis=0)
    wide = ops.dequantize(rows, steps, middle, axis=rank_of(indices), block=block_size)
    return _as(wide, scales.dtype)


def _bytes(few: Any, whole: DType) -> Any:
    """ONNX gathers no numbers of few bits: a byte for each, made when it is asked."""
    if not isinstance(few, Tensor):
        return _as(few, whole)
    return Tensor.lazy(lambda: few.numpy().astype(whole.numpy), whole, few.shape)


def integer_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None,
    b_zero: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    scale = a_scale * b_scale
    y = ops.astype(ops.matmul_integer(a, b, _one(a_zero), _one(b_zero)),
                   dtype=scale.dtype) * scale  # fmt: skip
    return y if bias is None else y + bias


def dynamic_matmul(
    a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    few, scale, zero = ops.dynamic_quantize(a)
    return integer_to_float(few, b, scale, b_scale, zero, b_zero, bias)


def _one(value: Any) -> Any:
    if value is not None and value.type.shape.dims == (1,):
        return ops.reshape(value, [])
    return value


def _as(value: Any, dtype: Any) -> Any:
    return value if value is None or value.dtype == dtype else ops.astype(
        value, dtype=dtype
    )  # fmt: skip


def _between(function: Callable[..., Any]) -> Callable[..., Any]:
    """An op on numbers of 8 bits: what their values give, as such numbers again."""

    def apply(
        x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, **more: Any
    ) -> Any:
        y = function(dequantize(x, x_scale, x_zero), **more)
        return quantize(y, scale, _zero(zero, x))

    return apply


def _zero(zero: Any, x: Any) -> Any:
    return Tensor.splat(x.dtype, (), 0) if zero is None else zero


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
        scale: Any, zero: Any = None,
    ) -> Any:  # fmt: skip
        one, other = dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero)
        return quantize(function(one, other), scale, _zero(zero, a))

    return apply


def quantized_sigmoid(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    return _between(ops.sigmoid)(x, x_scale, x_zero, scale, zero)


def quantized_leaky(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
                    alpha: float = 0.01) -> Any:  # fmt: skip
    return _between(ops.leaky_relu)(x, x_scale, x_zero, scale, zero, slope=alpha)


def quantized_pool(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, channels_last: int = 0,
    count_include_pad: int = 0, kernel_shape: Any, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    how: dict[str, Any] = {"layout": "N*C"} if channels_last else {}
    return _between(ops.avg_pool)(
        x, x_scale, x_zero, scale, zero, window=kernel_shape, strides=strides,
        padding=padding_of(auto_pad, pads), ceil=bool(ceil_mode),
        count_pads=bool(count_include_pad), **how,
    )  # fmt: skip


def quantized_global(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, *,
                     channels_last: int = 0) -> Any:  # fmt: skip
    rank = rank_of(x)
    axes = tuple(range(1, rank - 1) if channels_last else range(2, rank))
    found = ops.mean(dequantize(x, x_scale, x_zero), axes, keepdims=True)
    return quantize(found, scale, zero)


def quantized_concat(scale: Any, zero: Any, *inputs: Any, axis: int) -> Any:
    rows = [inputs[i : i + 3] for i in range(0, len(inputs), 3)]
    wide = [dequantize(*row) for row in rows]
    return quantize(ops.concat(*wide, axis=axis), scale, zero)


def quantized_softmax(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, *,
                      axis: int = -1, opset: int) -> Any:  # fmt: skip
    axis %= rank_of(x)
    axes = (axis,) if opset >= 13 else tuple(range(axis, rank_of(x)))
    y = ops.softmax(dequantize(x, x_scale, x_zero), axes=axes)
    return quantize(y, scale, zero)


def quantized_gemm(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    c: Any = None, scale: Any = None, zero: Any = None, *, alpha: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    expect(rank_of(b_scale) == 0 or not transB, "a scale for each place, turned")
    product = ops.matmul_integer(
        _turned(a, transA), _turned(b, transB), _one(a_zero), _one(b_zero)
    )
    if c is not None:
        product = product + c
    factor = a_scale * b_scale
    factor = factor if alpha == 1 else factor * alpha
    y = ops.astype(product, dtype=_SINGLE) * factor
    return y if scale is None else quantize(y, scale, zero)


def expand_dims(x: Any, axis: Any) -> Any:
    told = content(axis)
    expect(told is not None, "an axis that is computed")
    return ops.expand_dims(x, tuple(np.reshape(told, -1).tolist()))


def plain_quantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    return quantize(x, scale, zero, axis=axis)


def plain_dequantize(x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    return dequantize(x, scale, zero, axis=axis)


_HOUSE = "com.microsoft."
READ: dict[str, Any] = {
    f"{_HOUSE}{name}": function
    for name, function in {
        "BiasSoftmax": bias_softmax,
        "BiasSplitGelu": bias_split_gelu,
        "DequantizeLinear": plain_dequantize,
        "DynamicQuantizeMatMul": dynamic_matmul,
        "EmbedLayerNormalization": embed,
        "ExpandDims": expand_dims,
        "FusedConv": fused_conv,
        "FusedGemm": fused_gemm,
        "FusedMatMul": fused_matmul,
        "GatherBlockQuantized": gather_blocks,
        "MatMulIntegerToFloat": integer_to_float,
        "MatMulNBits": matmul_bits,
        "QGemm": quantized_gemm,
        "QLinearAdd": _binary(ops.add),
        "QLinearAveragePool": quantized_pool,
        "QLinearConcat": quantized_concat,
        "QLinearGlobalAveragePool": quantized_global,
        "QLinearLeakyRelu": quantized_leaky,
        "QLinearMul": _binary(ops.multiply),
        "QLinearSigmoid": quantized_sigmoid,
        "QLinearSoftmax": quantized_softmax,
        "QuantizeLinear": plain_quantize,
        "SkipLayerNormalization": skip_norm,
        "SkipSimplifiedLayerNormalization": skip_simple,
        "TransposeMatMul": fused_matmul,
    }.items()
} | {"SimplifiedLayerNormalization": simple_norm}
