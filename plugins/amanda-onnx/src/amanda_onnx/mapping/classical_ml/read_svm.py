"""From ONNX: support vector machines, of the domain ai.onnx.ml."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from amanda_onnx.mapping.classical_ml.read_linear import (
    floats,
    labelled,
    scored,
    single,
)
from amanda_onnx.mapping.static_values import expect
from amanda_std import ops

__all__ = ["READ"]


def _row(values: Any, x: Any) -> Any:
    return np.asarray(values, "float64").astype(x.dtype.numpy)


def _likeness(x: Any, vectors: Any, kernel: str, params: Any) -> Any:
    gamma, base, degree = [*(params or ()), 0.0, 0.0, 0.0][:3]
    return ops.kernel_product(
        x, vectors, kernel=kernel.lower(), gamma=gamma, base=base, degree=degree
    )


def regressor(
    x: Any, *, coefficients: Any, rho: Any, support_vectors: Any = None,
    kernel_params: Any = None, kernel_type: str = "LINEAR", n_supports: int = 0,
    one_class: int = 0, post_transform: str = "NONE",
) -> Any:  # fmt: skip
    y = floats(x)
    weights = _row(coefficients, y)
    if n_supports:
        vectors = _row(support_vectors, y).reshape(n_supports, -1)
        near = _likeness(y, vectors, kernel_type, kernel_params)
    else:
        near = y
    scores = ops.matmul(near, weights.reshape(-1, 1)) + _row(rho[0], y)
    if one_class:
        scores = ops.where(ops.greater(scores, 0.0), 1.0, scores * 0.0 - 1.0)
    return single(scored(scores, post_transform))


def classifier(
    x: Any, *, coefficients: Any, rho: Any, support_vectors: Any = None,
    vectors_per_class: Any = None, kernel_params: Any = None,
    kernel_type: str = "LINEAR", classlabels_ints: Any = None,
    classlabels_strings: Any = None, prob_a: Any = None, prob_b: Any = None,
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """Classes vote in pairs; without vectors, each class has a line."""
    y = floats(x)
    labels = list(classlabels_ints or classlabels_strings or ())
    count = max(len(labels), 1)
    has_shares = False
    if vectors_per_class:
        vectors = _row(support_vectors, y).reshape(sum(vectors_per_class), -1)
        near = _likeness(y, vectors, kernel_type, kernel_params)
        scores = ops.matmul(near, _duels(coefficients, vectors_per_class, y))
        scores = scores + _row(rho, y)
        won = _votes(scores, count)
        if prob_a:
            has_shares = True
            scores = _shares(scores, prob_a, prob_b, count, y)
    else:
        lines = np.ascontiguousarray(_row(coefficients, y).reshape(count, -1).T)
        scores = won = ops.matmul(y, lines) + _row(rho[0], y)
    at = ops.argmax(won, 1)
    all_positive = min(coefficients) >= 0
    if len(rho) == 1 and len(labels) == 2 and not has_shares and all_positive:
        top = ops.max(won, (1,))
        at = ops.where(ops.greater_equal(top, 0.5), np.int64(1), at)
    elif len(rho) == 1 and len(labels) != 2:
        expect(not classlabels_strings, "one line for several texts")
        over = ops.greater(ops.max(won, (1,)), 0.0)
        one = ops.astype(over, dtype="int64")
        return one, single(_final(scores, count, post_transform))
    width = count if has_shares or not vectors_per_class else len(rho)
    final = _final(scores, width, post_transform)
    named = labelled(at, classlabels_ints, classlabels_strings)
    return named, single(final)


def _final(scores: Any, width: int, transform: str) -> Any:
    """One score of two classes is that of the second, and its negative the first's."""
    if width == 1 and transform != "PROBIT":
        scores = ops.concat(ops.negative(scores), scores, axis=1)
    return scored(scores, transform)


def _duels(coefficients: Any, sizes: Any, x: Any) -> Any:
    """The weight of each vector in each pair of classes: [vectors, pairs]."""
    count, whole = len(sizes), sum(sizes)
    starts = np.cumsum([0, *sizes])
    weights = np.asarray(coefficients, "float64").reshape(-1, whole)
    found = np.zeros((whole, count * (count - 1) // 2))
    for pair, (i, j) in enumerate(combinations(range(count), 2)):
        one, two = (slice(starts[c], starts[c + 1]) for c in (i, j))
        found[one, pair] = weights[j - 1, one]
        found[two, pair] = weights[i, two]
    return found.astype(x.dtype.numpy)


def _votes(scores: Any, count: int) -> Any:
    """How many pairs each class wins."""
    pairs = list(combinations(range(count), 2))
    first, second = (np.zeros((len(pairs), count)) for _ in range(2))
    for row, (i, j) in enumerate(pairs):
        first[row, i] = second[row, j] = 1
    own = scores.dtype
    won = ops.astype(ops.greater(scores, 0.0), dtype=own)
    tables = (v.astype(own.numpy) for v in (first, second))
    one, two = tables
    return ops.matmul(won, one) + ops.matmul(1.0 - won, two)


def _shares(scores: Any, a: Any, b: Any, count: int, x: Any) -> Any:
    """The shares of classes that fit the shares in pairs best, as libsvm finds them."""
    duel = ops.sigmoid(ops.negative(scores * _row(a, x) + _row(b, x)))
    duel = ops.clip(duel, 1e-7, 1 - 1e-7)
    own: list[list[Any]] = [[None] * count for _ in range(count)]
    for pair, (i, j) in enumerate(combinations(range(count), 2)):
        own[i][j] = ops.gather(duel, np.asarray(pair), 1)
        own[j][i] = 1.0 - own[i][j]
    rows = []
    for t in range(count):
        others = [j for j in range(count) if j != t]
        total = sum(
            (ops.square(own[j][t]) for j in others[1:]), ops.square(own[others[0]][t])
        )
        line = [
            total if j == t else ops.negative(own[j][t] * own[t][j])
            for j in range(count)
        ]
        rows.append(ops.stack(*line, axis=-1))
    table = ops.stack(*rows, axis=1)
    return _settled(table, rows, count, x)


def _settled(table: Any, rows: list[Any], count: int, x: Any) -> Any:
    """Rounds until the error is small; rows that are done stay as they are."""
    first = ops.slice_(
        ops.slice_(table, [0], [1], [1]) * 0.0 + 1.0 / count, [0], [1], [1]
    )
    shares = ops.squeeze(first, (1,))

    def body(_turn: Any, more: Any, p: Any) -> Any:
        moved = ops.squeeze(ops.matmul(table, ops.expand_dims(p, (2,))), (2,))
        level = ops.sum(p * moved, (1,), keepdims=True)
        off = ops.max(ops.abs(moved - level), (1,), keepdims=True)
        old = p
        for t in range(count):
            line = rows[t]
            own = ops.slice_(line, [t], [t + 1], [1])
            step = (level - ops.slice_(moved, [t], [t + 1], [1])) / own
            here = ops.slice_(moved, [t], [t + 1], [1])
            level = (level + step * (step * own + here * 2.0)) / ops.square(step + 1.0)
            one = np.eye(count)[t].astype(x.dtype.numpy)
            p = (p + step * one) / (step + 1.0)
            moved = (moved + step * line) / (step + 1.0)
        return more, ops.where(ops.less(off, 0.005 / count), old, p)

    (made,) = _many(ops.loop(np.int64(max(100, count)), np.True_, body, shares))
    return made


def _many(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


_ML = "ai.onnx.ml."
READ: dict[str, Any] = {
    f"{_ML}SVMRegressor": regressor,
    f"{_ML}SVMClassifier": classifier,
}
