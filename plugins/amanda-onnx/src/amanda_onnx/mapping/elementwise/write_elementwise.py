"""To ONNX: functions for reductions and for ops that work on each element."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import TensorType, bool_, int32
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.shapes.write_shapes import content, opset, whole

__all__ = ["WRITE"]


def number(value: float, like: Any) -> Tensor:
    """A constant of the element type of another value."""
    if not isinstance(like.type, TensorType) or like.type.dtype.kind == "unknown":
        raise Decline(f"the element type of {like} is not known")
    return Tensor.of(np.asarray(value, like.type.dtype.numpy))


def _reduction(type: str, first: int) -> Callable[..., Any]:
    """Axes are an input from opset `first` on."""

    def reduction(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        return _reduced(o, type, first, x, axes, keepdims)

    return reduction


def _reduced(o: Any, type: str, first: int, x: Any, axes: Any, keepdims: bool) -> Any:
    keep = int(keepdims)
    told = None if axes is None else content(axes)
    if told == []:
        return o.Identity(x)
    if opset(o) >= first:
        given = axes if axes is None or isinstance(axes, OutputPort) else whole(told)
        return o.op(type, x, given, keepdims=keep)
    if axes is not None and told is None:
        raise Decline(f"{type} of this opset needs its axes as an attribute")
    return o.op(type, x, axes=told, keepdims=keep)


def any_(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """Of truth values: the sum of 0 and 1, which is 0 of none."""
    if opset(o) >= 20:
        return _reduced(o, "ReduceMax", 18, x, axes, keepdims)
    counted = o.Cast(x, to=CODES[int32])
    return o.Cast(
        _reduced(o, "ReduceSum", 13, counted, axes, keepdims), to=CODES[bool_]
    )


def all_(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    """None of them does not hold."""
    if opset(o) >= 20:
        return _reduced(o, "ReduceMin", 18, x, axes, keepdims)
    return o.Not(any_(o, o.Not(x), axes, keepdims=keepdims))


def remainder(o: Any, a: Any, b: Any) -> Any:
    """Of floats, before Mod takes them: the sign is that of the divisor."""
    rest = o.Mod(a, b, fmod=1)
    other = o.Less(o.Mul(o.Sign(rest), o.Sign(b)), number(0, b))
    return o.Where(other, o.Add(rest, b), rest)


def log2(o: Any, x: Any) -> Any:
    return o.Div(o.Log(x), number(log(2), x))


def log1p(o: Any, x: Any) -> Any:
    return o.Log(o.Add(x, number(1, x)))


def expm1(o: Any, x: Any) -> Any:
    return o.Sub(o.Exp(x), number(1, x))


def old_clip(o: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    bounds = {}
    for key, value in (("min", low), ("max", high)):
        tensor = None if value is None else constant_of(value)
        if value is not None and tensor is None:
            raise Decline(f"Clip of this opset needs its {key} as an attribute")
        if tensor is not None:
            bounds[key] = float(tensor.numpy().reshape(()))
    return o.Clip(x, **bounds)


def clip(o: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    if opset(o) < 11:
        return old_clip(o, x, low, high)
    return o.Clip(x, low, high)


WRITE: dict[str, Any] = {
    "sum": _reduction("ReduceSum", 13),
    "mean": _reduction("ReduceMean", 18),
    "max": _reduction("ReduceMax", 18),
    "min": _reduction("ReduceMin", 18),
    "prod": _reduction("ReduceProd", 18),
    "logsumexp": _reduction("ReduceLogSumExp", 18),
    "any": any_,
    "all": all_,
    "remainder": remainder,
    "log2": log2,
    "log1p": log1p,
    "expm1": expm1,
    "clip": clip,
}
