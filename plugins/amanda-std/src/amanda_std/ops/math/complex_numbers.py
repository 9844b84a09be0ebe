"""Complex numbers, made of two real ones and taken apart.

Gradients by complex numbers are those that multiply as numbers do: where x moves by d,
the result moves by the real part of g * d. They are the conjugates of those that point
uphill.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.types import DType, TensorType, unknown
from amanda_std.engine.annotations import Complex, Other, RealFloating
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, elementwise_by_loop
from amanda_std.inference import shapes
from amanda_std.ops.math.binary_special import hypot
from amanda_std.ops.math.elementary import atan2
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import stack

_PARTS = {"complex64": "float32", "complex128": "float64"}
_WHOLE = {"float32": "complex64", "float64": "complex128"}


def complex_of(dtype: Any) -> Any:
    """The complex type of which this is the type of the parts."""
    if dtype is unknown:
        return unknown
    return DType(_WHOLE.get(dtype.name, "complex64"))


def part_of(dtype: Any) -> Any:
    """The type of the parts of a complex type; of a real one itself."""
    return DType(_PARTS[dtype.name]) if dtype.name in _PARTS else dtype


@primitive(numpy_only=True, name="complex")
def complex_(real: RealFloating, imag: RealFloating) -> Other:
    """The number of a real and an imaginary part"""
    whole = complex_of(DType.of(real.dtype)).numpy
    y = np.empty(np.broadcast_shapes(real.shape, imag.shape), whole)
    y.real, y.imag = real, imag
    return y


@complex_.infer
def _(real: TensorType, imag: TensorType) -> Any:
    dtype = imag.dtype if real.dtype is unknown else real.dtype
    return [TensorType(complex_of(dtype), shapes.elementwise(real, imag))]


def _one_part(x: TensorType) -> Any:
    return [TensorType(part_of(x.dtype), x.shape)]


@primitive()
def real(x: Complex) -> Other:
    """The real part"""
    return xp(x).real(x)


@primitive()
def imag(x: Complex) -> Other:
    """The imaginary part"""
    return xp(x).imag(x)


complex_.broadcast_gradient(lambda g: (real(g), -imag(g)))


real.infer(_one_part)
imag.infer(_one_part)
real.gradient(lambda g: [complex_(g, zeros_like(g))])
imag.gradient(lambda g: [complex_(zeros_like(g), -g)])


@primitive(shape=shapes.same_as_first)
def conj(x: Complex) -> Complex:
    """The complex conjugate"""
    return xp(x).conj(x)


conj.gradient(lambda g: [conj(g)])


@composite
def modulus(x: Complex) -> Other:
    """The absolute value of complex numbers"""
    return hypot(real(x), imag(x))


@composite
def angle(x: Complex) -> Other:
    """The angle of complex numbers, from -pi to pi"""
    return atan2(imag(x), real(x))


@composite
def as_pairs(x: Complex) -> Other:
    """The real and the imaginary part along a new last axis"""
    return stack(real(x), imag(x), axis=-1)


@composite
def from_pairs(x: RealFloating) -> Other:
    """Complex numbers whose parts are the last axis"""
    low, high = (gather(x, np.asarray(i), -1) for i in range(2))
    return complex_(low, high)


_NUMBERS = [1.5 - 2j, -0.25 + 0.5j, -3 - 1j, 0.75 + 4j]


@complex_.samples
def _() -> Samples:
    for dtype, whole in _WHOLE.items():
        a = array([v.real for v in _NUMBERS], dtype)
        b = array([v.imag for v in _NUMBERS], dtype)
        yield Sample((a, b), np.array(_NUMBERS, whole))
        y = elementwise_by_loop(complex, a[:, None], b, dtype=whole)
        yield Sample((a[:, None], b), y)
    yield Sample((a[0], b[0]), np.array(_NUMBERS[0]))
    yield Sample((a[:0], b[:0]), np.zeros(0, "complex128"))
    far = array([math.inf, 1.0]), array([1.0, -0.0])
    y = np.array([complex(math.inf, 1), complex(1, -0.0)])
    yield Sample(far, y, smooth=False)


def _of_complex(oracle: Any, result: bool) -> Any:
    def make() -> Samples:
        for dtype in _PARTS:
            x = np.array(_NUMBERS, dtype)
            y = [oracle(v) for v in _NUMBERS]
            kind = _PARTS[dtype] if result else dtype
            yield Sample((x,), np.array(y, kind))
            yield Sample((x[0],), np.array(y[0], kind))
            yield Sample((x.reshape(2, 2),), np.array(y, kind).reshape(2, 2))
        yield Sample((x[:0],), np.zeros(0, kind))

    return make


real.samples(_of_complex(lambda v: v.real, True))
imag.samples(_of_complex(lambda v: v.imag, True))
conj.samples(_of_complex(lambda v: complex(v.real, -v.imag), False))
modulus.samples(_of_complex(abs, True))
angle.samples(_of_complex(lambda v: math.atan2(v.imag, v.real), True))


@as_pairs.samples
def _() -> Samples:
    for dtype, part in _PARTS.items():
        x = np.array(_NUMBERS, dtype)
        yield Sample((x,), array([[v.real, v.imag] for v in _NUMBERS], part))
    yield Sample((x[:0],), np.zeros((0, 2)))


@from_pairs.samples
def _() -> Samples:
    for dtype, part in _PARTS.items():
        x = array([[v.real, v.imag] for v in _NUMBERS], part)
        yield Sample((x,), np.array(_NUMBERS, dtype))
    yield Sample((x[:0],), np.zeros(0, "complex128"))
