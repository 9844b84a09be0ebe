"""From ONNX: Fourier transforms, window functions, mel weights, BitCast, CumProd."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.mapping.static_values import axis_of, dim_at, dtype_of, known_integer
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, known_scalar, rank_of, tensor_type_of

__all__ = ["READ"]

_HAMMING_ALPHA = 25 / 46
_MEL = 2595 / np.log(10)
"""Mels of a frequency f: _MEL * log1p(f / 700)."""


def _integer(value: Any) -> Any:
    """One integer: a number where it is static, else a scalar of int64."""
    known = known_integer(value)
    if known is not None:
        return known
    if tensor_type_of(value).shape.rank:
        value = ops.reshape(value, [])
    return cast_to(value, DType("int64"))


def read_dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0,
             onesided: int = 0) -> Any:  # fmt: skip
    at = -2 if axis is None else _integer(axis)
    size = None if length is None else _integer(length)
    return ops.dft(x, size, at, inverse=bool(inverse), onesided=bool(onesided))


def read_dft_17(x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0,
                onesided: int = 0) -> Any:  # fmt: skip
    size = None if length is None else _integer(length)
    at = axis_of(axis, rank_of(x))
    return ops.dft(x, size, at, inverse=bool(inverse), onesided=bool(onesided))


def read_stft(x: Any, step: Any, window: Any = None, length: Any = None, *,
              onesided: int = 1) -> Any:  # fmt: skip
    """Data of [batch, length], [batch, length, 1], or [batch, length, 2] if complex."""
    parts = 1
    if rank_of(x) == 3:
        parts = tensor_type_of(x).shape.dims[2]
        expect(parts in (1, 2), "the last dim is dynamic: 1 (real) or 2 (complex)")
    columns = [x] if rank_of(x) == 2 else [
        ops.gather(x, np.asarray(i), 2) for i in range(parts)
    ]  # fmt: skip
    size = _frame_length(columns[0], window, length)
    hop = _integer(step)
    if len(columns) == 1:
        y = ops.stft(columns[0], size, hop, window, onesided=bool(onesided))
        return ops.as_pairs(y)
    expect(not onesided, "onesided=1 of a complex signal")
    real, imaginary = (
        ops.as_pairs(ops.stft(c, size, hop, window, onesided=False)) for c in columns
    )
    times_i = ops.flip(imaginary, (-1,)) * np.asarray([-1, 1], x.dtype.numpy)
    return real + times_i


def _frame_length(x: Any, window: Any, length: Any) -> Any:
    if length is not None:
        return _integer(length)
    source, axis = (x, -1) if window is None else (window, 0)
    dim = dim_at(source, axis)
    return dim if isinstance(dim, int) else ops.dim(source, axis=axis)


# -- window functions --------------------------------------------------------------


def read_hann_window(
    size: Any, *, periodic: int = 1, output_datatype: int = 1, context: Any
) -> Any:
    attrs = _window_attributes(periodic, output_datatype)
    return context.hann_window(_size_operand(size), **attrs)


def read_hamming_window(
    size: Any, *, periodic: int = 1, output_datatype: int = 1, context: Any
) -> Any:
    attrs = _window_attributes(periodic, output_datatype)
    return context.hamming_window(_size_operand(size), alpha=_HAMMING_ALPHA, **attrs)


def read_blackman_window(
    size: Any, *, periodic: int = 1, output_datatype: int = 1, context: Any
) -> Any:
    attrs = _window_attributes(periodic, output_datatype)
    return context.blackman_window(_size_operand(size), **attrs)


def _size_operand(size: Any) -> Any:
    found = _integer(size)
    return found if isinstance(found, int) else found.port


def _window_attributes(periodic: int, output_datatype: int) -> dict[str, Any]:
    return {"periodic": bool(periodic), "dtype": dtype_of(output_datatype)}


# -- mel weights -------------------------------------------------------------------


def read_mel_weight_matrix(
    bins: Any, length: Any, rate: Any, low: Any, high: Any, *,
    output_datatype: int = 1, context: Any,
) -> Any:  # fmt: skip
    own = dtype_of(output_datatype)
    known = [
        *map(known_integer, (bins, length, rate)), *map(known_scalar, (low, high)),
    ]  # fmt: skip
    if all(v is not None for v in known):
        b, n, r, least, most = map(float, known)
        counts = (int(b), int(n))
        return context.mel_weights(
            *counts, rate=int(r), low=least, high=most, dtype=own
        )
    sizes = [ops.astype(ops.reshape(v, []), dtype="int64") for v in (bins, length)]
    rest = [ops.astype(ops.reshape(v, []), dtype="float64") for v in (rate, low, high)]
    return ops.astype(_dynamic_mel_weights(*sizes, *rest), dtype=own)


def _dynamic_mel_weights(bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """`mel_weights` of computed sizes and frequencies: triangles between DFT bins."""
    ends = [ops.log1p(v / 700.0) * _MEL for v in (low, high)]
    step = (ends[1] - ends[0]) / ops.astype(bins + 2, dtype="float64")
    number = ops.astype(ops.arange(0, bins + 2), dtype="float64")
    hertz = ops.expm1((number * step + ends[0]) / _MEL) * 700.0
    points = ops.floor(ops.astype(length + 1, dtype="float64") * hertz / rate)
    left, top, right = (
        ops.expand_dims(ops.slice_(points, [i], ops.reshape(bins + i, [1])), (0,))
        for i in range(3)
    )
    at = ops.astype(ops.arange(0, ops.floor_divide(length, 2) + 1), dtype="float64")
    at = ops.expand_dims(at, (1,))
    flat = ops.equal(top, left)
    rising = (at - left) / ops.where(flat, 1.0, top - left)
    rising = ops.where(flat, ops.astype(ops.equal(at, top), dtype="float64"), rising)
    falling = (right - at) / ops.where(ops.equal(right, top), 1.0, right - top)
    is_falling = ops.logical_and(ops.greater(at, top), ops.less(at, right))
    falling = ops.where(is_falling, falling, 0.0)
    # At the top both sides are 1.
    is_rising = ops.logical_and(ops.greater_equal(at, left), ops.less_equal(at, top))
    return ops.where(is_rising, rising, falling)


# -- others ------------------------------------------------------------------------


def read_bit_cast(x: Any, *, to: int) -> Any:
    """Of bool by way of uint8: not every backend stores bool as bytes of 0 and 1."""
    wanted, byte = dtype_of(to), DType("uint8")
    if x.dtype == wanted:
        return ops.identity(x)
    if str(x.dtype) == "bool":
        x = ops.astype(x, dtype=byte)
    if str(wanted) == "bool":
        x = x if x.dtype == byte else ops.bitcast(x, dtype=byte)
        return ops.astype(x, dtype=wanted)
    return x if x.dtype == wanted else ops.bitcast(x, dtype=wanted)


def read_cum_prod(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    known = known_integer(axis)
    at = axis if known is None else known
    return ops.cumulative_prod(x, at, exclusive=bool(exclusive), reverse=bool(reverse))


READ: dict[str, Any] = {
    "DFT[17]": read_dft_17,
    "DFT[20:]": read_dft,
    "STFT": read_stft,
    "HannWindow": read_hann_window,
    "HammingWindow": read_hamming_window,
    "BlackmanWindow": read_blackman_window,
    "MelWeightMatrix": read_mel_weight_matrix,
    "BitCast": read_bit_cast,
    "CumProd": read_cum_prod,
}
