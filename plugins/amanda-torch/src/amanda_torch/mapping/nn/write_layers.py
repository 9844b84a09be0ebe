"""To PyTorch: softmax, normalization, attention, fully connected layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda.mapping import Decline
from amanda_std.mappings import rank_of
from amanda_torch.mapping.written_arguments import (
    broadcasts_to,
    dims_of,
    write_call,
    write_size,
)

__all__ = ["WRITE"]


def _softmax(name: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, *, axes: Sequence[int]) -> Any:
        if len(axes) != 1:
            raise Decline("softmax of several axes")
        return write_call(o, name, x, dim=axes[0])

    return write


def _normalized_dims(x: Any, axis: int, given: Sequence[Any]) -> tuple[Any, ...]:
    """The dims that are normalized, which scale and bias must have."""
    dims = dims_of(x)[axis % rank_of(x) :]
    if not all(broadcasts_to(each, dims) for each in given if each is not None):
        raise Decline("scale and bias have other dims than those that are normalized")
    return dims


def write_layer_norm(o: Any, x: Any, scale: Any = None, bias: Any = None, *,
                     axis: int, epsilon: float) -> Any:  # fmt: skip
    dims = _normalized_dims(x, axis, [scale, bias])
    shape = [write_size(o, n) for n in dims]
    return write_call(o, "layer_norm", x, scale, bias, normalized_shape=shape,
                      eps=epsilon)  # fmt: skip


def write_rms_norm(o: Any, x: Any, scale: Any = None, *, axis: int,
                   epsilon: float) -> Any:  # fmt: skip
    dims = _normalized_dims(x, axis, [scale])
    shape = [write_size(o, n) for n in dims]
    return write_call(o, "rms_norm", x, scale, normalized_shape=shape, eps=epsilon)


def write_batch_norm(o: Any, x: Any, scale: Any, bias: Any, mean: Any, var: Any, *,
                     axis: int, epsilon: float) -> Any:  # fmt: skip
    if axis % rank_of(x) != 1:
        raise Decline("PyTorch has the channels as the second axis")
    return write_call(
        o, "batch_norm", x, scale, bias, mean, var, training=False, momentum=0.1,
        eps=epsilon, cudnn_enabled=True,
    )  # fmt: skip


def write_group_norm(o: Any, x: Any, scale: Any = None, bias: Any = None, *,
                     groups: int, epsilon: float) -> Any:  # fmt: skip
    return write_call(o, "group_norm", x, scale, bias, num_groups=groups, eps=epsilon)


def write_instance_norm(o: Any, x: Any, scale: Any = None, bias: Any = None, *,
                        epsilon: float, **more: Any) -> Any:  # fmt: skip
    if any(v not in (None, "NC*") for v in more.values()):
        raise Decline("PyTorch has data with channels first")
    return write_call(
        o, "instance_norm", x, scale, bias, None, None, use_input_stats=True,
        momentum=0.1, eps=epsilon, cudnn_enabled=True,
    )  # fmt: skip


def write_attention(o: Any, q: Any, k: Any, v: Any, mask: Any = None, *,
                    scale: float | None = None, causal: bool = False,
                    softcap: float = 0.0) -> Any:  # fmt: skip
    """PyTorch takes a mask or `causal`, and its causal mask begins at the first key."""
    if softcap:
        raise Decline("PyTorch limits no scores")
    if causal and mask is not None:
        raise Decline("PyTorch has no causal attention with a mask")
    return write_call(o, "scaled_dot_product_attention", q, k, v, mask,
                      is_causal=causal, scale=scale)  # fmt: skip


def write_linear(o: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if rank_of(weight) != 2 or (bias is not None and rank_of(bias) != 1):
        raise Decline("PyTorch has layers of matrices with a vector as bias")
    turned = write_call(o, "t", weight)
    return write_call(o, "linear", x, turned, bias)


WRITE: dict[str, Any] = {
    "softmax": _softmax("softmax.int"),
    "log_softmax": _softmax("log_softmax.int"),
    "layer_norm": write_layer_norm,
    "rms_norm": write_rms_norm,
    "batch_norm": write_batch_norm,
    "group_norm": write_group_norm,
    "instance_norm": write_instance_norm,
    "attention": write_attention,
    "linear": write_linear,
}
