"""From ONNX: spectra, windows, and matrices of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.types import DType
from amanda_onnx.mapping.static_values import content, dtype_of, expect, ints, rank_of
from amanda_std import ops

__all__ = ["READ"]

_HAMMING = 25 / 46
_DOUBLE = DType("float64")


def _number(value: Any) -> Any:
    """One integer: as such where it is known, else the value, without axes."""
    told = content(value)
    if told is not None:
        return int(np.reshape(told, ()))
    if value.type.shape.rank:
        value = ops.reshape(value, [])
    same = str(value.dtype) == "int64"
    return value if same else ops.astype(value, dtype="int64")


def dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0,
        onesided: int = 0) -> Any:  # fmt: skip
    at = -2 if axis is None else _number(axis)
    size = None if length is None else _number(length)
    return ops.dft(x, size, at, inverse=bool(inverse), onesided=bool(onesided))


def old_dft(x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0,
            onesided: int = 0) -> Any:  # fmt: skip
    size = None if length is None else _number(length)
    at = axis % rank_of(x)
    return ops.dft(x, size, at, inverse=bool(inverse), onesided=bool(onesided))


def stft(x: Any, step: Any, window: Any = None, length: Any = None, *,
         onesided: int = 1) -> Any:  # fmt: skip
    """Of [batch, places], [batch, places, 1], or pairs of real and imaginary parts."""
    parts = 1
    if rank_of(x) == 3:
        parts = x.type.shape.dims[2]
        expect(parts in (1, 2), "whether the signal is complex is not known")
    columns = [x] if rank_of(x) == 2 else [
        ops.gather(x, np.asarray(i), 2) for i in range(parts)
    ]  # fmt: skip
    size = _length(columns[0], window, length)
    every = _number(step)
    if len(columns) == 1:
        y = ops.stft(columns[0], size, every, window, onesided=bool(onesided))
        return ops.as_pairs(y)
    expect(not onesided, "half a spectrum of complex numbers")
    real, imaginary = (
        ops.as_pairs(ops.stft(c, size, every, window, onesided=False)) for c in columns
    )
    turned = ops.flip(imaginary, (-1,)) * np.asarray([-1, 1], x.dtype.numpy)
    return real + turned


def _length(x: Any, window: Any, length: Any) -> Any:
    if length is not None:
        return _number(length)
    of, axis = (x, -1) if window is None else (window, 0)
    found = of.type.shape.dims[axis]
    return found if isinstance(found, int) else ops.dim(of, axis=axis)


# -- windows -----------------------------------------------------------------------


def hann(
    size: Any, *, periodic: int = 1, output_datatype: int = 1, context: Any
) -> Any:
    return context.hann_window(_count(size), **_how(periodic, output_datatype))


def hamming(
    size: Any, *, periodic: int = 1, output_datatype: int = 1, context: Any
) -> Any:
    how = _how(periodic, output_datatype)
    return context.hamming_window(_count(size), alpha=_HAMMING, **how)


def blackman(
    size: Any, *, periodic: int = 1, output_datatype: int = 1, context: Any
) -> Any:
    return context.blackman_window(_count(size), **_how(periodic, output_datatype))


def _count(size: Any) -> Any:
    """A number, or the value that it is at run time."""
    found = _number(size)
    return found if isinstance(found, int) else found.port


def _how(periodic: int, output_datatype: int) -> dict[str, Any]:
    return {"periodic": bool(periodic), "dtype": dtype_of(output_datatype)}


# -- mel ---------------------------------------------------------------------------


def mel(bins: Any, length: Any, rate: Any, low: Any, high: Any, *,
        output_datatype: int = 1, context: Any) -> Any:  # fmt: skip
    own = dtype_of(output_datatype)
    told = [content(v) for v in (bins, length, rate, low, high)]
    if all(v is not None for v in told):
        b, n, r, least, most = (float(np.reshape(v, ())) for v in told)
        counts = (int(b), int(n))
        return context.mel_weights(
            *counts, rate=int(r), low=least, high=most, dtype=own
        )
    sizes = [ops.astype(ops.reshape(v, []), dtype="int64") for v in (bins, length)]
    rest = [ops.astype(ops.reshape(v, []), dtype="float64") for v in (rate, low, high)]
    return ops.astype(_mel(*sizes, *rest), dtype=own)


def _mel(bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """As `mel_weights` does it, of numbers that are known at run time only."""
    ends = [ops.log1p(v / 700.0) * (2595 / np.log(10)) for v in (low, high)]
    step = (ends[1] - ends[0]) / ops.astype(bins + 2, dtype="float64")
    number = ops.astype(ops.arange(0, bins + 2), dtype="float64")
    hertz = ops.expm1((number * step + ends[0]) / (2595 / np.log(10))) * 700.0
    places = ops.floor(ops.astype(length + 1, dtype="float64") * hertz / rate)
    left, top, right = (
        ops.expand_dims(ops.slice_(places, [i], ops.reshape(bins + i, [1])), (0,))
        for i in range(3)
    )
    at = ops.astype(ops.arange(0, ops.floor_divide(length, 2) + 1), dtype="float64")
    at = ops.expand_dims(at, (1,))
    flat = ops.equal(top, left)
    rising = (at - left) / ops.where(flat, 1.0, top - left)
    rising = ops.where(flat, ops.astype(ops.equal(at, top), dtype="float64"), rising)
    falling = (right - at) / ops.where(ops.equal(right, top), 1.0, right - top)
    zero = falling * 0.0
    falling = ops.where(_all(ops.greater(at, top), ops.less(at, right)), falling, zero)
    # at the top itself the falling side has the last word, and it is 1 there, too
    inside = _all(ops.greater_equal(at, left), ops.less_equal(at, top))
    return ops.where(inside, rising, falling)


def _all(a: Any, b: Any) -> Any:
    return ops.logical_and(a, b)


# -- others ------------------------------------------------------------------------


def bit_cast(x: Any, *, to: int) -> Any:
    """A truth value is a byte of 0 or 1, which not every backend would tell."""
    wanted, byte = dtype_of(to), DType("uint8")
    if x.dtype == wanted:
        return ops.identity(x)
    if str(x.dtype) == "bool":
        x = ops.astype(x, dtype=byte)
    if str(wanted) == "bool":
        x = x if x.dtype == byte else ops.bitcast(x, dtype=byte)
        return ops.astype(x, dtype=wanted)
    return x if x.dtype == wanted else ops.bitcast(x, dtype=wanted)


def cum_prod(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    told = ints(axis)
    at = int(np.reshape(told, ())) if isinstance(told, int | list) else told
    return ops.cumulative_prod(x, at, exclusive=bool(exclusive), reverse=bool(reverse))


READ: dict[str, Any] = {
    "DFT[17]": old_dft,
    "DFT[20:]": dft,
    "STFT": stft,
    "HannWindow": hann,
    "HammingWindow": hamming,
    "BlackmanWindow": blackman,
    "MelWeightMatrix": mel,
    "BitCast": bit_cast,
    "CumProd": cum_prod,
}
