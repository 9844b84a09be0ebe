"""From PyTorch: Fourier transforms over any axes, and short-time transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import (
    axis_of,
    dims_of,
    shape_argument,
    smaller,
)
from amanda_torch.mapping.shapes.read_joins import pad
from amanda_torch.mapping.shapes.read_shapes import take_slice
from amanda_torch.mapping.type_promotion import as_float, number

__all__ = ["READ"]


def _complex(x: Any) -> Any:
    x = as_float(x)
    if x.dtype.kind == "complex":
        return x
    return cast_to(x, DType("complex128" if x.dtype.bits == 64 else "complex64"))


def _norm(norm: str | None) -> str:
    return norm or "backward"


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _prepare(kind: str, x: Any) -> Any:
    return as_float(x) if kind in ("rfft", "ihfft") else _complex(x)


def _transform(kind: str, x: Any, sizes: Any, axes: list[int],
               norm: str) -> Any:  # fmt: skip
    """A transform; those of Hermitian signals are by their conjugates."""
    x = _prepare(kind, x)
    sizes = None if sizes is None else shape_argument(
        [dims_of(x)[a] if isinstance(n, int) and n == -1 else n
         for n, a in zip(sizes, axes, strict=True)]
    )  # fmt: skip
    if kind == "hfft":
        return ops.irfft(ops.conj(x), sizes, axes, norm=_OPPOSITE[norm])
    if kind == "ihfft":
        return ops.conj(ops.rfft(x, sizes, axes, norm=_OPPOSITE[norm]))
    return ops.find(kind)(x, sizes, axes, norm=norm)


def _hermitian(kind: str, default: list[int] | None) -> Callable[..., Any]:
    """Over several axes: Hermitian along the last one only."""
    first = "fft" if kind == "hfft" else "ifft"

    def read(x: Any, s: Any = None, dim: Any = default, norm: str | None = None) -> Any:
        count = rank_of(x) if s is None else len(s)
        axes = list(range(-count, 0)) if dim is None else list(dim)
        axes = [axis_of(a, x) for a in axes]
        sizes = [-1] * len(axes) if s is None else list(s)
        last = None if s is None else sizes[-1:]
        if kind == "hfft":
            x = _transform(first, x, sizes[:-1], axes[:-1], _norm(norm))
            return _transform(kind, x, last, axes[-1:], _norm(norm))
        x = _transform(kind, x, last, axes[-1:], _norm(norm))
        return _transform(first, x, sizes[:-1], axes[:-1], _norm(norm))

    return read


def _one_axis(kind: str) -> Callable[..., Any]:
    def read(
        x: Any, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Any:
        sizes = None if n is None else [n]
        return _transform(kind, x, sizes, [axis_of(dim, x)], _norm(norm))

    return read


def _many_axes(kind: str, default: list[int] | None = None) -> Callable[..., Any]:
    def read(x: Any, s: Sequence[int] | None = None, dim: Any = default,
             norm: str | None = None) -> Any:  # fmt: skip
        count = rank_of(x) if s is None else len(s)
        axes = list(range(-count, 0)) if dim is None else (
            [dim] if isinstance(dim, int) else list(dim)
        )  # fmt: skip
        axes = [axis_of(a, x) for a in axes]
        return _transform(kind, x, None if s is None else list(s), axes, _norm(norm))

    return read


def _norm_of(kind: str, normalization: int) -> str:
    """The norm of a transform of ATen, by what its results are divided by: nothing, the
    root of the size, or the size."""
    is_inverse = kind in ("ifft", "irfft")
    unscaled, scaled = ("forward", "backward")[:: 1 if is_inverse else -1]
    return (unscaled, "ortho", scaled)[normalization]


def read_real_to_complex(x: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    axes = [axis_of(a, x) for a in dim]
    kind = "rfft" if onesided else "fft"
    return _transform(kind, x, None, axes, _norm_of(kind, normalization))


def read_complex_to_complex(x: Any, dim: Any, normalization: int, forward: bool) -> Any:
    axes = [axis_of(a, x) for a in dim]
    kind = "fft" if forward else "ifft"
    return _transform(kind, x, None, axes, _norm_of(kind, normalization))


def read_complex_to_real(
    x: Any, dim: Any, normalization: int, last_dim_size: Any
) -> Any:
    axes = [axis_of(a, x) for a in dim]
    sizes = [*[-1] * (len(axes) - 1), last_dim_size]
    return _transform("irfft", x, sizes, axes, _norm_of("irfft", normalization))


def _shift(sign: int) -> Callable[..., Any]:
    def read(x: Any, dim: Any = None) -> Any:
        axes = list(range(rank_of(x))) if dim is None else (
            [dim] if isinstance(dim, int) else list(dim)
        )  # fmt: skip
        axes = [axis_of(a, x) for a in axes]
        sizes = [dims_of(x)[a] for a in axes]
        shifts = shape_argument([(n if sign > 0 else n + 1) // 2 for n in sizes])
        return ops.roll(x, shifts, axes=tuple(axes)) if axes else ops.identity(x)

    return read


def read_frequencies(n: int, d: float = 1.0, *, dtype: Any = None) -> Any:
    return ops.identity(np.fft.fftfreq(n, d).astype((dtype or DType("float32")).numpy))


def read_real_frequencies(n: int, d: float = 1.0, *, dtype: Any = None) -> Any:
    return ops.identity(np.fft.rfftfreq(n, d).astype((dtype or DType("float32")).numpy))


def _window(x: Any, window: Any, length: int, size: int) -> Any:
    """A window in the middle of `size` numbers; of ones where there is none."""
    if window is None:
        window = ops.full([length], number(1, x.dtype))
    left = (size - length) // 2
    return ops.pad(window, [[left, size - length - left]])


def read_stft(x: Any, n_fft: int, hop_length: int | None = None,
              win_length: int | None = None, window: Any = None,
              normalized: bool = False, onesided: bool | None = None,
              return_complex: bool | None = None,
              align_to_window: bool | None = None) -> Any:  # fmt: skip
    del align_to_window
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    weights = _window(x, window, length, n_fft)
    frames = ops.frames(x, n_fft, hop) * weights
    one = onesided if onesided is not None else x.dtype.kind != "complex"
    last = rank_of(frames) - 1
    norm = "ortho" if normalized else "backward"
    y = _transform("rfft" if one else "fft", frames, None, [last], norm)
    y = ops.swap_last(y)
    return y if return_complex else ops.as_pairs(y)


def read_centered_stft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """`stft.center`: padded, so that frame t is centered at t times the hop."""
    if center:
        ends = [[0, 0]] * (rank_of(x) - 1) + [[n_fft // 2, n_fft // 2]]
        mode = {"replicate": "edge", "circular": "wrap"}.get(pad_mode, pad_mode)
        x = ops.pad(x, ends, mode=mode)
    return read_stft(x, n_fft, hop_length, win_length, window, normalized, onesided,
                     return_complex, align_to_window)  # fmt: skip


def read_istft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Any:  # fmt: skip
    """Frames added where they overlap, divided by the sum of squared windows."""
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    frames = ops.swap_last(x)
    count = dims_of(frames)[-2]
    one = True if onesided is None else onesided
    norm, axis = "ortho" if normalized else "backward", rank_of(frames) - 1
    if not one and not return_complex:
        frames = ops.slice_(frames, [0], [n_fft // 2 + 1], [axis])
    parts = ops.find("ifft" if return_complex else "irfft")(
        frames, [n_fft], [axis], norm=norm
    )
    weights = _window(ops.real(parts) if return_complex else parts, window, size, n_fft)
    parts = parts * cast_to(weights, parts.dtype)
    total = _add_frames(parts, hop)
    squares = ops.broadcast_to(weights * weights, shape_argument([count, n_fft]))
    weight = ops.overlap_add(squares, hop)
    start = n_fft // 2 if center else 0
    whole = n_fft + hop * (count - 1)
    stop = whole - start if length is None else start + length
    kept = smaller(stop, whole)
    y = take_slice(total, rank_of(total) - 1, start, kept)
    y = y / cast_to(take_slice(weight, 0, start, kept), y.dtype)
    return y if length is None else pad(y, [0, stop - kept])


def _add_frames(frames: Any, hop: int) -> Any:
    if frames.dtype.kind != "complex":
        return ops.overlap_add(frames, hop)
    parts = (ops.overlap_add(part(frames), hop) for part in (ops.real, ops.imag))
    return cast_to(ops.complex_(*parts), frames.dtype)


_KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

READ = torch_functions(
    {
        **{f"fft_{kind}": _one_axis(kind) for kind in _KINDS},
        **{f"fft_{kind}2": _many_axes(kind, [-2, -1]) for kind in _KINDS[:4]},
        **{f"fft_{kind}n": _many_axes(kind) for kind in _KINDS[:4]},
        **{f"fft_{kind}2": _hermitian(kind, [-2, -1]) for kind in _KINDS[4:]},
        **{f"fft_{kind}n": _hermitian(kind, None) for kind in _KINDS[4:]},
        "_fft_r2c": read_real_to_complex,
        "_fft_c2c": read_complex_to_complex,
        "_fft_c2r": read_complex_to_real,
        "fft_fftshift": _shift(1),
        "fft_ifftshift": _shift(-1),
        "fft_fftfreq": read_frequencies,
        "fft_rfftfreq": read_real_frequencies,
        "stft": read_stft,
        "stft.center": read_centered_stft,
        "istft": read_istft,
    }
)
