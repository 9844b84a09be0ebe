"""From PyTorch: loss functions and distances.

Reductions are numbers in ATen: 0 for none, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.reductions.read_reductions import vector_norm
from amanda_torch.mapping.shape_arguments import integer
from amanda_torch.mapping.type_promotion import number, promote

__all__ = ["READ"]

MEAN, SUM = 1, 2


def reduce_loss(loss: Any, reduction: int) -> Any:
    if reduction == MEAN:
        return ops.mean(loss)
    return ops.sum(loss) if reduction == SUM else loss


def _elementwise(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of each element, reduced."""

    def read(x: Any, target: Any, reduction: int = MEAN) -> Any:
        x, target = promote(x, target)
        return reduce_loss(loss(x, target), reduction)

    return read


def _square_difference(x: Any, target: Any) -> Any:
    apart = x - target
    return apart * apart


def read_smooth_l1(x: Any, target: Any, reduction: int = MEAN, beta: float = 1) -> Any:
    x, target = promote(x, target)
    size = ops.abs(x - target)
    if beta == 0:
        return reduce_loss(size, reduction)
    half, limit = number(0.5, x.dtype), number(beta, x.dtype)
    near = half * size * size / limit
    loss = ops.where(ops.less(size, limit), near, size - half * limit)
    return reduce_loss(loss, reduction)


def read_huber(x: Any, target: Any, reduction: int = MEAN, delta: float = 1) -> Any:
    x, target = promote(x, target)
    size = ops.abs(x - target)
    half, limit = number(0.5, x.dtype), number(delta, x.dtype)
    far = limit * (size - half * limit)
    loss = ops.where(ops.less(size, limit), half * size * size, far)
    return reduce_loss(loss, reduction)


def read_binary_cross_entropy(x: Any, target: Any, weight: Any = None,
                              reduction: int = MEAN) -> Any:  # fmt: skip
    """Logarithms are at least -100."""
    one, low = number(1, x.dtype), number(-100, x.dtype)
    yes = ops.maximum(ops.log(x), low)
    no = ops.maximum(ops.log1p(ops.negative(x)), low)
    loss = ops.negative(target * yes + (one - target) * no)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def read_binary_cross_entropy_of_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None,
    reduction: int = MEAN,
) -> Any:  # fmt: skip
    zero, one = number(0, x.dtype), number(1, x.dtype)
    soft = ops.log1p(ops.exp(ops.negative(ops.abs(x))))
    high = ops.maximum(ops.negative(x), zero)
    rest = (one - target) * x
    if pos_weight is None:
        loss = rest + soft + high
    else:
        factor = (pos_weight - one) * target + one
        loss = rest + factor * (soft + high)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def _label_losses(x: Any, target: Any, weight: Any, ignore: int) -> tuple[Any, Any]:
    """The loss and the weight of each label; x has log-probabilities."""
    axis = 0 if rank_of(x) == 1 else 1
    counted = ops.not_equal(target, np.asarray(ignore, str(target.dtype)))
    safe = ops.where(counted, target, ops.zeros_like(target))
    picked = ops.gather_elements(x, ops.expand_dims(safe, [axis]), axis=axis)
    loss = ops.negative(ops.squeeze(picked, [axis]))
    share = ops.astype(counted, dtype=x.dtype)
    if weight is not None:
        share = share * ops.gather(weight, safe, 0)
    return ops.where(counted, loss, number(0, x.dtype)) * share, share


def read_nll(x: Any, target: Any, weight: Any = None, reduction: int = MEAN,
             ignore_index: int = -100) -> Any:  # fmt: skip
    loss, share = _label_losses(
        x, target, weight, integer(ignore_index, "ignore_index")
    )
    if reduction == MEAN:
        return ops.sum(loss) / ops.sum(share)
    return reduce_loss(loss, reduction)


def read_nll_forward(x: Any, target: Any, weight: Any, reduction: int,
                     ignore_index: int) -> Any:  # fmt: skip
    """The loss and the total weight."""
    loss, share = _label_losses(
        x, target, weight, integer(ignore_index, "ignore_index")
    )
    total = ops.sum(share)
    if reduction == MEAN:
        return ops.sum(loss) / total, total
    if reduction == SUM:
        return ops.sum(loss), total
    return loss, number(0, x.dtype)


def read_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = MEAN,
                       ignore_index: int = -100,
                       label_smoothing: float = 0.0) -> Any:  # fmt: skip
    axis = 0 if rank_of(x) == 1 else 1
    logs = ops.log_softmax(x, axes=(axis,))
    ignore = integer(ignore_index, "ignore_index")
    if target.dtype.kind == "float":
        return _soft_cross_entropy(
            logs, target, weight, reduction, label_smoothing, axis
        )
    loss, share = _label_losses(logs, target, weight, ignore)
    if label_smoothing:
        loss = _smooth(logs, target, loss, weight, ignore, label_smoothing, axis)
    if reduction == MEAN:
        return ops.sum(loss) / ops.sum(share)
    return reduce_loss(loss, reduction)


