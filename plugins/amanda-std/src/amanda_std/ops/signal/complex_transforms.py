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


def dft_by_matrices(
    x: Any, size: Any = None, axis: Any = -2, *, inverse: bool = False,
    onesided: bool = False,
) -> Any:  # fmt: skip
    """`dft` by products with matrices of cosines and sines, for targets without it.

    Data beyond the size of the transform have rows of zeros."""
    at = normalize_axes(axis if isinstance(axis, tuple) else (axis,), x.ndim)[0]
    mirrored = inverse and onesided
    if size is None:
        size = (x.shape[at] - 1) * 2 if mirrored else x.shape[at]
    order = (*(i for i in range(x.ndim - 1) if i != at), at, x.ndim - 1)
    moved = ops.transpose(x, perm=order)
    real = ops.gather(moved, np.asarray(0), -1)
    imag = ops.sum(ops.slice_(moved, (1,), (2,), (-1,)), (-1,))  # 0 if there is none
    cosine, sine = _waves(x, at, size, mirrored, onesided and not inverse)
    if inverse:
        sine = -sine
    found = [ops.matmul(real, cosine) + ops.matmul(imag, sine)]
    if not mirrored:
        found.append(ops.matmul(imag, cosine) - ops.matmul(real, sine))
    y = ops.stack(*found, axis=-1)
    if inverse:
        length = ops.astype(size, dtype=x.dtype)
        y = y / (float(size) if isinstance(size, int) else length)
    return ops.transpose(y, perm=tuple(map(order.index, range(x.ndim))))


def _waves(
    x: Any, axis: int, size: Any, mirrored: bool, is_half: bool
) -> tuple[Any, Any]:
    """The cosines and sines of each pair of a row of data and a column of results.

    `mirrored`: rows of frequencies stand for those of opposite sign as well."""
    half = size // 2 + 1
    rows = ops.arange(0, x.shape[axis])
    columns = ops.arange(0, half if is_half else size)
    steps = ops.remainder(ops.expand_dims(rows, (1,)) * columns, size)
    whole = float(size) if isinstance(size, int) else ops.astype(size, dtype="float64")
    angles = ops.astype(steps, dtype="float64") * (2 * math.pi / whole)
    alone = ops.equal(ops.remainder(rows * 2, size), 0)
    count = ops.where(alone, np.asarray(1.0), np.asarray(2.0 if mirrored else 1.0))
    inside = ops.less(rows, half if mirrored else size)
    weights = ops.expand_dims(ops.where(inside, count, np.asarray(0.0)), (1,))
    cosine, sine = (
        ops.astype(wave * weights, dtype=x.dtype)
        for wave in (ops.cos(angles), ops.sin(angles))
    )
    return cosine, sine


def _fit(pairs: Any, size: Any, axis: int) -> Any:
    """The axis cropped, or padded with zeros, to a size."""
    known = pairs.type.shape.dims[axis]
    if isinstance(known, int) and isinstance(size, int):
        if known == size:
            return pairs
        return ops.pad(pairs, [(0, size - known)], None, (axis,))
    dims = list(pairs.shape)
    dims[axis] = size
    zeros = ops.full(dims, np.zeros((), pairs.dtype.numpy))
    return ops.slice_(ops.concat(pairs, zeros, axis=axis), (0,), (size,), (axis,))
