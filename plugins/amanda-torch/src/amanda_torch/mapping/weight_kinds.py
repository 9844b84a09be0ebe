"""What a weight is in PyTorch: a parameter, a buffer or a constant."""

from __future__ import annotations

from amanda.graph import Op, OutputPort
from amanda.tensors import Tensor
from amanda_torch.records import FROZEN, is_frozen

__all__ = ["usual_kind", "weight_kind"]

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
    """Floats are trained, but for the statistics of a normalization, and for scalars
    whose name has no module: `model.logit_scale` is a parameter."""
    if tensor.dtype.kind != "float" or not (tensor.shape or "." in name):
        return "constant"
    places = {
        i
        for op in value.user_ops
        for i, source in enumerate(op.inputs)
        if source is value and i in _STATISTICS.get(op.type or "", ())
    }
    return "buffer" if places else "parameter"
