"""To ONNX: integer ops in opsets that support floats only, or fewer integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import int64_tensor, opset_of
from amanda_onnx.mapping.static_values import expect_small
from amanda_std.mappings import expect, rank_of, static_value, tensor_type_of

__all__ = ["WRITE"]

_INT64, _BOOL, _FLOAT64 = (CODES[DType(d)] for d in ("int64", "bool", "float64"))
_BIT_SHIFT, _SIGNED_BIT_SHIFT = 11, 28
"""The first opsets that have BitShift: of unsigned integers, and of signed ones."""


def _integer_dtype(x: Any) -> DType:
    dtype = tensor_type_of(x).dtype if isinstance(x.type, TensorType) else None
    if not isinstance(dtype, DType) or str(dtype.kind) not in ("int", "uint"):
        raise Decline(f"{x} is not known to hold integers")
    return dtype


def _is_negative(o: Any, a: Any) -> Any:
    """In float64, since old opsets compare no integers; casts keep the sign."""
    return o.Less(o.Cast(a, to=_FLOAT64), Tensor.of(np.asarray(0.0)))


# -- shifts ------------------------------------------------------------------------


def _shift(direction: str) -> Any:
    def write(o: Any, a: Any, b: Any) -> Any:
        own = _integer_dtype(a)
        signed = str(own.kind) == "int"
        if opset_of(o) >= (_SIGNED_BIT_SHIFT if signed else _BIT_SHIFT):
            raise Decline("BitShift of this opset is written by a rule of its own")
        if not signed:
            return _shift_by_powers(o, a, b, own, direction)
        if direction == "LEFT":
            return _shift_unsigned(o, a, b, own, direction)
        negative = _is_negative(o, a)
        inverted = _invert_where(o, a, negative, own)
        shifted = _shift_unsigned(o, inverted, b, own, direction)
        return _invert_where(o, shifted, negative, own)

    return write


def _invert_where(o: Any, x: Any, negative: Any, own: DType) -> Any:
    """-1 - x, which inverts all bits, where `negative`; else x."""
    wide = o.Cast(x, to=_INT64)
    inverted = o.Sub(int64_tensor(-1), wide)
    flags = o.Cast(negative, to=_INT64)
    rest = o.Sub(int64_tensor(1), flags)
    both = o.Add(o.Mul(flags, inverted), o.Mul(rest, wide))
    return both if own.name == "int64" else o.Cast(both, to=CODES[own])


def _shift_unsigned(o: Any, a: Any, b: Any, own: DType, direction: str) -> Any:
    """Shift the same bits as unsigned integers."""
    if opset_of(o) < _BIT_SHIFT:
        return _shift_by_powers(o, a, b, own, direction)
    code = CODES[DType(f"u{own.name}")]
    shifted = o.BitShift(o.Cast(a, to=code), o.Cast(b, to=code), direction=direction)
    return o.Cast(shifted, to=CODES[own])


def _shift_by_powers(o: Any, a: Any, b: Any, own: DType, direction: str) -> Any:
    """Multiply or divide by powers of two, in opsets without BitShift."""
    wide = DType("uint64" if own.name == "uint64" else "int64")
    powers = np.left_shift(np.ones(64, "uint64"), np.arange(64, dtype="uint64"))
    exponent = o.Cast(b, to=_INT64)
    power = o.Gather(Tensor.of(powers.astype(wide.numpy)), exponent, axis=0)
    value = a if own == wide else o.Cast(a, to=CODES[wide])
    shifted = o.Mul(value, power) if direction == "LEFT" else o.Div(value, power)
    return shifted if own == wide else o.Cast(shifted, to=CODES[own])


# -- division ----------------------------------------------------------------------


def write_floor_divide(o: Any, a: Any, b: Any) -> Any:
    """Div rounds towards 0: one less where a rest has another sign than b."""
    own = _integer_dtype(a)
    if opset_of(o) >= (10 if own.bits >= 32 else 14):  # the first Div of small integers
        raise Decline("Mod of this opset is written by a rule of its own")
    wide = own if own.bits >= 32 else DType("int64")
    a, b = (v if own == wide else o.Cast(v, to=CODES[wide]) for v in (a, b))
    quotient = o.Div(a, b)
    if str(own.kind) == "int":
        rest = o.Sub(a, o.Mul(quotient, b))
        differ = o.Xor(_is_negative(o, rest), _is_negative(o, b))
        less = o.And(o.Cast(rest, to=_BOOL), differ)
        quotient = o.Sub(quotient, o.Cast(less, to=CODES[wide]))
    return quotient if own == wide else o.Cast(quotient, to=CODES[own])


def write_remainder(o: Any, a: Any, b: Any) -> Any:
    own = _integer_dtype(a)
    if own.bits < 32:
        raise Decline("Mul of this opset does not support integers below 32 bits")
    return o.Sub(a, o.Mul(write_floor_divide(o, a, b), b))


# -- ranges and indices ------------------------------------------------------------


def write_arange(o: Any, start: Any, stop: Any, step: Any = 1) -> Any:
    """A constant; or the indices of as many ones, found by NonZero."""
    if opset_of(o) >= 11:
        raise Decline("Range of this opset is written by a rule of its own")
    known = [static_value(v) for v in (start, stop, step)]
    if None not in known:
        first, end, by = known
        expect(by != 0, "a step of 0")
        expect_small((max(0, -((first - end) // by)),), "a constant in place of Range")
        return o.Identity(int64_tensor(np.arange(first, end, by)))
    if opset_of(o) < 9 or known[0] != 0 or known[2] != 1:
        raise Decline("this opset has no Range with computed bounds")
    is_int64 = _integer_dtype(stop).name == "int64"
    end = stop if is_int64 else o.Cast(stop, to=_INT64)
    count = o.Reshape(_clamp_to_zero(o, end), int64_tensor([1]))
    ones = o.ConstantOfShape(count, value=Tensor.of(np.ones(1, "int64")))
    return o.Reshape(o.NonZero(ones), int64_tensor([-1]))


def _clamp_to_zero(o: Any, x: Any) -> Any:
    """max(x, 0) of int64: Max of these opsets supports floats only."""
    zero = int64_tensor(0)
    return o.Where(o.Less(x, zero), zero, x)


def write_gather_elements(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Gather from the flattened data, at linear indices; shapes must be static."""
    if opset_of(o) >= 11:
        raise Decline("GatherElements of this opset is written by a rule of its own")
    shapes = [tensor_type_of(v).shape for v in (x, indices)]
    if not all(shape.is_static for shape in shapes):
        raise Decline("without GatherElements, shapes must be static")
    size, wanted = (tuple(map(int, shape)) for shape in shapes)
    expect_small(wanted, "an index in place of GatherElements")
    axis %= rank_of(x)
    strides = [int(np.prod(size[i + 1 :])) for i in range(len(size))]
    others = [0 if i == axis else stride for i, stride in enumerate(strides)]
    offsets = np.zeros(wanted, "int64")
    for i, stride in enumerate(others):
        offsets += np.indices(wanted)[i] * stride
    is_int64 = str(_integer_dtype(indices)) == "int64"
    at = indices if is_int64 else o.Cast(indices, to=_INT64)
    negative = o.Cast(_is_negative(o, at), to=_INT64)
    at = o.Add(at, o.Mul(negative, int64_tensor(size[axis])))
    at = o.Add(o.Mul(at, int64_tensor(strides[axis])), Tensor.of(offsets))
    return o.Gather(o.Reshape(x, int64_tensor([-1])), at, axis=0)


WRITE: dict[str, Any] = {
    "arange": write_arange,
    "bitwise_left_shift": _shift("LEFT"),
    "bitwise_right_shift": _shift("RIGHT"),
    "floor_divide": write_floor_divide,
    "gather_elements": write_gather_elements,
    "remainder": write_remainder,
}
