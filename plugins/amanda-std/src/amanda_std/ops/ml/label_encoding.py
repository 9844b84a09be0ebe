"""Label encoding: lookup tables from keys to values."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

import numpy as np

from amanda.types import DType, MapType, Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Anything,
    ArgKind,
    Array,
    Map,
)
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.ops.math.arithmetic import where
from amanda_std.ops.math.comparison import equal, isnan
from amanda_std.ops.math.logic import logical_and, logical_or
from amanda_std.ops.math.reduction import any_, argmax
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import astype, expand_dims
from amanda_std.runtime.containers import expect_kind

Key: TypeAlias = Annotated[Any, ArgKind(shared=False)]


@composite
def lookup(x: Key, keys: Key, values: Array, otherwise: Array) -> Array:
    """Look up the value of each key; `otherwise` where it is missing

    NaN matches NaN."""
    own = expand_dims(x, (-1,))
    same = equal(own, keys)
    if str(x.dtype) in ("float16", "bfloat16", "float32", "float64"):
        both = logical_and(isnan(own), isnan(keys))
        same = logical_or(same, both)
    at = argmax(astype(same, dtype=DType("int32")), -1)
    return where(any_(same, (-1,)), gather(values, at, 0), otherwise)


lookup.trait(Trait.EXACT_DTYPES)


lookup.not_differentiable("its results are looked up")


@primitive(numpy_only=True)
def map_values(m: Map) -> Anything:
    """Values of a map as a vector, in the order of its keys"""
    rows = [m[key] for key in sorted(m)]
    return np.stack(rows) if rows else np.zeros((0,), "float32")


@map_values.infer
def _(m: Any) -> Any:
    value = expect_kind(MapType, m).value
    shape = Shape([Sym.unknown(), *value.shape.dims] if value.shape.has_rank else None)
    return [TensorType(value.dtype, shape)]


map_values.not_differentiable("gradients do not go through maps")


@map_values.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        held = {7: array(1, dtype), 3: array(2, dtype)}
        yield Sample((held,), array([2, 1], dtype))
    yield Sample(({"b": array([1.0]), "a": array([2.0])},), array([[2.0], [1.0]]))


@lookup.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        keys, values = array([3, 1], "int64"), array([30, 10], dtype)
        x = array([[1, 2], [3, 3]], "int64")
        y = array([[10, -1], [30, 30]], dtype)
        yield Sample((x, keys, values, array(-1, dtype)), y)
    reals = array([math.nan, 0.5, 2], "float32")
    keys = array([0.5, math.nan], "float32")
    yield Sample(
        (reals, keys, values, array(-1, "int64")), array([10, 30, -1], "int64")
    )
    yield Sample((reals[:0], keys, values, array(-1, "int64")), array([], "int64"))
    yield Sample(
        (array(0.5, "float32"), keys, values, array(-1, "int64")), array(30, "int64")
    )
