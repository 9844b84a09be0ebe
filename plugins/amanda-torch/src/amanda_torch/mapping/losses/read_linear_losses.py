"""From PyTorch: a linear layer and its cross entropy, which is computed in chunks.

They are ops of `torch.nn`, not of ATen, without a definition in the dictionary: all of
their inputs have the names of arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amanda_std.mappings import cast_to, expect
from amanda_torch.mapping.losses.read_losses import MEAN, SUM, read_cross_entropy
from amanda_torch.mapping.nn.read_products import read_linear

__all__ = ["READ"]

_REDUCTIONS = {"mean": MEAN, "sum": SUM}


def read_linear_cross_entropy(
    *values: Any, reduction: str = "mean", label_smoothing: float = 0.0, context: Any,
    **attributes: Any,
) -> Any:  # fmt: skip
    """The loss; gradients, which PyTorch computes with it for training, are empty."""
    outputs = context.source.outputs
    expect(not any(port.users for port in outputs[1:]), "gradients as further outputs")
    loss = _cross_entropy(
        context, values, attributes, _REDUCTIONS[reduction], label_smoothing
    )
    none = np.zeros((0, 0), loss.dtype.numpy)
    return (loss, none, none, np.zeros(0, loss.dtype.numpy))


def read_linear_cross_entropies(*values: Any, context: Any, **attributes: Any) -> Any:
    """The loss of each sample."""
    return _cross_entropy(context, values, attributes, 0, 0.0)


def _cross_entropy(
    context: Any, values: Any, attributes: Mapping[str, Any], reduction: int,
    smoothing: float,
) -> Any:  # fmt: skip
    names = [port.name for port in context.source.input_ports]
    given = dict(zip(names, values, strict=True))
    x, wide = given["input"], attributes["acc_dtype"]
    operands = (given.get(k) for k in ("input", "linear_weight", "linear_bias"))
    logits = read_linear(*(cast_to(v, wide) for v in operands))
    loss = read_cross_entropy(
        logits, given["target"], cast_to(given.get("weight"), wide), reduction,
        attributes["ignore_index"], smoothing,
    )  # fmt: skip
    return cast_to(loss, x.dtype)


READ = {
    "torch_nn._linear_cross_entropy_batch_chunked.default": read_linear_cross_entropy,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default":
        read_linear_cross_entropies,
}  # fmt: skip
