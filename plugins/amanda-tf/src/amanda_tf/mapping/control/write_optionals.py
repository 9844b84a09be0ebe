"""To TensorFlow: optionals that are no optionals, whose element is the value itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import TensorType

__all__ = ["WRITE"]


def write_get_element(o: Any, x: Any) -> Any:
    if not isinstance(x.type, TensorType):
        raise Decline(f"the element of a value of type {x.type}")
    return o.Identity(x)


def write_has_element(o: Any, x: Any = None) -> Any:
    if x is not None and not isinstance(x.type, TensorType):
        raise Decline(f"whether a value of type {x.type} has an element")
    return o.graph.constant(Tensor.of(np.asarray(x is not None))).output


WRITE: dict[str, Any] = {
    "get_element": write_get_element,
    "has_element": write_has_element,
}
