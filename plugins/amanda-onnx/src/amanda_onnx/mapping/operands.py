"""Operands and attributes that functions to ONNX share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std.mappings import rank_of, static_value

__all__ = [
    "as_vector",
    "expect_opset",
    "int64_tensor",
    "opset_of",
    "padding_attributes",
    "unsqueeze",
    "with_nonnegative_axes",
]


def opset_of(o: Any) -> int:
    """The opset of ONNX's own domain that is written."""
    return int(o.side.opset)


def expect_opset(o: Any, first: int, what: str) -> None:
    """Decline opsets before `first`."""
    if opset_of(o) < first:
        raise Decline(f"{what} begins with opset {first}")


def int64_tensor(values: Any) -> Tensor:
    """A constant of int64."""
    return Tensor.of(np.asarray(values, "int64"))


def unsqueeze(o: Any, x: Any, axes: Any) -> Any:
    """Unsqueeze, whose axes are an attribute before opset 13."""
    if opset_of(o) < 13:
        return o.Unsqueeze(x, axes=axes)
    return o.Unsqueeze(x, int64_tensor(axes))


def as_vector(o: Any, value: Any) -> Any:
    """A scalar, or a vector of one element, as a vector of one element."""
    if not isinstance(value, OutputPort):
        return int64_tensor(np.reshape(value, 1))
    return o.Reshape(value, int64_tensor([1])) if rank_of(value) == 0 else value


def padding_attributes(padding: Any) -> dict[str, Any]:
    """`auto_pad` or `pads`: all begins, then all ends."""
    if isinstance(padding, str):
        return {"auto_pad": padding.upper()}
    if padding is None:
        return {}
    return {"pads": [p[0] for p in padding] + [p[1] for p in padding]}


def with_nonnegative_axes(
    args: Sequence[Any], attrs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Operands and attributes of a reduction, with axes counted from the first.

    onnxruntime 1.31 does not reduce negative axes of a tensor without elements.
    """
    rank = _known_rank(args[0])
    if rank is None:
        return args, attrs
    changed = {}
    for key in ("axes", "axis"):
        value = attrs.get(key)
        if value is not None and np.min(value, initial=0) < 0:
            changed[key] = np.where(np.less(value, 0), np.add(value, rank), value)
    operand = args[1] if len(args) > 1 else None
    known = None if operand is None else static_value(operand)
    if known is not None and np.min(known, initial=0) < 0:
        positive = np.where(np.less(known, 0), np.add(known, rank), known)
        args = [args[0], int64_tensor(positive), *args[2:]]
    return args, {**attrs, **{key: each.tolist() for key, each in changed.items()}}


def _known_rank(x: Any) -> int | None:
    """The rank of a value, or of what an op that was built for it reads."""
    while isinstance(x, OutputPort) and x.type is None and x.op.type in ("Cast", "Not"):
        x = x.op.inputs[0]
    known = isinstance(x.type, TensorType) and x.type.shape.has_rank
    return rank_of(x) if known else None
