"""Comparison of models: measures of difference, and ports that correspond."""

from __future__ import annotations

from amanda.comparison.ports import match_ports
from amanda.comparison.values import (
    Difference,
    Tolerance,
    compare_values,
    default_tolerance,
)

__all__ = [
    "Difference",
    "Tolerance",
    "compare_values",
    "default_tolerance",
    "match_ports",
]
