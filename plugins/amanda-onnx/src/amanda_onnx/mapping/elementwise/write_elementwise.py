"""To ONNX: elementwise ops that ONNX lacks, and Clip."""

from __future__ import annotations

from math import log
from typing import Any

from amanda.mapping import Decline, constant_of
from amanda_onnx.mapping.operands import opset_of
from amanda_std.mappings import scalar_like, tensor_type_of

__all__ = ["WRITE"]


def write_remainder(o: Any, a: Any, b: Any) -> Any:
    """Of floats: Mod before opset 28 has the sign of the dividend, not the divisor."""
    rest = o.Mod(a, b, fmod=1)
    differ = o.Less(o.Mul(o.Sign(rest), o.Sign(b)), scalar_like(0, b))
    return o.Where(differ, o.Add(rest, b), rest)


def write_log2(o: Any, x: Any) -> Any:
    return o.Div(o.Log(x), scalar_like(log(2), x))


def write_log1p(o: Any, x: Any) -> Any:
    return o.Log(o.Add(x, scalar_like(1, x)))


def write_expm1(o: Any, x: Any) -> Any:
    return o.Sub(o.Exp(x), scalar_like(1, x))


def write_erfc(o: Any, x: Any) -> Any:
    """As in the definition; results near 0 have the absolute precision of 1."""
    return o.Sub(scalar_like(1, x), o.Erf(x))


def write_clip(o: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    for bound in (low, high):
        shape = None if bound is None else tensor_type_of(bound).shape
        if shape is not None and shape.is_static and int(shape.size) != 1:
            raise Decline("Clip has bounds of one element", got=shape)
    if opset_of(o) >= 11:
        return o.Clip(x, low, high)
    bounds = {}
    for key, value in (("min", low), ("max", high)):
        tensor = None if value is None else constant_of(value)
        if value is not None and tensor is None:
            raise Decline(f"Clip of this opset needs its {key} as an attribute")
        if tensor is not None:
            bounds[key] = float(tensor.numpy().reshape(()))
    return o.Clip(x, **bounds)


WRITE: dict[str, Any] = {
    "remainder": write_remainder,
    "log2": write_log2,
    "log1p": write_log1p,
    "expm1": write_expm1,
    "erfc": write_erfc,
    "clip": write_clip,
}
