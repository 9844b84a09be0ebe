"""Connectionist temporal classification (CTC) loss."""

from __future__ import annotations

import math
from itertools import groupby, product
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.control.scan import scan
from amanda_std.ops.math.arithmetic import (
    add,
    divide,
    maximum,
    multiply,
    negative,
    where,
)
from amanda_std.ops.math.binary_special import logaddexp
from amanda_std.ops.math.comparison import equal, greater, less, not_equal
from amanda_std.ops.math.logic import logical_or
from amanda_std.ops.math.reduction import mean as mean_
from amanda_std.ops.nn.losses import apply_reduction
from amanda_std.ops.tensor.creation import arange, full
from amanda_std.ops.tensor.indexing import gather_elements
from amanda_std.ops.tensor.manipulation import pad, stack
from amanda_std.ops.tensor.shape import (
    astype,
    broadcast_like,
    broadcast_to,
    dim,
    expand_dims,
    reshape,
    squeeze,
)

_LOG_ZERO = -1e30
"""Logarithm of probability zero; finite, so that gradients stay finite."""


@composite
def ctc_loss(
    x: RealFloating, labels: Index, steps: Index | None = None,
    lengths: Index | None = None, *, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> RealFloating:  # fmt: skip
    """Negative log-likelihood of the labels, summed over all alignments (CTC loss)

    x: [time, batch, classes], log-probabilities; labels: [batch, length], of which the
    first `lengths` are valid; `steps`: valid time steps. An alignment emits labels
    after merging repetitions and removing blanks. "mean" divides each loss by its
    length first, as PyTorch does. Labels that do not fit into the time steps have an
    infinite loss, or 0 if `zero_infinity`."""
    dtype = DType.of(x.dtype)
    if dtype.bits < 32:  # too narrow for _LOG_ZERO
        wide = astype(x, dtype="float32")
        given: Any = {"blank": blank, "reduction": reduction,
                      "zero_infinity": zero_infinity}  # fmt: skip
        return astype(ctc_loss(wide, labels, steps, lengths, **given), dtype=dtype)
    labels = _mask_by_length(astype(labels, dtype="int64"), lengths, blank)
    extended, skips = _interleave_blanks(labels, blank, x)
    emissions = gather_elements(x, _broadcast_over_time(extended, x), axis=2)
    later = not_equal(arange(0, extended.shape[1]), 0)
    start = broadcast_like(_log_zero(later, x), skips)
    time = arange(0, x.shape[0])

    def step(alpha: Any, row: Any, now: Any) -> Any:
        outputs = add(_forward_step(alpha, skips), row)
        if steps is None:
            return outputs
        return where(less(now, expand_dims(steps, (1,))), outputs, alpha)

    (last,) = scan(step, None, start, emissions, time, carried=1)
    loss = negative(_final_log_probability(last, labels, lengths))
    misses = greater(loss, -_LOG_ZERO / 2)
    loss = where(misses, 0.0 if zero_infinity else math.inf, loss)
    if reduction != "mean":
        return apply_reduction(loss, reduction)
    return mean_(divide(loss, _clamped_lengths(labels, lengths, x)))


def _mask_by_length(labels: Any, lengths: Any, blank: int) -> Any:
    """Replace labels beyond their length, which may be any number, by blanks."""
    if lengths is None:
        return labels
    number = arange(0, labels.shape[1])
    ends = expand_dims(astype(lengths, dtype="int64"), (1,))
    return where(less(number, ends), labels, blank)


def _log_zero(mask: Any, x: Any) -> Any:
    """Log-mask: the logarithm of zero where `mask` is true, 0 elsewhere."""
    return multiply(astype(mask, dtype=x.dtype), _LOG_ZERO)


def _interleave_blanks(labels: Any, blank: int, x: Any) -> tuple[Any, Any]:
    """Interleave labels with blanks, and penalize skipping a blank.

    The penalty is 0 between different labels, log zero between equal ones."""
    batch, count = labels.shape
    blanks = full([batch, count], np.asarray(blank, "int64"))
    pairs = reshape(stack(blanks, labels, axis=2), [batch, count * 2])
    extended = pad(pairs, [(0, 1)], blank, [1])
    before = pad(extended, [(2, -2)], blank, [1])
    no_skip = logical_or(equal(extended, blank), equal(extended, before))
    return extended, _log_zero(no_skip, x)


def _broadcast_over_time(labels: Any, x: Any) -> Any:
    whole = [x.shape[0], labels.shape[0], labels.shape[1]]
    return broadcast_to(expand_dims(labels, (0,)), whole)


def _forward_step(alpha: Any, skips: Any) -> Any:
    """Forward recursion: log-probability of each state one time step later."""
    one = pad(alpha, [(1, -1)], _LOG_ZERO, [1])
    two = pad(alpha, [(2, -2)], _LOG_ZERO, [1])
    two = maximum(add(two, skips), _LOG_ZERO)
    return maximum(logaddexp(logaddexp(alpha, one), two), _LOG_ZERO)


def _final_log_probability(last: Any, labels: Any, lengths: Any) -> Any:
    """Log-probability of ending in the last label or the blank after it."""
    if lengths is None:
        lengths = full([labels.shape[0]], dim(labels, axis=1))
    ends = expand_dims(multiply(astype(lengths, dtype="int64"), 2), (1,))
    blank = gather_elements(last, ends, axis=1)
    label = gather_elements(last, maximum(ends - 1, 0), axis=1)
    label = where(equal(ends, 0), _LOG_ZERO, label)
    return squeeze(logaddexp(blank, label), (1,))


def _clamped_lengths(labels: Any, lengths: Any, x: Any) -> Any:
    if lengths is None:
        lengths = dim(labels, axis=1)
    return astype(maximum(lengths, 1), dtype=x.dtype)


def _collapse(path: tuple[int, ...], blank: int) -> list[int]:
    return [label for label, _ in groupby(path) if label != blank]


def _loss_by_enumeration(x: Any, labels: list[int], steps: int, blank: int) -> float:
    """Sum over every alignment, enumerated one by one."""
    probabilities = [
        math.exp(math.fsum(float(x[t, c]) for t, c in enumerate(path)))
        for path in product(range(x.shape[1]), repeat=steps)
        if _collapse(path, blank) == labels
    ]
    return -math.log(math.fsum(probabilities)) if probabilities else math.inf


def _random_log_probabilities(*shape: int) -> Any:
    x = ramp(*shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@ctc_loss.samples
def _() -> Samples:
    labels, steps, lengths = [[1, 2], [2, 2], [2, 0]], [4, 3, 2], [2, 2, 1]
    for dtype in ("float16", "float64", "float32"):
        x = _random_log_probabilities(4, 3, 3).astype(dtype)
        for blank, said in ((0, labels), (2, [[1, 0], [0, 0], [1, 2]])):
            pairs = zip(said, steps, lengths, strict=True)
            rows = [
                _loss_by_enumeration(x[:s, i].astype("float64"), row[:n], s, blank)
                for i, (row, s, n) in enumerate(pairs)
            ]
            args = (x, array(said, "int64"), array(steps, "int64"),
                    array(lengths, "int64"))  # fmt: skip
            mean = sum(r / n for r, n in zip(rows, lengths, strict=True)) / 3
            for reduction, y in (("none", rows), ("sum", sum(rows)), ("mean", mean)):
                attrs = {"blank": blank, "reduction": reduction}
                yield Sample(args, array(y, dtype), attrs)
    said = [[1, 2], [2, 2], [1, -100]]  # padding labels may be any number
    args = (x, array(said, "int64"), *args[2:])
    pairs = zip(said, steps, lengths, strict=True)
    rows = [
        _loss_by_enumeration(x[:s, i].astype("float64"), row[:n], s, 0)
        for i, (row, s, n) in enumerate(pairs)
    ]
    yield Sample(args, array(rows, dtype), {"reduction": "none"})
    whole = array([[1, 2], [2, 1], [1, 1]], "int32")
    rows = [_loss_by_enumeration(x[:, i].astype("float64"), r.tolist(), 4, 0)
            for i, r in enumerate(whole)]  # fmt: skip
    yield Sample((x, whole), array(rows, "float32"), {"reduction": "none"})
    yield Sample((x, whole), array(sum(rows) / 6, "float32"))
    short = x[:2]  # two equal labels need a blank between them
    rows = [_loss_by_enumeration(short[:, i].astype("float64"), r.tolist(), 2, 0)
            for i, r in enumerate(whole)]  # fmt: skip
    assert rows[2] == math.inf
    for zero in (False, True):
        result = [0.0 if zero and r == math.inf else r for r in rows]
        attrs = {"reduction": "none", "zero_infinity": zero}
        yield Sample((short, whole), array(result, "float32"), attrs, smooth=False)
    empty = array([0, 0, 0], "int64")
    rows = [_loss_by_enumeration(x[:, i].astype("float64"), [], 4, 0) for i in range(3)]
    yield Sample((x, whole, None, empty), array(rows, "float32"), {"reduction": "none"})
    yield Sample((x[:, :0], whole[:0]), array([], "float32"), {"reduction": "none"},
                 smooth=False)  # fmt: skip
