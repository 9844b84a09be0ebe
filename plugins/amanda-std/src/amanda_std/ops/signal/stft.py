"""Short-time Fourier transform (STFT) and its inverse."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Complex, Other, RealFloating, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.math.arithmetic import divide, multiply, where
from amanda_std.ops.math.comparison import less
from amanda_std.ops.math.complex_numbers import complex_
from amanda_std.ops.signal.fourier import fft, irfft, rfft
from amanda_std.ops.signal.framing import frames, overlap_add
from amanda_std.ops.tensor.creation import ones_like, zeros_like
from amanda_std.ops.tensor.indexing import gather
from amanda_std.ops.tensor.shape import broadcast_like, reshape


@composite
def stft(
    x: RealFloating,
    length: ShapeArg,
    step: ShapeArg,
    window: RealFloating | None = None,
    *,
    onesided: bool = True,
) -> Other:
    """Short-time Fourier transform of the last axis, with a window"""
    pieces = frames(x, length, step)
    if window is not None:
        pieces = multiply(pieces, window)
    if onesided:
        return rfft(pieces)
    return fft(complex_(pieces, zeros_like(pieces)))


@composite
def istft(
    x: Complex, length: ShapeArg, step: ShapeArg, window: Other | None = None
) -> Other:
    """Inverse of a one-sided stft

    Overlapping frames are weighted by the window again and normalized, so that the
    signal is reconstructed wherever the window is not 0."""
    pieces = irfft(x, (length,))
    if window is None:
        window = ones_like(gather(reshape(pieces, (-1, length)), np.asarray(0)))
    weighed = multiply(pieces, window)
    weight = broadcast_like(multiply(window, window), pieces)
    total, fraction = overlap_add(weighed, step), overlap_add(weight, step)
    dark = less(fraction, 1e-10)
    return where(dark, total, divide(total, where(dark, 1.0, fraction)))


def _stft_by_loops(x: Any, length: int, step: int, window: Any, half: bool) -> Any:
    bins = length // 2 + 1 if half else length
    starts = range(0, x.shape[-1] - length + 1, step)
    out = np.zeros((len(x), len(starts), bins), "complex128")
    for b, f, k in np.ndindex(out.shape):
        start = starts[f]
        out[b, f, k] = sum(
            x[b, start + i] * window[i] * cmath.exp(-2j * math.pi * i * k / length)
            for i in range(length)
        )
    return out


@stft.samples
def _() -> Samples:
    x = ramp(2, 9)
    window = array([0.25, 1.0, 0.75, 0.5])
    for half in (True, False):
        attrs = {"onesided": half}
        y = _stft_by_loops(x, 4, 2, window, half)
        yield Sample((x, 4, 2, window), y, attrs)
        yield Sample((x, 4, 2), _stft_by_loops(x, 4, 2, [1] * 4, half), attrs)
        low = (x.astype("float32"), 4, 2, window.astype("float32"))
        yield Sample(low, y.astype("complex64"), attrs, 1e-4)
    yield Sample((x[:0], 4, 2), np.zeros((0, 3, 3), "complex128"))


@istft.samples
def _() -> Samples:
    x = ramp(2, 8)
    window = array([0.25, 1.0, 0.75, 0.5])
    for given in (window, None):
        spectra = _stft_by_loops(x, 4, 2, [1] * 4 if given is None else given, True)
        args = (spectra, 4, 2) if given is None else (spectra, 4, 2, given)
        yield Sample(args, x)
    low = (spectra.astype("complex64"), 4, 2)
    yield Sample(low, x.astype("float32"), tolerance=1e-4)
    moved = spectra * (1 + 0.5j)
    y = _istft_by_loops(moved, 4, 2)
    yield Sample((moved, 4, 2), y)
    empty = np.zeros((0, 3, 3), "complex64")
    yield Sample((empty, 4, 2, window.astype("float32")), np.zeros((0, 8), "float32"))


def _istft_by_loops(spectra: Any, length: int, step: int) -> Any:
    """Frames by sums of waves; the mean where several overlap."""
    batch, count, _ = spectra.shape
    total = np.zeros((batch, (count - 1) * step + length))
    seen_twice = np.zeros(total.shape[1])
    for b, f, i in np.ndindex(batch, count, length):
        row = spectra[b, f]
        whole = [*row, *(v.conjugate() for v in row[length - len(row) : 0 : -1])]
        waves = (
            v * cmath.exp(2j * math.pi * i * k / length) for k, v in enumerate(whole)
        )
        total[b, f * step + i] += sum(waves).real / length
        seen_twice[f * step + i] += b == 0
    return total / seen_twice
