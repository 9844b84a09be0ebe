"""Fourier transforms by `dft`, whose data are real and imaginary parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.inference.shape_arguments import normalize_axes
from amanda_std.ops._complex_parts import ComplexParts
from amanda_std.ops._late import late as ops
from amanda_std.ops.signal.fourier import fft, ifft, irfft, rfft

Parts = ComplexParts


@fft.on_complex_parts
def fft_by_dft(x: Parts, sizes: Any, axes: Any, *, norm: str) -> Parts:
    return _transform(x, sizes, axes, norm, inverse=False)


@ifft.on_complex_parts
def ifft_by_dft(x: Parts, sizes: Any, axes: Any, *, norm: str) -> Parts:
    return _transform(x, sizes, axes, norm, inverse=True)


@rfft.on_complex_parts
def rfft_by_dft(x: Any, sizes: Any, axes: Any, *, norm: str) -> Parts:
    """Of the last axis first, whose data are real."""
    *others, last = normalize_axes(axes, x.ndim)
    rest, size = _sizes_of(sizes, len(others))
    y = ops.dft(ops.expand_dims(x, (-1,)), size, last, onesided=True)
    y = Parts(pairs=_scale(y, x, last, size, norm, inverse=False))
    return _transform(y, rest, others, norm, inverse=False)


@irfft.on_complex_parts
def irfft_by_dft(x: Parts, sizes: Any, axes: Any, *, norm: str) -> Any:
    """Of the last axis last, whose results are real."""
    *others, last = normalize_axes(axes, x.ndim)
    rest, size = _sizes_of(sizes, len(others))
    x = _transform(x, rest, others, norm, inverse=True)
    pairs = x.pairs if size is None else _fit(x.pairs, size // 2 + 1, last)
    y = ops.dft(pairs, size, last, inverse=True, onesided=True)
    return ops.squeeze(_scale(y, y, last, None, norm, inverse=True), (-1,))


def _sizes_of(sizes: Any, count: int) -> tuple[Any, Any]:
    """The sizes of all axes but the last one, and that of the last one."""
    if sizes is None:
        return None, None
    items = [sizes[i] for i in range(count + 1)]
    return items[:-1], items[-1]


def _transform(x: Parts, sizes: Any, axes: Any, norm: str, *, inverse: bool) -> Parts:
    """The transform of one axis after the other; the data of the first may be real."""
    at = normalize_axes(axes, x.ndim)
    if not at:
        return x
    y = ops.expand_dims(x.real, (-1,)) if x.is_real else x.pairs
    for i, axis in enumerate(at):
        size = None if sizes is None else sizes[i]
        found = ops.dft(y, size, axis, inverse=inverse)
        y = _scale(found, y, axis, size, norm, inverse=inverse)
    return Parts(pairs=y)


def _scale(y: Any, x: Any, axis: int, size: Any, norm: str, *, inverse: bool) -> Any:
    """The result of a `dft`, which divides by the length in the inverse, in a norm."""
    if norm == "backward":
        return y
    length = x.shape[axis] if size is None else size
    if isinstance(length, int):
        root, whole = math.sqrt(length), float(length)
    else:
        whole = ops.astype(length, dtype=y.dtype)
        root = ops.sqrt(whole)
    factor = root if norm == "ortho" else whole
    return y * factor if inverse else y / factor


def _fit(pairs: Any, size: Any, axis: int) -> Any:
    """The axis cropped, or padded with zeros, to a size."""
    known = pairs.type.shape.dims[axis]
    if isinstance(known, int) and isinstance(size, int):
        if known == size:
            return pairs
        return ops.pad(pairs, [(0, size - known)], None, (axis,))
    missing = size - ops.dim(pairs, axis=axis)
    span = ops.stack(np.asarray(0), missing, axis=0)
    return ops.pad(pairs, ops.reshape(span, (1, 2)), None, (axis,))
