"""What the classifiers and regressors of ai.onnx.ml share: dtypes, labels, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to, expect

__all__ = [
    "array_like",
    "select_labels",
    "string_tensor",
    "to_float32",
    "to_floats",
    "transform_scores",
]

_FLOAT32 = DType("float32")
_ZERO = 1e-7
"""Scores of this size or less count as 0 in SOFTMAX_ZERO."""


def to_floats(x: Any) -> Any:
    """Data of float32 or float64 unchanged, other data as float32."""
    return x if str(x.dtype) in ("float32", "float64") else cast_to(x, _FLOAT32)


def to_float32(x: Any) -> Any:
    """The dtype of results."""
    return cast_to(x, _FLOAT32)


def string_tensor(values: Sequence[Any]) -> Tensor:
    items = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    return Tensor.strings(items)


def array_like(values: Any, x: Any) -> Any:
    """Numbers of an attribute, in the dtype of the data."""
    numbers, dtype = np.asarray(values, "float64"), x.dtype.numpy
    if np.issubdtype(dtype, np.integer):
        ends = np.iinfo(dtype)
        inside = (numbers >= ends.min) & (numbers <= ends.max)
        expect(bool(inside.all()), f"an attribute is out of the range of {dtype}")
    with np.errstate(over="ignore"):
        return numbers.astype(dtype)


def select_labels(index: Any, ints: Any, strings: Any) -> Any:
    """The labels of class indices; the indices themselves without labels."""
    if ints:
        return ops.gather(np.asarray(ints, "int64"), index, 0)
    if strings:
        return ops.gather(string_tensor(strings), index, 0)
    return ops.astype(index, dtype="int64")


def transform_scores(scores: Any, transform: str | None) -> Any:
    """Apply `post_transform` along the last axis."""
    if transform in (None, "NONE"):
        return scores
    if transform == "LOGISTIC":
        return ops.sigmoid(scores)
    if transform == "SOFTMAX":
        return ops.softmax(scores, axes=(-1,))
    if transform == "PROBIT":
        return ops.ndtri(scores)
    if transform != "SOFTMAX_ZERO":
        raise Decline(f"unknown post_transform {transform}")
    top = ops.max(scores, (-1,), keepdims=True)
    is_zero = ops.less_equal(ops.abs(scores), _ZERO)
    weights = ops.exp(scores - top)
    weights = ops.where(is_zero, scores * ops.exp(ops.negative(top)), weights)
    total = ops.sum(weights, (-1,), keepdims=True)
    return ops.where(ops.equal(total, 0.0), 0.5, weights / total)
