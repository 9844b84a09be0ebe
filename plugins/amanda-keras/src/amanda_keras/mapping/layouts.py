"""Arguments of windows in Keras as those of the hub."""

from __future__ import annotations

from typing import Any

from amanda_keras.mapping.layer_calls import expect

__all__ = ["layout_of", "per_axis", "same_or_valid"]


def layout_of(data_format: Any) -> str:
    """`NC*` or `N*C`; channels are last by default."""
    known = (None, "channels_last", "channels_first")
    expect(data_format in known, f"data_format={data_format} is not supported")
    return "NC*" if data_format == "channels_first" else "N*C"


def per_axis(value: Any, count: int) -> tuple[int, ...]:
    """A number for each spatial axis."""
    found = [value] * count if isinstance(value, int) else value
    fits = isinstance(found, list | tuple) and all(type(n) is int for n in found)
    expect(fits, f"numbers are expected, not {value!r:.60}")
    expect(len(found) == count, f"{count} numbers are expected, not {value}")
    return tuple(int(n) for n in found)


def same_or_valid(padding: str) -> str:
    """The padding of the hub."""
    expect(padding in ("same", "valid"), f"padding={padding} is not supported")
    return "same_upper" if padding == "same" else "valid"
