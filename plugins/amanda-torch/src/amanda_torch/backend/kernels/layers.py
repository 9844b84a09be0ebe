"""Layers that PyTorch computes as one op: softmax, normalization, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional

from amanda.graph import Op

__all__ = ["CONDITIONS", "KERNELS"]


def softmax(x: Any, *, axes: Any = (-1,)) -> Any:
    return torch.softmax(x, axes[0])


def log_softmax(x: Any, *, axes: Any = (-1,)) -> Any:
    return torch.log_softmax(x, axes[0])


def layer_norm(
    x: Any, scale: Any = None, bias: Any = None, *, axis: int = -1,
    epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    shape = x.shape[axis % x.ndim :]
    given = [each for each in (scale, bias) if each is not None]
    if all(each.shape == shape for each in given):
        return functional.layer_norm(x, shape, scale, bias, epsilon)
    y = functional.layer_norm(x, shape, eps=epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def rms_norm(
    x: Any, scale: Any = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Any:
    shape = x.shape[axis % x.ndim :]
    if scale is None or scale.shape == shape:
        return functional.rms_norm(x, shape, scale, epsilon)
    return functional.rms_norm(x, shape, eps=epsilon) * scale


def batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, axis: int = 1,
    epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    at = axis % x.ndim
    y = x if at == 1 else x.movedim(at, 1)
    y = functional.batch_norm(y, mean, var, scale, bias, False, 0.0, epsilon)
    return y if at == 1 else y.movedim(1, at)


def group_norm(
    x: Any, scale: Any = None, bias: Any = None, *, groups: int, epsilon: float = 1e-5
) -> Any:
    return functional.group_norm(x, groups, scale, bias, epsilon)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if bias is not None and weight.ndim == 2 and bias.ndim == 1:
        return functional.linear(x, weight.mT, bias)
    y = torch.matmul(x, weight)
    return y if bias is None else y + bias


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, *, scale: float | None = None,
    causal: bool = False, softcap: float = 0.0,
) -> Any:  # fmt: skip
    """PyTorch takes a mask or `causal`, and its causal mask begins at the first key."""
    del softcap  # 0, by `stays_whole`
    return functional.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale
    )


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        softmax, log_softmax, layer_norm, rms_norm, batch_norm, group_norm, linear,
        attention,
    )
}  # fmt: skip


def _has_one_axis(op: Op) -> bool:
    return len(op.attrs.get("axes") or (-1,)) == 1


def _is_plain_attention(op: Op) -> bool:
    has_mask = len(op.inputs) > 3 and op.inputs[3] is not None
    return not op.attrs.get("softcap") and not (has_mask and op.attrs.get("causal"))


CONDITIONS: Final[dict[str, Callable[[Op], bool]]] = {
    "softmax": _has_one_axis,
    "log_softmax": _has_one_axis,
    "attention": _is_plain_attention,
}
"""Which ops have the arguments that a kernel supports."""
