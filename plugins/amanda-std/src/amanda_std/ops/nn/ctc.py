"""Losses of sequences of labels that are not told when they are said."""

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
from amanda_std.ops.nn.losses import reduced
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

_NEVER = -1e30
"""The logarithm of a chance that is none; finite, so that slopes stay numbers."""


@composite
def ctc_loss(
    x: RealFloating, labels: Index, steps: Index | None = None,
    lengths: Index | None = None, *, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> RealFloating:  # fmt: skip
    """Minus the logarithm of how likely labels are, whenever they are said

    x: [time, batch, classes], logarithms of shares; labels: [batch, length], of which
    `lengths` count; `steps` of the time count. What is said is x's classes without
    repetitions, then without blanks. The mean is of losses by their lengths, as torch
    has it. Labels that do not fit into the time lose infinity, or nothing if
    `zero_infinity`."""
    own = x.dtype if isinstance(x.dtype, DType) else DType.of(x.dtype)
    if own.bits < 32:  # which have no number for a chance that is none
        wide = astype(x, dtype="float32")
        told: Any = {
            "blank": blank,
            "reduction": reduction,
            "zero_infinity": zero_infinity,
        }
        return astype(ctc_loss(wide, labels, steps, lengths, **told), dtype=own)
    labels = _counted(astype(labels, dtype="int64"), lengths, blank)
    places, skips = _between_blanks(labels, blank, x)
    said = gather_elements(x, _for_each_step(places, x), axis=2)
    later = not_equal(arange(0, places.shape[1]), 0)
    start = broadcast_like(_never(later, x), skips)
    time = arange(0, x.shape[0])

    def step(chance: Any, row: Any, now: Any) -> Any:
        made = add(_arriving(chance, skips), row)
        if steps is None:
            return made
        return where(less(now, expand_dims(steps, (1,))), made, chance)

    (last,) = scan(step, None, start, said, time, carried=1)
    loss = negative(_ended(last, labels, lengths))
    misses = greater(loss, -_NEVER / 2)
    loss = where(misses, 0.0 if zero_infinity else math.inf, loss)
    if reduction != "mean":
        return reduced(loss, reduction)
    return mean_(divide(loss, _at_least_one(labels, lengths, x)))


def _counted(labels: Any, lengths: Any, blank: int) -> Any:
    """Blanks in place of those that do not count, which may be any number."""
    if lengths is None:
        return labels
    number = arange(0, labels.shape[1])
    ends = expand_dims(astype(lengths, dtype="int64"), (1,))
    return where(less(number, ends), labels, blank)


def _never(here: Any, x: Any) -> Any:
    """Logarithms as x has them: none where `here`, 0 elsewhere."""
    return multiply(astype(here, dtype=x.dtype), _NEVER)


def _between_blanks(labels: Any, blank: int, x: Any) -> tuple[Any, Any]:
    """Labels with a blank before, between and after; which may follow the one two

    before: labels that differ from it, as a penalty of 0 or of `never`."""
    batch, count = labels.shape
    blanks = full([batch, count], np.asarray(blank, "int64"))
    pairs = reshape(stack(blanks, labels, axis=2), [batch, count * 2])
    places = pad(pairs, [(0, 1)], blank, [1])
    before = pad(places, [(2, -2)], blank, [1])
    alike = logical_or(equal(places, blank), equal(places, before))
    return places, _never(alike, x)


def _for_each_step(places: Any, x: Any) -> Any:
    whole = [x.shape[0], places.shape[0], places.shape[1]]
    return broadcast_to(expand_dims(places, (0,)), whole)


def _arriving(chance: Any, skips: Any) -> Any:
    """The chance to be at each place one step later."""
    one = pad(chance, [(1, -1)], _NEVER, [1])
    two = pad(chance, [(2, -2)], _NEVER, [1])
    two = maximum(add(two, skips), _NEVER)
    return maximum(logaddexp(logaddexp(chance, one), two), _NEVER)


def _ended(last: Any, labels: Any, lengths: Any) -> Any:
    """The chance to be at the last label, or at the blank behind it."""
    if lengths is None:
        lengths = full([labels.shape[0]], dim(labels, axis=1))
    ends = expand_dims(multiply(astype(lengths, dtype="int64"), 2), (1,))
    blank = gather_elements(last, ends, axis=1)
    label = gather_elements(last, maximum(ends - 1, 0), axis=1)
    label = where(equal(ends, 0), _NEVER, label)
    return squeeze(logaddexp(blank, label), (1,))


def _at_least_one(labels: Any, lengths: Any, x: Any) -> Any:
    if lengths is None:
        lengths = dim(labels, axis=1)
    return astype(maximum(lengths, 1), dtype=x.dtype)


def _said(path: tuple[int, ...], blank: int) -> list[int]:
    return [label for label, _ in groupby(path) if label != blank]


def _by_paths(x: Any, labels: list[int], steps: int, blank: int) -> float:
    """Every sequence of classes that says the labels, one by one."""
    chances = [
        math.exp(math.fsum(float(x[t, c]) for t, c in enumerate(path)))
        for path in product(range(x.shape[1]), repeat=steps)
        if _said(path, blank) == labels
    ]
    return -math.log(math.fsum(chances)) if chances else math.inf


def _shares(*shape: int) -> Any:
    x = ramp(*shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@ctc_loss.samples
def _() -> Samples:
    labels, steps, lengths = [[1, 2], [2, 2], [2, 0]], [4, 3, 2], [2, 2, 1]
    for dtype in ("float16", "float64", "float32"):
        x = _shares(4, 3, 3).astype(dtype)
        for blank, said in ((0, labels), (2, [[1, 0], [0, 0], [1, 2]])):
            pairs = zip(said, steps, lengths, strict=True)
            rows = [
                _by_paths(x[:s, i].astype("float64"), row[:n], s, blank)
                for i, (row, s, n) in enumerate(pairs)
            ]
            args = (x, array(said, "int64"), array(steps, "int64"),
                    array(lengths, "int64"))  # fmt: skip
            mean = sum(r / n for r, n in zip(rows, lengths, strict=True)) / 3
            for reduction, y in (("none", rows), ("sum", sum(rows)), ("mean", mean)):
                attrs = {"blank": blank, "reduction": reduction}
                yield Sample(args, array(y, dtype), attrs)
    said = [[1, 2], [2, 2], [1, -100]]  # what does not count may be any number
    args = (x, array(said, "int64"), *args[2:])
    pairs = zip(said, steps, lengths, strict=True)
    rows = [
        _by_paths(x[:s, i].astype("float64"), row[:n], s, 0)
        for i, (row, s, n) in enumerate(pairs)
    ]
    yield Sample(args, array(rows, dtype), {"reduction": "none"})
    whole = array([[1, 2], [2, 1], [1, 1]], "int32")
    rows = [_by_paths(x[:, i].astype("float64"), r.tolist(), 4, 0)
            for i, r in enumerate(whole)]  # fmt: skip
    yield Sample((x, whole), array(rows, "float32"), {"reduction": "none"})
    yield Sample((x, whole), array(sum(rows) / 6, "float32"))
    short = x[:2]  # two equal labels need a blank between them
    rows = [_by_paths(short[:, i].astype("float64"), r.tolist(), 2, 0)
            for i, r in enumerate(whole)]  # fmt: skip
    assert rows[2] == math.inf
    for zero in (False, True):
        found = [0.0 if zero and r == math.inf else r for r in rows]
        attrs = {"reduction": "none", "zero_infinity": zero}
        yield Sample((short, whole), array(found, "float32"), attrs, smooth=False)
    none = array([0, 0, 0], "int64")
    rows = [_by_paths(x[:, i].astype("float64"), [], 4, 0) for i in range(3)]
    yield Sample((x, whole, None, none), array(rows, "float32"), {"reduction": "none"})
    yield Sample((x[:, :0], whole[:0]), array([], "float32"), {"reduction": "none"},
                 smooth=False)  # fmt: skip
