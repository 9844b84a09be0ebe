"""From ONNX: casts to powers of two, which have eight bits of exponent and no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.mapping.static_values import expect
from amanda_std import ops

__all__ = ["scale_cast"]

_WORDS, _BYTES, _SCALE = DType("uint32"), DType("uint8"), DType("float8_e8m0fnu")
_HIDDEN, _SPECIAL = 23, 0xFF


def scale_cast(x: Any, round_mode: str, *, saturate: bool) -> Any:
    """The exponents of floats; what the digits behind them say is rounded."""
    expect(round_mode in ("up", "down", "nearest"), f"no rounding called {round_mode}")
    if str(x.dtype) != "float32":
        x = ops.astype(x, dtype="float32")
    bits = ops.bitcast(x, dtype=_WORDS)
    exponent = ops.bitwise_and(ops.bitwise_right_shift(bits, _word(_HIDDEN)),
                               _word(_SPECIAL))  # fmt: skip
    more = _more(bits, exponent, round_mode)
    if more is not None:
        top = _word(_SPECIAL - 1 if saturate else _SPECIAL)
        grows = ops.logical_and(more, ops.less(exponent, top))
        exponent = exponent + ops.astype(grows, dtype=_WORDS)
    return ops.bitcast(ops.astype(exponent, dtype=_BYTES), dtype=_SCALE)


def _more(bits: Any, exponent: Any, round_mode: str) -> Any:
    """Where the next power of two is taken."""
    if round_mode == "down":
        return None
    digits = ops.bitwise_and(bits, _word(0x7FFFFF))
    if round_mode == "up":
        return ops.greater(digits, _word(0))
    # half way goes up, but from the smallest power
    half = _word(0x400000)
    tie = ops.logical_and(ops.equal(digits, half), ops.greater(exponent, _word(0)))
    return ops.logical_or(ops.greater(digits, half), tie)


def _word(number: int) -> Any:
    return np.asarray(number, "uint32")
