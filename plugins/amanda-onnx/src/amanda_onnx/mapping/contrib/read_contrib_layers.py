"""From ONNX: fused layers of com.microsoft: normalization, activations, products."""

# ruff: noqa: N803  (the names of attributes)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.format.element_types import DTYPES
from amanda_onnx.mapping.nn.read_conv import padding_of, read_gemm
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, known_content, rank_of, tensor_type_of

__all__ = ["READ", "transpose_matrix"]

_FLOAT32, _INT32 = DType("float32"), DType("int32")


# -- normalization -----------------------------------------------------------------


def read_skip_layer_norm(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *,
    epsilon: float = 1e-12, outputs: int,
) -> Any:  # fmt: skip
    y, total = ops.skip_layer_norm(x, skip, gamma, beta, bias, epsilon=epsilon)
    return _with_statistics(y, total, epsilon, outputs, centred=True)


def read_skip_rms_norm(
    x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12,
    outputs: int,
) -> Any:  # fmt: skip
    y, total = ops.skip_layer_norm(
        x, skip, gamma, None, bias, epsilon=epsilon, centred=False
    )
    return _with_statistics(y, total, epsilon, outputs, centred=False)


def read_rms_norm(
    x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    outputs: int,
) -> Any:  # fmt: skip
    wide = cast_to(x, DTYPES[stash_type])
    if wide.dtype == scale.dtype:
        y = ops.rms_norm(wide, scale, axis=axis, epsilon=epsilon)
    else:
        normed = ops.rms_norm(wide, axis=axis, epsilon=epsilon)
        y = cast_to(normed, scale.dtype) * scale
    if outputs == 1:
        return (y,)
    axes = tuple(range(axis % rank_of(x), rank_of(x)))
    mean_square = ops.mean(ops.square(wide), axes, keepdims=True)
    return (y, ops.rsqrt(mean_square + epsilon))


def _with_statistics(
    y: Any, total: Any, epsilon: float, outputs: int, *, centred: bool
) -> tuple[Any, ...]:
    """Also the mean, the inverse standard deviation, and the sum of the inputs."""
    if outputs == 1:
        return (y,)
    x = cast_to(total, _FLOAT32)
    mean = ops.mean(x, (-1,), keepdims=True)
    squares = ops.square(x - mean if centred else x)
    inverse = ops.rsqrt(ops.mean(squares, (-1,), keepdims=True) + epsilon)
    return (y, mean, inverse, total)[:outputs]


def read_embed_layer_norm(
    ids: Any, segment_ids: Any, words: Any, positions: Any, segments: Any, gamma: Any,
    beta: Any, mask: Any = None, position_ids: Any = None, *, epsilon: float = 1e-12,
    mask_index_type: int | None = None, outputs: int,
) -> Any:  # fmt: skip
    at = position_ids if position_ids is not None else ops.arange(0, ids.shape[1])
    total = ops.gather(words, ids, axis=0) + ops.gather(positions, at, axis=0)
    if segment_ids is not None and segments is not None:
        total = total + ops.gather(segments, segment_ids, axis=0)
    y = ops.layer_norm(total, gamma, beta, epsilon=epsilon)
    if outputs == 1:
        return (y,)
    expect(mask_index_type != 1, "unsupported mask_index_type 1")
    ones = ops.zeros_like(ids) if mask is None else mask
    lengths = ops.sum(cast_to(ones, _INT32), (1,))
    return (y, cast_to(lengths, _INT32), total)[:outputs]


# -- activations and products ------------------------------------------------------


def read_bias_split_gelu(x: Any, bias: Any) -> Any:
    size = tensor_type_of(x).shape.dims[-1]
    expect(isinstance(size, int), "the last dim is dynamic")
    left, right = ops.split(x + bias, [int(size) // 2] * 2, axis=-1, outputs=2)
    return left * ops.gelu(right)


def read_bias_softmax(
    x: Any, bias: Any, *, axis: int = 1, is_inner_broadcast: int
) -> Any:
    rank = rank_of(x)
    axis %= rank
    expect(
        not is_inner_broadcast or rank_of(bias) == rank,
        "is_inner_broadcast=1 with a bias of lower rank",
    )
    return ops.softmax(x + bias, axes=tuple(range(axis, rank)))


def read_fused_matmul(
    a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
    transBatchA: int = 0, transBatchB: int = 0,
) -> Any:  # fmt: skip
    expect(not transBatchA and not transBatchB, "transposed batch axes")
    y = ops.matmul(transpose_matrix(a, transA), transpose_matrix(b, transB))
    return y if alpha == 1 else y * alpha


def transpose_matrix(x: Any, flag: int) -> Any:
    """The last two axes swapped, where the flag is set and x is no vector."""
    return ops.swap_last(x) if flag and rank_of(x) > 1 else x


_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Relu": ops.relu,
    "Sigmoid": ops.sigmoid,
    "Tanh": ops.tanh,
    "LeakyRelu": lambda x, a=0.01: ops.leaky_relu(x, slope=a),
}


def _activate(y: Any, name: str | None, *parameters: Any) -> Any:
    if not name:
        return y
    expect(name in _ACTIVATIONS, f"unsupported fused activation {name}")
    return _ACTIVATIONS[name](y, *[v for v in parameters if v is not None])


def read_fused_gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0, activation: str | None = None,
    activation_alpha: float | None = None,
) -> Any:  # fmt: skip
    y = read_gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    slope = activation_alpha if activation == "LeakyRelu" else None
    return _activate(y, activation, slope)


def read_fused_conv(
    x: Any, w: Any, b: Any = None, z: Any = None, *, activation: str | None = None,
    activation_params: Any = None, auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    del kernel_shape  # the shape of w
    y = ops.conv(
        x, w, b, padding=padding_of(auto_pad, pads), strides=strides,
        dilations=dilations, groups=group,
    )  # fmt: skip
    y = y if z is None else y + z
    return _activate(y, activation, *(activation_params or ())[:1])


def read_expand_dims(x: Any, axis: Any) -> Any:
    known = known_content(axis)
    expect(known is not None, "a computed axis")
    return ops.expand_dims(x, tuple(np.reshape(known, -1).tolist()))


READ: dict[str, Any] = {
    "SimplifiedLayerNormalization": read_rms_norm,
    "com.microsoft.BiasSoftmax": read_bias_softmax,
    "com.microsoft.BiasSplitGelu": read_bias_split_gelu,
    "com.microsoft.EmbedLayerNormalization": read_embed_layer_norm,
    "com.microsoft.ExpandDims": read_expand_dims,
    "com.microsoft.FusedConv": read_fused_conv,
    "com.microsoft.FusedGemm": read_fused_gemm,
    "com.microsoft.FusedMatMul": read_fused_matmul,
    "com.microsoft.SkipLayerNormalization": read_skip_layer_norm,
    "com.microsoft.SkipSimplifiedLayerNormalization": read_skip_rms_norm,
    "com.microsoft.TransposeMatMul": read_fused_matmul,
}
