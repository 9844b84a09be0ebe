"""Element types of complex numbers and of their parts."""

from __future__ import annotations

from typing import Any

from amanda.types import DType, ElementType, unknown

__all__ = ["COMPLEX_TYPES", "PART_TYPES", "complex_type", "part_type"]

PART_TYPES = {"complex64": "float32", "complex128": "float64"}
COMPLEX_TYPES = {part: name for name, part in PART_TYPES.items()}


def complex_type(dtype: ElementType) -> Any:
    """The complex type with parts of the given float type; a complex type is returned
    as is."""
    if dtype is unknown or dtype.name in PART_TYPES:
        return dtype
    return DType(COMPLEX_TYPES.get(dtype.name, "complex64"))


def part_type(dtype: ElementType) -> Any:
    """The float type of the parts of a complex type; a real type is returned as is."""
    if dtype is unknown:
        return dtype
    return DType(PART_TYPES[dtype.name]) if dtype.name in PART_TYPES else dtype
