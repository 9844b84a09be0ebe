"""Connectionist temporal classification (CTC): the loss, and beam search."""

from __future__ import annotations

import math
from itertools import groupby, product
from typing import Any

import numpy as np

from amanda.errors import UsageError
from amanda.types import DType, TensorType
from amanda_std.engine.annotations import Index, RealFloating
from amanda_std.engine.operation import composite, primitive
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
_Prefix = tuple[int, ...]


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


# -- beam search ---------------------------------------------------------------------


@primitive(numpy_only=True)
def ctc_beam_search(
    x: RealFloating, steps: Index | None = None, *, width: int, paths: int = 1,
    blank: int = 0, merge_repeated: bool = False,
) -> tuple[Index, Index, RealFloating]:  # fmt: skip
    """The most probable label sequences, by a CTC beam search of `width` prefixes

    x: [time, batch, classes], of which softmax gives probabilities; `steps`: valid time
    steps. Returns labels [paths, batch, time], padded with -1, their numbers and the
    logarithms of their probabilities. `merge_repeated` drops repetitions in results."""
    time, batch, _ = x.shape
    if not 0 < paths <= width:
        raise UsageError("too many paths", expected=f"1 to {width}", got=paths)
    labels = np.full((paths, batch, time), -1, "int64")
    counts = np.zeros((paths, batch), "int64")
    scores = np.full((paths, batch), -math.inf, x.dtype)
    wide = _log_softmax(x.astype("float64"))
    for b in range(batch):
        end = time if steps is None else int(np.reshape(steps, -1)[b])
        for p, (prefix, score) in enumerate(_search(wide[:end, b], width, blank)):
            if p == paths:
                break
            kept = _without_repetitions(prefix) if merge_repeated else prefix
            labels[p, b, : len(kept)], counts[p, b] = kept, len(kept)
            scores[p, b] = score
    return labels, counts, scores


ctc_beam_search.not_differentiable("the search is discrete")


@ctc_beam_search.infer
def _(x: Any, steps: Any, paths: int, blank: int) -> Any:
    del steps
    if not x.shape.has_rank:
        return [TensorType("int64"), TensorType("int64"), TensorType(x.dtype)]
    time, batch, classes = x.shape.dims
    if blank < 0 or (isinstance(classes, int) and blank >= classes):
        raise UsageError("blank is no class", expected=f"0 to {classes} - 1", got=blank)
    pair = [paths, batch]
    return [TensorType(DType("int64"), [*pair, time]),
            TensorType(DType("int64"), pair), TensorType(x.dtype, pair)]  # fmt: skip


def _log_softmax(x: Any) -> Any:
    if not x.size:
        return x
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _search(rows: Any, width: int, blank: int) -> list[tuple[_Prefix, float]]:
    """The prefixes of the last beam and their scores, best first."""
    beam: dict[_Prefix, tuple[float, float]] = {(): (0.0, -math.inf)}
    for row in rows:
        beam = _next_beam(beam, row, width, blank)
    found = [(prefix, float(np.logaddexp(*both))) for prefix, both in beam.items()]
    return sorted(found, key=lambda item: -item[1])


def _next_beam(
    before: dict[_Prefix, tuple[float, float]], row: Any, width: int, blank: int
) -> dict[_Prefix, tuple[float, float]]:
    """One step later: the scores of alignments that end in a blank, and in a label."""
    totals = {p: float(np.logaddexp(*both)) for p, both in before.items()}
    order = sorted(before, key=lambda p: -totals[p])
    beam: dict[_Prefix, tuple[float, float]] = {}
    sums: dict[_Prefix, float] = {}
    for prefix in order:
        label = before[prefix][1]
        if prefix[:-1] in before and prefix:
            label = np.logaddexp(label, _entry_score(before, totals, prefix))
        label = label + row[prefix[-1]] if prefix else label
        beam[prefix] = totals[prefix] + row[blank], label
        sums[prefix] = float(np.logaddexp(*beam[prefix]))
    for prefix in order:
        is_full = len(sums) == width
        if is_full and totals[prefix] <= min(sums.values()):
            break
        for longer, score in _extensions(prefix, before, totals, row, blank):
            if longer in before and longer in beam:
                continue
            if len(beam) == width:
                worst = min(sums, key=lambda p: sums[p])
                if score <= sums[worst]:
                    break
                del beam[worst], sums[worst]
            beam[longer], sums[longer] = (-math.inf, score), score
    return beam


def _extensions(
    prefix: _Prefix, before: dict[_Prefix, tuple[float, float]],
    totals: dict[_Prefix, float], row: Any, blank: int,
) -> list[tuple[_Prefix, float]]:  # fmt: skip
    """Prefixes that are longer by a label, with their scores, best first."""
    found = [(*prefix, c) for c in range(len(row)) if c != blank]
    rows = [(p, row[p[-1]] + _entry_score(before, totals, p)) for p in found]
    return sorted(rows, key=lambda item: -item[1])


def _entry_score(
    before: dict[_Prefix, tuple[float, float]], totals: dict[_Prefix, float],
    prefix: _Prefix,
) -> float:  # fmt: skip
    """The score of what the last label is appended to: a blank between equal ones."""
    shorter = prefix[:-1]
    is_repeated = bool(shorter) and shorter[-1] == prefix[-1]
    return before[shorter][0] if is_repeated else totals[shorter]


def _without_repetitions(prefix: _Prefix) -> _Prefix:
    return tuple(v for i, v in enumerate(prefix) if i == 0 or v != prefix[i - 1])


def _by_enumeration(rows: Any, blank: int) -> list[tuple[list[int], float]]:
    """All label sequences with their probabilities, summed over every alignment."""
    found: dict[_Prefix, list[float]] = {}
    for path in product(range(rows.shape[1]), repeat=len(rows)):
        chance = math.exp(math.fsum(float(rows[t, c]) for t, c in enumerate(path)))
        found.setdefault(tuple(_collapse(path, blank)), []).append(chance)
    sums = [(list(prefix), math.fsum(each)) for prefix, each in found.items()]
    return sorted(sums, key=lambda item: -item[1])


@ctc_beam_search.samples
def _() -> Samples:
    x = ramp(3, 2, 3) * array([1.0, 0.7, -0.4])
    rows = x - np.log(np.exp(x).sum(-1, keepdims=True))
    for dtype in ("float64", "float32"):
        for blank, steps in ((0, [3, 2]), (2, [3, 3])):
            labels = np.full((2, 2, 3), -1)
            counts, scores = np.zeros((2, 2)), np.zeros((2, 2))
            for b, end in enumerate(steps):
                best = _by_enumeration(rows[:end, b], blank)[:2]
                for p, (said, chance) in enumerate(best):
                    labels[p, b, : len(said)], counts[p, b] = said, len(said)
                    scores[p, b] = math.log(chance)
            y = [labels.astype("int64"), counts.astype("int64"), scores.astype(dtype)]
            attrs: dict[str, Any] = {"width": 20, "paths": 2, "blank": blank}
            yield Sample((x.astype(dtype), array(steps, "int64")), y, attrs)
    empty = [np.zeros((1, 0, 3), "int64"), np.zeros((1, 0), "int64"), np.zeros((1, 0))]
    yield Sample((np.zeros((3, 0, 3)),), empty, {"width": 4})
