"""Data formats of TensorFlow as layouts of std."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda_std.mappings import expect

__all__ = ["explicit_padding", "layout_of", "padding_of", "spatial_items"]

_PADDINGS = {"SAME": "same_upper", "VALID": "valid"}


def layout_of(data_format: str) -> str:
    """`NC*` or `N*C`."""
    known = ("NHWC", "NCHW", "NDHWC", "NCDHW")
    expect(data_format in known, f"data_format={data_format} is not supported")
    return "NC*" if data_format.startswith("NC") else "N*C"


def spatial_items(values: Sequence[int], layout: str) -> list[int]:
    """The items of the spatial axes, of a list with one for each axis of the data.

    The others must be 1.
    """
    given = list(values)
    others = given[:2] if layout == "NC*" else [given[0], given[-1]]
    expect(others == [1, 1], f"{given}: 1 expected for batch and channels")
    return given[2:] if layout == "NC*" else given[1:-1]


def padding_of(padding: str, explicit: Any, layout: str) -> Any:
    """The padding of std: the name of a mode, or a pair for each spatial axis."""
    if padding == "EXPLICIT":
        pairs = [list(explicit[i : i + 2]) for i in range(0, len(explicit), 2)]
        return pairs[2:] if layout == "NC*" else pairs[1:-1]
    expect(padding in _PADDINGS, f"padding={padding} is not supported")
    return _PADDINGS[padding]


def explicit_padding(
    padding: Any, sizes: Sequence[Any], window: Sequence[int],
    strides: Sequence[int], dilations: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """The pairs of numbers of a padding that is given by name."""
    if not isinstance(padding, str):
        return [(int(low), int(high)) for low, high in padding]
    if padding == "valid":
        return [(0, 0)] * len(window)
    pairs = []
    for n, k, s, d in zip(sizes, window, strides, dilations, strict=True):
        total = (-(-n // s) - 1) * s + (k - 1) * d + 1 - n
        expect(isinstance(total, int), "SAME padding of a size that is not static")
        low = max(int(total), 0) // 2
        pairs.append((low, max(int(total), 0) - low))
    return pairs
