"""Integer and quantized matrix products and convolutions: with zero points."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

import numpy as np

from amanda.types import DType, dims_equal
from amanda_std.engine.annotations import ArgKind, Array, Cast, Other, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import dims_of
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.nn.convolution import conv
from amanda_std.ops.quantization.quantize import dequantize, quantize
from amanda_std.ops.tensor.index_arithmetic import dtype_of
from amanda_std.ops.tensor.manipulation import slice_
from amanda_std.ops.tensor.shape import astype, expand_dims, reshape, transpose

_INT32, _DOUBLE, _SINGLE = DType("int32"), DType("float64"), DType("float32")
Scale: TypeAlias = Annotated[Any, ArgKind(shared=False, kinds=("float",))]
Sum: TypeAlias = Annotated[Any, ArgKind(shared=False, dtype=_INT32)]


def _subtract_zero_point(x: Any, zero: Any, dtype: DType) -> Any:
    """x - zero, in a type that holds it exactly."""
    x = astype(x, dtype=dtype)
    return x if zero is None else x - astype(zero, dtype=dtype)


def _per_row(zero: Any) -> Any:
    """Zero points as a column, one for each row of a matrix."""
    if zero is None or len(dims_of(zero)) != 1:
        return zero
    return expand_dims(zero, (1,))


@composite
def matmul_integer(
    a: Other, b: Other, a_zero: Other | None = None, b_zero: Other | None = None
) -> Sum:
    """Integer matrix product (a - a_zero) @ (b - b_zero), in int32"""
    return matmul(
        _subtract_zero_point(a, _per_row(a_zero), _INT32),
        _subtract_zero_point(b, b_zero, _INT32),
    )


@composite
def wide_matmul(a: Other, b: Other, *, dtype: Any) -> Cast:
    """Matrix product, accumulated and returned in a wider element type"""
    return matmul(astype(a, dtype=dtype), astype(b, dtype=dtype))


@composite
def quantized_linear(
    x: RealFloating, w: Other, scales: Scale, zeros: Other | None = None,
    bias: RealFloating | None = None, *, block: int,
) -> RealFloating:  # fmt: skip
    """x times a transposed block-quantized matrix (n-bit weights)

    Each block of a row of w has a scale. w [outputs, inputs] may be wider than x: the
    rest pads the last block. `scales` and `zeros` are [outputs, blocks]."""
    wide = dequantize(w, astype(scales, dtype=_SINGLE), zeros, axis=1, block=block)
    wide = astype(wide, dtype=dtype_of(x))
    if dims_equal(dims_of(x)[-1], dims_of(w)[1]) is not True:
        wide = slice_(wide, [0], [x.shape[-1]], [1])
    y = matmul(x, transpose(wide, perm=(1, 0)))
    return y if bias is None else add(y, bias)


quantized_linear.trait(Trait.EXACT_DTYPES)


@composite
def conv_integer(
    x: Other, w: Other, x_zero: Other | None = None, w_zero: Other | None = None, *,
    layout: str = "NC*", kernel_layout: str = "OI*",
    strides: tuple[int, ...] | None = None, padding: Any = None,
    dilations: tuple[int, ...] | None = None, groups: int = 1,
) -> Sum:  # fmt: skip
    """Integer convolution of x - x_zero with w - w_zero, in int32

    Computed in double precision, which is exact for sums below 2**53."""
    if w_zero is not None and len(dims_of(w_zero)) == 1:
        rank, out = len(dims_of(w)), kernel_layout.index("O")
        at = out if out == 0 else rank - 1 if out == len(kernel_layout) - 1 else out
        w_zero = reshape(w_zero, [-1 if i == at else 1 for i in range(rank)])
    y = conv(
        _subtract_zero_point(x, x_zero, _DOUBLE),
        _subtract_zero_point(w, w_zero, _DOUBLE), layout=layout,
        kernel_layout=kernel_layout, strides=strides, padding=padding,
        dilations=dilations, groups=groups,
    )  # fmt: skip
    return astype(y, dtype=_INT32)


@composite
def quantized_matmul(
    a: Other, a_scale: Scale, a_zero: Other, b: Other, b_scale: Scale,
    b_zero: Other, scale: Scale, zero_point: Array,
) -> Array:  # fmt: skip
    """Quantized matrix product of two quantized matrices"""
    total = matmul_integer(a, b, a_zero, b_zero)
    real = astype(total, dtype=scale.dtype)
    return quantize(real * (_per_row(a_scale) * b_scale), scale, zero_point)


@composite
def quantized_conv(
    x: Other, x_scale: Scale, x_zero: Other, w: Other, w_scale: Scale,
    w_zero: Other, scale: Scale, zero_point: Array, b: Other | None = None, *,
    layout: str = "NC*", kernel_layout: str = "OI*",
    strides: tuple[int, ...] | None = None, padding: Any = None,
    dilations: tuple[int, ...] | None = None, groups: int = 1,
) -> Array:  # fmt: skip
    """Quantized convolution of quantized tensors; w_scale per channel or scalar

    `b` is quantized with scale x_scale * w_scale."""
    total = conv_integer(
        x, w, x_zero, w_zero, layout=layout, kernel_layout=kernel_layout,
        strides=strides, padding=padding, dilations=dilations, groups=groups,
    )  # fmt: skip
    if b is not None:
        total = total + _align_to_channels(b, x, layout)
    real = astype(total, dtype=scale.dtype)
    step = _align_to_channels(multiply(x_scale, w_scale), x, layout)
    return quantize(real * step, scale, zero_point)


def _align_to_channels(v: Any, x: Any, layout: str) -> Any:
    if not dims_of(v):
        return v
    rank = len(dims_of(x))
    at = 1 if layout.startswith("NC") else rank - 1
    return reshape(v, [-1 if i == at else 1 for i in range(rank)])


_PIECEWISE_CONSTANT = "it is piecewise constant"
wide_matmul.trait(Trait.EXACT_DTYPES)
for _op in (matmul_integer, conv_integer, quantized_matmul, quantized_conv):
    _op.trait(Trait.EXACT_DTYPES)
    _op.not_differentiable(_PIECEWISE_CONSTANT)


# -- samples -----------------------------------------------------------------------


def _integer_dot(a: Any, b: Any, a_zero: Any, b_zero: Any) -> Any:
    rows, inner = a.shape
    out = np.zeros((rows, b.shape[1]), object)
    for i, j in np.ndindex(out.shape):
        out[i, j] = sum(
            (int(a[i, k]) - a_zero[i]) * (int(b[k, j]) - b_zero[j])
            for k in range(inner)
        )
    return out


@matmul_integer.samples
def _() -> Samples:
    for left, right in (("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")):
        a = array([[11, 7, 3], [10, 6, 2], [120, 5, 1], [8, 4, 0]], left)
        b = array([[1, 4], [2, 5], [3, 6]], right)
        yield Sample((a, b), _integer_dot(a, b, [0] * 4, [0] * 2).astype("int32"))
        za, zb = array(12, left), array(3, right)
        yield Sample(
            (a, b, za, zb), _integer_dot(a, b, [12] * 4, [3] * 2).astype("int32")
        )
        za, zb = array([1, 2, 3, 4], left), array([5, 6], right)
        y = _integer_dot(a, b, [1, 2, 3, 4], [5, 6])
        yield Sample((a, b, za, zb), y.astype("int32"))
    empty = np.zeros((0, 3), "uint8")
    yield Sample((empty, b), np.zeros((0, 2), "int32"))
    one = array([200, 3], "uint8")
    yield Sample((one, array([255, 2], "uint8")), array(51006, "int32"))


def _conv_by_loops(x: Any, w: Any, x_zero: int, w_zero: list[int], pad: int) -> Any:
    """Convolution of NCHW with OIHW, padded with zero points, by loops."""
    batch, channels, high, wide = x.shape
    out, _, kh, kw = w.shape
    y = np.zeros((batch, out, high + 2 * pad - kh + 1, wide + 2 * pad - kw + 1), object)
    for n, o, i, j in np.ndindex(y.shape):
        for c, u, v in np.ndindex(channels, kh, kw):
            row, column = i + u - pad, j + v - pad
            if 0 <= row < high and 0 <= column < wide:
                value = int(x[n, c, row, column]) - x_zero
                y[n, o, i, j] += value * (int(w[o, c, u, v]) - w_zero[o])
    return y


@wide_matmul.samples
def _() -> Samples:
    rows = [("int8", "int32"), ("uint8", "int64"), ("bfloat16", "float32"),
            ("float32", "float64"), ("float64", "float64")]  # fmt: skip
    for dtype, wide in rows:
        a, b = array([[100, 7, 3], [90, 6, 2]], dtype), array([[100], [5], [60]], dtype)
        y = _integer_dot(a, b, [0] * 2, [0]).astype(DType(wide).numpy)
        yield Sample((a, b), y, {"dtype": DType(wide)})
    attrs = {"dtype": _INT32}
    yield Sample((array([], "int8"), array([], "int8")), array(0, "int32"), attrs)


@conv_integer.samples
def _() -> Samples:
    x = arange_of_shape(1, 2, 3, 3, dtype="uint8", start=2)
    w = arange_of_shape(2, 2, 2, 2, dtype="int8", start=-5)
    for pad in (0, 1):
        attrs = {"padding": ((pad, pad),) * 2}
        y = _conv_by_loops(x, w, 0, [0, 0], pad)
        yield Sample((x, w), y.astype("int32"), attrs)
        y = _conv_by_loops(x, w, 7, [1, 1], pad)
        args = (x, w, array(7, "uint8"), array(1, "int8"))
        yield Sample(args, y.astype("int32"), attrs)
    y = _conv_by_loops(x, w, 3, [1, 2], 0).astype("int32")
    zeros = array([1, 2], "int8")
    yield Sample((x, w, array(3, "uint8"), zeros), y)
    last = (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), array(3, "uint8"), zeros)
    yield Sample(
        last, y.transpose(0, 2, 3, 1), {"layout": "N*C", "kernel_layout": "*IO"}
    )
    yield Sample((x[:0], w), np.zeros((0, 2, 2, 2), "int32"))


def _requantize(total: Any, step: Any, scale: float, zero: int, dtype: str) -> Any:
    info = np.iinfo(dtype)
    real = total.astype("float64") * step / scale
    out = np.zeros(total.shape, dtype)
    for at in np.ndindex(total.shape):
        out[at] = min(max(round(float(real[at])) + zero, info.min), info.max)
    return out


@quantized_matmul.samples
def _() -> Samples:
    for dtype in ("uint8", "int8"):
        a = array([[11, 7, 3], [100, 6, 2]], dtype)
        b = array([[1, 4], [2, 5], [3, 61]], dtype)
        total = _integer_dot(a, b, [3] * 2, [2] * 2)
        y = _requantize(total, 0.0625 * 0.5, 1.5, 5, dtype)
        zeros = [array(v, dtype) for v in (3, 2, 5)]
        scales = [array(v, "float32") for v in (0.0625, 0.5, 1.5)]
        yield Sample((a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2],
                      zeros[2]), y)  # fmt: skip
        rows = array([0.0625, 0.25], "float32")
        y = _requantize(total, np.array([[0.0625], [0.25]]) * 0.5, 1.5, 5, dtype)
        yield Sample(
            (a, rows, zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]), y
        )
    empty = (a[:0], scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2])
    yield Sample(empty, np.zeros((0, 2), "int8"))


@quantized_conv.samples
def _() -> Samples:
    x = arange_of_shape(1, 2, 3, 3, dtype="uint8", start=2)
    w = arange_of_shape(2, 2, 2, 2, dtype="int8", start=-5)
    half, third = array(0.5, "float32"), array(0.375, "float32")
    total = _conv_by_loops(x, w, 7, [1, 1], 0)
    zeros = [array(7, "uint8"), array(1, "int8"), array(9, "uint8")]
    y = _requantize(total, 0.5 * 0.375, 2.0, 9, "uint8")
    scale = array(2.0, "float32")
    args: tuple[Any, ...]
    args = (x, half, zeros[0], w, third, zeros[1], scale, zeros[2])
    yield Sample(args, y)
    bias, steps = array([100, -30], "int32"), array([0.375, 0.125], "float32")
    many = np.array([0.375, 0.125]).reshape(1, 2, 1, 1) * 0.5
    more = total + np.array([100, -30], object).reshape(1, 2, 1, 1)
    y = _requantize(more, many, 2.0, 9, "uint8")
    args = (x, half, zeros[0], w, steps, zeros[1], scale, zeros[2], bias)
    yield Sample(args, y)
    args = (x[:0], half, zeros[0], w, third, zeros[1], scale, zeros[2])
    yield Sample(args, np.zeros((0, 2, 2, 2), "uint8"))


@quantized_linear.samples
def _() -> Samples:
    w = array([[3, 0, 15, 8, 1, 7], [9, 2, 4, 12, 5, 10]], "uint8")
    scales = array([[0.5, 0.25, 0.125], [0.25, 1.0, 0.5]], "float32")
    zeros = array([[8, 7, 0], [1, 4, 5]], "uint8")
    for dtype in ("float64", "float32"):
        for size in (6, 5):
            x, bias = ramp(2, 3, size, dtype=dtype), ramp(2, dtype=dtype)
            for zero, more in ((None, None), (zeros, bias)):
                y = np.zeros((2, 3, 2))
                for a, i, n in np.ndindex(y.shape):
                    terms = (
                        (int(w[n, j]) - (0 if zero is None else int(zero[n, j // 2])))
                        * float(scales[n, j // 2])
                        * float(x[a, i, j])
                        for j in range(size)
                    )
                    y[a, i, n] = math.fsum(terms) + (0 if more is None else more[n])
                attrs = {"block": 2}
                yield Sample(
                    (x, w, scales, zero, more), y.astype(dtype), attrs, fixed=(2,)
                )
    yield Sample((ramp(0, 6), w, scales), np.zeros((0, 2)), {"block": 2}, smooth=False)
