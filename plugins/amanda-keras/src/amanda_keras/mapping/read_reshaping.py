"""From Keras: reshaping, cropping, padding and upsampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from amanda_keras.mapping.interpolation import interpolate
from amanda_keras.mapping.layer_calls import expect, layers, rank_of
from amanda_keras.mapping.layouts import layout_of, per_axis
from amanda_std import ops

__all__ = ["READ"]


def read_flatten(inputs: Any, *, data_format: Any = None) -> Any:
    rank = rank_of(inputs)
    if rank == 1:
        return ops.expand_dims(inputs, [1])
    if layout_of(data_format) == "NC*" and rank > 2:
        inputs = ops.transpose(inputs, perm=(0, *range(2, rank), 1))
    rest = inputs.shape[1:]
    if all(isinstance(d, int) for d in rest):
        return ops.reshape(inputs, [-1 if 0 not in rest else inputs.shape[0],
                                    math.prod(rest)])  # fmt: skip
    return ops.reshape(inputs, [inputs.shape[0], -1])


def read_reshape(inputs: Any, *, target_shape: Any) -> Any:
    shape = [int(n) for n in target_shape]
    if -1 not in shape and 0 not in shape:
        return ops.reshape(inputs, [-1, *shape])
    rest = inputs.shape[1:]
    if -1 in shape and all(isinstance(d, int) and d for d in rest):
        known = math.prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = math.prod(rest) // known
        return ops.reshape(inputs, [-1, *shape])
    return ops.reshape(inputs, [inputs.shape[0], *shape])


def read_permute(inputs: Any, *, dims: Any) -> Any:
    return ops.transpose(inputs, perm=(0, *(int(d) for d in dims)))


def read_repeat_vector(inputs: Any, *, n: int) -> Any:
    return ops.tile(ops.expand_dims(inputs, [1]), [1, int(n), 1])


def _pairs(value: Any, rank: int) -> list[tuple[int, int]]:
    """Numbers for both ends of each axis."""
    if isinstance(value, int):
        return [(value, value)] * rank
    if rank == 1 and all(isinstance(v, int) for v in value):
        low, high = value if len(value) == 2 else (value[0], value[0])
        return [(low, high)]
    expect(len(value) == rank, f"{rank} pairs are expected, not {value}")
    return [(v, v) if isinstance(v, int) else (int(v[0]), int(v[1])) for v in value]


def _with_channels(values: list[Any], data_format: Any, other: Any) -> list[Any]:
    """Values for all axes, from those of the spatial ones."""
    if layout_of(data_format) == "NC*":
        return [other, other, *values]
    return [other, *values, other]


def _padding(rank: int) -> Callable[..., Any]:
    def read_padding(inputs: Any, *, padding: Any = 1, data_format: Any = None) -> Any:
        return ops.pad(
            inputs, _with_channels(_pairs(padding, rank), data_format, (0, 0))
        )

    return read_padding


def _cropping(rank: int) -> Callable[..., Any]:
    def read_cropping(
        inputs: Any, *, cropping: Any = 1, data_format: Any = None
    ) -> Any:
        pairs = _with_channels(_pairs(cropping, rank), data_format, (0, 0))
        axes = [i for i, pair in enumerate(pairs) if any(pair)]
        starts = [pairs[i][0] for i in axes]
        stops = [-pairs[i][1] if pairs[i][1] else 2**31 - 1 for i in axes]
        return ops.slice(inputs, starts, stops, axes)

    return read_cropping


def read_up_sampling_1d(inputs: Any, *, size: int = 2) -> Any:
    return ops.repeat(inputs, int(per_axis(size, 1)[0]), axis=1)


def read_up_sampling_2d(
    inputs: Any, *, size: Any = 2, data_format: Any = None,
    interpolation: str = "nearest",
) -> Any:  # fmt: skip
    """Images with repeated rows and columns, or interpolated."""
    factors = per_axis(size, 2)
    first = 2 if layout_of(data_format) == "NC*" else 1
    if interpolation == "nearest":
        y = ops.repeat(inputs, factors[0], axis=first)
        return ops.repeat(y, factors[1], axis=first + 1)
    sizes = [inputs.shape[first + i] * factors[i] for i in range(2)]
    return interpolate(inputs, sizes, (first, first + 1), interpolation)


def read_up_sampling_3d(inputs: Any, *, size: Any = 2, data_format: Any = None) -> Any:
    first = 2 if layout_of(data_format) == "NC*" else 1
    for i, factor in enumerate(per_axis(size, 3)):
        inputs = ops.repeat(inputs, factor, axis=first + i)
    return inputs


LAYERS: Final[dict[str, Callable[..., Any]]] = {
    "Flatten": read_flatten, "Reshape": read_reshape, "Permute": read_permute,
    "RepeatVector": read_repeat_vector, "UpSampling1D": read_up_sampling_1d,
    "UpSampling2D": read_up_sampling_2d, "UpSampling3D": read_up_sampling_3d,
}  # fmt: skip
READ: Final = layers(
    {f"ZeroPadding{n}D": _padding(n) for n in (1, 2, 3)}
    | {f"Cropping{n}D": _cropping(n) for n in (1, 2, 3)}
    | LAYERS
)
