"""From ONNX: negative log-likelihood and softmax cross-entropy losses."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import expect, rank_of

__all__ = ["READ"]


def read_nll_loss(x: Any, target: Any, weight: Any = None, *, reduction: str = "mean",
                  ignore_index: int | None = None) -> Any:  # fmt: skip
    rank = rank_of(x)
    labels, mask = target, None
    if ignore_index is not None:
        mask = ops.not_equal(target, ignore_index)
        labels = ops.where(mask, target, target - target)
    picked = ops.gather_elements(x, ops.expand_dims(labels, (1,)), axis=1)
    loss = ops.negative(ops.squeeze(picked, (1,)))
    weights = None if weight is None else ops.gather(weight, labels)
    if weights is not None:
        loss = loss * weights
    if mask is not None:  # products with 0 would be NaN for infinities
        loss = ops.where(mask, loss, 0.0)
        counts = ops.astype(mask, dtype=x.dtype) if weights is None else weights
        weights = ops.where(mask, counts, 0.0)
    expect(rank > 1, "scores without a class axis")
    if reduction == "none":
        return loss
    if reduction == "sum":
        return ops.sum(loss)
    return ops.mean(loss) if weights is None else ops.sum(loss) / ops.sum(weights)


def read_cross_entropy(scores: Any, labels: Any, weights: Any = None, *,
                       reduction: str = "mean", ignore_index: int | None = None,
                       outputs: int) -> Any:  # fmt: skip
    log_probs = ops.log_softmax(scores, axes=(1,))
    loss = read_nll_loss(
        log_probs, labels, weights, reduction=reduction, ignore_index=ignore_index
    )
    return (loss, log_probs)[:outputs]


READ: dict[str, Any] = {
    "NegativeLogLikelihoodLoss": read_nll_loss,
    "SoftmaxCrossEntropyLoss": read_cross_entropy,
}
