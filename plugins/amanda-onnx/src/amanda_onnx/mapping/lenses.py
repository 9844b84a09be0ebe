"""Lenses of this mapping, beside those of the core."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, Lens
from amanda_onnx.format.element_types import CODES, DTYPES

__all__ = ["LENSES"]


def _spread(value: Any) -> Any:
    return None if value is None or all(step == 1 for step in value) else list(value)


def _dtype(value: Any) -> Any:
    if value not in DTYPES:
        raise Decline(f"there is no element type {value!r}")
    return DTYPES[value]


def _code(value: Any) -> int:
    if value not in CODES:
        raise Decline(f"ONNX has no element type {value}")
    return CODES[value]


LENSES = (
    Lens("spread", _spread, _spread, lambda r: (r.choice([None, [1, 1], [2, 1]]),),
         "steps; nothing where all are 1", exact=False, takes_none=True),
    Lens("code", _dtype, _code, lambda r: (r.choice(sorted(DTYPES)),),
         "the number of an element type to that type", exact=False, takes_none=True),
)  # fmt: skip
