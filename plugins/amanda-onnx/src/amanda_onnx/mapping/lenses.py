"""Lenses of this mapping, beside those of the core."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, RuleSet
from amanda_onnx.format.element_types import CODES, DTYPES

__all__ = ["declare"]


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


_ROWS: tuple[tuple[Any, ...], ...] = (
    ("spread", _spread, _spread, lambda r: (r.choice([None, [1, 1], [2, 1]]),),
     "steps; nothing where all are 1"),
    ("code", _dtype, _code, lambda r: (r.choice(sorted(DTYPES)),),
     "the number of an element type to that type"),
)  # fmt: skip


def declare(rules: RuleSet) -> None:
    """Add them to a set of rules."""
    for name, do, undo, draw, doc in _ROWS:
        rules.lens(name, do, undo, draw, doc, exact=False, takes_none=True)
