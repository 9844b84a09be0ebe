"""From ONNX: support vector machines of ai.onnx.ml."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from amanda_onnx.mapping.classical_ml.scores import (
    array_like,
    select_labels,
    to_float32,
    to_floats,
    transform_scores,
)
from amanda_std import ops
from amanda_std.mappings import expect

__all__ = ["READ"]


def _kernel_product(x: Any, vectors: Any, kernel: str, params: Any) -> Any:
    gamma, base, degree = [*(params or ()), 0.0, 0.0, 0.0][:3]
    return ops.kernel_product(
        x, vectors, kernel=kernel.lower(), gamma=gamma, base=base, degree=degree
    )


def read_svm_regressor(
    x: Any, *, coefficients: Any, rho: Any, support_vectors: Any = None,
    kernel_params: Any = None, kernel_type: str = "LINEAR", n_supports: int = 0,
    one_class: int = 0, post_transform: str = "NONE",
) -> Any:  # fmt: skip
    y = to_floats(x)
    weights = array_like(coefficients, y)
    if n_supports:
        vectors = array_like(support_vectors, y).reshape(n_supports, -1)
        features = _kernel_product(y, vectors, kernel_type, kernel_params)
    else:
        features = y
    scores = ops.matmul(features, weights.reshape(-1, 1)) + array_like(rho[0], y)
    if one_class:
        one = ops.ones_like(scores)
        scores = ops.where(ops.greater(scores, 0.0), one, -one)
    return to_float32(transform_scores(scores, post_transform))


def read_svm_classifier(
    x: Any, *, coefficients: Any, rho: Any, support_vectors: Any = None,
    vectors_per_class: Any = None, kernel_params: Any = None,
    kernel_type: str = "LINEAR", classlabels_ints: Any = None,
    classlabels_strings: Any = None, prob_a: Any = None, prob_b: Any = None,
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """One-vs-one voting; without support vectors, a linear classifier."""
    y = to_floats(x)
    labels = list(classlabels_ints or classlabels_strings or ())
    count = max(len(labels), 1)
    has_probabilities = False
    if vectors_per_class:
        vectors = array_like(support_vectors, y).reshape(sum(vectors_per_class), -1)
        features = _kernel_product(y, vectors, kernel_type, kernel_params)
        pairwise = _pairwise_weights(coefficients, vectors_per_class, y)
        scores = ops.matmul(features, pairwise) + array_like(rho, y)
        votes = _count_votes(scores, count)
        if prob_a:
            has_probabilities = True
            scores = _couple_probabilities(scores, prob_a, prob_b, count, y)
    else:
        rows = np.ascontiguousarray(array_like(coefficients, y).reshape(count, -1).T)
        scores = votes = ops.matmul(y, rows) + array_like(rho[0], y)
    index = ops.argmax(votes, 1)
    has_positive_weights = min(coefficients) >= 0
    if len(rho) == 1 and len(labels) == 2:
        if not has_probabilities and has_positive_weights:
            top = ops.max(votes, (1,))
            index = ops.where(ops.greater_equal(top, 0.5), np.int64(1), index)
    elif len(rho) == 1:
        expect(not classlabels_strings, "one decision function with string labels")
        positive = ops.greater(ops.max(votes, (1,)), 0.0)
        final = _final_scores(scores, count, post_transform)
        return ops.astype(positive, dtype="int64"), to_float32(final)
    width = count if has_probabilities or not vectors_per_class else len(rho)
    final = _final_scores(scores, width, post_transform)
    chosen = select_labels(index, classlabels_ints, classlabels_strings)
    return chosen, to_float32(final)


def _final_scores(scores: Any, width: int, transform: str) -> Any:
    """One score of two classes is that of the second; the first has its negative."""
    if width == 1 and transform != "PROBIT":
        scores = ops.concat(ops.negative(scores), scores, axis=1)
    return transform_scores(scores, transform)


def _pairwise_weights(coefficients: Any, sizes: Any, x: Any) -> Any:
    """The weight of each support vector in each pair of classes: [vectors, pairs]."""
    count, total = len(sizes), sum(sizes)
    starts = np.cumsum([0, *sizes])
    weights = np.asarray(coefficients, "float64").reshape(-1, total)
    table = np.zeros((total, count * (count - 1) // 2))
    for pair, (i, j) in enumerate(combinations(range(count), 2)):
        one, two = (slice(starts[c], starts[c + 1]) for c in (i, j))
        table[one, pair] = weights[j - 1, one]
        table[two, pair] = weights[i, two]
    return table.astype(x.dtype.numpy)


def _count_votes(scores: Any, count: int) -> Any:
    """The number of pairs that each class wins."""
    pairs = list(combinations(range(count), 2))
    first, second = (np.zeros((len(pairs), count)) for _ in range(2))
    for row, (i, j) in enumerate(pairs):
        first[row, i] = second[row, j] = 1
    own = scores.dtype
    won = ops.astype(ops.greater(scores, 0.0), dtype=own)
    one, two = (v.astype(own.numpy) for v in (first, second))
    return ops.matmul(won, one) + ops.matmul(1.0 - won, two)


def _couple_probabilities(scores: Any, a: Any, b: Any, count: int, x: Any) -> Any:
    """Class probabilities from pairwise ones (Wu, Lin and Weng), as libsvm does."""
    pairwise = ops.sigmoid(ops.negative(scores * array_like(a, x) + array_like(b, x)))
    pairwise = ops.clip(pairwise, 1e-7, 1 - 1e-7)
    r: list[list[Any]] = [[None] * count for _ in range(count)]
    for pair, (i, j) in enumerate(combinations(range(count), 2)):
        r[i][j] = ops.gather(pairwise, np.asarray(pair), 1)
        r[j][i] = 1.0 - r[i][j]
    rows = []
    for t in range(count):
        first, *others = (j for j in range(count) if j != t)
        total = sum((ops.square(r[j][t]) for j in others), ops.square(r[first][t]))
        row = [
            total if j == t else ops.negative(r[j][t] * r[t][j]) for j in range(count)
        ]
        rows.append(ops.stack(*row, axis=-1))
    return _minimize(ops.stack(*rows, axis=1), rows, count, x)


def _minimize(q: Any, rows: list[Any], count: int, x: Any) -> Any:
    """Probabilities that minimize p'Qp, by iteration; converged rows stay unchanged."""
    ones = ops.slice_(q, [0], [1], [1]) * 0.0 + 1.0 / count
    initial = ops.squeeze(ops.slice_(ones, [0], [1], [1]), (1,))

    def body(_turn: Any, more: Any, p: Any) -> Any:
        qp = ops.squeeze(ops.matmul(q, ops.expand_dims(p, (2,))), (2,))
        pqp = ops.sum(p * qp, (1,), keepdims=True)
        error = ops.max(ops.abs(qp - pqp), (1,), keepdims=True)
        old = p
        for t in range(count):
            row = rows[t]
            diagonal = ops.slice_(row, [t], [t + 1], [1])
            step = (pqp - ops.slice_(qp, [t], [t + 1], [1])) / diagonal
            qp_t = ops.slice_(qp, [t], [t + 1], [1])
            pqp = (pqp + step * (step * diagonal + qp_t * 2.0)) / ops.square(step + 1.0)
            unit = np.eye(count)[t].astype(x.dtype.numpy)
            p = (p + step * unit) / (step + 1.0)
            qp = (qp + step * row) / (step + 1.0)
        return more, ops.where(ops.less(error, 0.005 / count), old, p)

    (found,) = ops.loop(np.int64(max(100, count)), np.True_, body, initial)
    return found


READ: dict[str, Any] = {
    "ai.onnx.ml.SVMRegressor": read_svm_regressor,
    "ai.onnx.ml.SVMClassifier": read_svm_classifier,
}
