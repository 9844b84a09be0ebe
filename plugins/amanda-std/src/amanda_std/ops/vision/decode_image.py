"""Decoding of image files: by Pillow, `pip install amanda-std[images]`."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import Sym, TensorType, uint8
from amanda_std.engine.annotations import Anything, Other
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples

_MODES = {"RGB": ("RGB", 3), "BGR": ("RGB", 3), "grey": ("L", 1)}
"""Pillow's mode for each channel order, and the number of channels."""


def _expect_colours(colours: str) -> None:
    if colours not in _MODES:
        raise UsageError(
            "unknown channel order", expected=", ".join(_MODES), got=repr(colours)
        )


@primitive(numpy_only=True)
def decode_image(x: Other, *, colours: str = "RGB") -> Anything:
    """Decode an image file to [rows, columns, channels]: RGB, BGR or grey"""
    _expect_colours(colours)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UsageError(
            "decoding images requires Pillow, which is not installed",
            who="decode_image", hint="pip install 'amanda-std[images]'",
        ) from None  # fmt: skip
    mode, count = _MODES[colours]
    try:
        with Image.open(io.BytesIO(np.asarray(x, "uint8").tobytes())) as image:
            result = np.asarray(image.convert(mode))
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InvalidTypeError(
            "the bytes are not a supported image file", who="decode_image",
            where=f"{np.size(x)} bytes", got=str(error),
        ) from error  # fmt: skip
    result = result.reshape(*result.shape[:2], count)
    return result[:, :, ::-1].copy() if colours == "BGR" else result.copy()


@decode_image.infer
def _(x: TensorType, colours: str) -> Any:
    _expect_colours(colours)
    if str(x.dtype) not in ("uint8", "unknown"):
        raise InvalidTypeError("its input is a file", expected="uint8", got=x)
    return [TensorType(uint8, [Sym.unknown(), Sym.unknown(), _MODES[colours][1]])]


decode_image.not_differentiable("its input is a file")


@decode_image.samples
def _() -> Samples:
    # the portable formats store numbers as they are
    colours = np.arange(2 * 3 * 3, dtype="uint8").reshape(2, 3, 3) * 13
    file = np.frombuffer(b"P6 3 2 255\n" + colours.tobytes(), "uint8")
    yield Sample((file,), [colours])
    yield Sample((file,), [colours[:, :, ::-1]], {"colours": "BGR"})
    greys = colours[:, :, 0]
    file = np.frombuffer(b"P5 3 2 255\n" + greys.tobytes(), "uint8")
    yield Sample((file,), [greys[:, :, None]], {"colours": "grey"})
    yield Sample((file,), [np.repeat(greys[:, :, None], 3, axis=2)])
