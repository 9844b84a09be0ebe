"""Operands and attributes that functions to ONNX share."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_std.mappings import rank_of

__all__ = [
    "as_vector",
    "expect_opset",
    "int64_tensor",
    "opset_of",
    "padding_attributes",
    "unsqueeze",
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