def _smooth(logs: Any, target: Any, loss: Any, weight: Any, ignore: int,
            smoothing: float, axis: int) -> Any:  # fmt: skip
    classes = integer(logs.type.shape.dims[axis], "the number of classes")
    weighted = logs if weight is None else logs * _along(weight, logs, axis)
    even = ops.negative(ops.sum(weighted, [axis]))
    counted = ops.not_equal(target, np.asarray(ignore, str(target.dtype)))
    even = ops.where(counted, even, number(0, logs.dtype))
    share = number(smoothing / classes, logs.dtype)
    return loss * number(1 - smoothing, logs.dtype) + even * share


def _along(values: Any, x: Any, axis: int) -> Any:
    shape = [1] * rank_of(x)
    shape[axis] = -1
    return ops.reshape(values, shape)


def _soft_cross_entropy(logs: Any, target: Any, weight: Any, reduction: int,
                        smoothing: float, axis: int) -> Any:  # fmt: skip
    classes = integer(logs.type.shape.dims[axis], "the number of classes")
    if smoothing:
        target = target * number(1 - smoothing, logs.dtype) + number(
            smoothing / classes, logs.dtype
        )
    product = logs * target
    product = product if weight is None else product * _along(weight, logs, axis)
    if reduction == MEAN:
        count = ops.size(logs) // np.int64(classes)
        return ops.negative(ops.sum(product)) / cast_to(count, logs.dtype)
    return reduce_loss(ops.negative(ops.sum(product, [axis])), reduction)


def read_kl_divergence(x: Any, target: Any, reduction: int = MEAN, *,
                       log_target: bool = False) -> Any:  # fmt: skip
    if log_target:
        return reduce_loss(ops.exp(target) * (target - x), reduction)
    return reduce_loss(_xlogy(target, target) - target * x, reduction)


def _xlogy(a: Any, b: Any) -> Any:
    return ops.where(ops.isnan(b), b, ops.xlogy(a, b))


def read_poisson(x: Any, target: Any, log_input: bool, full: bool, eps: float,
                 reduction: int) -> Any:  # fmt: skip
    if log_input:
        loss = ops.exp(x) - target * x
    else:
        loss = x - target * ops.log(x + number(eps, x.dtype))
    if full:
        stirling = (
            target * ops.log(target)
            - target
            + number(0.5, x.dtype) * ops.log(target * number(2 * math.pi, x.dtype))
        )
        large = ops.greater(target, number(1, x.dtype))
        loss = loss + ops.where(large, stirling, number(0, x.dtype))
    return reduce_loss(loss, reduction)


def read_hinge_embedding(x: Any, target: Any, margin: float = 1,
                         reduction: int = MEAN) -> Any:  # fmt: skip
    zero = number(0, x.dtype)
    far = ops.maximum(number(margin, x.dtype) - x, zero)
    one = number(1, target.dtype)
    below = ops.where(ops.not_equal(target, one), far, zero)
    above = ops.where(ops.not_equal(target, ops.negative(one)), x, zero)
    return reduce_loss(below + above, reduction)


def read_margin_ranking(a: Any, b: Any, target: Any, margin: float = 0,
                        reduction: int = MEAN) -> Any:  # fmt: skip
    loss = ops.negative(target) * (a - b) + number(margin, a.dtype)
    return reduce_loss(ops.maximum(loss, number(0, a.dtype)), reduction)


def read_cosine_embedding(a: Any, b: Any, target: Any, margin: float = 0,
                          reduction: int = MEAN) -> Any:  # fmt: skip
    eps = number(1e-12, a.dtype)
    axis = [rank_of(a) - 1]
    lengths = (ops.sum(a * a, axis) + eps) * (ops.sum(b * b, axis) + eps)
    cosine = ops.sum(a * b, axis) / ops.sqrt(lengths)
    one, zero = number(1, target.dtype), number(0, a.dtype)
    same = ops.where(ops.equal(target, one), number(1, a.dtype) - cosine, zero)
    apart = ops.maximum(cosine - number(margin, a.dtype), zero)
    other = ops.where(ops.equal(target, ops.negative(one)), apart, zero)
    return reduce_loss(same + other, reduction)


def read_multi_margin(x: Any, target: Any, p: float = 1, margin: float = 1,
                      weight: Any = None, reduction: int = MEAN) -> Any:  # fmt: skip
    is_one = rank_of(x) < 2
    rows = ops.reshape(x, [1, -1]) if is_one else x
    labels = ops.reshape(target, [-1, 1])
    classes = integer(rows.type.shape.dims[1], "the number of classes")
    picked = ops.gather_elements(rows, labels, axis=1)
    loss = ops.maximum(number(margin, x.dtype) - picked + rows, number(0, x.dtype))
    loss = loss * loss if p == 2 else loss
    loss = loss if weight is None else loss * ops.gather(weight, labels, 0)
    others = ops.not_equal(np.arange(classes)[None, :], labels)
    loss = ops.where(others, loss, number(0, x.dtype))
    loss = ops.sum(loss, [1]) / number(classes, x.dtype)
    return reduce_loss(ops.reshape(loss, []) if is_one else loss, reduction)


