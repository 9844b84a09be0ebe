"""To ONNX: ops that old opsets do not have, in those that they do."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import Undecided
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import TensorType, int32
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.elementwise.write_elementwise import number
from amanda_onnx.mapping.shapes.write_shapes import opset
from amanda_std.mappings import finite_limits

__all__ = ["WRITE"]

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, 7.1.26: right to 1.5e-7, which is as far as float32 goes."""


def _until(o: Any, last: int, type: str) -> None:
    if opset(o) > last:
        raise Decline(f"{type} of this opset has a row of its own")


def _float(x: Any) -> Any:
    """The element type of floats; Decline of others."""
    if not isinstance(x.type, TensorType) or str(x.type.dtype.kind) != "float":
        raise Decline(f"{x} is not known to hold floats")
    return x.type.dtype


def round_(o: Any, x: Any) -> Any:
    """The next whole number; of two as near, the even one."""
    _until(o, 10, "Round")
    dtype = _float(x)
    low = o.Floor(x)
    rest, half = o.Sub(x, low), number(0.5, x)
    two = number(2, x)
    odd = o.Greater(o.Sub(low, o.Mul(o.Floor(o.Div(low, two)), two)), half)
    tie = o.Not(o.Or(o.Less(rest, half), o.Greater(rest, half)))
    up = o.Or(o.Greater(rest, half), o.And(tie, odd))
    return o.Add(low, o.Cast(up, to=CODES[dtype]))


def sign(o: Any, x: Any) -> Any:
    _until(o, 8, "Sign")
    dtype, zero = _float(x), number(0, x)
    above, below = (
        o.Cast(v, to=CODES[dtype]) for v in (o.Greater(x, zero), o.Less(x, zero))
    )
    return o.Sub(above, below)


def erf(o: Any, x: Any) -> Any:
    _until(o, 8, "Erf")
    if str(_float(x)) == "float64":
        raise Decline("Erf of doubles begins with opset 9")
    size, one = o.Abs(x), number(1, x)
    share = o.Reciprocal(o.Add(o.Mul(size, number(0.3275911, x)), one))
    total = number(_ERF[-1], x)
    for factor in reversed(_ERF[:-1]):
        total = o.Add(o.Mul(total, share), number(factor, x))
    fall = o.Exp(o.Neg(o.Mul(x, x)))
    return o.Mul(sign(o, x), o.Sub(one, o.Mul(o.Mul(total, share), fall)))


def isnan(o: Any, x: Any) -> Any:
    _until(o, 8, "IsNaN")
    _float(x)
    return o.Not(o.Or(o.Less(x, number(1, x)), o.Greater(x, number(0, x))))


def isinf(o: Any, x: Any) -> Any:
    _until(o, 9, "IsInf")
    most = finite_limits(_float(x))[1]
    return o.Greater(o.Abs(x), number(most, x))


def _rows(*xs: Any) -> list[tuple[int, ...]]:
    """The shapes of values, and at the end the one that they broadcast to."""
    shapes = [x.type.shape for x in xs]
    if not all(shape.is_static for shape in shapes):
        raise Undecided("the shapes are known at run time only")
    rows = [tuple(map(int, shape)) for shape in shapes]
    return [*rows, np.broadcast_shapes(*rows)]


def _spread(o: Any, *xs: Any) -> list[Any]:
    """All of one shape, which is known: by taking 0 away, before there was Expand."""
    *rows, whole = _rows(*xs)
    return [_as_large(o, x, row, whole) for x, row in zip(xs, rows, strict=True)]


def _as_large(o: Any, x: Any, row: tuple[int, ...], whole: tuple[int, ...]) -> Any:
    if row == whole:
        return x
    if opset(o) >= 8:
        return o.Expand(x, Tensor.of(np.asarray(whole, "int64")))
    return o.Sub(x, Tensor.of(np.zeros(whole, _float(x).numpy)))


def where(o: Any, c: Any, a: Any, b: Any) -> Any:
    """By arithmetic where both are whole numbers, which any shape allows. Else picked
    from a row that has all of both: b at first, a behind it."""
    _until(o, 8, "Where")
    name = str(a.type.dtype)
    if name == "bool":
        return o.Or(o.And(c, a), o.And(o.Not(c), b))
    if name in ("int32", "int64"):
        one, other = (o.Cast(v, to=CODES[a.type.dtype]) for v in (c, o.Not(c)))
        return o.Add(o.Mul(one, a), o.Mul(other, b))
    _, first, second, whole = _rows(c, a, b)
    size = int(np.prod(whole))
    flat = Tensor.of(np.asarray([-1], "int64"))
    row = o.Concat(
        o.Reshape(_as_large(o, b, second, whole), flat),
        o.Reshape(_as_large(o, a, first, whole), flat),
        axis=0,
    )
    chosen = o.Cast(c, to=CODES[int32])
    chosen = o.Mul(chosen, Tensor.of(np.asarray(size, "int32")))
    places = np.arange(size, dtype="int32").reshape(whole)
    return o.Gather(row, o.Add(chosen, Tensor.of(places)), axis=0)


def maximum(o: Any, a: Any, b: Any) -> Any:
    _until(o, 7, "Max")
    return o.Max(*_spread(o, a, b))


def minimum(o: Any, a: Any, b: Any) -> Any:
    _until(o, 7, "Min")
    return o.Min(*_spread(o, a, b))


WRITE: dict[str, Any] = {
    "round": round_,
    "sign": sign,
    "erf": erf,
    "isnan": isnan,
    "isinf": isinf,
    "maximum": maximum,
    "minimum": minimum,
    "where": where,
}
