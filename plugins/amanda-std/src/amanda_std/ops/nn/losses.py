"""Loss functions.

`reduction`: "mean", "sum", or "none" for one number per element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType
from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import Operation, composite
from amanda_std.engine.samples import Sample, Samples, array, elementwise_by_loop, ramp
from amanda_std.engine.values import dims_of
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
    where,
)
from amanda_std.ops.math.binary_special import squared_difference, xlogy
from amanda_std.ops.math.comparison import equal, not_equal
from amanda_std.ops.math.elementary import exp, log1p, sqrt
from amanda_std.ops.math.elementary import log as log_
from amanda_std.ops.math.norms import sum_squares
from amanda_std.ops.math.reduction import mean, sum_
from amanda_std.ops.nn.activation import log_softmax, softplus
from amanda_std.ops.tensor.creation import ones_like
from amanda_std.ops.tensor.indexing import gather, gather_elements
from amanda_std.ops.tensor.shape import astype, expand_dims, squeeze


def apply_reduction(loss: Any, reduction: str, weight: Any = None) -> Any:
    """Apply a reduction; the mean is weighted by `weight` if given."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return sum_(loss)
    if reduction != "mean":
        raise InvalidTypeError(
            "unknown reduction", expected="mean, sum or none", got=reduction
        )
    if weight is None:
        return mean(loss)
    return divide(sum_(loss), sum_(weight))


# -- of classes ------------------------------------------------------------------


@composite
def nll_loss(
    x: RealFloating, labels: Index, weight: RealFloating | None = None, *,
    axis: int = 1, ignore: int | None = None, reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Negative log-likelihood of the labels, given log-probabilities along an axis

    `weight` has one number per class; labels equal to `ignore` do not count."""
    at = normalize_axis(axis, len(dims_of(x)))
    labels = astype(labels, dtype=DType("int64"))
    if ignore is None:
        counts = None
    else:
        counts = not_equal(labels, ignore)
        labels = where(counts, labels, 0)
    picked = gather_elements(x, expand_dims(labels, (at,)), axis=at)
    loss = negative(squeeze(picked, (at,)))
    fraction = None if weight is None else gather(weight, labels, 0)
    if counts is not None:
        fraction = ones_like(loss) if fraction is None else fraction
        fraction = where(counts, fraction, 0.0)
    if fraction is not None:
        loss = where(equal(fraction, 0.0), 0.0, multiply(loss, fraction))
    return apply_reduction(loss, reduction, fraction)


@composite
def softmax_cross_entropy(
    x: RealFloating, labels: Index, weight: RealFloating | None = None, *,
    axis: int = 1, ignore: int | None = None, reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Cross-entropy of logits and integer labels: nll_loss of log_softmax"""
    return nll_loss(
        log_softmax(x, axes=(axis,)), labels, weight, axis=axis, ignore=ignore,
        reduction=reduction,
    )  # fmt: skip


@composite
def soft_cross_entropy(
    x: RealFloating, target: RealFloating, *, axis: int = -1, reduction: str = "none"
) -> RealFloating:
    """Cross-entropy of logits and target probabilities"""
    weights = multiply(log_softmax(x, axes=(axis,)), target)
    return apply_reduction(negative(sum_(weights, (axis,))), reduction)


def _nll_by_loops(
    x: Any, labels: Any, weight: Any, axis: int, ignore: int | None, reduction: str
) -> Any:
    """Loss label by label, in loops."""
    rows = np.moveaxis(x, axis, -1)
    loss, total = np.zeros(labels.shape), 0.0
    for at in np.ndindex(labels.shape):
        label = int(labels[at])
        if label == ignore:
            continue
        fraction = 1.0 if weight is None else float(weight[label])
        loss[at] = -float(rows[at][label]) * fraction
        total += fraction
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() if reduction == "sum" else loss.sum() / total)


def _log_softmax_by_loops(x: Any, axis: int) -> Any:
    rows = np.moveaxis(x.astype("float64"), axis, -1)
    out = np.zeros(rows.shape)
    for at in np.ndindex(rows.shape[:-1]):
        total = math.log(math.fsum(math.exp(v) for v in rows[at]))
        out[at] = [v - total for v in rows[at]]
    return np.moveaxis(out, -1, axis)


