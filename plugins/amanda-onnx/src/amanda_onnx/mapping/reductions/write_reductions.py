"""To ONNX: reductions. Axes are an attribute in old opsets, an input in new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import TensorType, bool_, int8, int16, int32, uint8, uint16
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import int64_tensor, opset_of
from amanda_std.mappings import static_value

__all__ = ["WRITE"]

_NARROW: Final = (int8, uint8, int16, uint16)
"""Integers that ONNX sums as wider ones; the result wraps around the same way."""


def _writer(type: str, first: int) -> Callable[..., Any]:
    """A reduction whose axes are an input from opset `first` on."""

    def write(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        return _reduce(o, type, first, x, axes, keepdims)

    return write


def _reduce(o: Any, type: str, first: int, x: Any, axes: Any, keepdims: bool) -> Any:
    keep = int(keepdims)
    known = None if axes is None else static_value(axes)
    if known == []:
        return o.Identity(x)
    narrow = x.type.dtype if isinstance(x.type, TensorType) else None
    if narrow in _NARROW and type in ("ReduceSum", "ReduceProd"):
        wide = _reduce(o, type, first, o.Cast(x, to=CODES[int32]), axes, keepdims)
        return o.Cast(wide, to=CODES[narrow])
    if opset_of(o) >= first:
        is_operand = axes is None or isinstance(axes, OutputPort)
        operand = axes if is_operand else int64_tensor(known)
        attrs = {"noop_with_empty_axes": 1} if _may_be_empty(axes) else {}
        return o.op(type, x, operand, keepdims=keep, **attrs)
    if axes is not None and known is None:
        raise Decline(f"{type} of this opset needs its axes as an attribute")
    return o.op(type, x, axes=known, keepdims=keep)


def _may_be_empty(axes: Any) -> bool:
    """Whether axes are computed, and may be none: ONNX would reduce all then."""
    if not isinstance(axes, OutputPort) or static_value(axes) is not None:
        return False
    type = axes.type
    if not isinstance(type, TensorType) or not type.shape.is_static:
        return True
    return not type.shape.size


def write_mean(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """Of no elements nan, where runtimes return 0."""
    type, known = x.type, None if axes is None else static_value(axes)
    if isinstance(type, TensorType) and type.shape.has_rank and known != []:
        dims = type.shape.dims
        reduced = dims if known is None else [dims[i] for i in known]
        if any(isinstance(dim, int) and dim == 0 for dim in reduced):
            total = _reduce(o, "ReduceSum", 13, x, axes, keepdims)
            return o.Div(total, Tensor.of(np.zeros((), type.dtype.numpy)))
    return _reduce(o, "ReduceMean", 18, x, axes, keepdims)


def write_any(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """Before opset 20 a sum, which is 0 where no element is true."""
    if opset_of(o) >= 20:
        return _reduce(o, "ReduceMax", 18, x, axes, keepdims)
    number = o.Cast(x, to=CODES[int32])
    total = _reduce(o, "ReduceSum", 13, number, axes, keepdims)
    return o.Cast(total, to=CODES[bool_])


def write_all(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """Before opset 20, not any element is false."""
    if opset_of(o) >= 20:
        return _reduce(o, "ReduceMin", 18, x, axes, keepdims)
    return o.Not(write_any(o, o.Not(x), axes, keepdims=keepdims))


WRITE: dict[str, Any] = {
    "sum": _writer("ReduceSum", 13),
    "mean": write_mean,
    "max": _writer("ReduceMax", 18),
    "min": _writer("ReduceMin", 18),
    "prod": _writer("ReduceProd", 18),
    "logsumexp": _writer("ReduceLogSumExp", 18),
    "any": write_any,
    "all": write_all,
}
