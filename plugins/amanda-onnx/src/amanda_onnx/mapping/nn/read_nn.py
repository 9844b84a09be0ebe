"""From ONNX: functions for layers of networks."""

from __future__ import annotations

from typing import Any

from amanda_onnx.mapping.static_values import dims, expect, pairs_of, rank_of
from amanda_std import ops

__all__ = ["READ"]

_WORDS = {"VALID": "valid", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}


def padding_of(auto_pad: str | None, pads: Any) -> Any:
    """The padding as std has it: pairs, or a word."""
    if auto_pad in (None, "", "NOTSET"):
        return None if pads is None else pairs_of(pads)
    expect(auto_pad in _WORDS, f"there is no padding {auto_pad}")
    return _WORDS[auto_pad or ""]


def gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
         transA: int = 0, transB: int = 0) -> Any:  # fmt: skip  # noqa: N803
    a = ops.transpose(a, perm=(1, 0)) if transA else a
    b = ops.transpose(b, perm=(1, 0)) if transB else b
    y = ops.matmul(a, b)
    if alpha != 1:
        y = y * alpha
    if c is None:
        return y
    return ops.add(y, c if beta == 1 else c * beta)


def max_pool(x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", pads: Any = None,
             strides: Any = None, dilations: Any = None, ceil_mode: int = 0,
             storage_order: int = 0, outputs: int) -> Any:  # fmt: skip
    how: dict[str, Any] = {
        "window": kernel_shape, "strides": strides, "dilations": dilations,
        "padding": padding_of(auto_pad, pads), "ceil": bool(ceil_mode),
    }  # fmt: skip
    if outputs == 1:
        return ops.max_pool(x, **how)
    return ops.max_pool_with_indices(
        x, whole_tensor=True, column_major=bool(storage_order), **how
    )


def avg_pool(x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", pads: Any = None,
             strides: Any = None, dilations: Any = None, ceil_mode: int = 0,
             count_include_pad: int = 0) -> Any:  # fmt: skip
    return ops.avg_pool(
        x, window=kernel_shape, strides=strides, padding=padding_of(auto_pad, pads),
        dilations=dilations, ceil=bool(ceil_mode), count_pads=bool(count_include_pad),
    )  # fmt: skip


def conv_transpose(x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET",
                   pads: Any = None, strides: Any = None, dilations: Any = None,
                   group: int = 1, kernel_shape: Any = None, output_padding: Any = None,  # noqa: ARG001
                   output_shape: Any = None) -> Any:  # fmt: skip
    n = rank_of(x) - 2
    s, d = strides or [1] * n, dilations or [1] * n
    extra = output_padding or [0] * n
    padding = padding_of("NOTSET", pads)
    if auto_pad.startswith("SAME") or output_shape is not None:
        size, kernel = dims(x)[2:], dims(w)[2:]
        shape = output_shape or [i * j for i, j in zip(size, s, strict=True)]
        expect(len(shape) == n, f"output_shape={shape}: {n} numbers expected")
        rows = zip(size, kernel, s, d, extra, shape, strict=True)
        made = [_fitted(*row, upper=auto_pad == "SAME_UPPER") for row in rows]
        padding, rest = [pair for pair, _ in made], [more for _, more in made]
        output_padding = rest if any(rest) else None
    return ops.conv_transpose(
        x, w, b, strides=strides, padding=padding, dilations=dilations, groups=group,
        output_padding=output_padding,
    )  # fmt: skip


def _fitted(size: int, kernel: int, stride: int, dilation: int, extra: int,
            wanted: int, *, upper: bool) -> tuple[list[int], int]:  # fmt: skip
    """What is cut off before and behind an axis, and the rows of zeros behind it.

    There are fewer of those than a stride: one more, and data of another size would
    give the axis. What then stands where is told by nobody.
    """
    whole = stride * (size - 1) + (kernel - 1) * dilation + 1
    both = whole + extra - wanted
    if both < 0:
        expect(
            wanted - whole < stride,
            f"output_shape: at most {whole + stride - 1} expected of {size} elements "
            f"in strides of {stride}, got {wanted}",
        )
        return [0, 0], wanted - whole
    half = both // 2
    return ([half, both - half] if upper else [both - half, half]), extra


# -- normalisation -----------------------------------------------------------------


def batch_norm(x: Any, scale: Any, bias: Any, mean: Any, var: Any, *,
               epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1,
               training_mode: int = 0, is_test: int = 0,
               consumed_inputs: Any = None, outputs: int) -> Any:  # fmt: skip  # noqa: ARG001
    """Before opset 14, more than one output says that it trains."""
    if not spatial:
        expect(outputs == 1, "a batch norm for each place that trains")
        return (_by_place(x, scale, bias, mean, var, epsilon),)
    if training_mode or (outputs > 1 and not is_test):
        return _trained(x, scale, bias, mean, var, epsilon, momentum, outputs)
    expect(outputs == 1, "a batch norm that does not train, but gives means")
    return (_batch_norm(x, scale, bias, mean, var, epsilon),)


