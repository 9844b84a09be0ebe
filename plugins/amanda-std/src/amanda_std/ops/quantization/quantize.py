"""Quantization: floats as integers or narrow floats, with scale and zero point.

A scale is a scalar, per axis (one per index), or per block (one for each block along an
axis, with the rank of the data). Integers round half to even and saturate.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType, TensorType, unknown
from amanda_std.engine.annotations import Cast, Other, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import dims_of
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.math.arithmetic import (
    clip,
    divide,
    floor_divide,
    maximum,
    minimum,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
)
from amanda_std.ops.math.elementary import floor
from amanda_std.ops.math.elementary import round as round_
from amanda_std.ops.math.logic import logical_and, logical_or
from amanda_std.ops.math.reduction import max_, min_
from amanda_std.ops.tensor.creation import arange, zeros_like
from amanda_std.ops.tensor.index_arithmetic import dtype_of
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.saturating_cast import finite_limits, saturating_cast
from amanda_std.ops.tensor.shape import astype, reshape

_UINT8: Final = DType("uint8")


def align_scale(scale: Any, x: Any, axis: int | None, block: int) -> Any:
    """Reshape a scale or zero point so that it broadcasts with the data."""
    rank = len(dims_of(scale))
    if block:
        if axis is None:
            raise InvalidTypeError("blocks require an axis", hint="pass axis=...")
        return _repeat_blocks(scale, x, normalize_axis(axis, len(dims_of(x))), block)
    if rank == 0 or axis is None:
        return scale
    whole = len(dims_of(x))
    if rank != 1:
        raise InvalidTypeError(
            "a per-axis scale must be a vector", got=f"one of rank {rank}"
        )
    at = normalize_axis(axis, whole)
    return reshape(scale, [-1 if i == at else 1 for i in range(whole)])


def _repeat_blocks(scale: Any, x: Any, axis: int, block: int) -> Any:
    """Repeat each element `block` times along an axis, up to the size of the data."""
    rank = len(dims_of(scale))
    if rank != len(dims_of(x)):
        raise InvalidTypeError(
            "block scales must have the rank of the data",
            expected=len(dims_of(x)), got=rank,
        )  # fmt: skip
    positions = floor_divide(arange(0, x.shape[axis]), block)
    return gather(scale, positions, axis)


@composite
def quantize(
    x: RealFloating, scale: RealFloating, zero_point: Other | None = None, *,
    dtype: Any = None, axis: int | None = None, block: int = 0, saturate: bool = True,
) -> Cast:  # fmt: skip
    """round(x / scale) + zero_point, saturated to the result type

    `dtype` defaults to that of the zero point. Narrow floats are not rounded to
    integers; unless `saturate`, they overflow as their type defines."""
    dtype = _result_type(dtype, zero_point)
    y = divide(x, align_scale(scale, x, axis, block))
    if dtype.kind != "float":
        y = round_(y)
    if zero_point is not None:
        zero = astype(zero_point, dtype=dtype_of(x))
        y = y + align_scale(zero, x, axis, block)
    return saturating_cast(y, dtype=dtype) if saturate else astype(y, dtype=dtype)


@quantize.infer
def _(x: TensorType, zero_point: TensorType | None, *, dtype: Any) -> Any:
    return [TensorType(_result_type(dtype, zero_point), x.shape)]


def _result_type(dtype: Any, zero_point: Any) -> Any:
    if dtype is not None:
        return DType(dtype)
    if zero_point is None:
        return _UINT8
    return zero_point.dtype if zero_point.dtype is unknown else dtype_of(zero_point)


quantize.trait(Trait.EXACT_DTYPES)
quantize.not_differentiable(
    "it is piecewise constant; fake_quantize has a straight-through gradient"
)


@composite
def dequantize(
    x: Other, scale: RealFloating, zero_point: Other | None = None, *,
    axis: int | None = None, block: int = 0,
) -> RealFloating:  # fmt: skip
    """(x - zero_point) * scale"""
    if zero_point is not None:
        exact = _exact_type(dtype_of(x))
        x, zero = (astype(v, dtype=exact) for v in (x, zero_point))
        x = subtract(x, align_scale(zero, x, axis, block))
    return astype(x, dtype=dtype_of(scale)) * align_scale(scale, x, axis, block)


dequantize.trait(Trait.EXACT_DTYPES)


def _exact_type(dtype: DType) -> DType:
    """A type in which differences of two elements are exact."""
    if dtype.kind == "float":
        return DType("float32")
    return DType("int64" if dtype.bits >= 32 else "int32")


@composite
def dynamic_quantize(
    x: RealFloating, *, dtype: Any = _UINT8
) -> tuple[Cast, RealFloating, Cast]:
    """Quantize with scale and zero point computed from the range of x, including 0"""
    low, high = finite_limits(dtype)
    least = minimum(min_(x), 0.0)
    span = maximum(max_(x), 0.0) - least
    scale = span / float(high - low)
    scale = where(equal(scale, 0.0), 1.0, scale)
    zero = clip(round_(float(low) - least / scale), float(low), float(high))
    zero_point = astype(zero, dtype=dtype)
    return quantize(x, scale, zero_point, dtype=dtype), scale, zero_point


dynamic_quantize.trait(Trait.EXACT_DTYPES)
dynamic_quantize.not_differentiable("it is piecewise constant")


# -- fake quantization ---------------------------------------------------------------


@composite
def fake_quantize(
    x: RealFloating, scale: RealFloating, zero_point: Other | None = None, *,
    low: int = 0, high: int = 255, axis: int | None = None,
) -> RealFloating:  # fmt: skip
    """Quantize to low ... high and dequantize; gradients pass where x is in range"""
    scale, zero = _scale_and_zero_point(x, scale, zero_point, axis)
    steps = clip(round_(x / scale) + zero, float(low), float(high))
    return (steps - zero) * scale


def _scale_and_zero_point(x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    scale = align_scale(scale, x, axis, 0)
    if zero_point is None:
        return scale, zeros_like(scale)
    return scale, align_scale(astype(zero_point, dtype=dtype_of(x)), x, axis, 0)


@fake_quantize.gradient
def _(g: Any, x: Any, scale: Any, zero_point: Any = None, *, low: int, high: int,
      axis: int | None) -> Any:  # fmt: skip
    scale, zero = _scale_and_zero_point(x, scale, zero_point, axis)
    steps = round_(x / scale) + zero
    inside = logical_and(
        greater_equal(steps, float(low)), less_equal(steps, float(high))
    )
    return [where(inside, g, 0.0), None, None]


def nudge_range(low: Any, high: Any, bits: int, narrow: bool) -> Any:
    """Range nudged so that 0 is a quantization level: low, high and step."""
    if not 1 <= bits <= 32:
        raise InvalidTypeError(
            "bits of a quantization out of range", expected="1 to 32", got=str(bits)
        )
    first, last = float(narrow), float(2**bits - 1)
    step = (high - low) / (last - first)
    zero = clip(floor(first - low / step + 0.5), first, last)
    return (first - zero) * step, (last - zero) * step, step


@composite
def fake_quantize_range(
    x: RealFloating, low: RealFloating, high: RealFloating, *,
    bits: int = 8, narrow: bool = False,
) -> RealFloating:  # fmt: skip
    """Fake quantization to 2**bits levels between low and high, nudged to include 0

    `narrow`: one level less, so that the range is symmetric."""
    least, most, step = nudge_range(low, high, bits, narrow)
    held = clip(x, least, most) if not dims_of(low) else _clip(x, least, most)
    return floor((held - least) / step + 0.5) * step + least


def _clip(x: Any, low: Any, high: Any) -> Any:
    return minimum(maximum(x, low), high)


@fake_quantize_range.broadcast_gradient
def _(g: Any, x: Any, low: Any, high: Any, *, bits: int, narrow: bool) -> Any:
    least, most, _ = nudge_range(low, high, bits, narrow)
    under, over = less(x, least), greater(x, most)
    outside = logical_or(under, over)
    return (where(outside, 0.0, g), where(under, g, 0.0),
            where(over, g, 0.0))  # fmt: skip


# -- samples -----------------------------------------------------------------------


def _quantize_number(v: float, s: float, z: float, dtype: DType) -> float:
    low, high = finite_limits(dtype)
    if dtype.kind == "float":
        return float(min(max(v / s + z, low), high))
    return float(min(max(round(v / s) + z, low), high))


@quantize.samples
def _() -> Samples:
    numbers = [[-300.0, -2.5, -0.75, 0.0], [0.5, 1.5, 2.5, 900.0]]
    for dtype in ("uint8", "int8", "int16", "uint16", "int4", "uint4", "int2", "uint2",
                  "float8_e4m3fn", "float4_e2m1fn"):  # fmt: skip
        requested = DType(dtype)
        zero = 0 if requested.kind == "float" else 1 if requested.bits == 2 else 3
        for source in ("float32", "float64") if dtype == "uint8" else ("float32",):
            x, s = array(numbers, source), array(0.5, source)
            y = array([[_quantize_number(v, 0.5, zero, requested) for v in row]
                       for row in numbers],
                      dtype)  # fmt: skip
            yield Sample((x, s, array(zero, dtype)), y)
    x, scales = array(numbers, "float32"), [0.5, 2.0]
    zeros = array([1, -2], "int8")
    rows = zip(numbers, scales, (1, -2), strict=True)
    y = [[_quantize_number(v, s, z, DType("int8")) for v in row] for row, s, z in rows]
    yield Sample((x, array(scales, "float32"), zeros), array(y, "int8"), {"axis": 0})
    blocks = array([[0.5, 2.0], [1.0, 4.0]], "float32")
    y = [[_quantize_number(v, float(blocks[i, j // 3]), 0, DType("uint8"))
          for j, v in enumerate(row)] for i, row in enumerate(numbers)]  # fmt: skip
    attrs: dict[str, Any] = {"axis": 1, "block": 3}
    yield Sample((x, blocks), array(y, "uint8"), attrs)
    far = array([1e6, 1.0], "float32")
    attrs = {"dtype": DType("float8_e5m2"), "saturate": False}
    yield Sample(
        (far, array(1.0, "float32")), array([math.inf, 1], "float8_e5m2"), attrs
    )
    yield Sample((far[:0], array(1.0, "float32")), array([], "uint8"))
    yield Sample((array(1.0), array(0.25)), array(4, "uint8"))


@dequantize.samples
def _() -> Samples:
    steps = [[0, 1, 7], [3, 2, 5]]
    for dtype in ("uint8", "int8", "int16", "int32", "uint4", "int4", "float8_e4m3fn"):
        for source in ("float32", "float64", "float16"):
            x, s = array(steps, dtype), array(0.5, source)
            yield Sample((x, s), array([[0, 0.5, 3.5], [1.5, 1, 2.5]], source))
    few: dict[str, list[float]] = {"int2": [-2, -1, 0, 1], "uint2": [0, 1, 2, 3],
           "float4_e2m1fn": [-6, 0.5, 1.5, 4]}  # fmt: skip
    for dtype, all_ in few.items():
        halves = array([n / 2 for n in all_], "float32")
        yield Sample((array(all_, dtype), array(0.5, "float32")), halves)
    x, zero = array(steps, "uint8"), array(5, "uint8")
    y = array([[-1.25, -1.0, 0.5], [-0.5, -0.75, 0]])
    yield Sample((x, array(0.25), zero), y)
    scales, zeros = array([0.5, 2.0, 4.0]), array([1, 2, 3], "uint8")
    y = array([[-0.5, -2, 16], [1, 0, 8]])
    yield Sample((x, scales, zeros), y, {"axis": 1})
    blocks = array([[0.5, 2.0], [1.0, 4.0]])
    y = array([[0, 0.5, 14], [3, 2, 20]])
    yield Sample((x, blocks), y, {"axis": -1, "block": 2})
    yield Sample((x[:0], array(0.5)), np.zeros((0, 3)), smooth=False)
    yield Sample((array(4, "int8"), array(0.5)), array(2.0))


@dynamic_quantize.samples
def _() -> Samples:
    # the examples of the ONNX specification
    x = array([0, 2, -3, -2.5, 1.34, 0.5], "float32")
    y = array([153, 255, 0, 26, 221, 179], "uint8")
    scale = array(5 / 255, "float32")
    yield Sample((x,), [y, scale, array(153, "uint8")])
    x = array([-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], "float64")
    y = array([191, 121, 172, 96, 42, 0], "uint8")
    yield Sample((x,), [y, array(4 / 255), array(255, "uint8")], smooth=False)
    x = array([[1.0, 2.0, 3.0], [4.0, 2.0, 0.5]])
    rows = [[round(v * 255 / 4) - 128 for v in row] for row in x.tolist()]
    attrs = {"dtype": DType("int8")}
    y = [array(rows, "int8"), array(4 / 255), array(-128, "int8")]
    yield Sample((x,), y, attrs, smooth=False)
    zero = [array(0, "uint8"), array(1.0, "float32"), array(0, "uint8")]
    yield Sample((array(0.0, "float32"),), zero)
    empty = [array([], "uint8"), array(1.0), array(0, "uint8")]
    yield Sample((array([]),), empty, smooth=False)


@fake_quantize.samples
def _() -> Samples:
    numbers = [-3.0, -0.4, 0.3, 0.6, 99.0]
    for source in ("float32", "float64"):
        x, s = array(numbers, source), array(0.5, source)
        y = [min(max(round(v / 0.5) + 2, 0), 15) - 2 for v in numbers]
        attrs = {"low": 0, "high": 15}
        zero = array(2, "int32")
        yield Sample((x, s, zero), array([v / 2 for v in y], source), attrs)
    x, scales = ramp(2, 3), array([0.5, 0.25, 1.0])
    rows = [
        [min(max(round(v / s), -8), 7) * s for v, s in zip(row, scales, strict=True)]
        for row in x.tolist()
    ]
    yield Sample((x, scales), array(rows), {"low": -8, "high": 7, "axis": 1})
    yield Sample((x[:0], array(0.5)), x[:0], smooth=False)
    yield Sample((array(0.3), array(0.25)), array(0.25))


def _fake_quantize_number(
    v: float, low: float, high: float, bits: int, narrow: bool
) -> float:
    """As TensorFlow defines it, number by number."""
    first, last = int(narrow), (1 << bits) - 1
    step = (high - low) / (last - first)
    zero = min(max(math.floor(first - low / step + 0.5), first), last)
    least, most = (first - zero) * step, (last - zero) * step
    held = min(max(v, least), most)
    return math.floor((held - least) / step + 0.5) * step + least


@fake_quantize_range.samples
def _() -> Samples:
    numbers = [-9.0, -0.43, 0.31, 0.61, 99.0]
    for source in ("float32", "float64"):
        for bits, narrow in ((8, False), (4, True), (2, False)):
            x, ends = array(numbers, source), (-1.0, 2.0)
            y = [_fake_quantize_number(v, *ends, bits, narrow) for v in numbers]
            low, high = (array(e, source) for e in ends)
            attrs = {"bits": bits, "narrow": narrow}
            yield Sample((x, low, high), array(y, source), attrs)
    x, low, high = ramp(2, 2), array([-1.0, 0.0]), array([1.0, 3.0])
    rows = [[_fake_quantize_number(v, low[j], high[j], 8, False)
             for j, v in enumerate(row)]
            for row in x.tolist()]  # fmt: skip
    yield Sample((x, low, high), array(rows))
    yield Sample((x[:0], low, high), x[:0], smooth=False)
    yield Sample((array(0.5), array(0.0), array(255.0)), array(1.0), smooth=False)
