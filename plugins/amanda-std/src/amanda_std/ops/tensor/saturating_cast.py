"""Saturating casts: out-of-range values become the nearest representable one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import Cast, Other
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.ops.math.arithmetic import clip, where
from amanda_std.ops.math.comparison import greater, isnan, less
from amanda_std.ops.tensor.shape import astype


def finite_limits(dtype: DType) -> tuple[Any, Any]:
    """Lowest and highest finite number of an element type."""
    import ml_dtypes

    if dtype.kind in ("int", "uint"):
        low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
        return low, low + (1 << dtype.bits) - 1
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return float(info.min), float(info.max)


def _bound_in(source: Any, number: Any) -> float:
    """Float nearest to a bound that does not exceed it."""
    largest = finite_limits(source)[1]
    if abs(number) > largest:
        return math.copysign(largest, number)
    near = np.asarray(number).astype(source.numpy)
    beyond = abs(float(near)) > abs(number)
    return float(np.nextafter(near, near.dtype.type(0)) if beyond else near)


@composite
def saturating_cast(x: Other, *, dtype: Any) -> Cast:
    """Cast to another element type, clamping out-of-range values to its limits

    Floats are truncated to integers, NaN becomes 0; infinity becomes the largest finite
    number of a float type."""
    source = DType.of(x.dtype)
    low, high = finite_limits(dtype)
    if source.kind == "bool":
        return astype(x, dtype=dtype)
    if source.kind in ("int", "uint"):
        own = finite_limits(source)
        ends = [max(low, own[0]), min(high, own[1])]
        if dtype.kind == "float":
            return astype(x, dtype=dtype)
        near = clip(x, *(np.asarray(math.trunc(e), source.numpy) for e in ends))
        return astype(near, dtype=dtype)
    if dtype.kind == "float":
        return astype(_clip_to(x, source, low, high), dtype=dtype)
    near = where(isnan(x), 0.0, _clip_to(x, source, low, high))
    y = astype(near, dtype=dtype)
    for end, over in ((high, greater), (low, less)):
        bound = _bound_in(source, end)
        if (
            bound != end
        ):  # not representable in the source type: use the next number inside
            y = where(over(x, bound), np.asarray(end, dtype.numpy), y)
    return y


def _clip_to(x: Any, source: Any, low: Any, high: Any) -> Any:
    return clip(x, _bound_in(source, low), _bound_in(source, high))


saturating_cast.trait(Trait.EXACT_DTYPES)
saturating_cast.not_differentiable("saturation and rounding are piecewise constant")


def _saturate(value: float, dtype: DType) -> Any:
    low, high = finite_limits(dtype)
    if dtype.kind != "float" and math.isnan(value):
        return 0
    if math.isnan(value):
        return value
    held = min(max(value, low), high)
    return held if dtype.kind == "float" else math.trunc(held)


@saturating_cast.samples
def _() -> Samples:
    numbers = [-1e9, -129.5, -3.75, -0.25, 0, 1.5, 7.9, 250.0, 300.0, 1e20]
    ends = [math.inf, -math.inf, math.nan]
    for source in ("float32", "float64", "bfloat16"):
        x = array([*numbers, *ends], source)
        for name in ("int8", "uint8", "int32", "int64", "uint32", "int4", "uint4"):
            dtype = DType(name)
            y = [_saturate(float(v), dtype) for v in x]
            yield Sample((x,), np.array(y, dtype.numpy), {"dtype": dtype})
    for source, names in (
        ("float32", ("int32", "uint32", "int64", "uint64")),
        ("bfloat16", ("int16", "uint16", "int32")),
        ("float16", ("int16", "int32", "uint32")),
        ("float64", ("int64", "uint64")),
    ):
        for name in names:  # limits that the float cannot have, and floats beside them
            dtype = DType(name)
            with np.errstate(over="ignore"):  # float16 makes them infinite
                edges = np.array(finite_limits(dtype)).astype(DType(source).numpy)
            beside = [np.nextafter(edges, edges.dtype.type(e)) for e in (0, math.inf)]
            x = np.concatenate([edges, *beside, array([math.inf, 3.0], source)])
            y = [_saturate(float(v), dtype) for v in x]
            yield Sample((x,), np.array(y, dtype.numpy), {"dtype": dtype})
    exact = array([1.0, -2.5, 0.25, 1e9, -1e9, math.inf, math.nan], "float32")
    tops = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float8_e4m3fnuz": 240.0,
            "float8_e5m2fnuz": 57344.0, "float16": 65504.0}  # fmt: skip
    for name, top in tops.items():
        y = array([1.0, -2.5, 0.25, top, -top, top, math.nan], name)
        yield Sample((exact,), y, {"dtype": DType(name)})
    x = array([-300, -5, 5, 300], "int32")
    yield Sample((x,), array([0, 0, 5, 255], "uint8"), {"dtype": DType("uint8")})
    yield Sample((x,), array([-8, -5, 5, 7], "int4"), {"dtype": DType("int4")})
    yield Sample((x,), x.astype("int64"), {"dtype": DType("int64")})
    yield Sample((x,), x.astype("float32"), {"dtype": DType("float32")})
    flags = array([True, False], "bool")
    yield Sample((flags,), array([1, 0], "int8"), {"dtype": DType("int8")})
    yield Sample((array(200.0),), array(127, "int8"), {"dtype": DType("int8")})
    yield Sample((array([]),), array([], "int8"), {"dtype": DType("int8")})