def _class_samples(before: Callable[[Any, int], Any]) -> Any:
    def make() -> Samples:
        labels = array([[2, 0], [1, 1], [0, 2]], "int64")
        weight = array([0.5, 2.0, 1.25])
        for dtype in ("float64", "float32"):
            x = ramp(3, 3, 2, dtype=dtype)
            for reduction in ("mean", "sum", "none"):
                for ignore in (None, 1):
                    for w in (None, weight.astype(dtype)):
                        y = _nll_by_loops(before(x, 1), labels, w, 1, ignore, reduction)
                        attrs = {"reduction": reduction, "ignore": ignore}
                        args = (x, labels) if w is None else (x, labels, w)
                        yield Sample(args, y.astype(dtype), attrs)
        flat, own = ramp(3, 4), array([3, -1, 0], "int32")
        y = _nll_by_loops(before(flat, 1), own, None, 1, -1, "mean")
        yield Sample((flat, own), y, {"ignore": -1, "axis": -1})
        attrs = {"reduction": "none"}
        yield Sample((flat[:0], own[:0]), np.zeros(0), attrs, smooth=False)

    return make


nll_loss.samples(_class_samples(lambda x, _: x))
softmax_cross_entropy.samples(_class_samples(_log_softmax_by_loops))


@soft_cross_entropy.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, dtype=dtype)
        target = array([[0.25, 0.5, 0.25], [0, 1, 0]], dtype)
        rows = -(_log_softmax_by_loops(x, -1) * target.astype("float64")).sum(-1)
        for reduction, y in (
            ("none", rows),
            ("sum", rows.sum()),
            ("mean", rows.mean()),
        ):
            yield Sample((x, target), array(y, dtype), {"reduction": reduction})
    yield Sample((x[:0], target[:0]), np.zeros(0, "float32"), smooth=False)


# -- elementwise losses ------------------------------------------------------------


