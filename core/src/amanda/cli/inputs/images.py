"""Images as feeds: decoded, resized and normalized as `--image` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import AmandaError, PluginMissingError, UsageError
from amanda.types import Sym, TensorType

if TYPE_CHECKING:
    from amanda.graph import Parameter

__all__ = ["IMAGE_SUFFIXES", "ImageOptions", "read_images"]

IMAGE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_MODES: Final = {"RGB": 3, "BGR": 3, "L": 1, "RGBA": 4}
_LAYOUTS: Final = ("NCHW", "NHWC")
_NAMES: Final = ("size", "layout", "channels", "mean", "std", "scale")


@dataclass(frozen=True)
class ImageOptions:
    """How an image becomes an array: `(pixel * scale - mean) / std`."""

    size: tuple[int, int] | None = None
    """Height and width; default: those of the input, or of the image."""
    layout: str | None = None
    """NCHW or NHWC; default: by where the input has 1, 3 or 4 channels."""
    channels: str | None = None
    """RGB, BGR, L (grey) or RGBA; default: by the number of channels."""
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float | None = None
    """Default: 1/255 for inputs of floats, 1 for integers."""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> ImageOptions:
        """The options of `--image`.

        >>> ImageOptions.parse(["size=224x320", "std=0.5"]).size
        (224, 320)
        """
        found: dict[str, Any] = {}
        for text in texts:
            name, mark, value = text.partition("=")
            if not mark or name not in _NAMES or name in found:
                raise UsageError(
                    "--image takes NAME=VALUE, each name once",
                    expected=f"one of {', '.join(_NAMES)}",
                    got=text,
                )
            found[name] = _parse_option(name, value)
        return cls(**found)


def _parse_option(name: str, value: str) -> Any:
    try:
        if name == "size":
            height, _, width = value.partition("x")
            return int(height), int(width or height)
        if name in ("mean", "std"):
            return tuple(float(each) for each in value.split(","))
        if name == "scale":
            return float(value)
    except ValueError:
        raise UsageError(
            f"--image {name} is no number",
            expected="224 or 224x320" if name == "size" else "0.5 or 0.485,0.456,0.406",
            got=value,
        ) from None
    known = _LAYOUTS if name == "layout" else tuple(_MODES)
    if value.upper() not in known:
        raise UsageError(
            f"--image {name} is unknown", expected=f"one of {', '.join(known)}",
            got=value,
        )  # fmt: skip
    return value.upper()


def read_images(paths: Sequence[str], port: Parameter, options: ImageOptions) -> Any:
    """The images as one batch, of the shape and type of an input."""
    import numpy as np

    dims = _dims(port)
    layout = options.layout or _layout_of(dims, port)
    channels = options.channels or _channels_of(dims, layout)
    pixels = [_read(path, channels, _size(dims, layout, options)) for path in paths]
    if len({each.shape for each in pixels}) > 1:
        raise UsageError(
            "images of one batch have different sizes",
            expected=f"{pixels[0].shape[1]}x{pixels[0].shape[0]} pixels",
            got=", ".join(f"{p.shape[1]}x{p.shape[0]}" for p in pixels[1:]),
            hint="--image size=HEIGHTxWIDTH resizes them",
        )
    batch = _normalize(np.stack(pixels), port, options)
    batch = batch if layout == "NHWC" else batch.transpose(0, 3, 1, 2)
    return batch[0] if len(dims) == 3 and len(batch) == 1 else batch


def _dims(port: Parameter) -> list[int | None]:
    """The shape of an input of images."""
    type_ = port.type
    is_image = isinstance(type_, TensorType) and (
        not type_.shape.has_rank or type_.shape.rank in (3, 4)
    )
    if not is_image:
        raise UsageError(
            f"input {port.name or port.index!r} is no image",
            expected="3 or 4 axes: [batch,] channels, height and width in some order",
            got=str(type_),
            hint="feed it from a .npy file",
        )
    assert isinstance(type_, TensorType)
    if not type_.shape.has_rank:
        return [None] * 4
    return [None if isinstance(dim, Sym) else int(dim) for dim in type_.shape]


def _layout_of(dims: Sequence[int | None], port: Parameter) -> str:
    for counts in ((1, 3), (1, 3, 4)):
        first, last = dims[-3] in counts, dims[-1] in counts
        if first != last:
            return "NCHW" if first else "NHWC"
    raise UsageError(
        f"the shape does not tell which axis of input {port.name or port.index!r} "
        "has the channels",
        expected="1, 3 or 4 channels, first or last",
        got=str(port.type),
        hint="--image layout=NCHW or --image layout=NHWC",
    )


def _channels_of(dims: Sequence[int | None], layout: str) -> str:
    count = dims[-3] if layout == "NCHW" else dims[-1]
    return {1: "L", 4: "RGBA"}.get(count or 3, "RGB")


def _size(
    dims: Sequence[int | None], layout: str, options: ImageOptions
) -> tuple[int, int] | None:
    """Height and width that images are resized to; None leaves them as they are."""
    if options.size is not None:
        return options.size
    height, width = dims[-2:] if layout == "NCHW" else dims[-3:-1]
    return None if height is None or width is None else (height, width)


def _read(path: str, channels: str, size: tuple[int, int] | None) -> Any:
    """An image as [height, width, channels] of bytes."""
    import numpy as np

    try:
        from PIL import Image
    except ImportError:
        raise PluginMissingError(
            "images are read by Pillow, which is not installed",
            who=path,
            hint="pip install pillow, or feed a .npy file",
        ) from None
    try:
        with Image.open(Path(path)) as image:
            found = image.convert("RGB" if channels == "BGR" else channels)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise AmandaError("this image cannot be read", who=path, got=error) from error
    if size is not None and found.size != size[::-1]:
        found = found.resize(size[::-1], Image.Resampling.BILINEAR)
    array = np.asarray(found).reshape(found.height, found.width, -1)
    return array[..., ::-1] if channels == "BGR" else array


def _normalize(pixels: Any, port: Parameter, options: ImageOptions) -> Any:
    """Pixels of the element type of an input, scaled and normalized."""
    import numpy as np

    type_ = port.type
    assert isinstance(type_, TensorType)
    dtype = type_.dtype.numpy if type_.dtype.kind != "unknown" else np.float32
    is_float = type_.dtype.kind in ("float", "unknown")
    default = 1 / 255 if is_float else 1.0
    scale = default if options.scale is None else options.scale
    _expect_channels(options, pixels.shape[-1])
    changed = (pixels * scale - np.asarray(options.mean)) / np.asarray(options.std)
    return changed.astype(dtype)


def _expect_channels(options: ImageOptions, count: int) -> None:
    given: Mapping[str, tuple[float, ...]] = {"mean": options.mean, "std": options.std}
    for name, numbers in given.items():
        if len(numbers) not in (1, count):
            raise UsageError(
                f"--image {name} has no number for each channel",
                expected=f"1 or {count} numbers", got=str(len(numbers)),
            )  # fmt: skip
