"""To ONNX: integers in opsets whose ops take floats, or fewer integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.shapes.write_shapes import content, opset, rank, whole

__all__ = ["WRITE"]

_INT, _BOOL = CODES[DType("int64")], CODES[DType("bool")]
_SHIFTS, _SIGNED_SHIFTS = 11, 28
"""The first opsets that shift numbers: those without a sign, and all."""


def _element(x: Any) -> DType:
    found = x.type.dtype if isinstance(x.type, TensorType) else None
    if not isinstance(found, DType) or str(found.kind) not in ("int", "uint"):
        raise Decline(f"{x} is not known to hold integers")
    return found


def _like(value: int, dtype: DType) -> Tensor:
    return Tensor.of(np.asarray(value, dtype.numpy))


# -- shifts ------------------------------------------------------------------------


def _shift(direction: str) -> Any:
    def shift(o: Any, a: Any, b: Any) -> Any:
        own = _element(a)
        signed = str(own.kind) == "int"
        if opset(o) >= (_SIGNED_SHIFTS if signed else _SHIFTS):
            raise Decline("BitShift of this opset has a row of its own")
        if not signed:
            return _by_powers(o, a, b, own, direction)
        if direction == "LEFT":
            return _without_sign(o, a, b, own, direction)
        negative = _is_negative(o, a)
        found = _without_sign(o, _mirrored(o, a, negative, own), b, own, direction)
        return _mirrored(o, found, negative, own)

    return shift


def _is_negative(o: Any, a: Any) -> Any:
    """In doubles where older opsets compare no integers: the sign is kept."""
    return o.Less(o.Cast(a, to=11), Tensor.of(np.asarray(0.0)))


def _mirrored(o: Any, x: Any, negative: Any, own: DType) -> Any:
    """-1 - x of what is negative, which is x with every bit turned, and x else."""
    wide = o.Cast(x, to=_INT)
    turned = o.Sub(_like(-1, DType("int64")), wide)
    flags = o.Cast(negative, to=_INT)
    rest = o.Sub(_like(1, DType("int64")), flags)
    both = o.Add(o.Mul(flags, turned), o.Mul(rest, wide))
    return both if own.name == "int64" else o.Cast(both, to=CODES[own])


def _without_sign(o: Any, a: Any, b: Any, own: DType, direction: str) -> Any:
    """The same bits as numbers without a sign, which casts keep."""
    if opset(o) < _SHIFTS:
        return _by_powers(o, a, b, own, direction)
    code = CODES[DType(f"u{own.name}")]
    found = o.BitShift(o.Cast(a, to=code), o.Cast(b, to=code), direction=direction)
    return o.Cast(found, to=CODES[own])


def _by_powers(o: Any, a: Any, b: Any, own: DType, direction: str) -> Any:
    """Times or over powers of two, before there was BitShift."""
    wide = DType("uint64" if own.name == "uint64" else "int64")
    powers = np.left_shift(np.ones(64, "uint64"), np.arange(64, dtype="uint64"))
    power = o.Gather(Tensor.of(powers.astype(wide.numpy)), o.Cast(b, to=_INT), axis=0)
    value = a if own == wide else o.Cast(a, to=CODES[wide])
    found = o.Mul(value, power) if direction == "LEFT" else o.Div(value, power)
    return found if own == wide else o.Cast(found, to=CODES[own])


# -- quotients ---------------------------------------------------------------------


def floor_divide(o: Any, a: Any, b: Any) -> Any:
    """The quotient towards 0, and one less where there is a rest of another sign."""
    own = _element(a)
    if opset(o) >= 10:
        raise Decline("Mod of this opset has a row of its own")
    wide = own if own.bits >= 32 else DType("int64")
    a, b = (v if own == wide else o.Cast(v, to=CODES[wide]) for v in (a, b))
    quotient = o.Div(a, b)
    if str(own.kind) == "int":
        rest = o.Sub(a, o.Mul(quotient, b))
        odd = o.Xor(_is_negative(o, rest), _is_negative(o, b))
        less = o.And(o.Cast(rest, to=_BOOL), odd)
        quotient = o.Sub(quotient, o.Cast(less, to=CODES[wide]))
    return quotient if own == wide else o.Cast(quotient, to=CODES[own])


def remainder(o: Any, a: Any, b: Any) -> Any:
    own = _element(a)
    if own.bits < 32:
        raise Decline("older opsets multiply no smaller integers")
    return o.Sub(a, o.Mul(floor_divide(o, a, b), b))


# -- places ------------------------------------------------------------------------


def arange(o: Any, start: Any, stop: Any, step: Any = 1) -> Any:
    """A constant, or the places of ones, of which there are as many."""
    if opset(o) >= 11:
        raise Decline("Range of this opset has a row of its own")
    told = [content(v) for v in (start, stop, step)]
    if None not in told:
        return o.Identity(whole(np.arange(*told)))
    if opset(o) < 9 or told[0] != 0 or told[2] != 1:
        raise Decline("older opsets have no Range of what is computed")
    end = stop if _element(stop).name == "int64" else o.Cast(stop, to=_INT)
    count = o.Reshape(_not_negative(o, end), whole([1]))
    ones = o.ConstantOfShape(count, value=Tensor.of(np.ones(1, "int64")))
    return o.Reshape(o.NonZero(ones), whole([-1]))


def _not_negative(o: Any, x: Any) -> Any:
    """An int64, or 0 where it is less: Max of these opsets is of floats only."""
    none = _like(0, DType("int64"))
    return o.Where(o.Less(x, none), none, x)


def gather_elements(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """From all in one row, whose places the shapes tell."""
    if opset(o) >= 11:
        raise Decline("GatherElements of this opset has a row of its own")
    shapes = [v.type.shape for v in (x, indices)]
    if not all(shape.is_static for shape in shapes):
        raise Decline("before there was GatherElements, shapes have to be known")
    size, wanted = (tuple(map(int, shape)) for shape in shapes)
    axis %= rank(x)
    strides = [int(np.prod(size[i + 1 :])) for i in range(len(size))]
    others = [0 if i == axis else stride for i, stride in enumerate(strides)]
    places = np.zeros(wanted, "int64")
    for i, stride in enumerate(others):
        places += np.indices(wanted)[i] * stride
    at = indices if str(_element(indices)) == "int64" else o.Cast(indices, to=_INT)
    behind = o.Cast(_is_negative(o, at), to=_INT)
    at = o.Add(at, o.Mul(behind, _like(size[axis], DType("int64"))))
    at = o.Add(o.Mul(at, _like(strides[axis], DType("int64"))), Tensor.of(places))
    return o.Gather(o.Reshape(x, whole([-1])), at, axis=0)


WRITE: dict[str, Any] = {
    "arange": arange,
    "bitwise_left_shift": _shift("LEFT"),
    "bitwise_right_shift": _shift("RIGHT"),
    "floor_divide": floor_divide,
    "gather_elements": gather_elements,
    "remainder": remainder,
}
