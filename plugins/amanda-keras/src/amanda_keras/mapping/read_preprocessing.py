"""From Keras: preprocessing of numbers and images, as far as it is deterministic."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda_keras.mapping.interpolation import interpolate
from amanda_keras.mapping.layer_calls import (
    Weights,
    as_axes,
    cast_to,
    expect,
    layers,
    rank_of,
)
from amanda_keras.mapping.layouts import layout_of
from amanda_std import ops

__all__ = ["READ"]


def _floating(x: Any, dtype: Any) -> Any:
    """Numbers in the dtype of the layer's policy, integers too."""
    if isinstance(dtype, dict):
        dtype = (dtype.get("config") or {}).get("name")
    name = dtype or "float32"
    expect(isinstance(name, str), f"the dtype is {name!r:.60}, no name")
    return cast_to(x, name.removeprefix("mixed_"))


def read_rescaling(
    inputs: Any, *, dtype: Any, scale: Any = 1.0, offset: Any = 0.0
) -> Any:
    x = _floating(inputs, dtype)
    values = [np.asarray(v, str(x.dtype)) for v in (scale, offset)]
    return x * values[0] + values[1]


def read_normalization(
    inputs: Any, *, weights: Weights, dtype: Any, axis: Any = -1, mean: Any = None,
    variance: Any = None, invert: bool = False,
) -> Any:  # fmt: skip
    x = _floating(inputs, dtype)
    kept = sorted(as_axes([] if axis is None else axis, x))
    shape = [x.shape[i] if i in kept else 1 for i in range(rank_of(x))]
    expect(all(isinstance(d, int) for d in shape), "the kept axes are not static")
    if mean is not None:
        dims = [shape[i] for i in kept]
        center, spread = (
            _along_axes(numbers, dims).reshape(shape).astype(str(x.dtype))
            for numbers in (mean, variance)
        )
        scale: Any = np.maximum(np.sqrt(spread), 1e-7)
    else:
        center = ops.reshape(cast_to(weights["mean"], x.dtype), shape)
        spread = ops.reshape(cast_to(weights["variance"], x.dtype), shape)
        scale = ops.maximum(ops.sqrt(spread), 1e-7)
    return x * scale + center if invert else (x - center) / scale


def _along_axes(numbers: Any, dims: list[int]) -> Any:
    """Numbers of a config for some axes, or for the last of them."""
    found = np.asarray(numbers)
    surplus = found.shape[: max(found.ndim - len(dims), 0)]
    fits = all(n == 1 for n in surplus) and all(
        n in (1, size) for n, size in zip(found.shape[::-1], dims[::-1], strict=False)
    )
    expect(found.dtype.kind in "iuf" and fits,
           f"numbers of shape {found.shape} for axes of sizes {dims}")  # fmt: skip
    return np.broadcast_to(found.reshape(found.shape[len(surplus) :]), dims)


def _image_axes(x: Any, data_format: Any) -> tuple[int, int]:
    rank = rank_of(x)
    expect(rank in (3, 4), "images, or one image, are expected")
    first = rank - 2 if layout_of(data_format) == "NC*" else rank - 3
    return first, first + 1


def read_resizing(
    inputs: Any, *, dtype: Any, height: int, width: int,
    interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
    fill_value: float = 0.0, antialias: bool = False, data_format: Any = None,
) -> Any:  # fmt: skip
    del fill_mode
    x = _floating(inputs, dtype)
    axes = _image_axes(x, data_format)
    if not (crop_to_aspect_ratio or pad_to_aspect_ratio):
        return interpolate(x, [height, width], axes, interpolation, antialias)
    h, w = (x.shape[a] for a in axes)
    expect(isinstance(h, int) and isinstance(w, int), "images without a static size")
    if crop_to_aspect_ratio:
        sizes = (min(h, int(w * height / width)), min(w, int(h * width / height)))
        starts = [int((n - s) / 2) for n, s in zip((h, w), sizes, strict=True)]
        stops = [a + s for a, s in zip(starts, sizes, strict=True)]
        x = ops.slice(x, starts, stops, list(axes))
    else:
        sizes = (max(h, int(w * height / width)), max(w, int(h * width / height)))
        pads = [(0, 0)] * rank_of(x)
        for axis, n, size in zip(axes, (h, w), sizes, strict=True):
            low = int((size - n) / 2)
            pads[axis] = (low, size - n - low)
        x = ops.pad(x, pads, ops.number_like(x, value=fill_value))
    return interpolate(x, [height, width], axes, interpolation, antialias)


