"""Complex numbers: construction, parts, magnitude and angle.

Gradients with respect to complex inputs follow the holomorphic convention: a change of
x by d changes the result by the real part of g * d. They are conjugates of the
direction of steepest ascent.
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
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.inference.element_types import (
    COMPLEX_TYPES,
    PART_TYPES,
    complex_type,
    part_type,
)
from amanda_std.ops.math.binary_special import hypot
from amanda_std.ops.math.elementary import atan2
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import stack


@primitive(numpy_only=True, name="complex")
def complex_(real: RealFloating, imag: RealFloating) -> Other:
    """Complex number with the given real and imaginary parts"""
    whole = complex_type(DType.of(real.dtype)).numpy
    y = np.empty(np.broadcast_shapes(real.shape, imag.shape), whole)
    y.real, y.imag = real, imag
    return y


complex_.trait(Trait.POINTWISE)


@complex_.infer
def _(real: TensorType, imag: TensorType) -> Any:
    dtype = imag.dtype if real.dtype is unknown else real.dtype
    return [TensorType(complex_type(dtype), shapes.elementwise(real, imag))]


def _part_type(x: TensorType) -> Any:
    return [TensorType(part_type(x.dtype), x.shape)]


@primitive()
def real(x: Complex) -> Other:
    """Real part"""
    return xp(x).real(x)


real.trait(Trait.POINTWISE)


@primitive()
def imag(x: Complex) -> Other:
    """Imaginary part"""
    return xp(x).imag(x)


imag.trait(Trait.POINTWISE)


complex_.broadcast_gradient(lambda g: (real(g), -imag(g)))


real.infer(_part_type)
imag.infer(_part_type)
real.gradient(lambda g: [complex_(g, zeros_like(g))])
imag.gradient(lambda g: [complex_(zeros_like(g), -g)])


@primitive(shape=shapes.pointwise)
def conj(x: Complex) -> Complex:
    """Complex conjugate"""
    return xp(x).conj(x)


conj.gradient(lambda g: [conj(g)])


@composite
def modulus(x: Complex) -> Other:
    """Absolute value (magnitude) of complex numbers"""
    return hypot(real(x), imag(x))


@composite
def angle(x: Complex) -> Other:
    """Angle (phase) of complex numbers, from -pi to pi"""
    return atan2(imag(x), real(x))


@composite
def as_pairs(x: Complex) -> Other:
    """Real and imaginary parts along a new last axis"""
    return stack(real(x), imag(x), axis=-1)


@composite
def from_pairs(x: RealFloating) -> Other:
    """Complex numbers from real and imaginary parts along the last axis"""
    low, high = (gather(x, np.asarray(i), -1) for i in range(2))
    return complex_(low, high)


_NUMBERS = [1.5 - 2j, -0.25 + 0.5j, -3 - 1j, 0.75 + 4j]


@complex_.samples
def _() -> Samples:
    for dtype, whole in COMPLEX_TYPES.items():
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


def _complex_samples(oracle: Any, result: bool) -> Any:
    def make() -> Samples:
        for dtype in PART_TYPES:
            x = np.array(_NUMBERS, dtype)
            y = [oracle(v) for v in _NUMBERS]
            kind = PART_TYPES[dtype] if result else dtype
            yield Sample((x,), np.array(y, kind))
            yield Sample((x[0],), np.array(y[0], kind))
            yield Sample((x.reshape(2, 2),), np.array(y, kind).reshape(2, 2))
        yield Sample((x[:0],), np.zeros(0, kind))

    return make


real.samples(_complex_samples(lambda v: v.real, True))
imag.samples(_complex_samples(lambda v: v.imag, True))
conj.samples(_complex_samples(lambda v: complex(v.real, -v.imag), False))
modulus.samples(_complex_samples(abs, True))
angle.samples(_complex_samples(lambda v: math.atan2(v.imag, v.real), True))


@as_pairs.samples
def _() -> Samples:
    for dtype, part in PART_TYPES.items():
        x = np.array(_NUMBERS, dtype)
        y = array([[v.real, v.imag] for v in _NUMBERS], part)
        yield Sample((x,), y)
        yield Sample((x.reshape(2, 2),), y.reshape(2, 2, 2))
    yield Sample((x[:0],), np.zeros((0, 2)))


@from_pairs.samples
def _() -> Samples:
    for dtype, part in PART_TYPES.items():
        x = array([[v.real, v.imag] for v in _NUMBERS], part)
        yield Sample((x,), np.array(_NUMBERS, dtype))
        yield Sample((x[0],), np.array(_NUMBERS[0], dtype))
    yield Sample((x[:0],), np.zeros(0, "complex128"))
