"""From ONNX: Gemm, ConvTranspose and padding."""

from __future__ import annotations

from typing import Any

from amanda_onnx.mapping.static_values import pairs_of, static_dims
from amanda_std import ops
from amanda_std.mappings import expect, rank_of

__all__ = ["READ", "padding_of", "read_gemm"]

_AUTO_PADS = {"VALID": "valid", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}


def padding_of(auto_pad: str | None, pads: Any) -> Any:
    """The padding of std: a pair for each axis, or the name of a mode."""
    if auto_pad in (None, "", "NOTSET"):
        return None if pads is None else pairs_of(pads)
    expect(auto_pad in _AUTO_PADS, f"unknown auto_pad {auto_pad}")
    return _AUTO_PADS[auto_pad or ""]


def read_gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
              transA: int = 0, transB: int = 0) -> Any:  # fmt: skip  # noqa: N803
    a = ops.transpose(a, perm=(1, 0)) if transA else a
    b = ops.transpose(b, perm=(1, 0)) if transB else b
    y = ops.matmul(a, b)
    if alpha != 1:
        y = y * alpha
    if c is None or beta == 0:  # not 0 * c, which may be NaN
        return y
    return ops.add(y, c if beta == 1 else c * beta)


def read_conv_transpose(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", pads: Any = None,
    strides: Any = None, dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None,  # noqa: ARG001
    output_shape: Any = None,
) -> Any:  # fmt: skip
    n = rank_of(x) - 2
    s, d = strides or [1] * n, dilations or [1] * n
    extra = output_padding or [0] * n
    padding = padding_of("NOTSET", pads)
    if auto_pad.startswith("SAME") or output_shape is not None:
        size, kernel = static_dims(x)[2:], static_dims(w)[2:]
        expect(len(kernel) == n, f"weights of {len(kernel)} spatial axes, expected {n}")
        shape = output_shape or [i * j for i, j in zip(size, s, strict=True)]
        expect(len(shape) == n, f"output_shape={shape}: {n} numbers expected")
        rows = zip(size, kernel, s, d, extra, shape, strict=True)
        upper = auto_pad == "SAME_UPPER"
        fitted = [_padding_for_size(*row, upper=upper) for row in rows]
        padding, rest = [pair for pair, _ in fitted], [more for _, more in fitted]
        output_padding = rest if any(rest) else None
    return ops.conv_transpose(
        x, w, b, strides=strides, padding=padding, dilations=dilations, groups=group,
        output_padding=output_padding,
    )  # fmt: skip


def _padding_for_size(
    size: int, kernel: int, stride: int, dilation: int, extra: int, wanted: int, *,
    upper: bool,
) -> tuple[list[int], int]:  # fmt: skip
    """The padding of an axis and its output padding, for a wanted output size.

    Output padding is smaller than the stride: with more, an input of another size would
    give that output.
    """
    full = stride * (size - 1) + (kernel - 1) * dilation + 1
    both = full + extra - wanted
    if both < 0:
        expect(
            wanted - full < stride,
            f"output_shape: at most {full + stride - 1} expected of {size} elements "
            f"in strides of {stride}, got {wanted}",
        )
        return [0, 0], wanted - full
    half = both // 2
    return ([half, both - half] if upper else [both - half, half]), extra


READ: dict[str, Any] = {"Gemm": read_gemm, "ConvTranspose": read_conv_transpose}
