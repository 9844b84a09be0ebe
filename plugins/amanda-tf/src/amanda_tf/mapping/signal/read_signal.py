"""From TensorFlow: Fourier transforms of the last axes, or of chosen ones."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, required_content

__all__ = ["READ"]


def _complex_transform(op: Any, count: int) -> Any:
    """A transform of complex numbers along the last `count` axes."""
    axes = list(range(-count, 0))
    return lambda x: op(x, axes=axes)


def _real_transform(op: Any, count: int) -> Any:
    """A transform from or to real numbers, of lengths that are an input."""
    axes = list(range(-count, 0))

    def read(x: Any, length: Any, *, Tcomplex: Any = None, Treal: Any = None) -> Any:  # noqa: N803
        y = op(x, required_content(length, "fft_length"), axes=axes)
        wanted = (Tcomplex or "complex64") if op is ops.rfft else (Treal or "float32")
        return cast_to(y, wanted)

    return read


def _transform_of_axes(op: Any, result: str = "") -> Any:
    def read(x: Any, length: Any, axes: Any, **types: Any) -> Any:
        y = op(x, required_content(length, "fft_length"),
               axes=required_content(axes, "axes"))  # fmt: skip
        return cast_to(y, types[result]) if types.get(result) else y

    return read


READ: dict[str, Any] = {
    **{
        f"{batch}{name}{'' if n == 1 else f'{n}D'}": _complex_transform(op, n)
        for name, op in (("FFT", ops.fft), ("IFFT", ops.ifft))
        for batch in ("", "Batch")
        for n in (1, 2, 3)
    },
    **{
        f"{name}{'' if n == 1 else f'{n}D'}": _real_transform(op, n)
        for name, op in (("RFFT", ops.rfft), ("IRFFT", ops.irfft))
        for n in (1, 2, 3)
    },
    "FFTND": _transform_of_axes(ops.fft),
    "IFFTND": _transform_of_axes(ops.ifft),
    "RFFTND": _transform_of_axes(ops.rfft, "Tcomplex"),
    "IRFFTND": _transform_of_axes(ops.irfft, "Treal"),
}