@composite
def squared_error(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """Squared error"""
    return apply_reduction(squared_difference(x, target), reduction)


@composite
def absolute_error(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """Absolute error"""
    return apply_reduction(abs_(subtract(x, target)), reduction)


@composite
def huber_loss(
    x: RealFloating, target: RealFloating, *, delta: float = 1.0,
    reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Huber loss: quadratic below delta, linear above"""
    difference = abs_(subtract(x, target))
    near = minimum(difference, delta)
    loss = multiply(near, subtract(difference, multiply(near, 0.5)))
    return apply_reduction(loss, reduction)


@composite
def log_cosh_loss(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """Log-cosh loss: log(cosh(x - target)), without overflow"""
    difference = subtract(x, target)
    loss = add(difference, softplus(multiply(difference, -2.0)))
    return apply_reduction(subtract(loss, math.log(2)), reduction)


@composite
def binary_cross_entropy(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """Binary cross-entropy of probabilities

    Logarithms are clamped to at least -100, as in PyTorch."""
    yes = _clamped_log(log_, x, equal(x, 0.0))
    no = _clamped_log(
        lambda x: log1p(negative(x)), x, equal(x, 1.0)
    )  # fmt: skip
    weight = multiply(target, subtract(no, yes))
    return apply_reduction(subtract(weight, no), reduction)


def _clamped_log(log: Callable[[Any], Any], x: Any, is_none: Any) -> Any:
    """Logarithm clamped to at least -100, with zero gradient at probability zero."""
    result = maximum(log(where(is_none, 0.5, x)), -100.0)
    return where(is_none, -100.0, result)


@composite
def sigmoid_cross_entropy(
    x: RealFloating, target: RealFloating, positive: RealFloating | None = None, *,
    reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Binary cross-entropy of logits, without overflow

    `positive` weights the positive targets."""
    rest = softplus(negative(x))
    if positive is not None:
        more = subtract(multiply(positive, 1.0), 1.0)
        rest = multiply(rest, add(multiply(target, more), 1.0))
    return apply_reduction(add(multiply(subtract(1.0, target), x), rest), reduction)


@composite
def kl_divergence(
    x: RealFloating, target: RealFloating, *, log_target: bool = False,
    reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Kullback-Leibler divergence: target * (log(target) - x), x log-probabilities"""
    if log_target:
        loss = multiply(exp(target), subtract(target, x))
    else:
        loss = subtract(xlogy(target, target), multiply(target, x))
    return apply_reduction(loss, reduction)


@composite
def poisson_loss(
    x: RealFloating, target: RealFloating, *, log_input: bool = True,
    epsilon: float = 1e-8, reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Poisson negative log-likelihood, without the terms that are constant in x"""
    if log_input:
        loss = subtract(exp(x), multiply(target, x))
    else:
        more = log_(add(x, epsilon))
        loss = subtract(x, multiply(target, more))
    return apply_reduction(loss, reduction)


@composite
def hinge_loss(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """Hinge loss: max(0, 1 - x * target), targets are -1 or 1"""
    margin = subtract(1.0, multiply(x, target))
    return apply_reduction(maximum(margin, 0.0), reduction)


@composite
def cosine_similarity(
    a: RealFloating, b: RealFloating, *, axis: int = -1, epsilon: float = 1e-8
) -> RealFloating:
    """Cosine similarity of vectors along an axis"""
    axes = (axis,)
    inner = sum_(multiply(a, b), axes)
    sizes = (sqrt(maximum(sum_squares(v, axes), epsilon**2)) for v in (a, b))
    return divide(inner, multiply(*sizes))


def _bce(p: float, t: float) -> float:
    return -(t * math.log(p) + (1 - t) * math.log(1 - p))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _huber(a: float, b: float, delta: float) -> float:
    difference = abs(a - b)
    return difference**2 / 2 if difference < delta else delta * (difference - delta / 2)


_ANY = (1.5, -2.0, 0.25, 3.0), (2.0, 0.5, -1.0, 0.75)
_PROBABILITIES = (0.25, 0.5, 0.875, 0.125), (1.0, 0.0, 0.25, 0.75)
_COUNTS = (0.25, 1.5, 0.875, 2.0), (1.0, 0.0, 3.0, 2.0)
_SIDES = (0.25, 1.5, -0.875, 2.0), (1.0, -1.0, 1.0, -1.0)
_ROWS: list[Any] = [
    (squared_error, lambda a, b: (a - b) ** 2, _ANY, {}),
    (absolute_error, lambda a, b: abs(a - b), _ANY, {}),
    (huber_loss, lambda a, b: _huber(a, b, 1.0), _ANY, {}),
    (huber_loss, lambda a, b: _huber(a, b, 1.75), _ANY, {"delta": 1.75}),
    (log_cosh_loss, lambda a, b: math.log(math.cosh(a - b)), _ANY, {}),
    (binary_cross_entropy, _bce, _PROBABILITIES, {}),
    (sigmoid_cross_entropy, lambda a, b: _bce(_logistic(a), b),
     (_ANY[0], _PROBABILITIES[1]), {}),
    (kl_divergence, lambda a, b: (b * (math.log(b) - a) if b else 0.0),
     (_ANY[0], _PROBABILITIES[0]), {}),
    (kl_divergence, lambda a, b: math.exp(b) * (b - a), _ANY, {"log_target": True}),
    (poisson_loss, lambda a, b: math.exp(a) - b * a, _COUNTS, {}),
    (poisson_loss, lambda a, b: a - b * math.log(a + 0.5), _COUNTS,
     {"log_input": False, "epsilon": 0.5}),
    (hinge_loss, lambda a, b: max(0.0, 1 - a * b), _SIDES, {}),
]  # fmt: skip


def _loss_samples(op: Operation) -> Callable[[], Samples]:
    def make() -> Samples:
        for row, oracle, columns, attrs in _ROWS:
            if row is not op:
                continue
            for dtype in ("float64", "float32"):
                x, t = (array(c, dtype).reshape(2, 2) for c in columns)
                every = elementwise_by_loop(
                    oracle, x.astype("float64"), t.astype("float64")
                )
                requested = (
                    ("none", every),
                    ("sum", every.sum()),
                    ("mean", every.mean()),
                )
                for reduction, y in requested:
                    given = {**attrs, "reduction": reduction}
                    yield Sample((x, t), array(y, dtype), given)
        given = {**attrs, "reduction": "none"} if row is op else {"reduction": "none"}
        yield Sample((x[:0], t[:0]), x[:0], given, smooth=False)

    return make


for _op in dict.fromkeys(row[0] for row in _ROWS):
    if _op is not sigmoid_cross_entropy:
        _op.samples(_loss_samples(_op))


@sigmoid_cross_entropy.samples
def _() -> Samples:
    yield from _loss_samples(sigmoid_cross_entropy)()
    x, t, weight = array([0.5, -1.5]), array([1.0, 0.25]), array([2.0, 3.0])
    rows = zip(x.tolist(), t.tolist(), weight.tolist(), strict=True)
    y = [-(p * b * math.log(_logistic(a)) + (1 - b) * math.log(1 - _logistic(a)))
         for a, b, p in rows]  # fmt: skip
    yield Sample((x, t, weight), array(y), {"reduction": "none"})
    far = array([800.0, -800.0])
    yield Sample((far, array([0.0, 1.0])), array(800.0), smooth=False)


@cosine_similarity.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        a = array([[3, 4], [1, 0], [-1, 1]], dtype)
        b = array([[4, 3], [2, 0], [1, 1]], dtype)
        yield Sample((a, b), array([24 / 25, 1, 0], dtype))
        tops = [3 * 4 + 2 - 1, 4 * 3 + 1]
        sizes = [math.sqrt(11) * math.sqrt(21), math.sqrt(17) * math.sqrt(10)]
        y = [t / s for t, s in zip(tops, sizes, strict=True)]
        yield Sample((a, b), array(y, dtype), {"axis": 0})
    yield Sample((a[:0], b[:0]), np.zeros(0, "float32"), smooth=False)