def read_multilabel_margin(x: Any, target: Any, reduction: int = MEAN) -> Any:
    """Labels are those before the first -1."""
    is_one = rank_of(x) < 2
    rows, labels = (ops.reshape(v, [1, -1]) if is_one else v for v in (x, target))
    classes = integer(rows.type.shape.dims[1], "the number of classes")
    open_ = ops.cumulative_sum(
        ops.astype(ops.less(labels, np.int64(0)), dtype="int64"), 1
    )
    valid = ops.equal(open_, np.int64(0))
    safe = ops.where(valid, labels, np.int64(0))
    hits = ops.equal(ops.expand_dims(safe, [2]), np.arange(classes)[None, None, :])
    is_label = ops.any(ops.logical_and(hits, ops.expand_dims(valid, [2])), [1])
    picked = ops.expand_dims(ops.gather_elements(rows, safe, axis=1), [2])
    loss = ops.maximum(number(1, x.dtype) - picked + ops.expand_dims(rows, [1]),
                       number(0, x.dtype))  # fmt: skip
    counts = ops.logical_and(
        ops.expand_dims(valid, [2]), ops.logical_not(ops.expand_dims(is_label, [1]))
    )
    loss = ops.sum(ops.where(counts, loss, number(0, x.dtype)), [1, 2])
    loss = loss / number(classes, x.dtype)
    return reduce_loss(ops.reshape(loss, []) if is_one else loss, reduction)


def read_soft_margin(x: Any, target: Any, reduction: int = MEAN) -> Any:
    return reduce_loss(ops.log1p(ops.exp(ops.negative(target) * x)), reduction)


def read_pairwise_distance(a: Any, b: Any, p: float = 2, eps: float = 1e-6,
                           keepdim: bool = False) -> Any:  # fmt: skip
    apart = a - b + number(eps, a.dtype)
    return vector_norm(apart, float(p), rank_of(apart) - 1, keepdim=keepdim)


def read_triplet_margin(
    anchor: Any, positive: Any, negative: Any, margin: float = 1, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: int = MEAN,
) -> Any:  # fmt: skip
    near = read_pairwise_distance(anchor, positive, p, eps)
    far = read_pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, read_pairwise_distance(positive, negative, p, eps))
    loss = ops.maximum(number(margin, near.dtype) + near - far, number(0, near.dtype))
    return reduce_loss(loss, reduction)


def read_distances(a: Any, b: Any, p: float = 2, compute_mode: Any = None) -> Any:
    """The p-norm of differences between all rows of a and of b."""
    del compute_mode
    rank = rank_of(a)
    apart = ops.expand_dims(a, [rank - 1]) - ops.expand_dims(b, [rank_of(b) - 2])
    return vector_norm(apart, float(p), rank_of(apart) - 1)


def read_own_distances(x: Any, p: float = 2) -> Any:
    """Distances between all pairs of different rows."""
    count = integer(x.type.shape.dims[0], "the number of rows")
    first, second = (v.astype("int64") for v in np.triu_indices(count, 1))
    apart = ops.gather(x, first, 0) - ops.gather(x, second, 0)
    return vector_norm(apart, float(p), 1)


READ = torch_functions(
    {
        "mse_loss": _elementwise(_square_difference),
        "l1_loss": _elementwise(lambda x, target: ops.abs(x - target)),
        "smooth_l1_loss": read_smooth_l1,
        "huber_loss": read_huber,
        "binary_cross_entropy": read_binary_cross_entropy,
        "binary_cross_entropy_with_logits": read_binary_cross_entropy_of_logits,
        "nll_loss nll_loss_nd nll_loss2d": read_nll,
        "nll_loss_forward nll_loss2d_forward": read_nll_forward,
        "cross_entropy_loss": read_cross_entropy,
        "kl_div": read_kl_divergence,
        "poisson_nll_loss": read_poisson,
        "hinge_embedding_loss": read_hinge_embedding,
        "margin_ranking_loss": read_margin_ranking,
        "cosine_embedding_loss": read_cosine_embedding,
        "multi_margin_loss": read_multi_margin,
        "multilabel_margin_loss": read_multilabel_margin,
        "soft_margin_loss": read_soft_margin,
        "pairwise_distance": read_pairwise_distance,
        "triplet_margin_loss": read_triplet_margin,
        "cdist _cdist_forward": read_distances,
        "pdist": read_own_distances,
    }
)
