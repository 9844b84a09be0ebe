"""JSON as its standard defines it, for what a command prints or writes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["json_text"]


def json_text(data: Any, indent: int | None = 2) -> str:
    """The JSON text of some data; numbers that JSON lacks are texts, as in protobuf.

    >>> json_text({"snr": float("inf"), "gap": [float("nan"), 0.5]}, None)
    '{"snr": "Infinity", "gap": ["NaN", 0.5]}'
    """
    try:
        return _encode(data, indent)
    except ValueError:
        return _encode(_with_texts(data), indent)


def _encode(data: Any, indent: int | None) -> str:
    return json.dumps(
        data, indent=indent, ensure_ascii=False, allow_nan=False, default=str
    )


def _with_texts(data: Any) -> Any:
    """The data with a text in place of each number that is not finite."""
    if isinstance(data, float) and not math.isfinite(data):
        sign = "-" if data < 0 else ""
        return "NaN" if math.isnan(data) else f"{sign}Infinity"
    if isinstance(data, Mapping):
        return {key: _with_texts(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_with_texts(value) for value in data]
    return data
