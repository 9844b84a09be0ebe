"""Reductions over segments of an axis."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import (
    Index,
    Real,
    ShapeArg,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    maximum,
    minimum,
    subtract,
    where,
)
from amanda_std.ops.math.comparison import equal, less
from amanda_std.ops.math.reduction import extreme_identity
from amanda_std.ops.tensor.creation import full as full_
from amanda_std.ops.tensor.creation import ones_like, scalar_like
from amanda_std.ops.tensor.index_arithmetic import (
    as_int64,
    dtype_of,
    in_range,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import slice_
from amanda_std.ops.tensor.scatter import product_gradient, scatter_nd
from amanda_std.ops.tensor.shape import astype, expand_dims, shape_of

_SCATTER_MODES = {
    "sum": "add",
    "mean": "add",
    "prod": "mul",
    "max": "max",
    "min": "min",
}


def _identity_of(reduction: str, dtype: Any) -> Any:
    if reduction in ("max", "min"):
        return extreme_identity(dtype, reduction == "max")
    return 1 if reduction == "prod" else 0


@composite
def segment_reduce(
    x: Real, segments: Index, count: ShapeArg, *, reduction: str = "sum"
) -> Real:
    """Reduce (sum, mean, prod, max, min) the slices of the first axis by segment

    Slices whose segment is not in 0 ... count - 1 are dropped. Empty segments hold the
    identity of the reduction."""
    if reduction not in _SCATTER_MODES:
        known = ", ".join(_SCATTER_MODES)
        raise InvalidTypeError("unknown reduction", expected=known, got=reduction)
    many = (
        unpack_shape_argument(count, 1)[0] if isinstance(count, tuple | list) else count
    )
    if isinstance(many, int) and many < 0:
        raise InvalidTypeError("the number of segments is negative", got=many)
    at = _valid_segments(segments, many)
    empty = scalar_like(_identity_of(reduction, dtype_of(x).numpy), x)
    rest = list(x.shape[1:])
    room = full_([add(as_int64(many), 1), *rest], empty)
    rows = expand_dims(at, (1,))
    result = scatter_nd(room, rows, x, reduction=_SCATTER_MODES[reduction])
    result = slice_(result, [0], [many], [0])
    if reduction != "mean":
        return result
    ones = full_(shape_of(at), np.asarray(1, "int64"))
    each = astype(segment_reduce(ones, segments, count), dtype=dtype_of(x))
    after = tuple(range(1, x.ndim))
    each = maximum(each, scalar_like(1, x))
    return divide(result, expand_dims(each, after) if after else each)


def _valid_segments(segments: Any, count: Any) -> Any:
    """Map out-of-range segments to one extra segment at the end."""
    at, last = as_int64(segments), subtract(as_int64(count), 1)
    return where(in_range(at, np.asarray(0), last), at, as_int64(count))


@segment_reduce.gradient
def _(g: Any, y: Any, x: Any, segments: Any, count: Any, *, reduction: str) -> Any:
    many = count[0] if isinstance(count, tuple | list) else count
    at = _valid_segments(segments, many)
    last = maximum(subtract(as_int64(many), 1), np.asarray(0))
    safe = minimum(at, last)
    after = tuple(range(1, x.ndim))
    inside = less(at, as_int64(many))
    inside = expand_dims(inside, after) if after else inside
    gradient = where(inside, gather(g, safe), scalar_like(0, x))
    if reduction == "mean":
        weight = segment_reduce(ones_like(x), segments, count)
        gradient = divide(gradient, maximum(gather(weight, safe), scalar_like(1, x)))
    if reduction == "prod":
        factors, rows = where(inside, x, ones_like(x)), expand_dims(safe, (1,))

        def put(to: Any, values: Any, reduction: str = "none") -> Any:
            return scatter_nd(to, rows, values, reduction=reduction)

        def take(of: Any) -> Any:
            return gather(of, safe)

        others = product_gradient(g, y, ones_like(y), factors, put, take)[1]
        gradient = where(inside, others, scalar_like(0, x))
    if reduction in ("max", "min"):
        best = equal(x, gather(y, safe))
        ties = segment_reduce(astype(best, dtype=x.dtype), segments, count)
        gradient = where(best, divide(gradient, gather(ties, safe)),
                           scalar_like(0, x))  # fmt: skip
    return [gradient, None, None]


@segment_reduce.samples
def _() -> Samples:
    folds: dict[str, Any] = {
        "sum": math.fsum,
        "prod": math.prod,
        "max": max,
        "min": min,
        "mean": lambda n: math.fsum(n) / len(n),
    }
    for dtype in ("float64", "float32", "int32"):
        x = ramp(5, 2, dtype=dtype)
        at = array([2, 0, 2, -1, 7], "int64")
        for reduction, fold in folds.items():
            if reduction == "mean" and dtype == "int32":
                continue
            empty = _identity_of(reduction, x.dtype)
            y = np.full((3, 2), empty, x.dtype)
            for s, i in itertools.product(range(3), range(2)):
                seen = [x[j, i].item() for j in range(5) if at[j] == s]
                if seen:
                    y[s, i] = fold(seen)
            attrs = {"reduction": reduction}
            finite = reduction not in ("max", "min")
            yield Sample((x, at, 3), y, attrs, smooth=finite)
            full = array([1, 0, 1, 0, 2], "int32")
            z = np.stack([x[[1, 3]], x[[0, 2]]])
            z = np.array([[fold(c) for c in part.T.tolist()] for part in z], x.dtype)
            z = np.concatenate([z, x[4:]])
            yield Sample((x, full, 3), z, attrs)
    zeros = array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.5]])
    y = array([[0.0, 1.0], [3.0, 0.0]])
    yield Sample((zeros, array([0, 1, 0], "int64"), 2), y, {"reduction": "prod"})
    none = np.zeros((0, 2)), np.zeros(0, "int64")
    yield Sample((*none, 2), np.zeros((2, 2)), smooth=False)
