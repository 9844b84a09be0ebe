"""Flat indices to coordinates and back: unravel_index, ravel_index."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from amanda_std.engine.annotations import (
    Index,
    ShapeArg,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import add, floor_divide, multiply, remainder
from amanda_std.ops.tensor.index_arithmetic import (
    as_int64,
    unpack_shape_argument,
)
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import stack


@composite
def unravel_index(indices: Index, shape: ShapeArg) -> Index:
    """Convert flat indices to coordinates, one row for each axis (row-major)"""
    many = len(shape) if isinstance(shape, tuple | list) else shape.shape[0]
    flat = as_int64(indices)
    result: list[Any] = []
    for d in reversed(unpack_shape_argument(shape, int(many.__index__()))):
        size = as_int64(d)
        result.insert(0, remainder(flat, size))
        flat = floor_divide(flat, size)
    return stack(*result, axis=0)


@composite
def ravel_index(places: Index, shape: ShapeArg) -> Index:
    """Convert coordinates, one row for each axis, to flat indices (row-major)"""
    many = len(shape) if isinstance(shape, tuple | list) else shape.shape[0]
    total: Any = None
    for i, d in enumerate(unpack_shape_argument(shape, int(many.__index__()))):
        at = as_int64(gather(places, np.asarray(i), 0))
        total = at if total is None else add(multiply(total, as_int64(d)), at)
    return total


def _conversion_samples(back: bool) -> Any:
    def make() -> Samples:
        for dtype in ("int64", "int32"):
            flat = array([[0, 7], [23, 12]], dtype)
            at = [list(p) for p in itertools.product(range(2), range(3), range(4))]
            rows = array([[[at[n][i] for n in row] for row in flat] for i in range(3)],
                         "int64")  # fmt: skip
            args = (rows.astype(dtype), flat) if back else (flat, rows)
            yield Sample((args[0], (2, 3, 4)), args[1].astype("int64"))
        empty = np.zeros(0, "int64"), np.zeros((2, 0), "int64")
        args = empty[::-1] if back else empty
        yield Sample((args[0], (2, 3)), args[1])

    return make


unravel_index.not_differentiable("its results are indices")


ravel_index.not_differentiable("its results are indices")


unravel_index.samples(_conversion_samples(False))


ravel_index.samples(_conversion_samples(True))
