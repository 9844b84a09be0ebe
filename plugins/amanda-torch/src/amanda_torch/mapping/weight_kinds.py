"""What a weight is in PyTorch: a parameter, a buffer or a constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amanda.graph import Op, OutputPort
from amanda.tensors import Tensor
from amanda_torch.records import FROZEN, is_frozen

__all__ = ["recurrent_names", "usual_kind", "weight_kind"]

_LOWERING = "lower"
"""What made a constant that is in the definition of an op."""
_STATISTICS = {
    "aten.batch_norm.default": (3, 4),
    "aten._native_batch_norm_legit_no_training.default": (3, 4),
}
"""The inputs of ops that are buffers of a layer, and not trained."""


def weight_kind(op: Op) -> str:
    """The kind of a weight of a program: that of its `get_attr`, or `FROZEN`."""
    kind = str(op.attrs.get("kind"))
    return FROZEN if kind == "parameter" and is_frozen(op) else kind


def usual_kind(value: OutputPort, tensor: Tensor, name: str) -> str:
    """Floats are trained, but for the statistics of a normalization, for scalars whose
    name has no module (`model.logit_scale` is a parameter), and for those that the
    definition of an op of the hub has."""
    if tensor.dtype.kind != "float" or not (tensor.shape or "." in name):
        return "constant"
    made = value.op.provenance
    if made is not None and made.by == _LOWERING:
        return "constant"
    places = {
        i
        for op in value.user_ops
        for i, source in enumerate(op.inputs)
        if source is value and i in _STATISTICS.get(op.type or "", ())
    }
    return "buffer" if places else "parameter"


def recurrent_names(arguments: Mapping[str, Any], count: int) -> list[str]:
    """The names of so many weights of an `aten.lstm` and the like, in their order.

    >>> recurrent_names({"has_biases": False, "bidirectional": True}, 4)
    ['weight_ih_l0', 'weight_hh_l0', 'weight_ih_l0_reverse', 'weight_hh_l0_reverse']
    """
    kinds = ["weight_ih", "weight_hh"]
    kinds += ["bias_ih", "bias_hh"] if arguments.get("has_biases") else []
    ends = ["", "_reverse"] if arguments.get("bidirectional") else [""]
    per_layer = len(kinds) * len(ends)
    return [
        f"{kind}_l{layer}{end}" for layer in range(count // per_layer)
        for end in ends for kind in kinds
    ]  # fmt: skip
