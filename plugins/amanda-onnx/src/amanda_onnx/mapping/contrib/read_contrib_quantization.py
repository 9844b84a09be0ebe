"""From ONNX: quantized ops of com.microsoft.

Scales and zero points stay inputs of dequantize and quantize. Weights of 2 or 4 bits,
packed in bytes, become tensors of that dtype over the same bytes.
"""

# ruff: noqa: N803  (the names of attributes)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.mapping.contrib.read_contrib_layers import (
    read_embed_layer_norm,
    transpose_matrix,
)
from amanda_onnx.mapping.nn.read_conv import padding_of
from amanda_onnx.mapping.quantization.read_quantization import (
    read_dequantize,
    read_quantize,
    read_quantized_conv,
)
from amanda_onnx.mapping.recurrent.gates import LSTM_GATES, PEEPHOLES
from amanda_onnx.mapping.recurrent.read_recurrent import (
    activation_attributes,
    reorder_gates,
)
from amanda_onnx.mapping.static_values import scalar_of_one
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of, tensor_type_of

__all__ = [
    "READ",
    "read_matmul_integer_to_float",
    "unpack",
    "unpack_zeros",
]

_FLOAT32 = DType("float32")
FP4 = [
    sign * level
    for sign in (1, -1)
    for level in (0, 0.0625 / 12, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
]
"""The floats of the codes of FP4 in bitsandbytes."""
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
    0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip
"""The floats of the codes of NF4: quantiles of the normal distribution."""


# -- weights packed in bytes -------------------------------------------------------


def read_matmul_nbits(
    a: Any, b: Any, scales: Any, zeros: Any = None, order: Any = None,
    bias: Any = None, *, K: int, N: int, accuracy_level: int = 0,
    bits: int = 4, block_size: int, weight_prepacked: int = 0,
) -> Any:  # fmt: skip
    """A product with a quantized weight [N, K], in blocks along K."""
    del accuracy_level  # a lower bound: std is exact
    expect(order is None and not weight_prepacked, "reordered or prepacked weights")
    expect(bits in (2, 4, 8), f"weights of {bits} bits")
    blocks = -(-K // block_size)
    own = DType(f"uint{bits}")
    weight = unpack(b, own, (N, blocks * block_size))
    return ops.quantized_linear(
        a, weight, _reshape_scales(scales, N, blocks),
        unpack_zeros(zeros, own, N, blocks), bias, block=block_size,
    )  # fmt: skip


def _reshape_scales(scales: Any, rows: int, blocks: int) -> Any:
    tensor = constant_of(scales.port)
    if tensor is None:
        return ops.reshape(scales, [rows, blocks])
    return Tensor.of(tensor.numpy().reshape(rows, blocks), tensor.dtype)


def unpack_zeros(zeros: Any, own: DType, rows: int, blocks: int) -> Any:
    """Zero points, each row padded to whole bytes; by default the middle value."""
    middle = 1 << (own.bits - 1)
    if zeros is None:
        return Tensor.splat(own, (rows, blocks), middle)
    expect(str(zeros.dtype) == "uint8", "zero points that are not integers")
    per_byte = 8 // own.bits
    padded = -(-blocks // per_byte) * per_byte
    tensor = unpack(zeros, own, (rows, padded))
    if padded == blocks:
        return tensor
    return Tensor.of(np.ascontiguousarray(tensor.numpy()[:, :blocks]), own)


def unpack(value: Any, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """Bytes that hold several elements each, as a tensor over the same bytes."""
    tensor = constant_of(value.port)
    if tensor is None:
        raise Decline("packed weights that are not constant")
    raw = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    return Tensor.from_buffer(raw, dtype, shape)


def read_matmul_bnb4(
    a: Any, b: Any, absmax: Any, *, K: int, N: int, block_size: int, quant_type: int,
    training_mode: int = 0, transB: int = 1,
) -> Any:  # fmt: skip
    """A product with a weight [N, K] of the 4-bit codes of bitsandbytes."""
    expect(transB == 1, "weights that are not transposed")
    expect(training_mode in (0, 1) and quant_type in (0, 1), "FP4 or NF4")
    expect(N * K % block_size == 0, "blocks that are not whole")
    blocks = N * K // block_size
    pairs = ops.stack(ops.bitwise_right_shift(b, 4), ops.bitwise_and(b, 15), axis=-1)
    codes = cast_to(ops.reshape(pairs, [blocks, block_size]), DType("int32"))
    levels = Tensor.of(np.array(NF4 if quant_type else FP4, "float32"))
    parts = ops.gather(levels, codes, axis=0)
    steps = ops.reshape(cast_to(absmax, _FLOAT32), [blocks, 1])
    weight = ops.reshape(parts * steps, [N, K])
    return ops.matmul(a, transpose_matrix(cast_to(weight, a.dtype), flag=1))


def read_gather_block_quantized(
    data: Any, indices: Any, scales: Any, zeros: Any = None, *, bits: int = 4,
    block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1,
) -> Any:  # fmt: skip
    """Rows of a table that is quantized in blocks."""
    rank = rank_of(data)
    axes = (gather_axis % rank, quantize_axis % rank)
    expect(rank == 2 and axes == (0, 1), "blocks along another axis than the last")
    own = data.dtype
    if str(own) == "uint8" and bits < 8:
        own = DType(f"uint{bits}")
        rows, width = tensor_type_of(data).shape.dims
        data = unpack(data, own, (rows, width * 8 // bits))
        blocks = -(-int(data.shape[1]) // block_size)
        zeros = unpack_zeros(zeros, own, rows, blocks)
    else:
        expect(str(own) != "uint8", "blocks of uint8")
    whole = DType("int8" if str(own.kind) == "int" else "uint8")
    rows = ops.gather(_to_bytes(data, whole), indices, axis=0)
    steps = ops.gather(cast_to(scales, _FLOAT32), indices, axis=0)
    middle = None
    if zeros is not None:
        middle = ops.gather(_to_bytes(zeros, whole), indices, axis=0)
    wide = ops.dequantize(rows, steps, middle, axis=rank_of(indices), block=block_size)
    return cast_to(wide, scales.dtype)


def _to_bytes(value: Any, whole: DType) -> Any:
    """One byte for each element, since ONNX gathers no smaller dtypes."""
    if not isinstance(value, Tensor):
        return cast_to(value, whole)
    return Tensor.lazy(lambda: value.numpy().astype(whole.numpy), whole, value.shape)


# -- products of 8-bit integers ----------------------------------------------------


def read_matmul_integer_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None,
    b_zero: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    scale = a_scale * b_scale
    zeros = (scalar_of_one(a_zero), scalar_of_one(b_zero))
    y = ops.astype(ops.matmul_integer(a, b, *zeros), dtype=scale.dtype) * scale
    return y if bias is None else y + bias


def read_dynamic_quantize_matmul(
    a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    q, scale, zero = ops.dynamic_quantize(a)
    return read_matmul_integer_to_float(q, b, scale, b_scale, zero, b_zero, bias)


def read_quantized_gemm(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    c: Any = None, scale: Any = None, zero: Any = None, *, alpha: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    expect(rank_of(b_scale) == 0 or not transB, "scales per axis of a transposed b")
    product = ops.matmul_integer(
        transpose_matrix(a, transA), transpose_matrix(b, transB),
        scalar_of_one(a_zero), scalar_of_one(b_zero),
    )  # fmt: skip
    if c is not None:
        product = product + c
    factor = a_scale * b_scale
    factor = factor if alpha == 1 else factor * alpha
    y = ops.astype(product, dtype=_FLOAT32) * factor
    return y if scale is None else read_quantize(y, scale, zero)


# -- dequantize, an op, quantize ---------------------------------------------------


def _zero_or_default(zero: Any, x: Any) -> Any:
    return Tensor.splat(x.dtype, (), 0) if zero is None else zero


def _apply_quantized(
    function: Callable[..., Any], x: Any, x_scale: Any, x_zero: Any, scale: Any,
    zero: Any, **attrs: Any,
) -> Any:  # fmt: skip
    y = function(read_dequantize(x, x_scale, x_zero), **attrs)
    return read_quantize(y, scale, _zero_or_default(zero, x))


def _quantized_binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def read(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
        scale: Any, zero: Any = None,
    ) -> Any:  # fmt: skip
        x = read_dequantize(a, a_scale, a_zero)
        y = function(x, read_dequantize(b, b_scale, b_zero))
        return read_quantize(y, scale, _zero_or_default(zero, a))

    return read


def read_quantized_sigmoid(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    return _apply_quantized(ops.sigmoid, x, x_scale, x_zero, scale, zero)


def read_quantized_leaky_relu(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    alpha: float = 0.01,
) -> Any:  # fmt: skip
    return _apply_quantized(
        ops.leaky_relu, x, x_scale, x_zero, scale, zero, slope=alpha
    )


def read_quantized_average_pool(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, *,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, channels_last: int = 0,
    count_include_pad: int = 0, kernel_shape: Any, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    more: dict[str, Any] = {"layout": "N*C"} if channels_last else {}
    return _apply_quantized(
        ops.avg_pool, x, x_scale, x_zero, scale, zero, window=kernel_shape,
        strides=strides, padding=padding_of(auto_pad, pads), ceil=bool(ceil_mode),
        count_pads=bool(count_include_pad), **more,
    )  # fmt: skip


def read_quantized_global_average_pool(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, *, channels_last: int = 0
) -> Any:
    rank = rank_of(x)
    axes = tuple(range(1, rank - 1) if channels_last else range(2, rank))
    y = ops.mean(read_dequantize(x, x_scale, x_zero), axes, keepdims=True)
    return read_quantize(y, scale, zero)


def read_quantized_concat(scale: Any, zero: Any, *inputs: Any, axis: int) -> Any:
    triples = [inputs[i : i + 3] for i in range(0, len(inputs), 3)]
    floats = [read_dequantize(*triple) for triple in triples]
    return read_quantize(ops.concat(*floats, axis=axis), scale, zero)


def read_quantized_softmax(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, *, axis: int = -1,
    opset: int,
) -> Any:  # fmt: skip
    axis %= rank_of(x)
    axes = (axis,) if opset >= 13 else tuple(range(axis, rank_of(x)))
    y = ops.softmax(read_dequantize(x, x_scale, x_zero), axes=axes)
    return read_quantize(y, scale, zero)


def read_quantize_linear(x: Any, scale: Any, zero: Any = None, *, axis: int = 1) -> Any:
    return read_quantize(x, scale, zero, axis=axis)


def read_dequantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1
) -> Any:
    return read_dequantize(x, scale, zero, axis=axis)


# -- layers of 8-bit weights ----------------------------------------------------------


def read_dynamic_quantize_lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None,
    c0: Any = None, p: Any = None, w_scale: Any = None, w_zero: Any = None,
    r_scale: Any = None, r_zero: Any = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0,  # noqa: ARG001
    input_forget: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Weights are [directions, in, 4 * hidden], unlike those of LSTM."""
    attrs = activation_attributes(
        3, activations, activation_alpha, activation_beta, direction, clip
    )
    bias = None
    if b is not None:
        halves = ops.split(b, None, axis=1, outputs=2)
        bias = reorder_gates(halves[0] + halves[1], LSTM_GATES)
    scales_and_zeros = [
        v if v is None or rank_of(v) == 1 else reorder_gates(v, LSTM_GATES)
        for v in (w_scale, r_scale, w_zero, r_zero)
    ]
    return ops.dynamic_quantized_lstm(
        x, reorder_gates(w, LSTM_GATES, axis=2), reorder_gates(r, LSTM_GATES, axis=2),
        *scales_and_zeros, bias, lengths, h0, c0, reorder_gates(p, PEEPHOLES),
        input_forget=bool(input_forget), **attrs,
    )[:outputs]  # fmt: skip


def read_quantized_conv_of_layout(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, scale: Any,
    zero: Any, b: Any = None, *, channels_last: int = 0, **attrs: Any,
) -> Any:  # fmt: skip
    """With `channels_last`, data is N*C; weights are OI* in any case."""
    args = (w, w_scale, w_zero, scale, zero, b)
    if not channels_last:
        return read_quantized_conv(x, x_scale, x_zero, *args, **attrs)
    rank = rank_of(x)
    first = ops.transpose(x, perm=(0, rank - 1, *range(1, rank - 1)))
    y = read_quantized_conv(first, x_scale, x_zero, *args, **attrs)
    return ops.transpose(y, perm=(0, *range(2, rank), 1))


def read_nhwc_max_pool(
    x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    return ops.max_pool(
        x, window=kernel_shape, layout="N*C", strides=strides, dilations=dilations,
        padding=padding_of(auto_pad, pads), ceil=bool(ceil_mode),
    )  # fmt: skip


def read_quantized_embed_layer_norm(
    ids: Any, segments: Any, words: Any, positions: Any, segment_table: Any, gamma: Any,
    beta: Any, mask: Any, *scales_and_zeros: Any, epsilon: float = 1e-12, outputs: int,
) -> Any:  # fmt: skip
    """Tables, weight and bias are dequantized first."""
    tables = (words, positions, segment_table, gamma, beta)
    scales, zeros = scales_and_zeros[:5], scales_and_zeros[5:]
    wide = [
        None if table is None else read_dequantize(table, scale, zero)
        for table, scale, zero in zip(tables, scales, zeros, strict=True)
    ]
    word_table, position_table, segment_rows, weight, bias = wide
    return read_embed_layer_norm(
        ids, segments, word_table, position_table, segment_rows, weight, bias, mask,
        epsilon=epsilon, outputs=outputs,
    )  # fmt: skip


def read_matmul_of_int16(a: Any, b: Any) -> Any:
    return ops.matmul_integer(a, b)


READ: dict[str, Any] = {
    "com.microsoft.DynamicQuantizeLSTM": read_dynamic_quantize_lstm,
    "com.microsoft.MatMulInteger16": read_matmul_of_int16,
    "com.microsoft.NhwcMaxPool": read_nhwc_max_pool,
    "com.microsoft.QEmbedLayerNormalization": read_quantized_embed_layer_norm,
    "com.microsoft.QLinearConv": read_quantized_conv_of_layout,
    "com.microsoft.DequantizeLinear": read_dequantize_linear,
    "com.microsoft.DynamicQuantizeMatMul": read_dynamic_quantize_matmul,
    "com.microsoft.GatherBlockQuantized": read_gather_block_quantized,
    "com.microsoft.MatMulIntegerToFloat": read_matmul_integer_to_float,
    "com.microsoft.MatMulBnb4": read_matmul_bnb4,
    "com.microsoft.MatMulNBits": read_matmul_nbits,
    "com.microsoft.QGemm": read_quantized_gemm,
    "com.microsoft.QLinearAdd": _quantized_binary(ops.add),
    "com.microsoft.QLinearAveragePool": read_quantized_average_pool,
    "com.microsoft.QLinearConcat": read_quantized_concat,
    "com.microsoft.QLinearGlobalAveragePool": read_quantized_global_average_pool,
    "com.microsoft.QLinearLeakyRelu": read_quantized_leaky_relu,
    "com.microsoft.QLinearMul": _quantized_binary(ops.multiply),
    "com.microsoft.QLinearSigmoid": read_quantized_sigmoid,
    "com.microsoft.QLinearSoftmax": read_quantized_softmax,
    "com.microsoft.QuantizeLinear": read_quantize_linear,
}
