"""Losses: how far predictions are from what they should be.

`reduction`: "mean", "sum", or "none", which leaves one number for each element.
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
from amanda_std.engine.samples import Sample, Samples, array, each, ramp
from amanda_std.engine.values import dims
from amanda_std.inference.shape_arguments import index_of
from amanda_std.ops._late import late
from amanda_std.ops.nn.activation import log_softmax


def reduced(loss: Any, reduction: str, weight: Any = None) -> Any:
    """One number for all elements; the mean is by the sum of weights, where there are

    some."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return late.sum(loss)
    if reduction != "mean":
        raise InvalidTypeError(
            "no such reduction", expected="mean, sum or none", got=reduction
        )
    if weight is None:
        return late.mean(loss)
    return late.divide(late.sum(loss), late.sum(weight))


# -- of classes ------------------------------------------------------------------


@composite
def nll_loss(
    x: RealFloating, labels: Index, weight: RealFloating | None = None, *,
    axis: int = 1, ignore: int | None = None, reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Minus the logarithm, given along an axis, of each label's share

    `weight` has one number for each class; labels that are `ignore` count nothing."""
    at = index_of(axis, len(dims(x)))
    labels = late.astype(labels, dtype=DType("int64"))
    if ignore is None:
        counts = None
    else:
        counts = late.not_equal(labels, ignore)
        labels = late.where(counts, labels, 0)
    picked = late.gather_elements(x, late.expand_dims(labels, (at,)), axis=at)
    loss = late.negative(late.squeeze(picked, (at,)))
    share = None if weight is None else late.gather(weight, labels, 0)
    if counts is not None:
        share = late.ones_like(loss) if share is None else share
        share = late.where(counts, share, 0.0)
    if share is not None:
        loss = late.where(late.equal(share, 0.0), 0.0, late.multiply(loss, share))
    return reduced(loss, reduction, share)


@composite
def softmax_cross_entropy(
    x: RealFloating, labels: Index, weight: RealFloating | None = None, *,
    axis: int = 1, ignore: int | None = None, reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """nll_loss of log_softmax: numbers of any size, and their labels"""
    return nll_loss(
        log_softmax(x, axes=(axis,)), labels, weight, axis=axis, ignore=ignore,
        reduction=reduction,
    )  # fmt: skip


@composite
def soft_cross_entropy(
    x: RealFloating, target: RealFloating, *, axis: int = -1, reduction: str = "none"
) -> RealFloating:
    """Cross entropy of numbers of any size against shares that sum to 1"""
    shares = late.multiply(log_softmax(x, axes=(axis,)), target)
    return reduced(late.negative(late.sum(shares, (axis,))), reduction)


def _nll(
    x: Any, labels: Any, weight: Any, axis: int, ignore: int | None, reduction: str
) -> Any:
    """Label by label."""
    rows = np.moveaxis(x, axis, -1)
    loss, total = np.zeros(labels.shape), 0.0
    for at in np.ndindex(labels.shape):
        label = int(labels[at])
        if label == ignore:
            continue
        share = 1.0 if weight is None else float(weight[label])
        loss[at] = -float(rows[at][label]) * share
        total += share
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() if reduction == "sum" else loss.sum() / total)


def _log_shares(x: Any, axis: int) -> Any:
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
                        y = _nll(before(x, 1), labels, w, 1, ignore, reduction)
                        attrs = {"reduction": reduction, "ignore": ignore}
                        args = (x, labels) if w is None else (x, labels, w)
                        yield Sample(args, y.astype(dtype), attrs)
        flat, own = ramp(3, 4), array([3, -1, 0], "int32")
        y = _nll(before(flat, 1), own, None, 1, -1, "mean")
        yield Sample((flat, own), y, {"ignore": -1, "axis": -1})
        attrs = {"reduction": "none"}
        yield Sample((flat[:0], own[:0]), np.zeros(0), attrs, smooth=False)

    return make


nll_loss.samples(_class_samples(lambda x, _: x))
softmax_cross_entropy.samples(_class_samples(_log_shares))


@soft_cross_entropy.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, dtype=dtype)
        target = array([[0.25, 0.5, 0.25], [0, 1, 0]], dtype)
        rows = -(_log_shares(x, -1) * target.astype("float64")).sum(-1)
        for reduction, y in (
            ("none", rows),
            ("sum", rows.sum()),
            ("mean", rows.mean()),
        ):
            yield Sample((x, target), array(y, dtype), {"reduction": reduction})
    yield Sample((x[:0], target[:0]), np.zeros(0, "float32"), smooth=False)


# -- of numbers --------------------------------------------------------------------


@composite
def squared_error(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """The square of what is between"""
    return reduced(late.squared_difference(x, target), reduction)


@composite
def absolute_error(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """The absolute value of what is between"""
    return reduced(late.abs(late.subtract(x, target)), reduction)


@composite
def huber_loss(
    x: RealFloating, target: RealFloating, *, delta: float = 1.0,
    reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Half the square of what is between, and a line from delta on"""
    apart = late.abs(late.subtract(x, target))
    near = late.minimum(apart, delta)
    loss = late.multiply(near, late.subtract(apart, late.multiply(near, 0.5)))
    return reduced(loss, reduction)


@composite
def log_cosh_loss(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """log(cosh(x - target)), without overflow"""
    apart = late.subtract(x, target)
    loss = late.add(apart, late.softplus(late.multiply(apart, -2.0)))
    return reduced(late.subtract(loss, math.log(2)), reduction)


@composite
def binary_cross_entropy(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """Cross entropy of probabilities against 0, 1, or what lies between

    The logarithms are at least -100, as torch has them."""
    yes = _log_or_least(late.log, x, late.equal(x, 0.0))
    no = _log_or_least(
        lambda x: late.log1p(late.negative(x)), x, late.equal(x, 1.0)
    )  # fmt: skip
    share = late.multiply(target, late.subtract(no, yes))
    return reduced(late.subtract(share, no), reduction)


def _log_or_least(log: Callable[[Any], Any], x: Any, is_none: Any) -> Any:
    """A logarithm, at least -100; flat where there is none."""
    found = late.maximum(log(late.where(is_none, 0.5, x)), -100.0)
    return late.where(is_none, -100.0, found)


@composite
def sigmoid_cross_entropy(
    x: RealFloating, target: RealFloating, positive: RealFloating | None = None, *,
    reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """binary_cross_entropy of sigmoid(x), without overflow

    `positive` is the weight of what should be 1."""
    rest = late.softplus(late.negative(x))
    if positive is not None:
        more = late.subtract(late.multiply(positive, 1.0), 1.0)
        rest = late.multiply(rest, late.add(late.multiply(target, more), 1.0))
    return reduced(
        late.add(late.multiply(late.subtract(1.0, target), x), rest), reduction
    )


@composite
def kl_divergence(
    x: RealFloating, target: RealFloating, *, log_target: bool = False,
    reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """target * (log(target) - x), where x holds logarithms of shares"""
    if log_target:
        loss = late.multiply(late.exp(target), late.subtract(target, x))
    else:
        loss = late.subtract(late.xlogy(target, target), late.multiply(target, x))
    return reduced(loss, reduction)


@composite
def poisson_loss(
    x: RealFloating, target: RealFloating, *, log_input: bool = True,
    epsilon: float = 1e-8, reduction: str = "mean",
) -> RealFloating:  # fmt: skip
    """Minus the logarithm of Poisson's probability, less what does not depend on x"""
    if log_input:
        loss = late.subtract(late.exp(x), late.multiply(target, x))
    else:
        more = late.log(late.add(x, epsilon))
        loss = late.subtract(x, late.multiply(target, more))
    return reduced(loss, reduction)


@composite
def hinge_loss(
    x: RealFloating, target: RealFloating, *, reduction: str = "mean"
) -> RealFloating:
    """max(0, 1 - x * target), where targets are -1 or 1"""
    margin = late.subtract(1.0, late.multiply(x, target))
    return reduced(late.maximum(margin, 0.0), reduction)


@composite
def cosine_similarity(
    a: RealFloating, b: RealFloating, *, axis: int = -1, epsilon: float = 1e-8
) -> RealFloating:
    """The cosine of the angle between vectors along an axis"""
    axes = (axis,)
    inner = late.sum(late.multiply(a, b), axes)
    sizes = (late.maximum(late.norm_l2(v, axes), epsilon) for v in (a, b))
    return late.divide(inner, late.multiply(*sizes))


def _bce(p: float, t: float) -> float:
    return -(t * math.log(p) + (1 - t) * math.log(1 - p))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _huber(a: float, b: float, delta: float) -> float:
    apart = abs(a - b)
    return apart**2 / 2 if apart < delta else delta * (apart - delta / 2)


_ANY = (1.5, -2.0, 0.25, 3.0), (2.0, 0.5, -1.0, 0.75)
_SHARES = (0.25, 0.5, 0.875, 0.125), (1.0, 0.0, 0.25, 0.75)
_COUNTS = (0.25, 1.5, 0.875, 2.0), (1.0, 0.0, 3.0, 2.0)
_SIDES = (0.25, 1.5, -0.875, 2.0), (1.0, -1.0, 1.0, -1.0)
_ROWS: list[Any] = [
    (squared_error, lambda a, b: (a - b) ** 2, _ANY, {}),
    (absolute_error, lambda a, b: abs(a - b), _ANY, {}),
    (huber_loss, lambda a, b: _huber(a, b, 1.0), _ANY, {}),
    (huber_loss, lambda a, b: _huber(a, b, 1.75), _ANY, {"delta": 1.75}),
    (log_cosh_loss, lambda a, b: math.log(math.cosh(a - b)), _ANY, {}),
    (binary_cross_entropy, _bce, _SHARES, {}),
    (sigmoid_cross_entropy, lambda a, b: _bce(_logistic(a), b),
     (_ANY[0], _SHARES[1]), {}),
    (kl_divergence, lambda a, b: (b * (math.log(b) - a) if b else 0.0),
     (_ANY[0], _SHARES[0]), {}),
    (kl_divergence, lambda a, b: math.exp(b) * (b - a), _ANY, {"log_target": True}),
    (poisson_loss, lambda a, b: math.exp(a) - b * a, _COUNTS, {}),
    (poisson_loss, lambda a, b: a - b * math.log(a + 0.5), _COUNTS,
     {"log_input": False, "epsilon": 0.5}),
    (hinge_loss, lambda a, b: max(0.0, 1 - a * b), _SIDES, {}),
]  # fmt: skip


def _rows(op: Operation) -> Callable[[], Samples]:
    def make() -> Samples:
        for row, oracle, columns, attrs in _ROWS:
            if row is not op:
                continue
            for dtype in ("float64", "float32"):
                x, t = (array(c, dtype).reshape(2, 2) for c in columns)
                every = each(oracle, x.astype("float64"), t.astype("float64"))
                wanted = (("none", every), ("sum", every.sum()), ("mean", every.mean()))
                for reduction, y in wanted:
                    given = {**attrs, "reduction": reduction}
                    yield Sample((x, t), array(y, dtype), given)
        given = {**attrs, "reduction": "none"} if row is op else {"reduction": "none"}
        yield Sample((x[:0], t[:0]), x[:0], given, smooth=False)

    return make


for _op in dict.fromkeys(row[0] for row in _ROWS):
    if _op is not sigmoid_cross_entropy:
        _op.samples(_rows(_op))


@sigmoid_cross_entropy.samples
def _() -> Samples:
    yield from _rows(sigmoid_cross_entropy)()
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
