"""N-gram counts (TF-IDF vectorizer)."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import (
    Array,
    Cast,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import add, maximum, subtract
from amanda_std.ops.math.comparison import equal
from amanda_std.ops.math.logic import logical_and
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.creation import full
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.manipulation import slice_
from amanda_std.ops.tensor.shape import astype, dim, expand_dims

_FLOAT32 = DType("float32")


@composite
def ngram_counts(
    x: Array, grams: Array, *, length: int, step: int = 1, dtype: Any = _FLOAT32
) -> Cast:
    """Number of occurrences of each n-gram, of `length` elements, along the last axis

    `step`: the distance of consecutive n-gram elements in x (skip-grams)."""
    width = dim(x, axis=-1)
    starts = maximum(subtract(width, (length - 1) * step), 0)
    result = None
    for k in range(length):
        first = full((1,), np.int64(k * step))
        stop = add(first, starts)
        piece = slice_(x, first, stop, (-1,))
        part = gather(grams, np.asarray(k), 1)
        here = equal(expand_dims(piece, (-1,)), part)
        result = here if result is None else logical_and(result, here)
    return sum_(astype(result, dtype=dtype), (-2,))


ngram_counts.not_differentiable("its results are counts")


def _count_by_loop(row: list[Any], gram: list[Any], step: int) -> int:
    starts = range(max(len(row) - (len(gram) - 1) * step, 0))
    return sum(
        all(row[s + k * step] == part for k, part in enumerate(gram)) for s in starts
    )


@ngram_counts.samples
def _() -> Samples:
    x = array([[1, 2, 1, 2, 3], [2, 2, 2, 2, 1]], "int32")
    for grams in ([[1], [2]], [[1, 2], [2, 2], [2, 1]], [[2, 2, 2]], [[1] * 6]):
        x = x.astype("int64" if len(grams) == 1 else "int32")
        for step in (1, 2):
            y = [[_count_by_loop(row, g, step) for g in grams] for row in x.tolist()]
            own: dict[str, Any] = {"step": step, "length": len(grams[0])}
            yield Sample((x, array(grams, str(x.dtype))), array(y, "float32"), own)
    row = [_count_by_loop(x[0].tolist(), g, 1) for g in ([1, 2], [2, 3])]
    grams = array([[1, 2], [2, 3]], "int64")
    attrs: dict[str, Any] = {"dtype": "int64", "length": 2}
    x = x.astype("int64")
    yield Sample((x[0], grams), array(row, "int64"), attrs)
    yield Sample((x[:0], grams), np.zeros((0, 2), "float32"), {"length": 2})
