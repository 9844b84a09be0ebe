"""From nd4j: convolutions, pooling, normalization, products, losses."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda_nd4j.std.arguments import (
    axis_of,
    flag_of,
    numbers_of,
    padding_of,
    spatial_layout,
)
from amanda_std import ops
from amanda_std.dataflow import normalize_batch
from amanda_std.mappings import cast_to, expect, known_content, rank_of

__all__ = ["READ"]

_KERNELS: Final = {0: "*IO", 1: "OI*", 2: "O*I"}
"""The layouts of weights, by `wFormat`."""


def _numbers(attrs: dict[str, Any], letters: str, axes: str, default: int) -> list[int]:
    """The numbers `sH, sW` of an op, by the letters of what they are and of axes."""
    return [int(attrs.get(f"{letters}{a}") or default) for a in axes]


class _Window:
    """Kernel sizes, strides, padding and dilations of an op, which has each by axis."""

    def __init__(self, attrs: dict[str, Any], axes: str) -> None:
        last = attrs.get("isNCHW", attrs.get("isNCDHW"))
        self.layout = spatial_layout(last)
        self.sizes = [int(attrs.get(f"k{a}") or -1) for a in axes]
        self.strides = tuple(_numbers(attrs, "s", axes, 1))
        self.dilations = tuple(_numbers(attrs, "d", axes, 1))
        self.is_same = attrs.get("isSameMode", attrs.get("paddingMode"))
        self.padding = padding_of(self.is_same, _numbers(attrs, "p", axes, 0))


def _add_bias(y: Any, bias: Any, layout: str) -> Any:
    if bias is None:
        return y
    bias = ops.reshape(bias, [-1])
    if layout == "NC*" and rank_of(y) > 2:
        bias = ops.reshape(bias, [-1, *(1,) * (rank_of(y) - 2)])
    return y + bias


def _conv(axes: str) -> Callable[..., Any]:
    def read(
        x: Any, w: Any, bias: Any = None, *, wFormat: Any = 0, **attrs: Any
    ) -> Any:
        """Groups follow from the channels of the kernel."""
        window = _Window(attrs, axes)
        kernel = _KERNELS[int(wFormat or 0)]
        channels = x.shape[1 if window.layout == "NC*" else -1]
        inner = w.shape[{"*IO": -2, "OI*": 1, "O*I": -1}[kernel]]
        groups = 1
        if isinstance(channels, int) and isinstance(inner, int) and inner:
            groups = max(channels // inner, 1)
        y = ops.conv(
            x, w, layout=window.layout, kernel_layout=kernel, strides=window.strides,
            dilations=window.dilations, padding=window.padding, groups=groups,
        )  # fmt: skip
        return _add_bias(y, bias, window.layout)

    return read


def read_depthwise_conv(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    wFormat: Any = 0,
    **attrs: Any,
) -> Any:
    """A kernel [rows, columns, channels, multiplier]: a group for each channel."""
    expect(not wFormat, "weights in the format [rows, columns, channels, multiplier]")
    window = _Window(attrs, "HW")
    rows, columns, channels, times = w.shape
    kernel = ops.reshape(w, [rows, columns, 1, channels * times])
    y = ops.conv(
        x, kernel, layout=window.layout, kernel_layout="*IO", strides=window.strides,
        dilations=window.dilations, padding=window.padding, groups=int(channels),
    )  # fmt: skip
    return _add_bias(y, bias, window.layout)


def read_deconv_of_shape(
    sizes: Any,
    w: Any,
    y: Any,
    *,
    wFormat: Any = 0,
    dtype: Any = None,
    **attrs: Any,
) -> Any:
    """The transposed convolution whose result has a given shape."""
    del dtype
    expect(not wFormat, "weights in the format [rows, columns, out, in]")
    window = _Window(attrs, "HW")
    kernel = [int(k) for k in w.shape[:2]]
    found = known_content(sizes)
    wanted = _spatial(sizes.type.elements if found is None else found, window.layout)
    small = _spatial(y.shape, window.layout)
    rows = zip(small, window.strides, kernel, window.dilations, strict=True)
    if len(wanted) != 2:
        wanted = [_usual_size(*row, bool(window.is_same)) for row in rows]
    pads, extra = [], []
    axes = zip(wanted, small, window.strides, kernel, window.dilations, strict=True)
    for n, m, s, k, d in axes:
        low, high = _padding(n, s, k, d, is_same=bool(window.is_same))
        m = (n + low + high - (k - 1) * d - 1) // s + 1 if isinstance(n, int) else m
        rest = n - ((m - 1) * s + (k - 1) * d + 1 - low - high)
        expect(isinstance(rest, int), "the size of the result is unknown")
        pads.append((low, high))
        extra.append(int(rest))
    return ops.conv_transpose(
        y, w, layout=window.layout, kernel_layout="*OI", strides=window.strides,
        dilations=window.dilations, padding=tuple(pads),
        output_padding=tuple(extra) if any(extra) else None,
    )  # fmt: skip


def _spatial(dims: Any, layout: str) -> list[Any]:
    if dims is None:
        return []
    return list(dims[2:] if layout == "NC*" else dims[1:-1])


def _usual_size(small: Any, stride: int, size: int, dilation: int, same: bool) -> Any:
    """The size of a result whose shape is computed at run time."""
    if same:
        return small * stride
    return (small - 1) * stride + max((size - 1) * dilation + 1, stride)


def _padding(
    n: Any, stride: int, size: int, dilation: int, *, is_same: bool
) -> tuple[int, int]:
    if not is_same:
        return 0, 0
    total = (-(-n // stride) - 1) * stride + (size - 1) * dilation + 1 - n
    expect(isinstance(total, int), "padding SAME of a size that is not static")
    low = max(int(total), 0) // 2
    return low, max(int(total), 0) - low


# -- pooling ---------------------------------------------------------------------------


def _pool(op: Callable[..., Any], axes: str) -> Callable[..., Any]:
    """Pooling; `extraParam0` is 1 where an average counts the padding."""

    def read(x: Any, *, extraParam0: Any = 0, dtype: Any = None, **attrs: Any) -> Any:
        del dtype
        window = _Window(attrs, axes)
        more = {"count_pads": True} if op is ops.avg_pool and extraParam0 else {}
        return op(
            x, window=tuple(window.sizes), strides=window.strides, layout=window.layout,
            padding=window.padding, dilations=window.dilations, **more,
        )  # fmt: skip

    return read


def read_max_pool_with_argmax(
    x: Any, *, isNHWC: Any = 0, sameMode: Any = 0, extraParam0: Any = None,
    dtype: Any = None, **attrs: Any,
) -> Any:  # fmt: skip
    """Indices count the elements of an image with its channels last."""
    del extraParam0
    window = _Window({**attrs, "isSameMode": sameMode}, "HW")
    expect(bool(isNHWC), "images with their channels last")
    y, at = ops.max_pool_with_indices(
        ops.transpose(x, perm=(0, 3, 1, 2)), window=tuple(window.sizes),
        strides=window.strides, padding=window.padding,
    )  # fmt: skip
    y, at = (ops.transpose(v, perm=(0, 2, 3, 1)) for v in (y, at))
    channels = x.shape[3]
    expect(isinstance(channels, int), "the number of channels is not static")
    return y, cast_to(at * channels + ops.arange(0, channels), dtype or "int64")


def read_upsampling(
    x: Any,
    *,
    factorH: Any,
    factorW: Any = None,
    isNCHW: Any = None,
    nchw: Any = None,
) -> Any:
    """Each element repeated along rows and columns."""
    first = 2 if flag_of(isNCHW, nchw) else 1
    y = ops.repeat(x, int(factorH), axis=first)
    return ops.repeat(y, int(factorW or factorH), axis=first + 1)


# -- normalization ---------------------------------------------------------------------


def read_fused_batch_norm(
    x: Any, scale: Any, offset: Any, mean: Any = None, variance: Any = None, *,
    epsilon: float = 0.001, dataFormat: Any = 0, isTraining: Any = 0,
    dtype: Any = None, outputs: int,
) -> Any:  # fmt: skip
    """Batch normalization, and the statistics: those of the batch in training.

    The variance that training returns is that of a sample (Bessel's correction).
    """
    del dtype
    axis = 1 if dataFormat else rank_of(x) - 1
    if not isTraining:
        y = ops.batch_norm(
            x, *(cast_to(v, x.dtype) for v in (scale, offset, mean, variance)),
            axis=axis, epsilon=epsilon,
        )  # fmt: skip
        return (y, mean, variance, mean, variance, mean)[:outputs]
    y, m, v, sample = normalize_batch(x, scale, offset, axis=axis, epsilon=epsilon)
    return (y, m, sample, m, v, m)[:outputs]


def read_batch_norm(
    x: Any, mean: Any, variance: Any, *scales: Any, applyGamma: Any = None,
    applyBeta: Any = None, epsilon: float = 1e-5, applyScale: Any = 0,
    applyOffset: Any = 0, dimensions: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    """batchnorm to `batch_norm`: scale and offset, as far as they are applied."""
    del dtype
    rest = list(scales)
    has_scale, has_offset = (
        flag_of(applyGamma, applyScale),
        flag_of(applyBeta, applyOffset),
    )
    scale = rest.pop(0) if has_scale else ops.ones_like(mean)
    offset = rest.pop(0) if has_offset else ops.zeros_like(mean)
    axis = axis_of(None, dimensions, default=-1) % rank_of(x)
    return ops.batch_norm(x, scale, offset, mean, variance, axis=axis, epsilon=epsilon)


def read_layer_norm(
    x: Any, gain: Any, bias: Any = None, *, channelsFirst: Any = False,
    dimensions: Any = None,
) -> Any:  # fmt: skip
    """Standardized along axes; gain and bias are those of the channels."""
    axes = numbers_of(dimensions) or [-1]
    mean = ops.mean(x, axes, keepdims=True)
    y = (x - mean) / ops.sqrt(ops.mean(ops.square(x - mean), axes, keepdims=True))
    layout = "NC*" if channelsFirst else "N*C"
    shape = [-1, *(1,) * (rank_of(x) - 2)] if layout == "NC*" else [-1]
    y = y * ops.reshape(gain, shape)
    return y if bias is None else y + ops.reshape(bias, shape)


def read_standardize(x: Any, axes: Any = None, *, dimensions: Any = None) -> Any:
    """Mean 0 and variance 1 along axes."""
    where = numbers_of(dimensions) if axes is None else known_content(axes)
    y = x - ops.mean(x, where, keepdims=True)
    return y / ops.sqrt(ops.mean(ops.square(y), where, keepdims=True))


def read_lrn(
    x: Any, *, depth: Any = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Any:
    """nd4j sums squares over the window; std takes their mean."""
    size = 2 * int(depth) + 1
    return ops.lrn(x, size=size, alpha=alpha * size, beta=beta, bias=bias, axis=3)


def read_softmax(x: Any, *, dimension: Any = None) -> Any:
    """softmax to `softmax`, along the last axis where none is given."""
    return ops.softmax(x, axes=(axis_of(None, dimension, default=-1),))


def read_log_softmax(x: Any, *, dimension: Any = None) -> Any:
    """log_softmax to `log_softmax`, along the last axis where none is given."""
    return ops.log_softmax(x, axes=(axis_of(None, dimension, default=-1),))


# -- products --------------------------------------------------------------------------


def _transpose_if(x: Any, *flags: Any) -> Any:
    if not flag_of(*flags):
        return x
    return ops.swap_last(ops.conj(x) if x.dtype.kind == "complex" else x)


def read_matmul(
    a: Any, b: Any, *, transX: Any = 0, transY: Any = 0, transZ: Any = 0,
    transposeX: Any = None, transposeY: Any = None, transposeZ: Any = None,
    alpha: float = 1.0, beta: float = 0.0, dtype: Any = None,
) -> Any:  # fmt: skip
    """matmul to `matmul`; `beta` is the weight of a given result, and there is none."""
    del beta, dtype
    y = ops.matmul(
        _transpose_if(a, transX, transposeX), _transpose_if(b, transY, transposeY)
    )
    y = y if alpha in (None, 1.0) else y * ops.number_like(y, value=alpha)
    return _transpose_if(y, transZ, transposeZ)


def read_linear(
    x: Any, w: Any, b: Any, *, aTranspose: Any = 0, bTranspose: Any = 0,
    cTranspose: Any = 0, transposeA: Any = None, transposeB: Any = None,
    transposeC: Any = None,
) -> Any:  # fmt: skip
    """xw_plus_b to `matmul` and `add`."""
    y = ops.matmul(
        _transpose_if(x, aTranspose, transposeA),
        _transpose_if(w, bTranspose, transposeB),
    )
    return _transpose_if(y + b, cTranspose, transposeC)


def read_relu_layer(x: Any, w: Any, b: Any) -> Any:
    """relu_layer to `relu` of a product and a bias."""
    return ops.relu(ops.matmul(x, w) + b)


def read_bias_add(x: Any, bias: Any, *, nchw: Any = False) -> Any:
    """biasadd to a sum along the channels."""
    return _add_bias(x, bias, "NC*" if nchw else "N*C")


# -- losses ----------------------------------------------------------------------------


def read_cross_entropy(
    logits: Any,
    labels: Any,
    *,
    classesDim: Any = None,
    dtype: Any = None,
    outputs: int,
) -> Any:
    """The losses, and the gradients of the logits where they are a result."""
    del dtype
    at = (axis_of(None, classesDim, default=-1),)
    loss = ops.negative(ops.sum(labels * ops.log_softmax(logits, axes=at), list(at)))
    return (loss, ops.softmax(logits, axes=at) - labels)[:outputs]


def read_sparse_cross_entropy(
    labels: Any, logits: Any, *, dtype: Any = None, outputs: int
) -> Any:
    """As above, with the numbers of the classes as labels."""
    del dtype
    shares = ops.log_softmax(logits)
    at = ops.expand_dims(ops.astype(labels, dtype="int64"), [-1])
    loss = ops.negative(ops.squeeze(ops.gather_elements(shares, at, axis=-1), [-1]))
    if outputs == 1:
        return loss
    one, zero = (ops.number_like(logits, value=v) for v in (1, 0))
    count = logits.shape[-1]
    hits = ops.one_hot(ops.astype(labels, dtype="int64"), count, one, zero)
    return loss, ops.softmax(logits) - hits


def read_weighted_cross_entropy(
    targets: Any,
    x: Any,
    weights: Any,
    *,
    lossReduce: Any = None,
) -> Any:
    """(1 - z) x + (1 + (w - 1) z) (log(1 + exp(-|x|)) + max(-x, 0))."""
    expect(not lossReduce, "a loss that is not reduced")
    one = ops.number_like(x, value=1)
    weight = one + (weights - one) * targets
    return (one - targets) * x + weight * (
        ops.log1p(ops.exp(ops.negative(ops.abs(x)))) + ops.relu(ops.negative(x))
    )


def read_attention(
    queries: Any, keys: Any, values: Any, mask: Any = None, *,
    normalization: Any = None, scaled: Any = None, outputWeights: Any = None,
    withWeights: Any = None, outputs: int,
) -> Any:  # fmt: skip
    """Keys and values are [batch, depth, time]; scores of each key are normalized."""
    expect(mask is None, "a mask")
    del outputWeights, withWeights
    scores = ops.matmul(ops.swap_last(keys), queries)
    if flag_of(normalization, scaled):
        depth = keys.shape[-2]
        expect(isinstance(depth, int), "the depth of the keys is not static")
        scores = scores * ops.number_like(scores, value=float(depth) ** -0.5)
    weights = ops.softmax(scores, axes=(-2,))
    return (ops.matmul(values, weights), weights)[:outputs]


def read_fake_quant(
    x: Any, low: Any = None, high: Any = None, *, narrowed: Any = None,
    narrowRange: Any = None, numBits: Any = None, num_bits: Any = None,
    min: Any = None, max: Any = None, m: Any = None, m2: Any = None,
) -> Any:  # fmt: skip
    """fake_quant_with_min_max_* to `fake_quantize_range`."""
    least, most = (min if m is None else m), (max if m2 is None else m2)
    if low is None:
        low, high = (np.float32(v) for v in (least, most))
    return ops.fake_quantize_range(
        x, low, high, bits=int(numBits or num_bits or 8),
        narrow=flag_of(narrowed, narrowRange),
    )  # fmt: skip


READ: dict[str, Any] = {
    "conv1d": _conv("W"),
    "conv2d": _conv("HW"),
    "conv3dnew": _conv("DHW"),
    "depthwise_conv2d": read_depthwise_conv,
    "deconv2d_tf": read_deconv_of_shape,
    "maxpool2d": _pool(ops.max_pool, "HW"),
    "avgpool2d": _pool(ops.avg_pool, "HW"),
    "maxpool3dnew": _pool(ops.max_pool, "DHW"),
    "avgpool3dnew": _pool(ops.avg_pool, "DHW"),
    "max_pool_with_argmax": read_max_pool_with_argmax,
    "upsampling2d": read_upsampling,
    "fused_batch_norm": read_fused_batch_norm,
    "batchnorm": read_batch_norm,
    "layer_norm": read_layer_norm,
    "standardize": read_standardize,
    "lrn": read_lrn,
    "softmax": read_softmax,
    "log_softmax": read_log_softmax,
    "matmul": read_matmul,
    "xw_plus_b": read_linear,
    "relu_layer": read_relu_layer,
    "biasadd": read_bias_add,
    "softmax_cross_entropy_loss_with_logits": read_cross_entropy,
    "sparse_softmax_cross_entropy_loss_with_logits": read_sparse_cross_entropy,
    "weighted_cross_entropy_with_logits": read_weighted_cross_entropy,
    "dot_product_attention": read_attention,
    "fake_quant_with_min_max_args": read_fake_quant,
    "fake_quant_with_min_max_vars": read_fake_quant,
    "fake_quant_with_min_max_vars_per_channel": read_fake_quant,
}
