"""To TensorFlow: shifts by any number of bits, and functions of several ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.mappings import scalar_like, static_value
from amanda_tf.mapping.operands import dims_of, dtype_of

__all__ = ["WRITE"]


def write_left_shift(o: Any, a: Any, b: Any) -> Any:
    """0 for shifts by all bits or more, or by negative numbers."""
    if _is_inside(a, b):
        return o.LeftShift(a, b)
    return o.SelectV2(_in_range(o, a, b), o.LeftShift(a, b), scalar_like(0, a))


def write_right_shift(o: Any, a: Any, b: Any) -> Any:
    """All sign bits for shifts by all bits or more, or by negative numbers."""
    if _is_inside(a, b):
        return o.RightShift(a, b)
    most = scalar_like(dtype_of(a).bits - 1, a)
    sign = o.RightShift(a, most)
    rest = sign if dtype_of(a).kind == "int" else scalar_like(0, a)
    return o.SelectV2(_in_range(o, a, b), o.RightShift(a, b), rest)


def _is_inside(a: Any, b: Any) -> bool:
    """Whether all shifts are known, and by less bits than there are."""
    known = static_value(b)
    if known is None:
        return False
    return bool(
        np.all((np.asarray(known) >= 0) & (np.asarray(known) < dtype_of(a).bits))
    )


def _in_range(o: Any, a: Any, b: Any) -> Any:
    below = o.Less(b, scalar_like(dtype_of(a).bits, a))
    return o.LogicalAnd(o.GreaterEqual(b, scalar_like(0, a)), below)


def write_truncated_remainder(o: Any, a: Any, b: Any) -> Any:
    """Of narrow floats by float32, which holds their remainders exactly."""
    dtype = dtype_of(a)
    if dtype.kind != "float" or dtype.bits >= 32:
        return o.TruncateMod(a, b)
    wide = DType("float32")
    y = o.TruncateMod(o.Cast(a, DstT=wide), o.Cast(b, DstT=wide))
    return o.Cast(y, DstT=dtype)


def write_cbrt(o: Any, x: Any) -> Any:
    return o.Mul(o.Sign(x), o.Pow(o.Abs(x), scalar_like(1 / 3, x)))


def write_logaddexp(o: Any, a: Any, b: Any) -> Any:
    """The greater number, plus log1p of the exponential of the difference."""
    apart = o.Neg(o.Abs(o.Sub(a, b)))
    return o.AddV2(o.Maximum(a, b), o.Log1p(o.Exp(apart)))


def write_signbit(o: Any, x: Any) -> Any:
    """The sign bit, of -0.0 too: one over it is negative."""
    zero = scalar_like(0, x)
    negative = o.Less(x, zero)
    below = o.Less(o.RealDiv(scalar_like(1, x), x), zero)
    return o.LogicalOr(negative, o.LogicalAnd(o.Equal(x, zero), below))


def write_copysign(o: Any, a: Any, b: Any) -> Any:
    size = o.Abs(a)
    return o.SelectV2(write_signbit(o, b), o.Neg(size), size)


def write_complex(o: Any, a: Any, b: Any) -> Any:
    wide = str(dtype_of(a)) == "float64"
    if dtype_of(a).bits < 32:
        a, b = (o.Cast(v, DstT=DType("float32")) for v in (a, b))
    return o.Complex(a, b, Tout=DType("complex128" if wide else "complex64"))


def _part_writer(op: str) -> Callable[..., Any]:
    """A real number computed from a complex one."""

    def write(o: Any, x: Any) -> Any:
        wide = str(dtype_of(x)) == "complex128"
        return o.op(op, x, Tout=DType("float64" if wide else "float32"))

    return write


def write_log2(o: Any, x: Any) -> Any:
    return o.RealDiv(o.Log(x), scalar_like(np.log(2), x))


def write_log10(o: Any, x: Any) -> Any:
    return o.RealDiv(o.Log(x), scalar_like(np.log(10), x))


def write_exp2(o: Any, x: Any) -> Any:
    return o.Exp(o.Mul(x, scalar_like(np.log(2), x)))


def write_polygamma(o: Any, n: Any, x: Any) -> Any:
    return o.Polygamma(o.Cast(n, DstT=dtype_of(x)), x)


_EULER = 0.57721566490153286


def write_expi(o: Any, x: Any) -> Any:
    """-E1(-x) of negative numbers, for which TensorFlow has NaN."""
    zero, one, two = (scalar_like(v, x) for v in (0, 1, 2))
    z = o.Neg(x)
    near = o.Maximum(o.Minimum(z, two), zero)
    total = zero
    for k in range(26, 0, -1):  # E1(z) = -gamma - log z - sum of (-z)^k / (k k!)
        ratio = o.Mul(near, scalar_like(-1 / k, x))
        total = o.Mul(ratio, o.AddV2(total, scalar_like(1 / k, x)))
    logs = o.AddV2(scalar_like(_EULER, x), o.AddV2(o.Log(near), total))
    far = o.Maximum(z, two)
    below = o.AddV2(far, scalar_like(2 * 50 + 1, x))
    for n in range(50, 0, -1):  # NIST DLMF 6.9.2, a continued fraction
        rest = o.RealDiv(scalar_like(n * n, x), below)
        below = o.Sub(o.AddV2(far, scalar_like(2 * n - 1, x)), rest)
    fraction = o.Neg(o.RealDiv(o.Exp(o.Neg(far)), below))
    negative = o.SelectV2(o.Less(z, two), logs, fraction)
    positive = o.Expint(o.SelectV2(o.Greater(x, zero), x, one))
    found = o.SelectV2(o.Greater(x, zero), positive, negative)
    return o.SelectV2(o.IsNan(x), x, found)


def write_betainc(o: Any, *xs: Any) -> Any:
    """Of numbers of one shape: TensorFlow broadcasts only scalars."""
    if len({dims_of(x) for x in xs}) == 1:
        return o.Betainc(*xs)
    shape = reduce(o.BroadcastArgs, (o.Shape(x) for x in xs))
    return o.Betainc(*(o.BroadcastTo(x, shape) for x in xs))


WRITE: dict[str, Any] = {
    "betainc": write_betainc,
    "expi": write_expi,
    "bitwise_left_shift": write_left_shift,
    "bitwise_right_shift": write_right_shift,
    "truncated_remainder": write_truncated_remainder,
    "cbrt": write_cbrt,
    "logaddexp": write_logaddexp,
    "signbit": write_signbit,
    "copysign": write_copysign,
    "polygamma": write_polygamma,
    "complex": write_complex,
    "real": _part_writer("Real"),
    "imag": _part_writer("Imag"),
    "angle": _part_writer("Angle"),
    "modulus": _part_writer("ComplexAbs"),
    "log2": write_log2,
    "log10": write_log10,
    "exp2": write_exp2,
}
