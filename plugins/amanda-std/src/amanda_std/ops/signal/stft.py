"""Pieces of signals: windows, frames, their spectra, and the scale of mel."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std.engine.annotations import (
    Array,
    Cast,
    Complex,
    Host,
    Other,
    Real,
    RealFloating,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import dims
from amanda_std.ops._late import late
from amanda_std.ops.signal.fourier import irfft, rfft

_FLOAT32 = DType("float32")


@composite
def cosine_window(
    size: Host, *, shares: tuple[float, ...], periodic: bool = True,
    dtype: Any = _FLOAT32,
) -> Cast:  # fmt: skip
    """A sum of cosines, the k-th of k turns, with signs in turn; 1 where size is 1

    `periodic`: one step of a longer window is left out, so that it joins itself."""
    number = late.arange(0, size)
    length = late.size(number)
    single = late.equal(length, 1)
    steps = length if periodic else late.maximum(late.subtract(length, 1), 1)
    wide = DType("float64") if dtype.name == "float64" else _FLOAT32
    turns = late.astype(number, dtype=wide) / late.astype(steps, dtype=wide)
    total = late.zeros_like(turns)
    for k, share in enumerate(shares):
        wave = late.multiply(late.cos(late.multiply(turns, 2 * math.pi * k)), share)
        total = late.subtract(total, wave) if k % 2 else late.add(total, wave)
    return late.astype(late.where(single, 1.0, total), dtype=dtype)


@composite
def hann_window(size: Host, *, periodic: bool = True, dtype: Any = _FLOAT32) -> Cast:
    """The window of Hann: one bow of a cosine"""
    return cosine_window(size, shares=(0.5, 0.5), periodic=periodic, dtype=dtype)


@composite
def hamming_window(
    size: Host, *, alpha: float = 0.54, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """The window of Hamming: the bow stands on a base; ONNX has 25/46 for alpha"""
    shares = (alpha, 1 - alpha)
    return cosine_window(size, shares=shares, periodic=periodic, dtype=dtype)


@composite
def blackman_window(
    size: Host, *, periodic: bool = True, dtype: Any = _FLOAT32
) -> Cast:
    """The window of Blackman: two cosines"""
    return cosine_window(size, shares=(0.42, 0.5, 0.08), periodic=periodic, dtype=dtype)


def _window(shares: tuple[float, ...], size: int, periodic: bool) -> list[float]:
    if size == 1:
        return [1.0]
    steps = size if periodic else size - 1
    return [
        math.fsum(
            (-1) ** k * a * math.cos(2 * math.pi * k * i / steps)
            for k, a in enumerate(shares)
        )
        for i in range(size)
    ]


def _windows(attrs: dict[str, Any], shares: tuple[float, ...]) -> Any:
    def make() -> Samples:
        for dtype, loose in (("float32", None), ("float64", None), ("float16", 2e-3)):
            for size in (5, 6, 1):
                for periodic in (True, False):
                    y = array(_window(shares, size, periodic), dtype)
                    given = {**attrs, "periodic": periodic, "dtype": DType(dtype)}
                    yield Sample((size,), y, given, loose)
        yield Sample((0,), np.zeros(0, "float32"), attrs)

    return make


cosine_window.samples(_windows({"shares": (0.4, 0.35, 0.25)}, (0.4, 0.35, 0.25)))
hann_window.samples(_windows({}, (0.5, 0.5)))
hamming_window.samples(_windows({"alpha": 25 / 46}, (25 / 46, 21 / 46)))
blackman_window.samples(_windows({}, (0.42, 0.5, 0.08)))
for _op in (cosine_window, hann_window, hamming_window, blackman_window):
    _op.not_differentiable("it is made of integers")


# -- frames ----------------------------------------------------------------------


def _spots(count: Any, length: Host, step: Host) -> Any:
    """The places of each frame: a row each."""
    first = late.multiply(late.arange(0, count), _number(step))
    return late.add(late.expand_dims(first, (1,)), late.arange(0, length))


def _number(host: Any) -> Any:
    return np.asarray(host, "int64") if isinstance(host, int) else host


@composite
def frames(x: Array, length: Host, step: Host) -> Array:
    """Pieces of the last axis, one every so many steps, as rows; a rest is left out"""
    count = (x.shape[-1] - length) // step + 1
    return late.gather(x, _spots(count, length, step), -1)


@composite
def overlap_add(x: Real, step: Host) -> Real:
    """Frames laid over each other, one every so many steps, and added up"""
    count, length = x.shape[-2:]
    rank = len(dims(x))
    order = (rank - 2, rank - 1, *range(rank - 2))
    front = late.transpose(x, perm=order)
    whole = (count - 1) * step + length
    zero = late.zeros([whole, *front.shape[2:]], dtype=x.dtype)
    spots = late.expand_dims(_spots(count, length, step), (-1,))
    added = late.scatter_nd(zero, spots, front, reduction="add")
    return late.transpose(added, perm=(*range(1, rank - 1), 0))


@frames.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = (ramp(2, 7) * 8).astype(dtype)
        for length, step in ((3, 2), (2, 3), (7, 1)):
            starts = range(0, 7 - length + 1, step)
            y = [[row[s : s + length] for s in starts] for row in x.tolist()]
            yield Sample((x, length, step), array(y, dtype))
    yield Sample((x[:0], 3, 2), np.zeros((0, 3, 3), "int32"))


@overlap_add.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = (ramp(2, 3, 4) * 8).astype(dtype)
        for step in (1, 2, 4, 5):
            y = np.zeros((2, 2 * step + 4), x.dtype)
            for b, i, j in np.ndindex(x.shape):
                y[b, i * step + j] += x[b, i, j]
            yield Sample((x, step), y)
    yield Sample((x[:0], 2), np.zeros((0, 8), "int32"))


# -- spectra of frames -------------------------------------------------------------


@composite
def stft(
    x: RealFloating, length: Host, step: Host, window: RealFloating | None = None, *,
    onesided: bool = True,
) -> Other:  # fmt: skip
    """The Fourier transform of every frame of the last axis, weighed by a window"""
    pieces = frames(x, length, step)
    if window is not None:
        pieces = late.multiply(pieces, window)
    if onesided:
        return rfft(pieces)
    return late.fft(late.complex(pieces, late.zeros_like(pieces)))


@composite
def istft(x: Complex, length: Host, step: Host, window: Other | None = None) -> Other:
    """The signal of which these are the one-sided spectra of frames

    Where frames lie over each other they are weighed by the window again, so that the
    result is the signal itself where a window is not 0."""
    pieces = irfft(x, (length,))
    if window is None:
        window = late.ones_like(
            late.gather(late.reshape(pieces, (-1, length)), np.asarray(0))
        )
    weighed = late.multiply(pieces, window)
    weight = late.broadcast_like(late.multiply(window, window), pieces)
    total, share = overlap_add(weighed, step), overlap_add(weight, step)
    dark = late.less(share, 1e-10)
    return late.where(dark, total, late.divide(total, late.where(dark, 1.0, share)))


def _spectra(x: Any, length: int, step: int, window: Any, half: bool) -> Any:
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
        y = _spectra(x, 4, 2, window, half)
        yield Sample((x, 4, 2, window), y, attrs)
        yield Sample((x, 4, 2), _spectra(x, 4, 2, [1] * 4, half), attrs)
        low = (x.astype("float32"), 4, 2, window.astype("float32"))
        yield Sample(low, y.astype("complex64"), attrs, 1e-4)
    yield Sample((x[:0], 4, 2), np.zeros((0, 3, 3), "complex128"))


@istft.samples
def _() -> Samples:
    x = ramp(2, 8)
    window = array([0.25, 1.0, 0.75, 0.5])
    for given in (window, None):
        spectra = _spectra(x, 4, 2, [1] * 4 if given is None else given, True)
        args = (spectra, 4, 2) if given is None else (spectra, 4, 2, given)
        yield Sample(args, x)
    low = (spectra.astype("complex64"), 4, 2)
    yield Sample(low, x.astype("float32"), tolerance=1e-4)
    moved = spectra * (1 + 0.5j)
    y = _laid_over(moved, 4, 2)
    yield Sample((moved, 4, 2), y)
    none = np.zeros((0, 3, 3), "complex64")
    yield Sample((none, 4, 2, window.astype("float32")), np.zeros((0, 8), "float32"))


def _laid_over(spectra: Any, length: int, step: int) -> Any:
    """Frames by the sum of their waves, and the mean where several lie."""
    batch, count, _ = spectra.shape
    total = np.zeros((batch, (count - 1) * step + length))
    met = np.zeros(total.shape[1])
    for b, f, i in np.ndindex(batch, count, length):
        row = spectra[b, f]
        whole = [*row, *(v.conjugate() for v in row[length - len(row) : 0 : -1])]
        waves = (
            v * cmath.exp(2j * math.pi * i * k / length) for k, v in enumerate(whole)
        )
        total[b, f * step + i] += sum(waves).real / length
        met[f * step + i] += b == 0
    return total / met


# -- the scale of mel --------------------------------------------------------------


@composite
def mel_weights(
    bins: Host, length: Host, *, rate: int, low: float, high: float,
    dtype: Any = _FLOAT32,
) -> Cast:  # fmt: skip
    """The share of each frequency of a transform of `length` in each bin of mel

    Triangles over whole places, equally far apart in mel, as ONNX has them."""
    count, size = int(bins.__index__()), int(length.__index__())
    ends = [2595 * math.log10(1 + f / 700) for f in (low, high)]
    step = (ends[1] - ends[0]) / (count + 2)
    mels = ends[0] + step * np.arange(count + 2)
    places = np.floor((size + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate)
    left, top, right = (late.expand_dims(places[i : i + count], (0,)) for i in range(3))
    at = np.arange(size // 2 + 1, dtype="float64")[:, None]
    flat = top == left
    rising = np.where(flat, at == top, (at - left) / np.where(flat, 1, top - left))
    falling = (right - at) / np.where(right == top, 1, right - top)
    up = (at >= left) & (at <= top)
    down = (at > top) & (at < right)
    found = np.where(up, rising, np.where(down, falling, 0.0))
    return late.astype(found, dtype=dtype)


mel_weights.not_differentiable("it is made of integers")


@mel_weights.samples
def _() -> Samples:
    for dtype in ("float32", "float64"):
        attrs = {"rate": 8192, "low": 0.0, "high": 4096.0, "dtype": DType(dtype)}
        yield Sample((8, 16), array(_mel_rows(8, 16, 8192, 0, 4096), dtype), attrs)
        attrs = {"rate": 16000, "low": 125.0, "high": 7500.0, "dtype": DType(dtype)}
        y = _mel_rows(10, 64, 16000, 125, 7500)
        yield Sample((10, 64), array(y, dtype), attrs)
    attrs = {"rate": 100, "low": 0.0, "high": 50.0}
    yield Sample((0, 4), np.zeros((3, 0), "float32"), attrs)


def _mel_rows(bins: int, length: int, rate: int, low: float, high: float) -> Any:
    """As the specification tells it, place by place."""
    least, most = (2595 * math.log10(1 + f / 700) for f in (low, high))
    step = (most - least) / (bins + 2)
    mels = [least + i * step for i in range(bins + 2)]
    hertz = [700 * (10 ** (m / 2595) - 1) for m in mels]
    at = [math.floor((length + 1) * f / rate) for f in hertz]
    y = np.zeros((length // 2 + 1, bins))
    for i in range(bins):
        left, top, right = at[i : i + 3]
        if top == left:
            y[top, i] = 1
        for j in range(left, top + 1):
            if top != left:
                y[j, i] = (j - left) / (top - left)
        for j in range(top, right):
            if right != top:
                y[j, i] = (right - j) / (right - top)
    return y
