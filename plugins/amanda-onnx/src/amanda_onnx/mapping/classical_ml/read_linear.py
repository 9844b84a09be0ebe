"""From ONNX: linear classifiers and regressors of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_onnx.mapping.classical_ml.scores import (
    array_like,
    select_labels,
    to_float32,
    to_floats,
    transform_scores,
)
from amanda_std import ops
from amanda_std.mappings import expect, tensor_type_of

__all__ = ["READ"]


def read_linear_regressor(
    x: Any, *, coefficients: Any, intercepts: Any = None, post_transform: str = "NONE",
    targets: int = 1,
) -> Any:  # fmt: skip
    y = to_floats(x)
    weights = array_like(coefficients, y).reshape(targets, -1).T
    scores = ops.matmul(y, np.ascontiguousarray(weights))
    scores = scores + array_like(intercepts, y) if intercepts else scores
    return to_float32(transform_scores(scores, post_transform))


def read_linear_classifier(
    x: Any, *, coefficients: Any, intercepts: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None, multi_class: int = 0,  # noqa: ARG001
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """With one row of coefficients, a binary classifier."""
    y = to_floats(x)
    labels = classlabels_ints or classlabels_strings or ()
    rows = len(intercepts) if intercepts else 0
    if not rows:
        width = (
            tensor_type_of(y).shape.dims[1]
            if tensor_type_of(y).shape.has_rank
            else None
        )
        if not isinstance(width, int):
            raise Decline("the number of features is dynamic")
        rows = len(coefficients) // width
    weights = np.ascontiguousarray(array_like(coefficients, y).reshape(rows, -1).T)
    scores = ops.matmul(y, weights)
    scores = scores + array_like(intercepts, y) if intercepts else scores
    if rows == 1 and len(labels) == 2:
        scores, rows = ops.concat(ops.negative(scores), scores, axis=1), 2
    scores = transform_scores(scores, post_transform)
    if rows > 1:
        index = ops.argmax(scores, 1)
        chosen = select_labels(index, classlabels_ints, classlabels_strings)
        return chosen, to_float32(scores)
    expect(not classlabels_strings, "one row of coefficients with string labels")
    bound = 0.0 if post_transform == "NONE" else 0.5
    positive = ops.reshape(ops.greater_equal(scores, bound), [-1])
    index = ops.astype(positive, dtype="int64")
    if classlabels_ints:
        index = index * np.int64(classlabels_ints[0])
    return index, to_float32(scores)


READ: dict[str, Any] = {
    "ai.onnx.ml.LinearClassifier": read_linear_classifier,
    "ai.onnx.ml.LinearRegressor": read_linear_regressor,
}