def read_center_crop(
    inputs: Any, *, dtype: Any, height: int, width: int, data_format: Any = None
) -> Any:
    x = _floating(inputs, dtype)
    axes = _image_axes(x, data_format)
    sizes = [x.shape[a] for a in axes]
    expect(
        all(isinstance(n, int) for n in sizes)
        and sizes[0] >= height and sizes[1] >= width,
        "images that are not larger than the crop, or have no static size",
    )  # fmt: skip
    starts = [(n - m) // 2 for n, m in zip(sizes, (height, width), strict=True)]
    stops = [a + m for a, m in zip(starts, (height, width), strict=True)]
    return ops.slice(x, starts, stops, list(axes))


def read_discretization(
    inputs: Any, *, dtype: Any, bin_boundaries: Any = None, output_mode: str = "int",
    num_bins: Any = None, epsilon: float = 0.01, sparse: bool = False,
) -> Any:  # fmt: skip
    del num_bins, epsilon
    expect(bin_boundaries is not None, "the layer was not adapted")
    expect(not sparse, "a sparse result")
    x = cast_to(inputs, "float32")
    edges = np.asarray(bin_boundaries, "float32")
    found = ops.searchsorted(edges, x, right=True)
    return _encode(found, output_mode, len(edges) + 1, dtype or "float32", None)


def read_category_encoding(
    inputs: Any, *, dtype: Any, num_tokens: int, output_mode: str = "multi_hot",
    sparse: bool = False, count_weights: Any = None,
) -> Any:  # fmt: skip
    expect(not sparse, "a sparse result")
    return _encode(inputs, output_mode, num_tokens, dtype or "float32", count_weights)


def _encode(x: Any, mode: str, depth: int, dtype: Any, counts: Any) -> Any:
    """Indices as one-hot vectors, as sets, or as counts."""
    if isinstance(dtype, dict):
        dtype = (dtype.get("config") or {}).get("name") or "float32"
    if mode == "int":
        return cast_to(x, "int32")
    x = cast_to(x, "int64")
    if rank_of(x) == 0:
        x = ops.expand_dims(x, [0])
    if mode == "one_hot" and rank_of(x) > 1 and x.shape[-1] == 1:
        x = ops.squeeze(x, [rank_of(x) - 1])
    one, zero = np.ones((), dtype), np.zeros((), dtype)
    vectors = ops.one_hot(x, depth, one, zero)
    if mode == "one_hot":
        return vectors
    axis = 1 if rank_of(x) > 1 else 0
    if mode == "multi_hot":
        return ops.max_(vectors, (axis,))
    expect(mode == "count", f"output_mode={mode} is not supported")
    if counts is not None:
        vectors = vectors * ops.expand_dims(cast_to(counts, dtype), [-1])
    return ops.sum_(vectors, (axis,))


def read_augmentation(inputs: Any) -> Any:
    """Data augmentation, which leaves its input as it is in inference."""
    return ops.identity(inputs)


def read_floating_augmentation(inputs: Any, *, dtype: Any) -> Any:
    """The same of a layer whose output is in the dtype of its policy."""
    return ops.identity(_floating(inputs, dtype))


_OF_COLORS: Final = (
    "MixUp", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter",
    "RandomContrast", "RandomGrayscale", "RandomHue", "RandomInvert",
    "RandomPosterization", "RandomSaturation",
)  # fmt: skip
_OF_PLACES: Final = (
    "AugMix", "CutMix", "RandAugment", "RandomElasticTransform", "RandomErasing",
    "RandomFlip", "RandomGaussianBlur", "RandomPerspective", "RandomRotation",
    "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
)  # fmt: skip
AUGMENTATION: Final = frozenset([*_OF_COLORS, *_OF_PLACES])
"""Layers that do nothing in inference, whatever their settings are."""


READ: Final = layers(
    {
        **dict.fromkeys(_OF_COLORS, read_augmentation),
        **dict.fromkeys(_OF_PLACES, read_floating_augmentation),
        "Rescaling": read_rescaling, "Normalization": read_normalization,
        "Resizing": read_resizing, "CenterCrop": read_center_crop,
        "Discretization": read_discretization,
        "CategoryEncoding": read_category_encoding,
    }
)  # fmt: skip
