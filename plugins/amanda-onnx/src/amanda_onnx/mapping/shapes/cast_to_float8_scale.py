"""Casts to float8_e8m0fnu: powers of two, with 8 bits of exponent and no mantissa."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import expect

__all__ = ["cast_to_float8_scale"]

_UINT32, _UINT8, _SCALE = DType("uint32"), DType("uint8"), DType("float8_e8m0fnu")
_MANTISSA_BITS, _MAX_EXPONENT = 23, 0xFF


def cast_to_float8_scale(x: Any, round_mode: str, *, saturate: bool) -> Any:
    """The exponents of floats, rounded by their mantissas."""
    expect(round_mode in ("up", "down", "nearest"), f"unknown round_mode {round_mode}")
    if str(x.dtype) != "float32":
        x = ops.astype(x, dtype="float32")
    bits = ops.bitcast(x, dtype=_UINT32)
    exponent = ops.bitwise_and(
        ops.bitwise_right_shift(bits, _uint32(_MANTISSA_BITS)), _uint32(_MAX_EXPONENT)
    )
    up = _rounds_up(bits, exponent, round_mode)
    if up is not None:
        top = _uint32(_MAX_EXPONENT - 1 if saturate else _MAX_EXPONENT)
        grows = ops.logical_and(up, ops.less(exponent, top))
        exponent = exponent + ops.astype(grows, dtype=_UINT32)
    return ops.bitcast(ops.astype(exponent, dtype=_UINT8), dtype=_SCALE)


def _rounds_up(bits: Any, exponent: Any, round_mode: str) -> Any:
    """Where the next power of two is the result."""
    if round_mode == "down":
        return None
    mantissa = ops.bitwise_and(bits, _uint32(0x7FFFFF))
    if round_mode == "up":
        return ops.greater(mantissa, _uint32(0))
    # Ties round up, except from the smallest power.
    half = _uint32(0x400000)
    tie = ops.logical_and(ops.equal(mantissa, half), ops.greater(exponent, _uint32(0)))
    return ops.logical_or(ops.greater(mantissa, half), tie)


def _uint32(number: int) -> Any:
    return np.asarray(number, "uint32")
