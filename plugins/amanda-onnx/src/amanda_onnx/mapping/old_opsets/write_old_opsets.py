"""To ONNX: ops that old opsets lack, of ops that they have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import Undecided
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import TensorType, int32
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import int64_tensor, opset_of
from amanda_onnx.mapping.static_values import expect_small
from amanda_std.mappings import finite_limits, scalar_like, tensor_type_of

__all__ = ["WRITE"]

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, 7.1.26: within 1.5e-7, enough for float32."""


def _expect_before(o: Any, since: int, type: str) -> None:
    """Decline from the opset on that has the op itself: a rule writes it."""
    if opset_of(o) >= since:
        raise Decline(f"{type} of this opset is written by a rule of its own")


def _float_dtype(x: Any) -> Any:
    if (
        not isinstance(x.type, TensorType)
        or str(tensor_type_of(x).dtype.kind) != "float"
    ):
        raise Decline(f"{x} is not known to be floating-point")
    return tensor_type_of(x).dtype


def write_round(o: Any, x: Any) -> Any:
    """Half to even."""
    _expect_before(o, 11, "Round")
    dtype = _float_dtype(x)
    low = o.Floor(x)
    rest, half = o.Sub(x, low), scalar_like(0.5, x)
    two = scalar_like(2, x)
    odd = o.Greater(o.Sub(low, o.Mul(o.Floor(o.Div(low, two)), two)), half)
    tie = o.Not(o.Or(o.Less(rest, half), o.Greater(rest, half)))
    up = o.Or(o.Greater(rest, half), o.And(tie, odd))
    return o.Add(low, o.Cast(up, to=CODES[dtype]))


def write_sign(o: Any, x: Any) -> Any:
    _expect_before(o, 9, "Sign")
    dtype, zero = _float_dtype(x), scalar_like(0, x)
    above, below = (
        o.Cast(v, to=CODES[dtype]) for v in (o.Greater(x, zero), o.Less(x, zero))
    )
    return o.Sub(above, below)


def write_erf(o: Any, x: Any) -> Any:
    _expect_before(o, 9, "Erf")
    if str(_float_dtype(x)) == "float64":
        raise Decline("Erf of float64 begins with opset 9")
    size, one = o.Abs(x), scalar_like(1, x)
    t = o.Reciprocal(o.Add(o.Mul(size, scalar_like(0.3275911, x)), one))
    polynomial = scalar_like(_ERF[-1], x)
    for factor in reversed(_ERF[:-1]):
        polynomial = o.Add(o.Mul(polynomial, t), scalar_like(factor, x))
    decay = o.Exp(o.Neg(o.Mul(x, x)))
    return o.Mul(write_sign(o, x), o.Sub(one, o.Mul(o.Mul(polynomial, t), decay)))


def write_isnan(o: Any, x: Any) -> Any:
    _expect_before(o, 9, "IsNaN")
    _float_dtype(x)
    below, above = o.Less(x, scalar_like(1, x)), o.Greater(x, scalar_like(0, x))
    return o.Not(o.Or(below, above))


def write_isinf(o: Any, x: Any) -> Any:
    _expect_before(o, 10, "IsInf")
    largest = finite_limits(_float_dtype(x))[1]
    return o.Greater(o.Abs(x), scalar_like(largest, x))


# -- broadcasting ------------------------------------------------------------------


def _static_shapes(*xs: Any) -> list[tuple[int, ...]]:
    """The shapes of values, and at the end the one that they broadcast to."""
    shapes = [tensor_type_of(x).shape for x in xs]
    if not all(shape.is_static for shape in shapes):
        raise Undecided("the shapes are dynamic")
    static = [tuple(map(int, shape)) for shape in shapes]
    try:
        return [*static, np.broadcast_shapes(*static)]
    except ValueError as error:  # also for more elements than memory can hold
        raise Decline(f"no common shape: {error}") from error


def _broadcast(o: Any, *xs: Any) -> list[Any]:
    """Values broadcast to their common shape, which is static."""
    *shapes, to = _static_shapes(*xs)
    return [_expand(o, x, shape, to) for x, shape in zip(xs, shapes, strict=True)]


def _expand(o: Any, x: Any, shape: tuple[int, ...], to: tuple[int, ...]) -> Any:
    if shape == to:
        return x
    if opset_of(o) >= 8:
        return o.Expand(x, int64_tensor(to))
    expect_small(to, "a constant that is added to broadcast")
    return o.Sub(x, Tensor.of(np.zeros(to, _float_dtype(x).numpy)))


def write_where(o: Any, c: Any, a: Any, b: Any) -> Any:
    """Of integers: by arithmetic. Of floats: gathered from b and a in one vector."""
    _expect_before(o, 9, "Where")
    name = str(tensor_type_of(a).dtype)
    if name == "bool":
        return o.Or(o.And(c, a), o.And(o.Not(c), b))
    if name in ("int32", "int64"):
        one, other = (
            o.Cast(v, to=CODES[tensor_type_of(a).dtype]) for v in (c, o.Not(c))
        )
        return o.Add(o.Mul(one, a), o.Mul(other, b))
    _, shape_a, shape_b, to = _static_shapes(c, a, b)
    expect_small(to, "an index in place of Where")
    size = math.prod(to)
    flat = int64_tensor([-1])
    both = o.Concat(
        o.Reshape(_expand(o, b, shape_b, to), flat),
        o.Reshape(_expand(o, a, shape_a, to), flat),
        axis=0,
    )
    offset = o.Cast(c, to=CODES[int32])
    offset = o.Mul(offset, Tensor.of(np.asarray(size, "int32")))
    indices = np.arange(size, dtype="int32").reshape(to)
    return o.Gather(both, o.Add(offset, Tensor.of(indices)), axis=0)


def write_maximum(o: Any, a: Any, b: Any) -> Any:
    _expect_before(o, 8, "Max")
    return o.Max(*_broadcast(o, a, b))


def write_minimum(o: Any, a: Any, b: Any) -> Any:
    _expect_before(o, 8, "Min")
    return o.Min(*_broadcast(o, a, b))


WRITE: dict[str, Any] = {
    "round": write_round,
    "sign": write_sign,
    "erf": write_erf,
    "isnan": write_isnan,
    "isinf": write_isinf,
    "maximum": write_maximum,
    "minimum": write_minimum,
    "where": write_where,
}
