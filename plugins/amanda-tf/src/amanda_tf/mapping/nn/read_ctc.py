"""From TensorFlow: connectionist temporal classification (CTC)."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import expect, gradient_of

__all__ = ["READ"]


def read_ctc_loss(
    x: Any, indices: Any, values: Any, steps: Any, *,
    preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> Any:  # fmt: skip
    """CTCLoss, of sparse labels, to `ctc_loss`, and its gradient.

    Where no alignment exists, TensorFlow's gradient is that of a probability of 0."""
    expect(
        ctc_merge_repeated and not preprocess_collapse_repeated,
        "repeated labels are merged before the loss, or not at all",
    )
    classes = x.shape[2]
    expect(isinstance(classes, int), "the number of classes is not static")
    steps = ops.astype(steps, dtype="int64")
    labels, lengths = _dense_labels(indices, values, ops.dim(x, axis=1))

    def loss(x: Any) -> Any:
        y = ops.ctc_loss(
            ops.log_softmax(x, axes=(2,)), labels, steps, lengths, blank=classes - 1,
            reduction="none",
        )  # fmt: skip
        if not ignore_longer_outputs_than_inputs:
            return y
        zero = ops.number_like(y, value=0)
        return ops.where(ops.greater(lengths, steps), zero, y)

    y = loss(x)
    number = ops.expand_dims(ops.arange(0, ops.dim(x, axis=0)), [1])
    lost = ops.logical_and(ops.isinf(y), ops.less(number, steps))
    share, slope = ops.softmax(x, axes=(2,)), gradient_of(loss, x, ops.ones_like(y))
    return y, ops.where(ops.expand_dims(lost, [2]), share, slope)


def _dense_labels(indices: Any, values: Any, batch: Any) -> tuple[Any, Any]:
    """Labels [batch, length] and their numbers, from those of a sparse matrix."""
    row, column = (ops.gather(indices, np.int64(i), axis=1) for i in (0, 1))
    lengths = ops.bincount(row, batch)
    end = np.zeros(1, "int64")  # there may be no label at all
    width = ops.max(ops.concat(column + np.int64(1), end, axis=0))
    shape = ops.stack(batch, width)
    zero = ops.full(shape, ops.number_like(values, value=0))
    return ops.scatter_nd(zero, indices, values), lengths


def read_ctc_greedy_decoder(
    x: Any, steps: Any, *, merge_repeated: bool = False, blank_index: int = -1
) -> Any:
    """The best label of each step, without blanks, as a sparse matrix."""
    classes = x.shape[2]
    expect(isinstance(classes, int), "the number of classes is not static")
    best = ops.transpose(ops.argmax(x, 2), perm=(1, 0))
    number = ops.expand_dims(ops.arange(0, ops.dim(best, axis=1)), [0])
    lengths = ops.expand_dims(ops.astype(steps, dtype="int64"), [1])
    valid = ops.less(number, lengths)
    blank = np.int64(blank_index % classes)
    keep = ops.logical_and(valid, ops.not_equal(best, blank))
    if merge_repeated:
        before = ops.pad(best, [[1, -1]], np.int64(-1), [1])
        keep = ops.logical_and(keep, ops.not_equal(best, before))
    count = ops.cumulative_sum(ops.astype(keep, dtype="int64"), 1)
    flat = ops.reshape(keep, [-1])
    column = ops.compress(ops.reshape(count, [-1]), flat) - np.int64(1)
    row = ops.gather(ops.nonzero(keep), np.int64(0), axis=0)
    values = ops.compress(ops.reshape(best, [-1]), flat)
    wide = ops.max(ops.concat(column + np.int64(1), np.zeros(1, "int64"), axis=0))
    shape = ops.stack(ops.dim(best, axis=0), wide)
    most = ops.transpose(ops.max(x, [2]), perm=(1, 0))
    used = ops.where(valid, most, ops.number_like(most, value=0))
    score = ops.negative(ops.sum(used, [1], keepdims=True))
    return ops.stack(row, column, axis=1), values, shape, score


def read_ctc_beam_search_decoder(
    x: Any, steps: Any, *, beam_width: int, top_paths: int, merge_repeated: bool = True
) -> Any:
    """The indices of all paths, their values and shapes, and the scores of each."""
    classes = x.shape[2]
    expect(isinstance(classes, int), "the number of classes is not static")
    labels, counts, scores = ops.ctc_beam_search(
        x, ops.astype(steps, dtype="int64"), width=beam_width, paths=top_paths,
        blank=classes - 1, merge_repeated=merge_repeated,
    )  # fmt: skip
    parts = []
    for i in range(top_paths):
        path, count = (ops.gather(v, np.int64(i), axis=0) for v in (labels, counts))
        column = ops.expand_dims(ops.arange(0, ops.dim(path, axis=1)), [0])
        valid = ops.less(column, ops.expand_dims(count, [1]))
        values = ops.compress(ops.reshape(path, [-1]), ops.reshape(valid, [-1]))
        wide = ops.max(ops.concat(count, np.zeros(1, "int64"), axis=0))
        shape = ops.stack(ops.dim(path, axis=0), wide)
        parts.append((ops.transpose(ops.nonzero(valid), perm=(1, 0)), values, shape))
    rows = [part[k] for k in range(3) for part in parts]
    return *rows, ops.transpose(scores, perm=(1, 0))


READ: dict[str, Any] = {
    "CTCBeamSearchDecoder": read_ctc_beam_search_decoder,
    "CTCLoss": read_ctc_loss,
    "CTCGreedyDecoder": read_ctc_greedy_decoder,
}