def _by_place(x: Any, scale: Any, bias: Any, mean: Any, var: Any, e: float) -> Any:
    """Every place of every channel has numbers of its own."""
    return (x - mean) / ops.sqrt(var + e) * scale + bias


def _batch_norm(x: Any, scale: Any, bias: Any, mean: Any, var: Any, e: float) -> Any:
    own, wide = x.dtype, mean.dtype
    scale, bias, x = (v if v.dtype == wide else ops.astype(v, dtype=wide)
                      for v in (scale, bias, x))  # fmt: skip
    y = ops.batch_norm(x, scale, bias, mean, var, epsilon=e)
    return y if y.dtype == own else ops.astype(y, dtype=own)


def _trained(x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float,
             momentum: float, outputs: int) -> Any:  # fmt: skip
    axes = (0, *range(2, rank_of(x)))
    here, spread = ops.mean(x, axes), ops.var(x, axes)
    y = _batch_norm(x, scale, bias, here, spread, epsilon)
    if outputs == 1:
        return (y,)
    rest = 1.0 - momentum
    moved = (mean * momentum + here * rest, var * momentum + spread * rest)
    return (y, *moved, here, spread)[:outputs]


def layer_norm(x: Any, scale: Any, bias: Any = None, *, axis: int = -1,
               epsilon: float = 1e-5, stash_type: int = 1,
               outputs: int) -> Any:  # fmt: skip
    expect(stash_type == 1, "a layer norm that works in another element type")
    y = ops.layer_norm(x, scale, bias, axis=axis, epsilon=epsilon)
    if outputs == 1:
        return (y,)
    expect(str(x.dtype) == "float32", "the mean of another element type")
    axes = tuple(range(axis % rank_of(x), rank_of(x)))
    mean = ops.mean(x, axes, keepdims=True)
    spread = ops.var(x, axes, keepdims=True)
    return (y, mean, 1.0 / ops.sqrt(spread + epsilon))[:outputs]


def old_group_norm(x: Any, scale: Any, bias: Any, *, num_groups: int,
                   epsilon: float = 1e-5) -> Any:  # fmt: skip
    """Scale and bias are one for each group here."""
    y = ops.group_norm(x, None, None, groups=num_groups, epsilon=epsilon)
    rank = rank_of(x)
    whole = ops.reshape(y, [0, num_groups, -1], copy_zero=True)
    scaled = whole * ops.reshape(scale, [1, -1, 1]) + ops.reshape(bias, [1, -1, 1])
    expect(rank > 1, "data without channels")
    return ops.reshape(scaled, ops.shape_of(x))


# -- losses ------------------------------------------------------------------------


def nll_loss(x: Any, target: Any, weight: Any = None, *, reduction: str = "mean",
             ignore_index: int | None = None) -> Any:  # fmt: skip
    rank = rank_of(x)
    safe = target
    kept = None
    if ignore_index is not None:
        kept = ops.not_equal(target, ignore_index)
        safe = ops.where(kept, target, target - target)
    picked = ops.gather_elements(x, ops.expand_dims(safe, (1,)), axis=1)
    loss = ops.negative(ops.squeeze(picked, (1,)))
    shares = None if weight is None else ops.gather(weight, safe)
    if kept is not None:
        mask = ops.astype(kept, dtype=x.dtype)
        shares = mask if shares is None else shares * mask
    if shares is not None:
        loss = loss * shares
    expect(rank > 1, "scores without classes")
    if reduction == "none":
        return loss
    if reduction == "sum":
        return ops.sum(loss)
    return ops.mean(loss) if shares is None else ops.sum(loss) / ops.sum(shares)


def cross_entropy(scores: Any, labels: Any, weights: Any = None, *,
                  reduction: str = "mean", ignore_index: int | None = None,
                  outputs: int) -> Any:  # fmt: skip
    logs = ops.log_softmax(scores, axes=(1,))
    loss = nll_loss(logs, labels, weights, reduction=reduction,
                    ignore_index=ignore_index)  # fmt: skip
    return (loss, logs)[:outputs]


READ: dict[str, Any] = {
    "Gemm": gemm,
    "MaxPool": max_pool,
    "AveragePool": avg_pool,
    "ConvTranspose": conv_transpose,
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "GroupNormalization[18:20]": old_group_norm,
    "NegativeLogLikelihoodLoss": nll_loss,
    "SoftmaxCrossEntropyLoss": cross_entropy,
}
