"""Fast Fourier transforms (FFT) over any axes.

`norm` selects where to divide by the length: "backward" in the inverse, "forward", or
"ortho", by the square root in both.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import Complex, Other, RealFloating, ShapeArg
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.values import dims_of
from amanda_std.inference.element_types import complex_type, part_type
from amanda_std.inference.shape_arguments import (
    UnknownShapeArg,
    may_be_negative,
    normalize_axes,
)
from amanda_std.ops.math.arithmetic import multiply, where
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.complex_numbers import (
    as_pairs,
    complex_,
    conj,
    from_pairs,
    real,
)
from amanda_std.ops.math.logic import logical_or
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import arange
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import pad, slice_
from amanda_std.ops.tensor.shape import astype, dim, expand_dims, reshape


def _resized_dims(x: TensorType, sizes: Any, axes: Any) -> list[Any]:
    """Dims of x with those of the axes replaced by `sizes`."""
    result = list(x.shape.dims)
    if isinstance(axes, UnknownShapeArg) or any(isinstance(a, Sym) for a in axes):
        return [Sym.unknown() for _ in result]
    at = normalize_axes(axes, len(result))
    if sizes is None:
        return result
    given = (
        [Sym.unknown()] * len(at) if isinstance(sizes, UnknownShapeArg) else list(sizes)
    )
    for axis, n in zip(at, given, strict=True):
        result[axis] = Sym.unknown() if may_be_negative(n) else n
    return result


def _last_axis(x: TensorType, axes: Any) -> Any:
    """The last transformed axis, or None if unknown."""
    if isinstance(axes, UnknownShapeArg) or isinstance(axes[-1], Sym):
        return None
    return normalize_axes(axes, x.shape.rank)[-1]


def _fft_types(x: TensorType, sizes: Any, axes: Any) -> Any:
    return [
        TensorType(x.dtype, _shape_or_unknown(x, lambda: _resized_dims(x, sizes, axes)))
    ]


def _shape_or_unknown(x: TensorType, dims: Any) -> Shape:
    return Shape(dims() if x.shape.has_rank else None)


def _rfft_types(x: TensorType, sizes: Any, axes: Any) -> Any:
    def result_dims() -> Any:
        whole, at = _resized_dims(x, sizes, axes), _last_axis(x, axes)
        return [n // 2 + 1 if i == at else n for i, n in enumerate(whole)]

    return [TensorType(complex_type(x.dtype), _shape_or_unknown(x, result_dims))]


def _irfft_types(x: TensorType, sizes: Any, axes: Any) -> Any:
    def result_dims() -> Any:
        whole, at = _resized_dims(x, sizes, axes), _last_axis(x, axes)
        if sizes is not None:
            return whole
        return [(n - 1) * 2 if i == at else n for i, n in enumerate(whole)]

    return [TensorType(part_type(x.dtype), _shape_or_unknown(x, result_dims))]


def _transform(name: str, x: Any, sizes: Any, axes: Any, norm: str) -> Any:
    np_ = xp(x)
    if x.dtype.itemsize <= 2:
        x = x.astype("float32")
    if x.size:
        return getattr(np_.fft, name)(x, s=sizes, axes=axes, norm=norm)
    whole = getattr(np.fft, name)(
        np.zeros([max(n, 1) for n in x.shape], x.dtype), s=sizes, axes=axes
    )
    kept = {a % x.ndim for a in axes}
    shape = [whole.shape[i] if i in kept else n for i, n in enumerate(x.shape)]
    return np_.zeros(shape, dtype=whole.dtype)


@primitive()
def fft(
    x: Complex,
    sizes: ShapeArg = None,
    axes: ShapeArg = (-1,),
    *,
    norm: str = "backward",
) -> Complex:
    """Discrete Fourier transform; axes are cropped or zero-padded to the sizes first"""
    return _transform("fftn", x, sizes, axes, norm)


@primitive()
def ifft(
    x: Complex,
    sizes: ShapeArg = None,
    axes: ShapeArg = (-1,),
    *,
    norm: str = "backward",
) -> Complex:
    """Inverse discrete Fourier transform"""
    return _transform("ifftn", x, sizes, axes, norm)


@primitive()
def rfft(
    x: RealFloating,
    sizes: ShapeArg = None,
    axes: ShapeArg = (-1,),
    *,
    norm: str = "backward",
) -> Other:
    """Fourier transform of real input: nonnegative frequencies of the last axis only"""
    return _transform("rfftn", x, sizes, axes, norm)


@primitive()
def irfft(
    x: Complex,
    sizes: ShapeArg = None,
    axes: ShapeArg = (-1,),
    *,
    norm: str = "backward",
) -> Other:
    """Inverse of rfft; by default the real result has an even length"""
    return _transform("irfftn", x, sizes, axes, norm)


fft.infer(_fft_types)
ifft.infer(_fft_types)
rfft.infer(_rfft_types)
irfft.infer(_irfft_types)


def _fit_to(v: Any, x: Any, axes: Any) -> Any:
    """Crop or pad to the dims of x along axes: the inverse of resizing."""
    pads = [(0, x.shape[axis] - v.shape[axis]) for axis in axes]
    return pad(v, pads, None, tuple(axes))


def _own_axes(x: Any, axes: Any) -> tuple[int, ...]:
    return normalize_axes(axes, len(dims_of(x)))


def _symmetric_gradient(op: Any) -> Any:
    """The transform is symmetric: its gradient is the transform in the other norm."""

    def rule(g: Any, x: Any, sizes: Any, axes: Any, *, norm: str) -> Any:
        y = op(g, None, axes, norm=norm)
        if sizes is not None:
            y = _fit_to(y, x, _own_axes(x, axes))
        return [y, None, None]

    return rule


fft.gradient(_symmetric_gradient(fft))
ifft.gradient(_symmetric_gradient(ifft))


@rfft.gradient
def _(g: Any, x: Any, sizes: Any, axes: Any, *, norm: str) -> Any:
    own = _own_axes(x, axes)
    last = own[-1]
    length = x.shape[last] if sizes is None else sizes[len(own) - 1]
    g = pad(g, [(0, length - g.shape[last])], None, (last,))
    y = real(fft(g, None, axes, norm=norm))
    return [y if sizes is None else _fit_to(y, x, own), None, None]


_ADJOINT_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@irfft.gradient
def _(g: Any, x: Any, axes: Any, *, norm: str) -> Any:
    own = _own_axes(x, axes)
    y = conj(rfft(g, None, (own[-1],), norm=_ADJOINT_NORM[norm]))
    if len(own) > 1:
        y = ifft(y, None, own[:-1], norm=norm)
    y = multiply(y, _mirror_weights(g, y, own[-1]))
    return [_fit_to(y, x, own), None, None]


def _mirror_weights(g: Any, y: Any, axis: int) -> Any:
    """2 for frequencies whose mirror image is left out, else 1."""
    number = arange(0, y.shape[axis])
    length = dim(g, axis=axis)
    alone = logical_or(
        equal(number, 0), equal(number * 2, length)
    )  # the others occur twice
    weight = astype(where(alone, np.asarray(1), np.asarray(2)), dtype=y.dtype)
    row = [-1 if i == axis else 1 for i in range(len(dims_of(y)))]
    return reshape(weight, row)


# -- ONNX DFT ----------------------------------------------------------------------


@composite
def dft(
    x: RealFloating,
    size: ShapeArg = None,
    axis: ShapeArg = -2,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> RealFloating:
    """Discrete Fourier transform as in ONNX: real and imaginary parts in the last axis

    A last axis of one element holds real parts. `onesided`: nonnegative frequencies
    only; of the inverse, the operand is one-sided and the result is real."""
    rank = len(dims_of(x))
    at = normalize_axes(axis, rank)
    sizes = None if size is None else (size,)
    if inverse and onesided:
        y = expand_dims(irfft(from_pairs(x), sizes, at), (-1,))
    elif onesided:
        y = as_pairs(rfft(gather(x, np.asarray(0), -1), sizes, at))
    else:
        second = sum_(slice_(x, (1,), (2,), (-1,)), (-1,))  # 0 if there is none
        whole = complex_(gather(x, np.asarray(0), -1), second)
        y = as_pairs((ifft if inverse else fft)(whole, sizes, at))
    return astype(y, dtype=x.dtype)  # no complex type has this precision


# -- samples -----------------------------------------------------------------------


def _dft_of_axis(x: Any, axis: int, n: int, inverse: bool, norm: str) -> Any:
    """One axis by definition: a sum for each frequency."""
    source = np.moveaxis(x, axis, -1)
    out = np.zeros((*source.shape[:-1], n), "complex128")
    sign = 2j if inverse else -2j
    scale = {"ortho": math.sqrt(n), "forward": 1 if inverse else n,
             "backward": n if inverse else 1}[norm]  # fmt: skip
    for at in np.ndindex(source.shape[:-1]):
        row = [complex(v) for v in source[at][:n]]
        for k in range(n):
            waves = (
                v * cmath.exp(sign * math.pi * i * k / n) for i, v in enumerate(row)
            )
            out[(*at, k)] = sum(waves) / scale
    return np.moveaxis(out, -1, axis)


def _dft_by_definition(
    x: Any, sizes: Any, axes: Any, norm: str, inverse: bool = False
) -> Any:
    y = x
    for i, axis in enumerate(axes):
        n = x.shape[axis] if sizes is None else sizes[i]
        y = _dft_of_axis(y, axis, n, inverse, norm)
    return y


_NORMS = ("backward", "ortho", "forward")
_FORMS: Any = [(None, (-1,)), (None, (0,)), (None, (0, 1)), ((5,), (-1,)), ((2,), (1,)),
               ((3, 2), (1, 0))]  # fmt: skip


def _sample_signal(whole: bool) -> Any:
    x = np.array([[((3 * i * i + j * 5) % 7 - 2.5) / 2 for j in range(4)]
                  for i in range(3)])  # fmt: skip
    return x if not whole else x + 1j * np.roll(x, 1)


def _complex_samples(inverse: bool) -> Any:
    def make() -> Samples:
        for dtype, tolerance in (("complex128", None), ("complex64", 1e-4)):
            x = _sample_signal(True).astype(dtype)
            for sizes, axes in _FORMS:
                for norm in _NORMS[: 3 if tolerance is None else 1]:
                    y = _dft_by_definition(x, sizes, axes, norm, inverse).astype(dtype)
                    yield Sample((x, sizes, axes), y, {"norm": norm}, tolerance)
        yield Sample((x[0, :1],), x[0, :1])
        yield Sample((x[:0],), x[:0])

    return make


fft.samples(_complex_samples(False))
ifft.samples(_complex_samples(True))


@rfft.samples
def _() -> Samples:
    for dtype, tolerance in (("float64", None), ("float32", 1e-4)):
        x = _sample_signal(False).astype(dtype)
        for sizes, axes in _FORMS:
            for norm in _NORMS[: 3 if tolerance is None else 1]:
                y = _dft_by_definition(x, sizes, axes, norm)
                y = np.take(y, range(y.shape[axes[-1]] // 2 + 1), axes[-1])
                whole = "complex64" if dtype == "float32" else "complex128"
                yield Sample(
                    (x, sizes, axes), y.astype(whole), {"norm": norm}, tolerance
                )
    yield Sample((x[:0],), np.zeros((0, 3), "complex64"))


def _full_spectrum(half: Any, axes: Any, n: int) -> Any:
    """All frequencies of a real signal: mirror images are conjugates."""
    axis, count = axes[-1], half.shape[axes[-1]]
    half = np.take(half, range(min(count, n // 2 + 1)), axis)
    missing = n // 2 + 1 - half.shape[axis]
    if missing > 0:
        pads = [(0, missing if i == axis % half.ndim else 0) for i in range(half.ndim)]
        half = np.pad(half, pads)
    source = np.moveaxis(half, axis, -1)
    out = np.zeros((*source.shape[:-1], n), "complex128")
    out[..., : source.shape[-1]] = source[..., :n]
    for k in range(n // 2 + 1, n):
        out[..., k] = np.conj(out[..., n - k])
    return np.moveaxis(out, -1, axis)


@irfft.samples
def _() -> Samples:
    for dtype, tolerance in (("complex128", None), ("complex64", 1e-4)):
        x = _sample_signal(True).astype(dtype)
        for sizes, axes in _FORMS:
            n = 2 * (x.shape[axes[-1]] - 1) if sizes is None else sizes[-1]
            for norm in _NORMS[: 3 if tolerance is None else 1]:
                first = None if sizes is None else sizes[:-1]
                y = _dft_by_definition(x, first, axes[:-1], norm, True)
                y = _dft_by_definition(
                    _full_spectrum(y, axes, n), (n,), axes[-1:], norm, True
                )
                part = "float32" if dtype == "complex64" else "float64"
                expected = y.real.astype(part)
                yield Sample((x, sizes, axes), expected, {"norm": norm}, tolerance)
    yield Sample((x[:0],), np.zeros((0, 6), "float32"))


@dft.samples
def _() -> Samples:
    x = _sample_signal(True)
    pairs = np.stack([x.real, x.imag], -1)
    for dtype, tolerance in (("float64", None), ("float32", 1e-4)):
        for axis in (0, 1, -2):
            for size in (None, 5, 2):
                for inverse in (False, True)[: 2 if tolerance is None else 1]:
                    sizes = None if size is None else (size,)
                    at = (axis if axis >= 0 else 1,)
                    y = _dft_by_definition(x, sizes, at, "backward", inverse)
                    expected = np.stack([y.real, y.imag], -1).astype(dtype)
                    args = (pairs.astype(dtype), size, axis)
                    yield Sample(args, expected, {"inverse": inverse}, tolerance)
        y = _dft_by_definition(x.real, None, (1,), "backward")
        expected = np.stack([y.real, y.imag], -1).astype(dtype)
        single = pairs[..., :1].astype(dtype)
        yield Sample((single,), expected, tolerance=tolerance)
        half = np.ascontiguousarray(expected[:, :3])
        yield Sample((single,), half, {"onesided": True}, tolerance)
        attrs = {"onesided": True, "inverse": True}
        yield Sample((half, 4), single, attrs, tolerance)
    yield Sample((pairs[:0],), pairs[:0], smooth=False)
    for dtype in ("float16", "bfloat16"):  # sums of a few small integers are exact
        two = array([[[1, 2], [3, -1]]], dtype)
        expected = array([[[4, 1], [-2, 3]]], dtype)
        yield Sample((two,), expected, smooth=False)
        yield Sample((expected,), two, {"inverse": True}, smooth=False)
        one = array([[[4, 0], [-2, 0]]], dtype)
        yield Sample((two[..., :1],), one, smooth=False)
        yield Sample((two[..., :1],), one, {"onesided": True}, smooth=False)
        attrs = {"inverse": True, "onesided": True}
        yield Sample((one, 2), two[..., :1], attrs, smooth=False)
