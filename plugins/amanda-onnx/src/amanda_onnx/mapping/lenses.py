"""Lenses of the ONNX mapping, in addition to those of the core."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, Lens
from amanda_onnx.format.element_types import CODES, DTYPES

__all__ = ["LENSES"]


def _none_if_ones(value: Any) -> Any:
    return None if value is None or all(step == 1 for step in value) else list(value)


def _permutation(value: Any) -> Any:
    """Axes counted from the front, which Transpose needs."""
    return None if value is None else [axis % len(value) for axis in value]


def _dtype(value: Any) -> Any:
    if value not in DTYPES:
        raise Decline(f"unknown dtype code {value!r}")
    return DTYPES[value]


def _code(value: Any) -> int:
    if value not in CODES:
        raise Decline(f"ONNX has no dtype {value}")
    return CODES[value]


LENSES = (
    Lens("unless_ones", _none_if_ones, _none_if_ones,
         lambda r: (r.choice([None, [1, 1], [2, 1]]),),
         "dilations; None where all are 1", exact=False, takes_none=True),
    Lens("permutation", _permutation, _permutation,
         lambda r: (r.choice([None, [1, 0], [-1, 0, 1]]),),
         "axes of a permutation, counted from the front", exact=False, takes_none=True),
    Lens("code", _dtype, _code, lambda r: (r.choice(sorted(DTYPES)),),
         "ONNX's code of a dtype, as that dtype", exact=False, takes_none=True),
)  # fmt: skip
